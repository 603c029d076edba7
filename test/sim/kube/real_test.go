//go:build e2e

package kube_test

import (
	"os"
	"testing"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// TestScenarios plays all scenarios against a real control plane.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Shared(t)
			w := &world{t: t, client: c.Client(), ns: c.Namespace(t)}
			w.node = c.Node(t, cluster.Node{Pool: w.ns})
			w.play(s.play)
			s.compare(t, w.transcript)
		})
	}
}
