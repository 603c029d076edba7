package redis

import (
	"context"
	"errors"
	"time"
)

// How long a call waits for what it has started, before it answers that it is under way.
const (
	failoverTimeout = 8 * time.Second // until another member leads
	agreeTimeout    = 5 * time.Second // until all agree on it, and follow
	catchUpTimeout  = 2 * time.Second // until the replicas have all writes, while these are paused
	pauseLeft       = 4 * time.Second // after which a pause of 5 s may end too early
	redirectTime    = time.Second     // for which a former leader stays, so that it redirects its clients
	goneTimeout     = time.Minute     // after which a failed node without a pod is not expected back
)

// poll calls do until it returns nil or an error that is no putOff, or until the time is over; then it returns the last
// error.
func poll(ctx context.Context, d time.Duration, do func() error) error {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for {
		err := do()
		var later *putOff
		if err == nil || !errors.As(err, &later) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return err
		case <-time.After(pollInterval):
		}
	}
}
