package drain

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// expectPods compares what became of pods, whose time is the time since the start of the test.
func (c *cluster) expectPods(got []PodReport, want ...PodReport) {
	c.t.Helper()
	at := func(report PodReport) time.Duration {
		if report.At.IsZero() {
			return 0
		}
		return report.At.Sub(c.since).Round(time.Second)
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty(), gocmp.Comparer(func(a, b PodReport) bool {
		times := at(a) == at(b)
		a.At, b.At = time.Time{}, time.Time{}
		return times && gocmp.Equal(a, b, cmpopts.EquateEmpty())
	})); diff != "" {
		c.t.Error(diff)
	}
}

// after returns the instant so long after the start of the test.
func (c *cluster) after(d time.Duration) time.Time { return c.since.Add(d) }

// kill has somebody else remove a pod.
func (c *cluster) kill(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminate(c.pods[types.NamespacedName{Namespace: "x", Name: name}], new(int64(0)))
}

// TestPodReports: a report says of each pod when and how it left, and whether its budget was kept; or why it is left.
func TestPodReports(t *testing.T) {
	budget := []string{"x/b"}
	start := func(t *testing.T, at string) (*cluster, func() (Report, error)) {
		t.Helper()
		c := newCluster(t, runningPod("blocked"), newPDB(0))
		c.addPod("n", "free", "")
		c.addPod("n", "killed", "web")
		c.start(withConfig(func(c *Config) { c.AtDeadline, c.Settle = at, 0 }))
		wait := c.drain("n", time.Minute)
		elapse(20 * time.Second)
		c.kill("killed")
		return c, wait
	}
	virtual(t, Delete, func(t *testing.T) {
		c, wait := start(t, Delete)
		report, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		c.expectPods(report.Pods,
			PodReport{Name: "x/free", How: Evicted},
			PodReport{Name: "x/killed", How: Ended, At: c.after(20 * time.Second), Budgets: budget},
			PodReport{Name: "x/blocked", How: Deleted, At: c.after(50 * time.Second), Reason: AtDeadline, Budgets: budget})
		if report.Pods[2].BudgetsKept() || !report.Pods[0].BudgetsKept() {
			t.Error("the budget of the pod that was deleted was kept, or that of the other was not")
		}
	})
	virtual(t, Leave, func(t *testing.T) {
		c, wait := start(t, Leave)
		report, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		c.expectPods(report.Pods,
			PodReport{Name: "x/blocked", Budgets: budget, Left: BlockedByBudget},
			PodReport{Name: "x/free", How: Evicted},
			PodReport{Name: "x/killed", How: Ended, At: c.after(20 * time.Second), Budgets: budget})
	})
	virtual(t, "canceled", func(t *testing.T) {
		c, wait := start(t, Delete)
		cause := errors.New("leaving")
		c.cancel(cause)
		report, err := wait()
		if !errors.Is(err, cause) {
			t.Fatal(err)
		}
		c.expectPods(report.Pods, PodReport{Name: "x/free", How: Evicted})
	})
}

// TestPodReportOfATerminatingPod: a pod that was evicted, and has not ended, is both evicted and left.
func TestPodReportOfATerminatingPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.podsNeverEnd = true
		c.addPod("n", "a", "")
		c.start(withConfig(func(c *Config) { c.AtDeadline = Leave }))
		report, err := c.drain("n", time.Minute)()
		if err != nil {
			t.Fatal(err)
		}
		c.expectPods(report.Pods, PodReport{Name: "x/a", How: Evicted, At: c.since, Left: Terminating})
	})
}

// TestPodReportOfARestart: a pod that a rolling restart has replaced did not end by itself.
func TestPodReportOfARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := startRestarting(t, func(p *corev1.Pod) { p.Annotations[DrainAnnotation] = handover.Restart },
			func(*Config) {}, rolls)
		report, err := c.drain("n", 10*time.Minute)()
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Pods) != 1 || report.Pods[0].How != Restarted {
			t.Errorf("got %+v", report.Pods)
		}
	})
}

// TestPodReportOfControls: a report says what a person asked of the drain.
func TestPodReportOfControls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults, runningPod("a"), newPDB(0))
		wait := c.drainTarget(context.WithoutCancel(c.ctx), c.target("n", time.Hour))
		elapse(time.Minute)
		c.control.Store(&Controls{EndNow: true})
		c.drainer.NodeChanged("n")
		report, err := wait()
		if err != nil || !report.Controls.EndNow {
			t.Fatalf("got %+v, %v", report, err)
		}
		c.expectPods(report.Pods, PodReport{Name: "x/a", Budgets: []string{"x/b"}, Left: BlockedByBudget})
	})
}
