// Package hold has all that a rollout changes for its time, and gives back: refresh.HoldRules say what becomes of each.
// Everything is recorded where it is before it is changed, so that another process can give it back.
package hold
