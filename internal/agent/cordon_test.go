package agent_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// witness notes what is to be drained.
type witness struct {
	*world
	target drain.Target
}

func (w *witness) Drain(ctx context.Context, t drain.Target) (drain.Report, error) {
	w.target = t
	return w.world.Drain(ctx, t)
}

// TestDrainAfterACordon: on a node that was cordoned hours ago, budgets and tiers have their part of the drain's own
// time, as on any other. The marks are those that a real Node bears.
func TestDrainAfterACordon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, err := node.New(fake.NewClientset(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "uid-1"},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/" + instance},
		}), node.Config{TaintKey: "node-drainer.io/terminating", TaintEffect: "NoSchedule", Cordon: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go nodes.Run(ctx)
		synctest.Wait()

		w := &witness{world: newWorld()}
		w.cfg.Events.ScheduledChange = event.Cordon
		a := agent.New(w.cfg, w, w, nodes, w, w, w)
		if err := a.Handle(ctx, w.health("upcoming", instance)); err != nil {
			t.Error(err)
		}
		w.wantOutcome(t, agent.Cordoned)
		time.Sleep(5 * time.Hour)
		began := time.Now()
		if err := a.Handle(ctx, message("drain", began)); err != nil {
			t.Error(err)
		}

		step := func(after time.Duration) drain.Step {
			held := drain.Pod{Name: "db", Ready: true, Grace: 24 * time.Hour, Budgets: []string{"db"}, Tier: 1}
			state := drain.State{
				Since: w.target.Since, Pods: []drain.Pod{held, {Name: "web", Ready: true}},
				Budgets: map[string]drain.Budget{"db": {Healthy: 1, Desired: 1, Expected: 1}},
			}
			policy := drain.Policy{Force: true, Tiers: []time.Duration{20 * time.Minute}}
			return drain.Decide(state, began.Add(after), w.target.Deadline, policy)
		}
		half := w.target.Deadline.Sub(began) / 2
		for _, tt := range []struct {
			after        time.Duration
			waits, force bool
		}{
			{after: 20*time.Minute - 2*time.Second, waits: true},
			{after: 20 * time.Minute},
			{after: half - 2*time.Second},
			{after: half, force: true},
		} {
			got := step(tt.after)
			waits := slices.ContainsFunc(got.Wait, func(w drain.Waiting) bool { return w.Reason == drain.LaterTier })
			if force := len(got.Delete) > 0; waits != tt.waits || force != tt.force {
				t.Errorf("after %v: waits for its tier: %v, is forced: %v", tt.after, waits, force)
			}
		}
	})
}
