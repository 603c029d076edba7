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
	entries sync.Map // an *entry[V] by group
}

type entry[V any] struct {
	value V
	until time.Time
}

func (c *cache[V]) get(ctx context.Context, group string) (V, error) {
	if e := c.kept(group); e != nil {
		return e.value, nil
	}
	answer := c.calls.DoChan(group, func() (any, error) {
		if e := c.kept(group); e != nil { // Another call has ended since.
			return e.value, nil
		}
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

// kept returns what is kept, or nil.
func (c *cache[V]) kept(group string) *entry[V] {
	one, _ := c.entries.Load(group)
	e, ok := one.(*entry[V])
	if !ok || !time.Now().Before(e.until) {
		return nil
	}
	return e
}

// has reports whether get returns what is kept.
func (c *cache[V]) has(group string) bool { return c.kept(group) != nil }

// forget has the next get read again, unless what is kept is younger than age.
func (c *cache[V]) forget(group string, age time.Duration) {
	if e := c.kept(group); e != nil && time.Until(e.until) <= c.keep-age {
		c.entries.CompareAndDelete(group, e) // Another call may have replaced it since.
	}
}

// put also removes what has expired, so that groups that were deleted do not stay in memory.
func (c *cache[V]) put(group string, v V) {
	c.entries.Store(group, &entry[V]{v, time.Now().Add(c.keep)})
	c.entries.Range(func(k, e any) bool {
		if time.Now().After(e.(*entry[V]).until) {
			c.entries.Delete(k)
		}
		return true
	})
}
