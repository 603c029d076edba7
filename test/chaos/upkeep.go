package main

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const controllers = "kube-controller-manager"

// restartParts restarts parts of the control plane that have exited, as a kubelet would.
func (x *execution) restartParts(ctx context.Context, r *recorder) {
	for n := 0; retry.Sleep(ctx, time.Second); n++ {
		x.apiServer.Lock()
		if n%5 == 0 {
			_ = x.cluster.Remind(ctx) // An error is retried the next time, as below.
		}
		if n%20 == 0 && r.daemonSetStalled() {
			_ = x.cluster.Restart(ctx, controllers)
			x.count(restarted)
		}
		if did, err := x.cluster.StartExited(ctx); did && err == nil {
			x.count(restarted)
		}
		x.apiServer.Unlock()
	}
}

const (
	// tick is how often recordStalls reads the clock.
	tick = 250 * time.Millisecond
	// stallThreshold is how late that must be to count as a stall of the machine.
	stallThreshold = time.Second
)

// recordStalls records when the whole machine did not run, as a virtual machine may. It compares wall
// clocks, because the monotonic clock may stop with the machine.
func (x *execution) recordStalls(ctx context.Context) {
	for last := time.Now().Round(0); retry.Sleep(ctx, tick); {
		now := time.Now().Round(0)
		if now.Sub(last) > tick+stallThreshold {
			x.mu.Lock()
			x.stalls = append(x.stalls, span{last, now})
			x.mu.Unlock()
		}
		last = now
	}
}
