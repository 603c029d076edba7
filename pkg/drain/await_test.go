package drain

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// TestAwaitPod: the wait ends with a pod that must leave the node and is not known.
func TestAwaitPod(t *testing.T) {
	errEnd := errors.New("the node is gone")
	for _, tt := range []struct {
		name, node string
		known      bool // by an earlier drain, with the name of the pod that is bound later
		took       time.Duration
		err        error
	}{
		{"a pod that is bound later", "n", true, time.Minute, nil},
		{"a pod that is there", "n", false, 0, nil},
		{"no pods", "other", false, time.Hour, errEnd},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c := startCluster(t, defaults, runningPod("left"))
			ctx, cancel := context.WithTimeoutCause(c.ctx, time.Hour, errEnd)
			defer cancel()
			start := time.Now()
			go func() {
				if retry.Sleep(ctx, time.Minute) {
					c.addPod("third", "elsewhere", "")
					c.addPod("n", "late", "")
				}
			}()
			var earlier Owners
			if tt.known {
				earlier.pods = map[string]ownedPod{"uid-left": {}}
			}
			err := c.drainer.AwaitPod(ctx, tt.node, start, &earlier)
			if took := time.Since(start); !errors.Is(err, tt.err) || took < tt.took || took > tt.took+10*time.Second {
				t.Errorf("got %v after %v, want %v after %v", err, took, tt.err, tt.took)
			}
		})
	}
}
