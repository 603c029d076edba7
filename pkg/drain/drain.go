// Package drain empties a Kubernetes node before a deadline. It evicts pods within their
// PodDisruptionBudgets. In time for the deadline it evicts those that it has waited for, and deletes those whose
// eviction is refused, if the policy says so.
package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// Drainer drains nodes. Create it with New, and start it with Run.
type Drainer struct {
	client   kubernetes.Interface
	policy   Policy
	rules    rules
	observer Observer
	remover  remover
	pdbs     *pdbTracker
	volumes  *volumeTracker // runs only if drains wait for volumes
	slots    slotPools
	starts   *slots // of drains: each lists its pods
	turns    turns
	moved    movedOwners
	delay    schedulerDelay
}

// ErrReplaced is returned by a drain whose Node was deleted and replaced by another one of the same name: that of the
// same instance, which has registered again, or of another instance. The drain has not touched pods of that one.
var ErrReplaced = errors.New("the Node was deleted, and another one has its name")

// New returns a Drainer that reads from and writes to client. The client should have no rate limit: the API
// server's priority and fairness limits requests better.
func New(client kubernetes.Interface, cfg Config, env Environment, observer Observer) (*Drainer, error) {
	d := &Drainer{client: client, observer: observer, remover: remover{client}, slots: newSlotPools()}
	d.starts = newSlots(concurrentStarts)
	tiers, err := parseTiers(cfg.Tiers)
	if err != nil {
		return nil, err
	}
	d.policy = Policy{cfg, tiers}
	if d.rules, err = newRules(d.policy, env); err != nil {
		return nil, err
	}
	if d.pdbs, err = newPDBTracker(client); err != nil {
		return nil, err
	}
	d.volumes, err = newVolumeTracker(client)
	return d, err
}

// Run watches the cluster's PodDisruptionBudgets and VolumeAttachments until ctx ends.
func (d *Drainer) Run(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error { retry.Watch(ctx, d.pdbs.informer); return nil })
	if d.policy.VolumeTimeout > 0 {
		g.Go(func() error { retry.Watch(ctx, d.volumes.informer); return nil })
	}
	_ = g.Wait()
}

// setUp sets the transform and the event handlers of an informer of what is watched.
func setUp(
	i cache.SharedIndexInformer, what string, transform cache.TransformFunc,
	handlers cache.ResourceEventHandler,
) (listed cache.ResourceEventHandlerRegistration, err error) {
	if err = i.SetTransform(transform); err == nil {
		listed, err = i.AddEventHandler(handlers)
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", what, err)
	}
	return listed, nil
}

// deleted returns the object of a delete event, which may be the last known state of it.
func deleted[T any](obj any) (T, bool) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	object, ok := obj.(T)
	return object, ok
}

// NodeChanged has the drain of the node, if there is one, decide again: whether the Node is still the one that it
// drains, and whether a kubelet ends its pods.
func (d *Drainer) NodeChanged(node string) { d.volumes.wake(node) }

// Synced reports whether every PodDisruptionBudget and VolumeAttachment has been listed once.
func (d *Drainer) Synced() bool {
	return d.pdbs.listed.HasSynced() && (d.policy.VolumeTimeout == 0 || d.volumes.listed.HasSynced())
}

// Drain empties a node. It returns when a fresh list shows that no pod is left that must leave, or that those that are
// left at the deadline may be left; and 25 s after the deadline at the latest, or after the last grace period
// that it has granted before the deadline. An eviction that is in flight then, or when ctx ends, has a second more. The
// report names the pods that are left. If the API server does not answer then, these are the pods that the watch has
// shown last. The error is ErrReplaced, the cause of ctx's end, or that the target has no deadline. With the first two
// the report has what the drain did until then.
func (d *Drainer) Drain(ctx context.Context, t Target) (Report, error) {
	report, err := d.drain(ctx, t)
	d.observer.DrainEnded(t, report.result(err))
	return report, err
}

func (d *Drainer) drain(ctx context.Context, t Target) (Report, error) {
	r, err := newRun(d, t)
	if err != nil {
		return Report{}, err
	}
	requests, cancel := context.WithCancel(ctx)
	stop := sync.OnceFunc(func() { r.stop(cancel) })
	defer stop()
	if err := r.begin(ctx); err != nil {
		return Report{}, err
	}
	for {
		if r.isReplaced() {
			stop()
			report := r.interrupted()
			report.Lost, report.Unverified = true, true
			return report, ErrReplaced
		}
		records := r.pods.list()
		r.owners.retain(records)
		step := r.decide(ctx, records)
		if t.DryRun {
			r.progress.report(step, r.removals.total(), r.expectedEnd())
			return r.report(Step{}), nil
		}
		r.act(requests, step)
		r.wakeBy(r.progress.report(step, r.removals.total(), r.expectedEnd()))
		if r.needsRelist(step) {
			switch verified, err := r.relist(ctx); {
			case err == nil && verified.Done:
				return r.report(verified), nil
			case err != nil && r.endsUnverified(ctx):
				report := r.report(step)
				report.Unverified = true
				return report, nil
			}
			continue // the watch was wrong, the API server did not answer, or the Node was replaced
		}
		r.wakeBy(r.end()) // also if a request has no answer
		if err := r.wait(ctx, step.Again); err != nil {
			stop() // what the evictions in flight do counts
			return r.interrupted(), err
		}
	}
}
