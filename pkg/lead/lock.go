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

// lock is a Lease of which each call is bounded, told of if it fails, and remembered.
type lock struct {
	resourcelock.Interface
	timeout  time.Duration
	observer Observer

	mu      sync.Mutex
	tried   time.Time     // when the latest call began
	reached time.Time     // when the latest call that was answered ended
	claimed bool          // the Lease may name this replica
	last    seen          // what this replica wrote last to hold it
	usurped func()        // while this replica leads: called when the Lease names another
	silent  chan struct{} // while this replica leads and the API server does not answer; closed when it does
}

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = l.call(ctx, "read the Lease", func(ctx context.Context) (err error) {
		record, raw, err = l.Interface.Get(ctx)
		return err
	})
	if usurped := l.leading(); err == nil && usurped != nil && record.HolderIdentity != l.Identity() {
		usurped()
	}
	return record, raw, err
}

// Create makes the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.holds(record)
	return l.call(ctx, "create the Lease", func(ctx context.Context) error {
		return l.Interface.Create(ctx, record)
	})
}

// Update writes the Lease. A leader to which the API server does not answer goes on as if it had: what it has
// in hand needs heartbeats, and without the API server it can neither move a pod nor prove a node empty.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.holds(record)
	err := l.call(ctx, "update the Lease", func(ctx context.Context) error {
		return l.Interface.Update(ctx, record)
	})
	if isSilence(err) && l.leading() != nil && record.HolderIdentity != "" && ctx.Err() == nil {
		l.falls()
		return nil
	}
	return err
}

// lead notes that this replica leads, until it is called with nil.
func (l *lock) lead(usurped func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usurped = usurped
	if usurped == nil {
		l.speaks()
	}
}

func (l *lock) leading() (usurped func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usurped
}

// falls notes that the API server has fallen silent.
func (l *lock) falls() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil && l.usurped != nil {
		l.silent = make(chan struct{})
	}
}

// speaks notes that it is not silent any more. The caller holds the lock.
func (l *lock) speaks() {
	if l.silent != nil {
		close(l.silent)
		l.silent = nil
	}
}

// silence is closed when the API server is no longer silent; nil if it is not.
func (l *lock) silence() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

// release lets the next leader follow at once, if the Lease names this replica. What fails is left to the
// end of the Lease.
func (l *lock) release(ctx context.Context) {
	if !l.letGo() {
		return
	}
	record, _, err := l.Get(ctx)
	if err != nil || record.HolderIdentity != l.Identity() {
		return
	}
	now := metav1.Now()
	_ = l.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
	})
}

// holds notes that the Lease is about to name this replica, if that is what the record says.
func (l *lock) holds(record resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity == l.Identity() {
		l.claimed, l.last = true, seen{record.HolderIdentity, record.LeaderTransitions}
	}
}

// own is what the Lease said when this replica held it last.
func (l *lock) own() seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// letGo tells whether the Lease may name this replica, and forgets it.
func (l *lock) letGo() (claimed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claimed, l.claimed = l.claimed, false
	return claimed
}

func (l *lock) call(ctx context.Context, operation string, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	l.begin()
	err := do(bounded)
	if !isSilence(err) {
		l.heard()
	}
	if err == nil || isOrdinary(err) {
		l.answered()
	} else if ctx.Err() == nil {
		l.observer.KubernetesFailed(operation, err)
	}
	return err
}

func (l *lock) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = time.Now()
}

func (l *lock) heard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speaks()
}

func (l *lock) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reached = time.Now()
}

// times are when the latest call began, and when the latest one that was answered ended.
func (l *lock) times() (tried, reached time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tried, l.reached
}

// isOrdinary: there is no Lease yet, or another replica was faster.
func isOrdinary(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// isSilence: the API server has said nothing, or nothing but that it cannot answer now.
func isSilence(err error) bool {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) {
		return err != nil
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}
