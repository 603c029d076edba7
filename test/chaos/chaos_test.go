//go:build e2e

package main

import (
	"os"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// TestChaos is the short form of make chaos, with agents that look for data races.
func TestChaos(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	o := options{
		seed: 1, terminations: 40, agents: 3, each: 600 * time.Millisecond, drain: 25 * time.Second,
		elect: true, race: true,
	}
	if err := chaos(t.Context(), o, t.Output()); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
