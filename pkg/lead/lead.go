// Package lead has one of several replicas work: the one that holds a Lease. The others stand by.
package lead

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// errLost ends the work of a leader that could not renew the lease in time: another may lead by now.
var errLost = errors.New("the lease was lost: it could not be renewed, or another holds it")

// Observer is told who leads. Its methods are called from several goroutines and must not block.
type Observer interface {
	LeadershipStarted()
	LeadershipEnded(reason error)
	LeaderChanged(holder string) // another holder than before; empty if nobody leads
	KubernetesFailed(operation string, err error)
}

// Work is what the leader does until ctx ends. It returns when nothing of it is under way any more.
type Work func(ctx context.Context) error

// Elector has this process work while it leads. Make it with New.
type Elector struct {
	cfg      Config
	lock     *lock
	observer Observer

	mu      sync.Mutex
	started time.Time
	holder  string          // who leads, as seen last
	term    *term           // while this process leads, until its work has ended
	handed  map[string]bool // the nodes that the lease was handed over for
}

// term is the time that a process leads.
type term struct {
	stop  context.CancelCauseFunc
	ended time.Time // when its work was told to stop; zero before
}

// New returns an Elector of the Lease that cfg names. name tells this process from the other replicas in the
// Lease; the name of its host does if it is empty.
func New(client kubernetes.Interface, cfg Config, name string, observer Observer) (*Elector, error) {
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("the host has no name: %w", err)
		}
		name = host
	}
	return newElector(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.LeaseName},
		Client:    client.CoordinationV1(),
		// A process that is started anew is another: what it did before may still be under way.
		LockConfig: resourcelock.ResourceLockConfig{Identity: name + "_" + rand.Text()[:8]},
	}, cfg, observer), nil
}

func newElector(leases resourcelock.Interface, cfg Config, observer Observer) *Elector {
	return &Elector{
		cfg: cfg, observer: observer, handed: map[string]bool{},
		// Two calls fit into the time that a leader has to renew the lease.
		lock: &lock{Interface: leases, timeout: cfg.RenewDeadline / 2, observer: observer},
	}
}

// WaitForLease waits while this process leads and the API server does not answer, or until ctx ends. Another may
// lead by then: what is in hand is to be kept, and nothing new is to be taken on.
func (e *Elector) WaitForLease(ctx context.Context) {
	silence := e.lock.silence()
	if silence == nil {
		return
	}
	select {
	case <-silence:
	case <-ctx.Done():
	}
}

// Run runs work whenever this process leads, until ctx ends or the work ends by itself, and returns the
// work's error then. When ctx ends, the work ends first, and then the lease is released. When the lease is
// refused, another holds it, or it is handed over, the work ends, and this process stands by again. While the
// API server does not answer, the work goes on, but see Heard.
func (e *Elector) Run(ctx context.Context, work Work) error {
	if !e.cfg.Election {
		_, err := e.lead(ctx, nil, work)
		return err
	}
	e.mu.Lock()
	e.started = time.Now()
	e.mu.Unlock()
	for ctx.Err() == nil {
		reason, err := e.stand(ctx, work)
		switch {
		case errors.Is(reason, errHandOver):
			e.stepAside(ctx)
		case !errors.Is(reason, errLost):
			return err
		}
	}
	return nil
}

// stand stands for election until ctx ends, and leads if elected. It returns why that is over, and the work's
// error. Nothing of the work is under way then, and the lease is released.
func (e *Elector) stand(ctx context.Context, work Work) (reason, err error) {
	elected, over := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: e.cfg.LeaseName,
		LeaseDuration: e.cfg.LeaseDuration, RenewDeadline: e.cfg.RenewDeadline, RetryPeriod: e.cfg.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
			OnNewLeader:      e.sees,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	// The lease is renewed until the work has ended, also beyond the end of ctx.
	electing, resign := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.Logger{}))
	go func() {
		defer close(over)
		elector.Run(electing)
	}()
	select {
	case <-elected:
		reason, err = e.lead(ctx, over, work)
	case <-over:
		reason = errLost
	case <-ctx.Done():
		reason = context.Cause(ctx)
	}
	resign()
	<-over
	e.lock.release(context.WithoutCancel(ctx))
	return reason, err
}

// lead runs work until ctx ends, the lease is over, the work ends by itself, or the lease is handed over. It
// returns which of these it was (nil for the work), and the work's error.
func (e *Elector) lead(ctx context.Context, over <-chan struct{}, work Work) (reason, err error) {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-over:
			stop(errLost)
		case <-done:
		}
	}()
	e.lock.lead(func() { stop(errLost) })
	defer e.lock.lead(nil)
	t := &term{stop: stop}
	defer context.AfterFunc(working, func() { e.told(t) })()
	e.begins(t)
	err = work(working)
	reason = context.Cause(working)
	e.ends(reason)
	return reason, err
}

func (e *Elector) begins(t *term) {
	e.mu.Lock()
	e.term = t
	e.mu.Unlock()
	e.observer.LeadershipStarted()
}

func (e *Elector) ends(reason error) {
	e.mu.Lock()
	e.term = nil
	e.mu.Unlock()
	e.observer.LeadershipEnded(reason)
}

// told notes that the work of the term has been told to stop.
func (e *Elector) told(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.ended = time.Now()
}

// sees notes who leads.
func (e *Elector) sees(holder string) {
	e.mu.Lock()
	changed := holder != e.holder
	e.holder = holder
	e.mu.Unlock()
	if changed {
		e.observer.LeaderChanged(holder)
	}
}
