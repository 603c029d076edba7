package drain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSlotsAreGrantedByDeadline: requests that wait get a slot in the order of their deadlines, and of equal ones in
// the order of their arrival. One that gives up keeps none.
func TestSlotsAreGrantedByDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newSlots(1)
		if !pool.acquire(t.Context(), at(time.Hour)) {
			t.Fatal("no slot is free")
		}
		var got []int
		granted := make(chan int)
		wait := func(ctx context.Context, n int, deadline time.Duration) {
			go func() {
				if pool.acquire(ctx, at(deadline)) {
					granted <- n
				}
			}()
			synctest.Wait()
		}
		leaving, leave := context.WithCancel(t.Context())
		wait(t.Context(), 4, 3*m)
		wait(t.Context(), 2, 2*m)
		wait(leaving, 0, s)
		wait(t.Context(), 3, 2*m)
		wait(t.Context(), 1, m)
		leave()
		synctest.Wait()
		for range 4 {
			pool.release()
			got = append(got, <-granted)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 4}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSlotsAreNeverLost: whatever is granted, released and given up at the same time.
func TestSlotsAreNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSlots(3), rand.New(rand.NewPCG(1, 1))
		for range 500 {
			patience, work := time.Duration(r.IntN(5))*time.Second, time.Duration(r.IntN(5))*time.Second
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if s.acquire(ctx, time.Now()) {
					<-time.After(work)
					s.release()
				}
			}()
			elapse(time.Duration(r.IntN(3)) * 100 * time.Millisecond)
		}
		elapse(time.Minute)
		if s.free != 3 || len(s.waiting) > 0 {
			t.Errorf("%d slots are free, %d requests wait", s.free, len(s.waiting))
		}
	})
}

// TestASpotNodeDoesNotWaitBehindSlowDrains: each eviction takes as long as a webhook that times out, and drains with
// an hour left have more pods than slots for two minutes. The pod of a Spot node has grace periods of 10 s and its
// deadline in two minutes.
func TestASpotNodeDoesNotWaitBehindSlowDrains(t *testing.T) {
	check := func(name string, budget, slowDeadline time.Duration, want string, earliest, latest time.Duration) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t)
			c.webhooks = func(verb string) time.Duration { return map[string]time.Duration{"evict": 10 * time.Second}[verb] }
			c.addPod("spot", "a", "web")
			if budget > 0 {
				c.addBudget("web", 1, 0)
			}
			c.start(defaults)
			stop := c.drainSlowly(slowDeadline)
			report, err := c.drain("spot", 2*time.Minute)()
			if err != nil || len(report.Left) > 0 || report.Took > 2*time.Minute {
				t.Errorf("got %+v, %v", report, err)
			}
			stop()
			for _, r := range c.requests {
				if r.pod == "a" && (r.verb != want || r.after < earliest || r.after > latest) {
					t.Errorf("%s after %v, want %s between %v and %v", r.verb, r.after, want, earliest, latest)
				}
			}
		})
	}
	check("evicted as soon as a slot is free", 0, time.Hour, "evict", 20*time.Second, 20*time.Second)
	check("deleted in time", 1, time.Hour, "delete", 110*time.Second, 110*time.Second)
	check("behind drains that are as urgent: deleted when its last eviction has no answer", 0, 119*time.Second, "delete",
		110*time.Second, 120*time.Second)
}

// TestAnEarlierDeadlineOvertakes: an eviction that waits for a slot does so by the deadline that its drain has now.
func TestAnEarlierDeadlineOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.webhooks = constant10s
		c.addPod("o", "a", "")
		c.start(defaults)
		stop := c.drainSlowly(time.Hour)
		target, deadlines := c.target("o", 2*time.Hour), make(chan time.Time, 1)
		target.Tighter = deadlines
		time.AfterFunc(time.Second, func() { deadlines <- time.Now().Add(2 * time.Minute) })
		report, err := c.drainTarget(c.ctx, target)()
		if err != nil || report.Forced > 0 || report.Took > 31*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
		stop()
	})
}

// drainSlowly adds 16 nodes with 100 pods each and starts to drain them, and returns a function that ends these drains.
func (c *cluster) drainSlowly(timeout time.Duration) (stop func()) {
	for i := range 1600 {
		c.addPod(fmt.Sprint("slow-", i%16), fmt.Sprint("slow-", i), "")
	}
	ctx, cancel := context.WithCancel(c.ctx)
	ends := make([]func() (Report, error), 16)
	for i := range ends {
		ends[i] = c.drainTarget(ctx, c.target(fmt.Sprint("slow-", i), timeout))
	}
	synctest.Wait()
	return func() {
		cancel()
		for _, end := range ends {
			_, _ = end()
		}
	}
}

func constant10s(string) time.Duration { return 10 * time.Second }
