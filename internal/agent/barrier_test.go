package agent

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMarkBarrier(t *testing.T) {
	const ms = time.Millisecond
	type cordon struct{ start, took time.Duration }
	for _, tt := range []struct {
		name   string
		others []cordon      // of other nodes; that of the waiting one is at 0
		ctx    time.Duration // of wait
		want   time.Duration
	}{
		{name: "a single node waits for further ones", want: 200 * ms},
		{name: "a further node prolongs the wait", others: []cordon{{150 * ms, 10 * ms}}, want: 350 * ms},
		{name: "a node after the wait does not", others: []cordon{{250 * ms, 10 * ms}}, want: 200 * ms},
		{name: "a slow cordon is waited for", others: []cordon{{10 * ms, 400 * ms}}, want: 410 * ms},
		{name: "a very slow cordon is waited for up to a second", others: []cordon{{10 * ms, 5000 * ms}}, want: 1000 * ms},
		{
			name:   "an endless series is waited for up to a second",
			others: []cordon{{150 * ms, 0}, {300 * ms, 0}, {450 * ms, 0}, {600 * ms, 0}, {750 * ms, 0}, {900 * ms, 0}},
			want:   1000 * ms,
		},
		{name: "the context ends", others: []cordon{{10 * ms, 5000 * ms}}, ctx: 50 * ms, want: 50 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b markBarrier
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if tt.ctx > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.ctx)
				}
				defer cancel()
				start := time.Now()
				b.announce()()
				var others sync.WaitGroup
				defer others.Wait()
				for _, c := range tt.others {
					others.Go(func() {
						<-time.After(c.start)
						defer b.announce()()
						<-time.After(c.took)
					})
				}
				b.wait(ctx, start.Add(time.Hour))
				if got := time.Since(start); got < tt.want || got > tt.want {
					t.Errorf("waited for %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestBurst: a drain waits while the API server cordons one node after the other, but not for long, nor for one that the
// API server does not cordon.
func TestBurst(t *testing.T) {
	const each = 100 * time.Millisecond
	for _, tt := range []struct {
		name     string
		nodes    int
		took     time.Duration
		deadline time.Duration
		want     time.Duration
	}{
		{"a thousand nodes", 1000, each, time.Hour, 2 * time.Second},
		{"ten thousand nodes", 10000, each, time.Hour, burstLimit},
		{"a thousand before a Spot interruption", 1000, each, 20 * time.Second, time.Second},
		{"one that is not cordoned", 1, time.Minute, time.Hour, barrierLimit},
		{"none", 0, each, time.Hour, barrierQuiet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b markBarrier
				start := time.Now()
				var all sync.WaitGroup
				for range tt.nodes {
					cordoned := b.announce()
					all.Go(func() {
						defer cordoned()
						_ = b.cordon(t.Context(), func() error { time.Sleep(tt.took); return nil })
					})
				}
				b.announce()()
				synctest.Wait()
				b.wait(t.Context(), start.Add(tt.deadline))
				if got := time.Since(start); got != tt.want {
					t.Errorf("waited for %v, want %v", got, tt.want)
				}
				all.Wait()
			})
		})
	}
}
