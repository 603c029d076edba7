package queue

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// hanging is SQS that answers until it hangs, and then never.
func hanging(n int) (f *fakeSQS, hang *atomic.Bool) {
	f, hang = newFake(bodies(n)...), new(atomic.Bool)
	f.before = func(ctx context.Context, _ string, _ int) error {
		if hang.Load() {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	return f, hang
}

// TestHangingForLong: what waits for SQS does not grow, for however long it hangs, and with its first answers
// all that is in hand is invisible again.
func TestHangingForLong(t *testing.T) {
	const messages = 1000
	bubble(t, func(t *testing.T) {
		f, hang := hanging(messages)
		cfg := Config{MaxInFlight: messages, VisibilityTimeout: 30 * time.Second}
		r := run(t, f, cfg, func(ctx context.Context, _ Message) error { <-ctx.Done(); return context.Cause(ctx) })
		after(45 * time.Second)
		hang.Store(true)
		before := runtime.NumGoroutine() // a handler for each message
		most := 0
		for range 30 * 4 {
			after(15 * time.Second)
			most = max(most, runtime.NumGoroutine()-before)
		}
		if most > messages {
			t.Errorf("%d goroutines more", most)
		}
		hang.Store(false)
		after(21 * time.Second)
		for _, m := range f.messages {
			if time.Until(m.visible) <= 0 {
				t.Fatalf("%s is visible though it is in hand", m.id)
			}
		}
		r.end()
	})
}

// TestStopWhileAllHangs: what SQS does not take comes back by itself, and holds up nobody.
func TestStopWhileAllHangs(t *testing.T) {
	for name, done := range map[string]bool{"with work unfinished": false, "with work done": true} {
		t.Run(name, func(t *testing.T) {
			const messages = 2000
			bubble(t, func(t *testing.T) {
				f, hang := hanging(messages)
				r := run(t, f, Config{MaxInFlight: messages}, func(ctx context.Context, _ Message) error {
					<-ctx.Done()
					if done {
						return nil
					}
					return context.Cause(ctx)
				})
				after(90 * time.Second)
				hang.Store(true)
				after(10 * time.Minute)
				start, idle := time.Now(), runtime.NumGoroutine()-messages
				r.end()
				if took := time.Since(start); took > callTimeout+renewalWait+time.Second {
					t.Errorf("Run returned after %v", took)
				}
				if n := runtime.NumGoroutine(); n > idle {
					t.Errorf("%d goroutines are left, of %d without a message", n, idle)
				}
			})
		})
	}
}
