//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// restarted asks for a rolling restart instead of an eviction.
var restarted = map[string]string{handover.DrainAnnotation: handover.Restart}

// TestRollingRestart: Deployments with one replica, each with a budget that never allows an eviction, always have a Ready
// pod while their node is drained. Each is restarted once.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pods cluster.Pods
		env  []string
	}{
		"by annotation":      {pods: cluster.Pods{Annotations: restarted}},
		"as single replicas": {env: []string{"DRAIN_SINGLE_REPLICAS=restart"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			f.node()
			var lowest []func() int
			for i := range 30 {
				name := fmt.Sprintf("web-%d", i)
				f.deploy(name, old, 1, tt.pods)
				f.must(f.cluster.MinAvailable(f.ctx, f.namespace, name, "1"))
				lowest = append(lowest, f.watchReady(name))
			}
			agent := f.startAgent(tt.env...)
			f.terminate(instance)
			f.waitHandled(instance)
			for i, least := range lowest {
				if n := least(); n < 1 {
					t.Errorf("Deployment %d had no Ready pod for a while", i)
				}
			}
			if n := f.restarts(); n != 30 {
				t.Errorf("Deployments were patched %d times, want once each", n)
			}
			if len(f.evicted()) > 0 {
				t.Errorf("evicted %q", f.evicted())
			}
			agent.assertHealthy()
		})
	}
}

// TestRollingRestartOfPodsOnTwoNodes: the pods of one Deployment, on two nodes that are drained at once, cause one restart.
func TestRollingRestartOfPodsOnTwoNodes(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	_, first := f.node()
	_, second := f.node()
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
		Namespace: f.namespace, Name: "web", Replicas: 2, Pods: cluster.Pods{
			Pool: f.namespace, Annotations: restarted, Change: func(template *corev1.PodTemplateSpec) {
				template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{cluster.AppLabel: "web"}},
					MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
				}}
			},
		},
	}))
	f.waitPodsReady("web", 2)
	f.node()
	f.node()
	lowest := f.watchReady("web")
	f.startAgent()
	f.terminate(first)
	f.terminate(second)
	f.waitHandled(first)
	f.waitHandled(second)
	if n := f.restarts(); n != 1 || lowest() < 2 {
		t.Errorf("the Deployment was patched %d times, and %d of its 2 pods were Ready", n, lowest())
	}
}

// restarts returns how often the agent has restarted a Deployment. Of two requests at once one conflicts.
func (f *fixture) restarts() (n int) {
	for _, r := range f.requests("patch", "deployments") {
		if r.Code == http.StatusOK {
			n++
		}
	}
	return n
}

// TestRollingRestartThatFails: a new pod that is never Ready leaves the old one alone until the deadline.
func TestRollingRestartThatFails(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	f.mayKill = true
	old, instance := f.node()
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{Namespace: f.namespace, Name: "web", Replicas: 1, Pods: cluster.Pods{
		Annotations: restarted, Node: old, GracePeriod: 2 * time.Second,
	}}))
	f.waitPodsReady("web", 1)
	pod := f.podsOf("web")[0]
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "web", "1"))
	agent := f.startAgent("DRAIN_TIMEOUT=20s")
	begun := time.Now()
	f.terminate(instance)
	agent.waitLog("pod deleted at the deadline", "pod", f.namespace+"/"+pod)
	if took := time.Since(begun); took < 10*time.Second {
		t.Errorf("the pod was deleted after %v, want not before its latest deletion", took)
	}
	f.waitHandled(instance)
}
