package autoscaling

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newCache returns a cache whose reads take a second and return their number. The first one fails.
func newCache() *cache[int] {
	reads := 0
	return &cache[int]{keep: time.Minute, read: func(context.Context, string) (int, error) {
		time.Sleep(time.Second)
		if reads++; reads == 1 {
			return 0, errThrottled
		}
		return reads, nil
	}}
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache()
		if _, err := c.get(t.Context(), groupName); !errors.Is(err, errThrottled) {
			t.Errorf("got %v, want the error of read", err)
		}
		var wg sync.WaitGroup
		for range 20 { // they share a call
			wg.Go(func() {
				if got, err := c.get(t.Context(), groupName); got != 2 || err != nil {
					t.Errorf("read %d, %v", got, err)
				}
			})
		}
		wg.Wait()
		for _, tt := range []struct {
			after time.Duration
			want  int
		}{{0, 2}, {time.Minute - 1, 2}, {1, 3}, {30 * time.Second, 3}, {time.Hour, 4}} {
			time.Sleep(tt.after)
			if got, err := c.get(t.Context(), groupName); got != tt.want || err != nil {
				t.Errorf("after another %v: read %d, %v; want read %d", tt.after, got, err, tt.want)
			}
		}
		c.forget(groupName, 0)
		if got, _ := c.get(t.Context(), groupName); got != 5 {
			t.Errorf("after forget: read %d", got)
		}
		time.Sleep(time.Hour)
		_, err := c.get(t.Context(), "other")
		if _, kept := c.entries.Load(groupName); kept || err != nil {
			t.Errorf("%v; an entry that has expired is kept: %t", err, kept)
		}
		// A process that stops does not wait for an endpoint that does not answer.
		start := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errStop)
		defer cancel()
		_, err = c.get(ctx, "another")
		if took := time.Since(start); !errors.Is(err, errStop) || took != time.Millisecond {
			t.Errorf("returned after %v: %v", took, err)
		}
		time.Sleep(time.Second) // the call continues
	})
}

func TestHowLongAnswersAreKept(t *testing.T) {
	g := newGroups(newAPI(), Config{}, queueURL)
	if g.hooks.keep != 5*time.Minute || g.clusters.keep != 5*time.Minute || g.rollouts.keep != 30*time.Second {
		t.Errorf("hooks are kept for %v, clusters for %v, refreshes for %v", g.hooks.keep, g.clusters.keep, g.rollouts.keep)
	}
}
