//go:build e2e

package cluster_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// bounded returns a context for the waits of one test, so that a test that hangs says where. No test
// needs that long, but after a stop of the API server the controllers may need minutes.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
