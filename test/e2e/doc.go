// Package e2e tests the built programs against a real control plane and a simulated AWS: one test for each
// promise of the docs. Its files have the build tag e2e.
package e2e
