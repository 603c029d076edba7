package drain

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain also has client-go make no pauses that depend on the real time of errors in other tests.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// virtual runs a subtest in virtual time.
func virtual(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// target is a node to drain within the timeout.
func (c *cluster) target(node string, timeout time.Duration) Target {
	return Target{Name: node, UID: "uid-" + node, Since: time.Now(), Deadline: time.Now().Add(timeout)}
}

// drain starts the drain of a node, and returns a function that waits for its end.
func (c *cluster) drain(node string, timeout time.Duration) func() (Report, error) {
	return c.drainTarget(c.ctx, c.target(node, timeout))
}

func (c *cluster) drainTarget(ctx context.Context, t Target) (wait func() (Report, error)) {
	var report Report
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = c.drainer.Drain(ctx, t)
	}()
	return func() (Report, error) {
		<-done
		return report, err
	}
}

// expectDrained checks the end of a drain after which total pods have left, none of them by force.
func (c *cluster) expectDrained(wait func() (Report, error), total int) Report {
	c.t.Helper()
	report, err := wait()
	if err != nil || report.Total != total || len(report.Left)+report.Forced > 0 {
		c.t.Errorf("got %+v, %v, want %d pods, none left and none forced", report, err, total)
	}
	return report
}

// requestLog returns the requests about pods so far, as VERB NODE/POD, in order.
func (c *cluster) requestLog() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		what := r.verb + " " + r.node + "/" + r.pod
		if r.grace != nil {
			what += fmt.Sprintf(" in %ds", *r.grace)
		}
		if r.err != nil {
			what += " refused"
		}
		all = append(all, what)
	}
	return all
}

func (c *cluster) expectRequests(want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.requestLog()); diff != "" {
		c.t.Errorf("evictions and deletions (-want +got):\n%s", diff)
	}
}

// elapse lets virtual time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func runningPod(name string) *corev1.Pod {
	seconds := int64(10)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "x", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &seconds},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
}

// newPDB is a PodDisruptionBudget over three pods that asks for two of them.
func newPDB(allowed int32) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			DisruptionsAllowed: allowed, CurrentHealthy: 2 + allowed, DesiredHealthy: 2, ExpectedPods: 3,
		},
	}
}

// ourTaint is the taint of a node that is being drained.
var ourTaint = corev1.Taint{Key: "node-drainer.io/terminating", Effect: corev1.TaintEffectNoSchedule}

// defaults is the default configuration, except that drains do not wait for volumes.
var defaults = Config{
	Timeout: time.Hour, AtDeadline: Delete, Tiers: "0,2000000000,2000001000", BarePods: Evict, EmptyDirPods: Evict,
	ForceSpacing: 30 * time.Second, StuckAfter: 5 * time.Minute, Settle: 5 * time.Second, BlockedAfter: time.Minute,
	AnnotationTimeout: 48 * time.Hour,
}

// withConfig returns the usual configuration with a change.
func withConfig(change func(*Config)) Config {
	c := defaults
	change(&c)
	return c
}
