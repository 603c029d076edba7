package agent

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBurst(t *testing.T) {
	const ms = time.Millisecond
	type marking struct{ begins, takes time.Duration }
	tests := []struct {
		name  string
		other []marking     // the other nodes; the one that waits is marked at 0
		want  time.Duration // when its pods are moved
	}{
		{name: "a single node waits for the quiet", want: 200 * ms},
		{name: "a node that comes in meanwhile prolongs it", other: []marking{{150 * ms, 10 * ms}}, want: 350 * ms},
		{name: "one that comes in after it does not", other: []marking{{250 * ms, 10 * ms}}, want: 200 * ms},
		{name: "a node that is being marked is waited for", other: []marking{{10 * ms, 400 * ms}}, want: 410 * ms},
		{name: "for no longer than a second", other: []marking{{10 * ms, 5000 * ms}}, want: 1000 * ms},
		{
			name:  "a stream without end holds nothing up for longer",
			other: []marking{{150 * ms, 0}, {300 * ms, 0}, {450 * ms, 0}, {600 * ms, 0}, {750 * ms, 0}, {900 * ms, 0}},
			want:  1000 * ms,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b burst
				start := time.Now()
				b.begin()()
				var others sync.WaitGroup
				defer others.Wait()
				for _, m := range tt.other {
					others.Go(func() {
						<-time.After(m.begins)
						defer b.begin()()
						<-time.After(m.takes)
					})
				}
				b.wait(t.Context())
				if got := time.Since(start); got != tt.want {
					t.Errorf("moved after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestBurstEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b burst
		defer b.begin()()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		if b.wait(ctx); time.Since(start) != 50*time.Millisecond {
			t.Errorf("ended after %v", time.Since(start))
		}
	})
}
