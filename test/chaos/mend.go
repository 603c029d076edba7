package main

import (
	"context"
	"time"
)

const controllers = "kube-controller-manager"

// mend starts parts of the control plane again that have ended by themselves, as a kubelet would.
func (p *play) mend(ctx context.Context, r *recorder) {
	for n := 0; pause(ctx, time.Second); n++ {
		p.apiServer.Lock()
		if n%5 == 0 {
			_ = p.cluster.Remind(ctx) // Else the next time.
		}
		if n%20 == 0 && r.neglected() {
			_ = p.cluster.Restart(ctx, controllers) // Else the next time.
			p.count(mended)
		}
		if did, err := p.cluster.StartExited(ctx); did && err == nil {
			p.count(mended)
		}
		p.apiServer.Unlock()
	}
}
