package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/batch"
)

// recorder doubles its inputs, fails odd ones, and records the sizes of its batches.
type recorder struct {
	mu    sync.Mutex
	sizes []int
}

var errOdd = errors.New("odd")

func (r *recorder) call(_ context.Context, inputs []int) []batch.Result[int] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sizes = append(r.sizes, len(inputs))
	results := make([]batch.Result[int], len(inputs))
	for i, in := range inputs {
		results[i].Value = 2 * in
		if in%2 == 1 {
			results[i].Err = errOdd
		}
	}
	return results
}

func TestBatcher(t *testing.T) {
	tests := map[string]struct {
		inputs int
		want   []int
	}{
		"one input waits for the window": {inputs: 1, want: []int{1}},
		"inputs of one window are one batch":              {inputs: 9, want: []int{9}},
		"a full batch is processed at once, the rest later":   {inputs: 23, want: []int{3, 10, 10}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				b := batch.Batcher[int, int]{Max: 10, Window: 50 * time.Millisecond, Call: r.call}
				var wg sync.WaitGroup
				for i := range tt.inputs {
					wg.Go(func() {
						got, err := b.Do(t.Context(), i)
						if got != 2*i || (i%2 == 1) != errors.Is(err, errOdd) {
							t.Errorf("Do(%d) = %d, %v", i, got, err)
						}
					})
				}
				wg.Wait()
				slices.Sort(r.sizes)
				if !slices.Equal(r.sizes, tt.want) {
					t.Errorf("batches of %v, want %v", r.sizes, tt.want)
				}
			})
		})
	}
}

func TestBatcherCallerIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		b := batch.Batcher[int, int]{Max: 10, Window: time.Minute, Call: r.call}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := b.Do(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want the context's error", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Do returned after %v, want 1s", took)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(r.sizes, []int{1}) {
			t.Errorf("batches of %v: the input of a cancelled caller is processed nevertheless", r.sizes)
		}
	})
}
