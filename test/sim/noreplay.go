//go:build !replay

package sim

import "testing"

// replay does nothing: Go's own runtime leaves the order of what happens at the same moment to chance.
func replay(*testing.T, uint64) {}
