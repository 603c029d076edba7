// Package lead runs the work of one of several replicas: of the one that holds a Lease. The others are
// standbys.
package lead

import (
	"cmp"
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

	"github.com/node-drainer/node-drainer/internal/retry"
)

// errLost ends the work of a leader that could not renew the lease in time: another may lead by now.
var errLost = errors.New("the lease was lost: it could not be renewed, or another replica holds it")

// Observer is notified of who leads. Its methods are called from several goroutines and must not block.
type Observer interface {
	LeadershipStarted()
	LeadershipEnded(reason error)
	LeaderChanged(holder string) // another holder than before; empty if there is no leader
	KubernetesFailed(operation string, err error)
}

// Work is what the leader does until ctx ends. It returns when nothing of it is running any more.
type Work func(ctx context.Context) error

// Elector runs the work of this process while it leads. Make it with New.
type Elector struct {
	cfg      Config
	lock     *lock
	observer Observer

	mu         sync.Mutex
	started    time.Time
	holder     string          // who leads, as seen last
	term       *term           // while this process leads, until its work has returned
	handedOver map[string]bool // the nodes that the lease was handed over for
}

// term is the time that a process leads.
type term struct {
	stop  context.CancelCauseFunc
	ended time.Time // when the context of its work ended; zero before
}

// New returns an Elector of the Lease that cfg names. The Lease names this process by name, or by the host's
// name if that is empty. The Lease of an agent has a mark; nil is of another process.
func New(client kubernetes.Interface, cfg Config, name string, m *Mark, observer Observer) (*Elector, error) {
	var err error
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("read the host name: %w", err)
		}
	}
	return newElector(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.LeaseName},
		Client:    marked{client.CoordinationV1(), m},
		// A restarted process gets another identity: work of the previous one may still be running.
		LockConfig: resourcelock.ResourceLockConfig{Identity: name + "_" + rand.Text()[:8]},
	}, cfg, observer), nil
}

func newElector(leases resourcelock.Interface, cfg Config, observer Observer) *Elector {
	return &Elector{
		cfg: cfg, observer: observer, handedOver: map[string]bool{},
		// Two calls fit into the time that a leader has to renew the lease.
		lock: &lock{Interface: leases, timeout: cfg.RenewDeadline / 2, observer: observer},
	}
}

// WaitForLease returns at once, unless this process leads and the API server does not answer: then it waits
// for an answer, or until ctx ends. Another replica may lead by then, so the leader must not start anything
// new meanwhile.
func (e *Elector) WaitForLease(ctx context.Context) {
	outage := e.lock.read().outage
	if outage == nil {
		return
	}
	select {
	case <-outage:
	case <-ctx.Done():
	}
}

// Run runs work whenever this process leads, until ctx ends or the work returns by itself, and returns the
// work's error then. When ctx ends, the work ends first, and then the lease is released. When the lease is
// refused, held by another, or handed over, the work ends, and this process becomes a standby again. While
// the API server does not answer, the work continues, but see WaitForLease.
func (e *Elector) Run(ctx context.Context, work Work) error {
	if !e.cfg.Election {
		_, err := e.lead(ctx, work)
		return err
	}
	e.mu.Lock()
	e.started = time.Now()
	e.mu.Unlock()
	for ctx.Err() == nil {
		reason, err := e.leadOnce(ctx, work)
		switch {
		case errors.Is(reason, errHandOver):
			e.awaitOther(ctx)
		case !errors.Is(reason, errLost):
			return err
		}
	}
	return nil
}

// leadOnce waits until this replica is elected, and leads. It returns why that ended, and the work's error.
// Nothing of the work is running then, and the lease is released.
func (e *Elector) leadOnce(ctx context.Context, work Work) (reason, err error) {
	holding, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	// The lease is renewed until the work has returned, also after ctx has ended.
	electing, resign := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.Logger{}))
	elected := make(chan struct{})
	var elections sync.WaitGroup
	elections.Go(func() { lose(e.elect(electing, func() { close(elected) })) })
	select {
	case <-elected:
		reason, err = e.lead(holding, work)
	case <-holding.Done():
		reason = context.Cause(holding)
		if ctx.Err() == nil {
			err = reason
		}
	}
	resign()
	elections.Wait()
	e.lock.release(context.WithoutCancel(ctx))
	return reason, err
}

// elect takes part in the election until ctx ends or the lease is lost, and returns errLost then. It calls
// elected when this replica has acquired the lease.
//
// client-go gives up a lease that it could not renew for RenewDeadline. If the API server did not answer,
// elect does not: the work has hooks to keep alive, and without the API server it can neither evict a pod nor
// find a node empty. As soon as the API server answers, it acquires the lease again, unless another replica
// has done so meanwhile.
func (e *Elector) elect(ctx context.Context, elected func()) error {
	err := e.acquireAndRenew(ctx, elected)
	for err == nil && e.awaitAnswer(ctx) {
		again, giveUp := context.WithCancel(ctx)
		timer := time.AfterFunc(time.Until(e.lock.read().unansweredAt.Add(e.cfg.RenewDeadline)), giveUp)
		err = e.acquireAndRenew(again, func() { timer.Stop() })
		giveUp()
	}
	return cmp.Or(err, errLost)
}

// acquireAndRenew returns when ctx has ended, or when the lease was acquired and then not renewed for
// RenewDeadline.
func (e *Elector) acquireAndRenew(ctx context.Context, acquired func()) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: e.cfg.LeaseName,
		LeaseDuration: e.cfg.LeaseDuration, RenewDeadline: e.cfg.RenewDeadline, RetryPeriod: e.cfg.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { acquired() },
			OnStoppedLeading: func() {},
			OnNewLeader:      e.setHolder,
		},
	})
	if err != nil {
		return fmt.Errorf("set up the leader election: %w", err)
	}
	elector.Run(ctx)
	return nil
}

// awaitAnswer waits until the API server answers. It reports whether a leader that could not renew the lease
// may acquire it again: not if ctx has ended, nor if the API server has refused it for RenewDeadline.
func (e *Elector) awaitAnswer(ctx context.Context) bool {
	for e.lock.read().outage != nil && retry.Sleep(ctx, e.cfg.RetryPeriod) {
		_, _, _ = e.lock.Get(ctx)
	}
	return ctx.Err() == nil && time.Since(e.lock.read().unansweredAt) < e.cfg.RenewDeadline
}

// lead runs work until ctx ends, the lease names another replica, the work returns by itself, or the lease is
// handed over. It returns which of these it was (nil for the work), and the work's error.
func (e *Elector) lead(ctx context.Context, work Work) (reason, err error) {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e.lock.startTerm(func() { stop(errLost) })
	defer e.lock.endTerm()
	t := &term{stop: stop}
	defer context.AfterFunc(working, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		t.ended = time.Now()
	})()
	e.setTerm(t)
	e.observer.LeadershipStarted()
	err = work(working)
	reason = context.Cause(working)
	e.setTerm(nil)
	e.observer.LeadershipEnded(reason)
	return reason, err
}

func (e *Elector) setTerm(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
}

// setHolder notes who leads.
func (e *Elector) setHolder(holder string) {
	e.mu.Lock()
	changed := holder != e.holder
	e.holder = holder
	e.mu.Unlock()
	if changed {
		e.observer.LeaderChanged(holder)
	}
}
