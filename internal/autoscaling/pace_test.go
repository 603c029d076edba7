package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// pending is actions of which Auto Scaling knows when they time out.
type pending struct {
	mu       sync.Mutex
	timeout  time.Duration
	timesOut map[string]time.Time // by instance
	late     []string             // calls for actions that had timed out
}

func (p *pending) begin(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timesOut[id] = time.Now().Add(p.timeout)
}

func (p *pending) renew(id string, closes bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.After(p.timesOut[id]) {
		p.late = append(p.late, id)
	}
	p.timesOut[id] = time.Now().Add(p.timeout)
	if closes {
		delete(p.timesOut, id)
	}
	return nil
}

// TestThousandActions: a thousand actions that begin at once are all kept pending, and completed, with few calls a
// second once each had its first heartbeat. None times out.
func TestThousandActions(t *testing.T) {
	for _, tt := range []struct {
		timeout time.Duration // of the hook
		drain   time.Duration // of the longest drain
		most    int           // calls in ten seconds, after the first heartbeats
	}{
		{2 * time.Minute, 70 * time.Second, 10*paceRate + paceBurst},
		{5 * time.Minute, 8 * time.Minute, 10*paceRate + paceBurst},
		// A thousand need 44 a second. This is what both rates allow.
		{30 * time.Second, 3 * time.Minute, 10*(paceRate+urgentRate) + paceBurst + urgentBurst},
	} {
		t.Run(tt.timeout.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
				p := &pending{timeout: tt.timeout, timesOut: map[string]time.Time{}}
				f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) {
					return []types.LifecycleHook{{
						LifecycleHookName: aws.String("drain"), LifecycleTransition: aws.String(terminating),
						HeartbeatTimeout: aws.Int32(int32(tt.timeout.Seconds())),
					}}, nil
				}
				f.beat = func(_ context.Context, _ int, in *sdk.RecordLifecycleActionHeartbeatInput) error {
					return p.renew(*in.InstanceId, false)
				}
				f.complete = func(_ context.Context, _ int, in *sdk.CompleteLifecycleActionInput) error {
					return p.renew(*in.InstanceId, true)
				}
				const n = 1000
				begin, latest := time.Now(), time.Now().Add(time.Hour)
				var all sync.WaitGroup
				for i := range n {
					a := action
					a.InstanceID, a.Latest = fmt.Sprintf("i-%d", i), latest
					p.begin(a.InstanceID)
					all.Go(func() {
						_ = h.Hold(t.Context(), a, waits(tt.drain*time.Duration(i)/n))
						if err := h.Complete(t.Context(), a, Continue); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if len(p.late) > 0 || len(p.timesOut) > 0 {
					t.Errorf("%d calls came when the action had timed out; %d were not completed", len(p.late), len(p.timesOut))
				}
				calls := slices.Sorted(slices.Values(append(f.called("beat"), f.called("complete")...)))
				if got := mostIn(10*time.Second, 30*time.Second, calls); got > tt.most {
					t.Errorf("%d calls in ten seconds, want %d", got, tt.most)
				}
				t.Logf("%d calls in %v", len(calls), time.Since(begin))
			})
		})
	}
}

// mostIn returns how many of the calls after a time came within a window.
func mostIn(window, after time.Duration, calls []time.Duration) (most int) {
	for i, at := range calls {
		end, _ := slices.BinarySearch(calls, at+window)
		if at >= after {
			most = max(most, end-i)
		}
	}
	return most
}

// TestFewActionsNeedNotWait: what a user sees with some nodes is as quick as without a pace.
func TestFewActionsNeedNotWait(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		var all sync.WaitGroup
		for i := range paceBurst {
			a := action
			a.InstanceID, a.Latest = fmt.Sprintf("i-%d", i), time.Now().Add(time.Hour)
			all.Go(func() {
				_ = h.Hold(t.Context(), a, waits(time.Second))
				_ = h.Complete(t.Context(), a, Continue)
			})
		}
		all.Wait()
		if took := time.Since(f.start); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestThrottledPace: the rates fall while Auto Scaling throttles, to no less than a tenth, and recover.
func TestThrottledPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, later := newPace(), time.Now().Add(time.Hour)
		perMinute := func(r func() error) (n int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for r() == nil && ctx.Err() == nil {
				n++
			}
			return n
		}
		for range 100 {
			p.answered(errThrottled) // a hundred that were in flight
		}
		if p.factor != 0.5 {
			t.Errorf("the factor is %v", p.factor)
		}
		throttled := perMinute(func() error {
			p.answered(errThrottled)
			return p.wait(t.Context(), heartbeat, later)
		})
		if least, most := 60, paceBurst+2*60; throttled < least || throttled > most {
			t.Errorf("%d calls in a minute of throttling, want %d to %d", throttled, least, most)
		}
		time.Sleep(recovery)
		recovered := perMinute(func() error { return p.wait(t.Context(), heartbeat, later) })
		if want := paceBurst + 60*paceRate; recovered < want-2*paceRate || recovered > want+2*paceRate {
			t.Errorf("%d calls in a minute after it, want %d", recovered, want)
		}
	})
}

// TestOrderOfCalls: completions come before heartbeats, what ends first before what ends later, and what cannot wait
// before all of them.
func TestOrderOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, now := newPace(), time.Now()
		for range paceBurst {
			if err := p.wait(t.Context(), heartbeat, now.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for _, one := range []struct {
			name  string
			rank  rank
			until time.Duration
		}{
			{"later heartbeat", heartbeat, time.Hour},
			{"heartbeat", heartbeat, time.Minute},
			{"later completion", completion, 2 * time.Hour},
			{"completion", completion, time.Hour},
			{"urgent heartbeat", heartbeat, 0},
		} {
			all.Go(func() {
				if err := p.wait(t.Context(), one.rank, now.Add(one.until)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, one.name)
			})
			synctest.Wait()
		}
		all.Wait()
		want := []string{"urgent heartbeat", "completion", "later completion", "heartbeat", "later heartbeat"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestWaitEnds: a call that waits ends with its context, also an urgent one, and leaves nothing behind.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		for range max(paceBurst, urgentBurst) {
			_ = p.wait(t.Context(), heartbeat, time.Now().Add(time.Hour))
			_ = p.wait(t.Context(), heartbeat, time.Time{})
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		for _, until := range []time.Time{{}, time.Now().Add(time.Hour)} {
			if err := p.wait(ctx, completion, until); !errors.Is(err, errStop) {
				t.Errorf("until %v: got %v", until, err)
			}
		}
		soon, end := context.WithTimeoutCause(t.Context(), time.Millisecond, errStop)
		defer end()
		for p.urgent.Allow() {
			continue
		}
		if err := p.wait(soon, heartbeat, time.Time{}); !errors.Is(err, errStop) || soon.Err() == nil {
			t.Errorf("in a context that ends before its turn: %v", err)
		}
		if len(p.waiting) > 0 {
			t.Errorf("%d wait still", len(p.waiting))
		}
		time.Sleep(time.Second)
	})
}
