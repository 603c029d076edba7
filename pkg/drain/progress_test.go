package drain

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitCountString(t *testing.T) {
	for _, tt := range []struct {
		hold WaitCount
		want string
	}{
		{WaitCount{Reason: BlockedByBudget, Budget: "x/b", Pods: 3}, "3 wait for PodDisruptionBudget x/b"},
		{WaitCount{Reason: Misconfigured, Budget: "x/b", Pods: 1}, "1 wait for PodDisruptionBudget x/b, which never allows a disruption"},
		{WaitCount{Reason: RefusedByWebhook, Webhook: "guard", Pods: 2}, "2 wait for admission webhook guard"},
		{WaitCount{Reason: OptedOut, Pods: 2}, "2 have an annotation against eviction"},
		{WaitCount{Reason: WaitedFor, Pods: 2}, "2 may run until they finish"},
		{WaitCount{Reason: EvictionDelayed, Pods: 2}, "2 are evicted when DRAIN_EVICTION_DELAY has passed"},
		{WaitCount{Reason: Held, Pods: 2}, "2 are held until the time that an annotation of the Node names"},
		{WaitCount{Reason: LaterTier, Pods: 2}, "2 are in a later tier"},
		{WaitCount{Reason: HandingOver, Pods: 2}, "2 hand over their leadership first"},
		{WaitCount{Reason: GroupBehind, Pods: 2}, "2 wait for other members of their group"},
		{WaitCount{Reason: Restarting, Pods: 2}, "2 wait for a rolling restart to replace them"},
		{WaitCount{Reason: BackingOff, Pods: 2}, "2 wait for the API server"},
		{WaitCount{Reason: VolumesAttached, Pods: 2}, "2 volumes are still attached"},
		{WaitCount{Reason: SchedulerBehind, Pods: 1}, "waiting for the scheduler, which bound pods to cordoned nodes"},
		{WaitCount{Reason: Deregistering, Pods: 1}, "waiting for load balancers to deregister the node"},
	} {
		if got := tt.hold.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.hold.Reason, got, tt.want)
		}
		if !slices.Contains(WaitReasons(), tt.hold.Reason) {
			t.Errorf("%s is not listed", tt.hold.Reason)
		}
	}
	if n := len(WaitReasons()); n != 15 {
		t.Errorf("%d reasons are listed, and 15 are tested", n)
	}
	if got := strings.Join(Results(), " "); got != "drained by-force left-behind node-lost interrupted" {
		t.Errorf("results: %s", got)
	}
	if got := strings.Join(ForceReasons(), " "); got != "deadline unhealthy others-left" {
		t.Errorf("reasons to force: %s", got)
	}
}

// TestProgressSaysWhenPodsAreForced: the progress has the time at which the first pod that a budget blocks is deleted,
// with its grace period before the deadline, and at which it is left if the policy says so. It follows the deadline.
func TestProgressSaysWhenPodsAreForced(t *testing.T) {
	for name, tt := range map[string]struct {
		policy string
		grace  time.Duration
	}{"deleted": {Delete, 10 * time.Second}, "left": {Leave, 0}} {
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t, runningPod("a"), newPDB(0))
			cfg := defaults
			cfg.AtDeadline = tt.policy
			c.start(cfg)
			deadlines, target := make(chan time.Time, 1), c.target("n", time.Hour)
			target.Tighter = deadlines
			wait := c.drainTarget(c.ctx, target)
			for _, timeout := range []time.Duration{time.Hour, 30 * time.Minute} {
				deadlines <- c.since.Add(timeout)
				elapse(10 * time.Second)
				if at := c.progress("n").ForcedAt; !at.Equal(c.since.Add(timeout - tt.grace)) {
					t.Errorf("forced after %v, want %v", at.Sub(c.since), timeout-tt.grace)
				}
			}
			_, _ = wait()
			if at := c.progress("n").ForcedAt; tt.policy == Delete && !at.IsZero() {
				t.Errorf("forced after %v, although no pod waits", at.Sub(c.since))
			}
		})
	}
}

// TestProgressOfPodsThatWaitByTurns: what changes to and fro is reported less and less often, and at once again when a pod
// has left, or after a while without a change.
func TestProgressOfPodsThatWaitByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := recorder{last: map[string]Progress{}}
		p := progressReporter{
			observer: &all, target: func() Target { return Target{Name: "n", Deadline: time.Now().Truncate(24 * time.Hour)} },
			policy: Policy{Config: defaults}, waits: map[string]*podWait{}, before: map[string]WaitCount{},
		}
		pod := Pod{UID: "a"}
		report := func(reason WaitReason, left ...Pod) {
			p.report(Step{Left: left, Wait: []Waiting{{Pod: pod, Reason: reason}}}, 2, time.Time{})
			time.Sleep(2 * time.Second)
		}
		for range 10 * 60 / 4 {
			report(GroupBehind, pod)
			report(BackingOff, pod)
		}
		if n := all.countRecords("1 of 2 left"); n < 10 || n > 20 {
			t.Errorf("%d reports in ten minutes", n)
		}
		report(GroupBehind, pod, Pod{UID: "b"})
		report(BackingOff, pod)
		if n := all.countRecords("2 of 2 left"); n != 1 {
			t.Errorf("%d reports after another pod has come", n)
		}
		time.Sleep(2 * waitsInterval)
		before := len(all.log)
		report(GroupBehind, pod)
		report(BackingOff, pod)
		if n := len(all.log) - before; n != 2 {
			t.Errorf("%d reports of two changes after a while", n)
		}
	})
}
