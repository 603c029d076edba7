//go:build replay

package sim

import (
	"testing"
	"testing/cryptotest"
	_ "unsafe" // for the linkname
)

// seedRuntime is in the runtime that the overlay changes.
//
//go:linkname seedRuntime
func seedRuntime(seed uint64)

// replay lets everything that Go leaves to chance follow from a seed, for as long as one thread runs one world in a
// process that collects no garbage.
func replay(t *testing.T, seed uint64) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	seedRuntime(seed)
}
