package drain

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// pendingPod has no node, for the reason; an empty one if the scheduler has not tried it.
func pendingPod(name, owner, reason string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: types.UID(owner), Controller: new(true)}}
	}
	if reason != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
	}
	return p
}

// TestUnplaced: what counts is a pod that the scheduler has found no node for, of a controller whose pods a drain has told
// to stop within DRAIN_TIMEOUT.
func TestUnplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			pendingPod("one", "moved", corev1.PodReasonUnschedulable), pendingPod("two", "moved", corev1.PodReasonUnschedulable),
			pendingPod("new", "moved", ""), pendingPod("gated", "moved", corev1.PodReasonSchedulingGated),
			pendingPod("other", "other", corev1.PodReasonUnschedulable), pendingPod("bare", "", corev1.PodReasonUnschedulable),
		)
		lists := 0
		failing := errors.New("no answer")
		var fails error
		client.PrependReactor("list", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
			lists++
			got := a.(k8stesting.ListActionImpl).ListRestrictions.Fields.String() //nolint:forcetypeassert // It is one.
			if got != "spec.nodeName=,status.phase=Pending" {
				t.Errorf("the pods are selected by %q", got)
			}
			return fails != nil, nil, fails
		})
		d := &Drainer{client: client, policy: Policy{Config: Config{Timeout: time.Hour}}}
		check := func(want, wantLists int) {
			t.Helper()
			got, err := d.Unplaced(t.Context())
			if got != want || !errors.Is(err, fails) || lists != wantLists {
				t.Errorf("after %d lists %d pods and error %v, want %d after %d", lists, got, err, want, wantLists)
			}
		}
		check(0, 0)
		d.moved.add("default/moved", time.Now())
		d.moved.add("default/", time.Now()) // a pod without a controller
		check(2, 1)
		time.Sleep(time.Hour)
		check(2, 2)
		fails = failing
		check(0, 3)
		fails = nil
		time.Sleep(time.Second)
		check(0, 3)
	})
}
