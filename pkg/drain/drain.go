// Package drain empties a Kubernetes node before a deadline: within the disruption budgets as long as there
// is time, and past them, if the policy says so, when there is no more.
package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
)

// What becomes of pods whose budget still holds them when the deadline comes near.
const (
	Delete = "delete" // delete them, with the grace that is left
	Leave  = "leave"  // let the instance go with them
)

// Config is what a user can set, by environment variables that begin with DRAIN_.
type Config struct {
	Timeout    time.Duration `env:"TIMEOUT" envDefault:"1h" help:"Longest time that a drain may take, from the moment the node is taken out of service. The hook's global timeout (100 times its HeartbeatTimeout, 48h at most) bounds it as well."`
	AtDeadline string        `env:"AT_DEADLINE" envDefault:"delete" help:"What becomes of pods that their PodDisruptionBudget still holds when their termination grace period must begin to end by the deadline: delete (with the grace that is left, never below 1s) or leave (the instance goes with them)."`
	Settle     time.Duration `env:"SETTLE" envDefault:"5s" help:"Shortest time between the taint and the end of a drain. The scheduler may bind a pod to the node before it sees the taint."`
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Timeout < time.Second || c.Timeout > 48*time.Hour {
		errs = append(errs, fmt.Errorf(
			"DRAIN_TIMEOUT is %v: must be from 1s to 48h, the longest that a hook can hold", c.Timeout))
	}
	if c.AtDeadline != Delete && c.AtDeadline != Leave {
		errs = append(errs, fmt.Errorf("DRAIN_AT_DEADLINE is %q: must be delete or leave", c.AtDeadline))
	}
	if c.Settle < 0 || c.Settle > time.Minute {
		errs = append(errs, fmt.Errorf("DRAIN_SETTLE is %v: must be from 0s to 1m", c.Settle))
	}
	return errors.Join(errs...)
}

// Observer is told what happens to pods. Its methods are called from several goroutines and must not block.
type Observer interface {
	DrainProgressed(p Progress)
	PodEvicted(node string, p Pod)
	PodBlocked(node string, p Pod, why string) // once for each reason
	PodForced(node string, p Pod, grace time.Duration)
	KubernetesFailed(operation string, err error) // the call is tried again
}

// Progress is how far a drain is. It is told whenever one of its numbers changes.
type Progress struct {
	Node    string
	Total   int // pods that had, or have, to leave
	Left    int
	Blocked int // of those left, held by a PodDisruptionBudget
}

// Report is what a drain came to.
type Report struct {
	Total  int      // pods that had to leave
	Forced int      // of those, deleted past their budget
	Left   []string // NAMESPACE/NAME of the pods that were still there at the deadline
	Took   time.Duration
}

// evictionsAtOnce bounds the evictions under way in the whole cluster. Pods that wait take no part of it.
const evictionsAtOnce = 100

// Drainer drains nodes. Make it with New, and Run it.
type Drainer struct {
	client   kubernetes.Interface
	cfg      Config
	observer Observer
	budgets  *budgets
	slots    chan struct{}
}

// New returns a Drainer that reads from and writes to client. The client should have no rate limit of its
// own: the API server knows better what it can take.
func New(client kubernetes.Interface, cfg Config, observer Observer) (*Drainer, error) {
	b, err := newBudgets(client)
	if err != nil {
		return nil, err
	}
	return &Drainer{client, cfg, observer, b, make(chan struct{}, evictionsAtOnce)}, nil
}

// Run watches the cluster's PodDisruptionBudgets until ctx ends.
func (d *Drainer) Run(ctx context.Context) { d.budgets.informer.RunWithContext(ctx) }

// Synced tells whether every PodDisruptionBudget has been seen once.
func (d *Drainer) Synced() bool { return d.budgets.seen.HasSynced() }

// Deadline returns the instant by which a node that was taken out of service at since must be empty, as
// configured.
func (d *Drainer) Deadline(since time.Time) time.Time { return since.Add(d.cfg.Timeout) }

// Drain empties the node, which was taken out of service at since. It returns when a fresh list shows that no
// pod is left that had to leave, or, at the deadline, with those that are left in the report. An API server
// that does not answer is asked again for as long as ctx lasts. The error is the cause of ctx's end.
func (d *Drainer) Drain(ctx context.Context, node string, since, deadline time.Time) (Report, error) {
	r, err := d.begin(ctx, node, since, deadline)
	if err != nil {
		return Report{}, err
	}
	defer r.end()
	for {
		step := Decide(r.state(), time.Now(), deadline, Policy{Force: d.cfg.AtDeadline == Delete})
		r.act(ctx, step)
		r.tell(step)
		if step.Done {
			if done, report := r.prove(ctx, step); done {
				return report, nil
			}
		}
		if err := r.wait(ctx, step.Again); err != nil {
			return Report{}, err
		}
	}
}
