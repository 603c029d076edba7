package autoscaling

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCacheReadsOnce: however many callers want what is kept to be read again, it is read once in that time.
func TestCacheReadsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		c := cache[[]int]{keep: time.Hour, read: func(context.Context, string) ([]int, error) {
			reads.Add(1)
			return []int{1}, nil
		}}
		const times, age = 200, 10 * time.Second
		for range times {
			var callers sync.WaitGroup
			for range 100 {
				callers.Go(func() {
					for range 2 {
						if _, err := c.get(t.Context(), "workers"); err != nil {
							t.Error(err)
						}
						c.forget("workers", age)
					}
				})
			}
			callers.Wait()
			time.Sleep(age)
		}
		if n := reads.Load(); n > times {
			t.Errorf("%d reads in %d times 10 s", n, times)
		}
	})
}
