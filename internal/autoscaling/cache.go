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
	entries sync.Map // an entry[V] by group
}

type entry[V any] struct {
	value V
	until time.Time
}

func (c *cache[V]) get(ctx context.Context, group string) (V, error) {
	if e, ok := c.entries.Load(group); ok && time.Now().Before(e.(entry[V]).until) {
		return e.(entry[V]).value, nil
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

// has reports whether get returns what is kept.
func (c *cache[V]) has(group string) bool {
	e, ok := c.entries.Load(group)
	return ok && time.Now().Before(e.(entry[V]).until)
}

// forget has the next get read again, unless what is kept is younger than age.
func (c *cache[V]) forget(group string, age time.Duration) {
	e, ok := c.entries.Load(group)
	if ok && time.Until(e.(entry[V]).until) <= c.keep-age {
		c.entries.Delete(group)
	}
}

// put also removes what has expired, so that groups that were deleted do not stay in memory.
func (c *cache[V]) put(group string, v V) {
	c.entries.Store(group, entry[V]{v, time.Now().Add(c.keep)})
	c.entries.Range(func(k, e any) bool {
		if time.Now().After(e.(entry[V]).until) {
			c.entries.Delete(k)
		}
		return true
	})
}
