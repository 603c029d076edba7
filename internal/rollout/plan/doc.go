// Package plan finds what is outdated, and what a rollout would do about it. It reads, and changes nothing.
package plan
