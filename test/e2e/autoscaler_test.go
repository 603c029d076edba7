//go:build e2e

package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	autoscalerName   = "cluster-autoscaler"
	pausedAnnotation = "node-drainer.io/paused"
)

func (f *fixture) autoscaler() *appsv1.Deployment {
	f.t.Helper()
	d, err := f.cluster.Client().AppsV1().Deployments(f.namespace).Get(f.ctx, autoscalerName, metav1.GetOptions{})
	f.must(err)
	return d
}

// TestPauseAutoscaler: the agent resumes an autoscaler whose trigger was killed. A trigger pauses it during its rollout,
// and resumes it. Both may change this Deployment.
func TestPauseAutoscaler(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(2))
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
		Namespace: f.namespace, Name: autoscalerName, Pods: cluster.Pods{Pool: f.namespace},
	}))
	_, err := f.cluster.Client().AppsV1().Deployments(f.namespace).Patch(f.ctx, autoscalerName, types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"`+pausedAnnotation+`": "2 ci-1/42 2026-01-01T00:00:00Z"}}}`), metav1.PatchOptions{})
	f.must(err)
	name := f.namespace + "/" + autoscalerName
	f.trigger("plan", "--asg", group, "--pause-autoscaler", name).
		waitExit(0, `ci-1/42 +2026-01-01T00:00:00Z +Cluster Autoscaler .*cluster-autoscaler scaled from 2 to 0 replicas`)
	agent := f.startAgent("RESYNC_INTERVAL=1s", "AUTOSCALER_DEPLOYMENT="+name)
	agent.waitLog("resumed the Cluster Autoscaler", "owner", "ci-1/42")
	if d := f.autoscaler(); *d.Spec.Replicas != 2 || d.Annotations[pausedAnnotation] != "" {
		t.Errorf("the agent left %d replicas and %v", *d.Spec.Replicas, d.Annotations)
	}
	f.outdate()
	f.trigger("--asg", group, "--pause-autoscaler", name).
		waitExit(0, `is paused: scaled from 2 to 0 replicas`, `is resumed`, `2 instances replaced`)
	if d := f.autoscaler(); *d.Spec.Replicas != 2 || d.Annotations[pausedAnnotation] != "" || d.Generation < 4 {
		t.Errorf("the trigger left %d replicas and %v, generation %d", *d.Spec.Replicas, d.Annotations, d.Generation)
	}
}
