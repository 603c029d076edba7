package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/node-drainer/node-drainer/internal/retry"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !retry.Sleep(t.Context(), time.Minute) || time.Since(start) != time.Minute {
			t.Errorf("a pause of a minute took %v", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if retry.Sleep(ctx, time.Minute) || time.Since(start) != time.Second {
			t.Errorf("a pause whose context ended after a second took %v", time.Since(start))
		}
	})
}

func TestDo(t *testing.T) {
	errFinal, errTransient, errStopped := errors.New("final"), errors.New("transient"), errors.New("stopped")
	for _, tt := range []struct {
		name     string
		results  []error // of one attempt after the other
		stop     bool    // the context ends during the last attempt
		want     error
		reported int
	}{
		{"success ends it", []error{nil}, false, nil, 0},
		{"a final error ends it", []error{errFinal}, false, errFinal, 0},
		{"other errors are reported and retried", []error{errTransient, errTransient, nil}, false, nil, 2},
		{"the end of the context ends it", []error{errTransient, errTransient}, true, errStopped, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				attempts, reported := 0, 0
				err := retry.Do(ctx, retry.Backoff(time.Second, time.Minute), func() error {
					attempts++
					if attempts == len(tt.results) && tt.stop {
						cancel(errStopped)
					}
					return tt.results[attempts-1]
				}, func(err error) bool { return errors.Is(err, errFinal) }, func(error) { reported++ })
				if !errors.Is(err, tt.want) || attempts != len(tt.results) || reported != tt.reported {
					t.Errorf("Do returned %v after %d attempts and %d reports, want %v, %d and %d",
						err, attempts, reported, tt.want, len(tt.results), tt.reported)
				}
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	b := retry.Backoff(time.Second, 5*time.Second)
	for _, base := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if pause := b.Step(); pause < base || pause > base*6/5 {
			t.Errorf("a pause is %v, want %v and up to 20 %% more", pause, base)
		}
	}
}

// TestOnConflict: conflicts are tried again, and the last error is returned, a timeout as well.
func TestOnConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", nil)
	for _, tt := range []struct {
		errs []error
		want error
	}{
		{[]error{nil}, nil},
		{[]error{conflict, nil}, nil},
		{[]error{conflict, conflict, conflict, conflict}, conflict},
		{[]error{conflict, context.DeadlineExceeded}, context.DeadlineExceeded},
	} {
		calls := 0
		err := retry.OnConflict(func() error {
			calls++
			return tt.errs[calls-1]
		})
		if !errors.Is(err, tt.want) || calls != len(tt.errs) {
			t.Errorf("%v: returned %v after %d calls", tt.errs, err, calls)
		}
	}
}

// TestSleepInEndedContext: a pause of no time is none in a context that has ended. A select between the two would
// choose at random.
func TestSleepInEndedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if retry.Sleep(ctx, 0) {
			t.Fatal("it slept")
		}
	}
}
