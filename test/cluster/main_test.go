package cluster_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// within returns a context for the waits of one test, so that a test that waits for ever says on what.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
