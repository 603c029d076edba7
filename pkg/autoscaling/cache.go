package autoscaling

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// cache keeps what read returned for a group, and lets concurrent callers share one call. Errors are not
// kept. A caller returns when its context ends, and the call continues for the others.
type cache[V any] struct {
	read func(ctx context.Context, group string) (V, error)
	keep time.Duration

	calls   singleflight.Group
	mu      sync.Mutex
	entries map[string]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

func (c *cache[V]) get(ctx context.Context, group string) (V, error) {
	c.mu.Lock()
	e, ok := c.entries[group]
	c.mu.Unlock()
	if ok && time.Now().Before(e.until) {
		return e.value, nil
	}
	answer := c.calls.DoChan(group, func() (any, error) {
		v, err := c.read(context.WithoutCancel(ctx), group)
		if err == nil {
			c.put(group, v)
		}
		return v, err
	})
	select {
	case a := <-answer:
		return a.Val.(V), a.Err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

func (c *cache[V]) forget(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, group)
}

// put also removes what has expired, so that groups that were deleted do not stay in memory.
func (c *cache[V]) put(group string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]entry[V]{}
	}
	for k, e := range c.entries {
		if time.Now().After(e.until) {
			delete(c.entries, k)
		}
	}
	c.entries[group] = entry[V]{v, time.Now().Add(c.keep)}
}
