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
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	handled := func(after time.Duration) func(*fixture) queue.Message {
		return func(f *fixture) queue.Message { return message("drain", f.start.Add(after)) }
	}
	sent := func(at func(*fixture) time.Time) func(*fixture) queue.Message {
		return func(f *fixture) queue.Message {
			return queue.Message{ID: "m", Body: body("drain", ""), SentAt: at(f)}
		}
	}
	for _, tt := range []struct {
		name    string
		given   func(f *fixture)
		message func(f *fixture) queue.Message
		want    string
	}{
		{
			"the hook's, counted from the event, is the earliest",
			func(f *fixture) { f.timeout["drain"] = 50 * m }, handled(-10 * m), "40m0s",
		},
		{
			"the configured one, counted from now, is the earliest",
			func(f *fixture) { f.timeout["drain"] = 120 * m }, handled(-10 * m), "1h0m0s",
		},
		{
			"an event without a time counts from when it was sent",
			func(f *fixture) { f.timeout["drain"] = 10 * m }, sent(func(f *fixture) time.Time { return f.start.Add(-5 * m) }), "5m0s",
		},
		{
			"an event without any time counts from now",
			func(f *fixture) { f.timeout["drain"] = 10 * m }, sent(func(*fixture) time.Time { return time.Time{} }), "10m0s",
		},
		{
			"a node that an earlier process has cordoned keeps its deadline",
			func(f *fixture) {
				f.node.Mark = node.Mark{InstanceID: instance, Since: f.start.Add(-m), Deadline: f.start.Add(20 * m)}
			},
			handled(0), "20m0s",
		},
		{
			"a node that is not Ready, on a terminated instance, has no time",
			func(f *fixture) { f.node.Ready, f.ec2 = false, describes(ec2.Instance{State: "terminated"}) }, handled(0), "0s",
		},
		{
			"a node that is not Ready, on a running instance, has all the time",
			func(f *fixture) { f.node.Ready = false }, handled(0), "1h0m0s",
		},
		{
			"EC2 is not asked about a node that is Ready",
			func(f *fixture) { f.ec2 = describes(ec2.Instance{State: "terminated"}) }, handled(0), "1h0m0s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				tt.given(f)
				if err := f.agent().Handle(t.Context(), tt.message(f)); err != nil {
					t.Error(err)
				}
				if got := f.did("drain"); len(got) != 1 || got[0] != "drain node-1 until "+tt.want {
					t.Errorf("drained as %q, want one until %s", got, tt.want)
				}
			})
		})
	}
}

func TestRegistrationTimeoutCountsFromTheEvent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ event, want time.Duration }{
		"an event of now":                                 {0, 5 * time.Minute},
		"an event of two minutes ago":                     {-2 * time.Minute, 3 * time.Minute},
		"an event of an hour ago":                         {-time.Hour, 0},
		"an event of the year after next counts from now": {2 * 365 * 24 * time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				f.registers = 100 * 365 * 24 * time.Hour
				if err := f.agent().Handle(t.Context(), message("drain", f.start.Add(tt.event))); err != nil {
					t.Error(err)
				}
				f.wantOutcome(t, agent.Unregistered)
				if f.after() != tt.want || f.observed("awaited") != 1 {
					t.Errorf("awaited for %v, want %v", f.after(), tt.want)
				}
			})
		})
	}
}

// targetRecorder keeps the last target of a drain.
type targetRecorder struct {
	drainer
	target drain.Target
}

func (r *targetRecorder) Drain(ctx context.Context, t drain.Target) (drain.Report, error) {
	r.target = t
	return r.drainer.Drain(ctx, t)
}

// TestDrainOfACordonedNode: the tiers and the force-delete deadline of a node that was cordoned hours before count from
// the drain. The marks are those of a real Node.
func TestDrainOfACordonedNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clusterNodes, err := node.New(fake.NewClientset(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "uid-1"},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/" + instance},
		}), node.Config{TaintKey: "node-drainer.io/terminating", TaintEffect: "NoSchedule", Cordon: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go clusterNodes.Run(ctx)
		synctest.Wait()

		f := newFixture()
		r := &targetRecorder{drainer: drainer{f}}
		f.cfg.Events.ScheduledChange = event.Cordon
		a := agent.New(f.cfg, autoScaling{f}, instances{f}, clusterNodes, r, launches{f}, observer{f})
		if err := a.Handle(ctx, health(f, "upcoming", instance)); err != nil {
			t.Error(err)
		}
		f.wantOutcome(t, agent.Cordoned)
		time.Sleep(5 * time.Hour)
		start := time.Now()
		if err := a.Handle(ctx, message("drain", start)); err != nil {
			t.Error(err)
		}

		blocked := drain.Pod{Name: "db", Ready: true, Grace: 24 * time.Hour, Budgets: []string{"db"}, Tier: 1}
		state := drain.State{
			Since: r.target.Since, Pods: []drain.Pod{blocked, {Name: "web", Ready: true}},
			Budgets: map[string]drain.Budget{"db": {Healthy: 1, Desired: 1, Expected: 1}},
		}
		tiers := []drain.Tier{{Bound: 20 * time.Minute}}
		policy := drain.Policy{Config: drain.Config{AtDeadline: drain.Delete}, TierList: tiers}
		half := r.target.Deadline.Sub(start) / 2
		for _, tt := range []struct {
			after         time.Duration
			waits, forced bool
		}{
			{after: 20*time.Minute - 2*time.Second, waits: true},
			{after: 20 * time.Minute},
			{after: half - 2*time.Second},
			{after: half, forced: true},
		} {
			got := drain.Decide(state, start.Add(tt.after), r.target.Deadline, policy)
			waits := slices.ContainsFunc(got.Wait, func(w drain.Waiting) bool { return w.Reason == drain.LaterTier })
			if forced := len(got.Delete) > 0; waits != tt.waits || forced != tt.forced {
				t.Errorf("after %v: waits for its tier: %v, forced: %v", tt.after, waits, forced)
			}
		}
	})
}
