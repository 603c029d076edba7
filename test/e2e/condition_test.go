//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const drainedType = "node-drainer.io/Drained"

// condition returns the node's condition of ours; nil if it has none.
func condition(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == drainedType {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// TestConditionSaysWhy: a node that a budget keeps from being drained says which, until it is drained, and so does
// trigger nodes.
func TestConditionSaysWhy(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "1"))
	completing := f.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"}) // then the Node would go
	f.startAgent()

	// There is no other node: one pod of the two has no place to go, and the budget holds the other.
	began := time.Now()
	f.terminate(instance)
	why := "wait for PodDisruptionBudget " + f.namespace + "/api"
	var blocked corev1.NodeCondition
	f.waitNode(old, func(n *corev1.Node) bool {
		c := condition(n)
		if c == nil || !strings.Contains(c.Message, why) {
			return false
		}
		blocked = *c
		return true
	})
	if blocked.Status != corev1.ConditionFalse || blocked.Reason != "Blocked" {
		t.Errorf("the node shows %+v", blocked)
	}
	description, err := f.cluster.Kubectl(f.ctx, "describe", "node", old)
	f.must(err)
	_, line, _ := strings.Cut(description, drainedType)
	line, _, _ = strings.Cut(line, "\n")
	if !strings.Contains(line, "False") || !strings.Contains(line, "Blocked") || !strings.Contains(line, why) {
		t.Errorf("kubectl describe node says %q of it, want %q", line, why)
	}
	f.triggerNodes(nil, `(?m)^`+old+` +`+instance+` +lifecycle-terminating +\S+ ago +\S+ left +[12] .* `+why)

	f.node()
	var drained corev1.NodeCondition
	f.waitNode(old, func(n *corev1.Node) bool {
		drained = *condition(n)
		return drained.Status == corev1.ConditionTrue
	})
	f.triggerNodes([]string{"-o", "json"}, `(?s)"node": "`+old+`",[^{}]*"podsLeft": 0,.*its instance has not terminated yet`)
	took := time.Since(began)
	if drained.Reason != "Drained" || drained.LastTransitionTime.Before(&blocked.LastTransitionTime) {
		t.Errorf("the node shows %+v, and showed %+v", drained, blocked)
	}
	if n := f.getNode(old); !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		t.Errorf("the conditions of the kubelet are %+v", n.Status.Conditions)
	}
	completing()
	f.waitCompleted(instance)

	// The first, the final one, and one every ten seconds between.
	patches := f.requests("patch", "nodes/status")
	most := 2 + int(took/(10*time.Second))
	t.Logf("%d patches of nodes/status in %v", len(patches), took)
	if len(patches) > most || slices.ContainsFunc(patches, func(r cluster.Request) bool { return r.Code != http.StatusOK }) {
		t.Errorf("the condition was written by %+v, want %d patches at most in %v", patches, most, took)
	}
}

// TestConditionOfAnotherNode: the agent takes it for granted how the API server refuses a patch with the UID of a Node
// that had the name before.
func TestConditionOfAnotherNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node, _ := f.node()
	patch := fmt.Appendf(nil, `{"metadata":{"uid":"another"},"status":{"conditions":[{"type":%q,"status":"False"}]}}`, drainedType)
	_, err := f.cluster.Client().CoreV1().Nodes().Patch(
		f.ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		t.Fatalf("got %v, want it found invalid", err)
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field != "metadata.uid" {
			t.Errorf("a cause is %+v, want the UID alone", cause)
		}
	}
}
