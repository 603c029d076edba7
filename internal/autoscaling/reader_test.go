package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// TestRefreshesAreReadSlowly: however many groups are followed, there are two calls a second, and each group is read.
func TestRefreshesAreReadSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const groups, rounds = 40, 5
		api := newAPI()
		api.refreshes = func(int, string) (*sdk.DescribeInstanceRefreshesOutput, error) {
			return &sdk.DescribeInstanceRefreshesOutput{InstanceRefreshes: []types.InstanceRefresh{{InstanceRefreshId: new("r-1")}}}, nil
		}
		r := NewReader(api)
		var followed sync.WaitGroup
		for n := range groups {
			followed.Go(func() {
				for range rounds {
					name := fmt.Sprint("g-", n)
					if _, err := r.Refreshes(t.Context(), name); err != nil {
						t.Error(err)
					}
					if _, err := r.Refresh(t.Context(), name, "r-1"); err != nil {
						t.Error(err)
					}
					time.Sleep(5 * time.Second)
				}
			})
		}
		followed.Wait()
		calls := api.calls["refreshes"]
		if len(calls) != 2*groups*rounds {
			t.Errorf("%d calls", len(calls))
		}
		for n, at := range calls[2:] {
			if at-calls[n] < time.Second {
				t.Fatalf("calls %d to %d are within %v", n, n+2, at-calls[n])
			}
		}
	})
}

// TestRefreshesEndWithTheirContext: a call that waits for its turn does not outlive its context.
func TestRefreshesEndWithTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, stopped, start := NewReader(newAPI()), errors.New("stopped"), time.Now()
		ctx, stop := context.WithCancelCause(t.Context())
		stop(stopped)
		for range 3 {
			if _, err := r.Refreshes(ctx, "g"); !errors.Is(err, stopped) {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}
