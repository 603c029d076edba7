package lead

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is a Lease whose calls are bounded, reported if they fail, and remembered.
type lock struct {
	resourcelock.Interface
	timeout  time.Duration
	observer Observer

	mu      sync.Mutex
	history lockHistory
	claimed bool   // the Lease may name this replica
	lost    func() // while this replica leads: called when the Lease names another
}

// lockHistory is what a lock remembers of its calls.
type lockHistory struct {
	calledAt     time.Time     // when the latest call began
	reachedAt    time.Time     // when the latest call that the API server accepted ended
	unansweredAt time.Time     // when the latest call that it did not answer ended
	outage       chan struct{} // closed when the API server answers; nil unless it does not answer a leader

	own resourcelock.LeaderElectionRecord // what this replica wrote last to hold the Lease
}

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = l.call(ctx, "read the Lease", func(ctx context.Context) (err error) {
		record, raw, err = l.Interface.Get(ctx)
		return err
	})
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	if err == nil && record.HolderIdentity != l.Identity() && lost != nil {
		lost()
	}
	return record, raw, err
}

// Create creates the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.claim(record)
	return l.call(ctx, "create the Lease", func(ctx context.Context) error {
		return l.Interface.Create(ctx, record)
	})
}

// Update writes the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.claim(record)
	return l.call(ctx, "update the Lease", func(ctx context.Context) error {
		return l.Interface.Update(ctx, record)
	})
}

// startTerm has lost called whenever the Lease names another replica, until endTerm is called.
func (l *lock) startTerm(lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = lost
}

func (l *lock) endTerm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = nil
	l.endOutage()
}

// releaseTimeout bounds the calls that release a Lease: the process ends after them.
const releaseTimeout = time.Second

// release clears the Lease if it names this replica, so that another can acquire it at once. If that fails, or takes
// too long, the Lease expires.
func (l *lock) release(ctx context.Context) {
	l.mu.Lock()
	claimed := l.claimed
	l.claimed = false
	l.mu.Unlock()
	if !claimed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	record, _, err := l.Get(ctx)
	if err != nil || record.HolderIdentity != l.Identity() {
		return
	}
	now := metav1.Now()
	_ = l.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
	})
}

// claim notes that the Lease may name this replica from now on, if the record to be written does.
func (l *lock) claim(record resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity == l.Identity() {
		l.claimed, l.history.own = true, record
	}
}

func (l *lock) call(ctx context.Context, operation string, do func(context.Context) error) error {
	l.mu.Lock()
	l.history.calledAt = time.Now()
	l.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	err := do(bounded)
	l.record(err, ctx.Err() != nil)
	if err != nil && !isOrdinary(err) && ctx.Err() == nil {
		l.observer.KubernetesFailed(operation, err)
	}
	return err
}

// record notes how a call ended. An error of a call that was canceled says nothing about the API server.
func (l *lock) record(err error, canceled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || isOrdinary(err) {
		l.history.reachedAt = time.Now()
	}
	switch {
	case !isUnanswered(err):
		l.endOutage()
	case !canceled:
		l.history.unansweredAt = time.Now()
		if l.history.outage == nil && l.lost != nil {
			l.history.outage = make(chan struct{})
		}
	}
}

// endOutage must be called with mu.
func (l *lock) endOutage() {
	if l.history.outage != nil {
		close(l.history.outage)
		l.history.outage = nil
	}
}

func (l *lock) read() lockHistory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history
}

// isOrdinary reports whether the error is part of a working election: there is no Lease yet, or another
// replica wrote it first.
func isOrdinary(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// isUnanswered reports whether the API server gave no answer, or only the one that it cannot answer now.
func isUnanswered(err error) bool {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) {
		return err != nil
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}
