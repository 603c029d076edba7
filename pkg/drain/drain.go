// Package drain empties a Kubernetes node before a deadline: within the disruption budgets as long as there
// is time, and past them, if the policy says so, when there is no more.
package drain

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
)

// evictionsAtOnce bounds the evictions under way in the whole cluster. Pods that wait take no part of it.
const evictionsAtOnce = 100

// Drainer drains nodes. Make it with New, and Run it.
type Drainer struct {
	client   kubernetes.Interface
	cfg      Config
	policy   Policy
	rules    rules
	observer Observer
	remover  remover
	ledger   *pdbTracker
	volumes  *volumes
	slots    chan struct{}
}

// New returns a Drainer that reads from and writes to client. The client should have no rate limit of its
// own: the API server knows better what it can take.
func New(client kubernetes.Interface, cfg Config, around Environment, observer Observer) (*Drainer, error) {
	if around.Unreachable == nil {
		around.Unreachable = func(string) bool { return false }
	}
	d := &Drainer{
		client: client, cfg: cfg, policy: cfg.policy(), observer: observer, remover: remover{client},
		slots: make(chan struct{}, evictionsAtOnce),
	}
	var err error
	if d.rules, err = newRules(cfg, around); err != nil {
		return nil, err
	}
	if d.ledger, err = newPDBTracker(client); err != nil {
		return nil, err
	}
	if cfg.VolumeTimeout > 0 {
		d.volumes, err = newVolumes(client)
	}
	return d, err
}

func (c Config) policy() Policy {
	p := Policy{
		Force: c.AtDeadline == Delete, ForceSpacing: c.ForceSpacing, ForceUnhealthy: c.ForceUnhealthy,
		StuckAfter: c.StuckAfter, Settle: c.Settle, LoadBalancerWait: c.LoadBalancerWait,
		VolumeTimeout: c.VolumeTimeout,
	}
	tiers, _ := parseTiers(c.Tiers) // Validate has told of a mistake
	for _, t := range tiers {
		p.Tiers = append(p.Tiers, t.Bound)
	}
	return p
}

// Run watches the cluster's PodDisruptionBudgets and VolumeAttachments until ctx ends.
func (d *Drainer) Run(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error { d.ledger.informer.RunWithContext(ctx); return nil })
	if d.volumes != nil {
		g.Go(func() error { d.volumes.informer.RunWithContext(ctx); return nil })
	}
	_ = g.Wait()
}

// Synced tells whether every PodDisruptionBudget and VolumeAttachment has been seen once.
func (d *Drainer) Synced() bool {
	return d.ledger.seen.HasSynced() && (d.volumes == nil || d.volumes.seen.HasSynced())
}

// Drain empties a node. It returns when a fresh list shows that no pod is left that had to leave, or, at the
// deadline, with those that are left in the report. An API server that does not answer is asked again for as
// long as ctx lasts. The error is the cause of ctx's end.
func (d *Drainer) Drain(ctx context.Context, t Target) (Report, error) {
	report, err := d.drain(ctx, t)
	d.observer.DrainEnded(t, report.result(err))
	return report, err
}

func (d *Drainer) drain(ctx context.Context, t Target) (Report, error) {
	r, err := d.begin(ctx, t)
	if err != nil {
		return Report{}, err
	}
	defer r.end()
	for {
		step := r.decide(ctx, r.watched())
		if t.DryRun {
			r.tell(step)
			return r.report(Step{}), nil
		}
		r.act(ctx, step)
		r.tell(step)
		if r.doubtful(step) {
			if proof, ok := r.prove(ctx); ok && proof.Done {
				return r.report(proof), nil
			}
			continue // what is to be done has changed, or there was no answer
		}
		if err := r.wait(ctx, step.Again); err != nil {
			return Report{}, err
		}
	}
}
