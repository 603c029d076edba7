package kube_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// TestWebhooks: how long a deletion takes, and how it ends, by the answers and the failure policies of webhooks.
func TestWebhooks(t *testing.T) {
	const gone, late = metav1.StatusReasonUnknown, metav1.StatusReasonInternalError
	for name, c := range map[string]struct {
		hooks []kube.Webhook
		takes time.Duration
		code  int32 // zero: the pod is deleted
		why   metav1.StatusReason
	}{
		"it allows":                  {[]kube.Webhook{{Allows: true, Answers: 20 * time.Second}}, 20 * time.Second, 0, ""},
		"it denies without a reason": {[]kube.Webhook{{Code: 404}}, 0, http.StatusNotFound, gone},
		"it hangs, and is ignored":   {[]kube.Webhook{{Timeout: 10 * time.Second, Ignores: true}}, 10 * time.Second, 0, ""},
		"it hangs":                   {[]kube.Webhook{{Timeout: 10 * time.Second}}, 10 * time.Second, 500, late},
		"two hang": {
			[]kube.Webhook{{Timeout: 10 * time.Second, Ignores: true}, {Timeout: 10 * time.Second}}, 20 * time.Second, 500, late,
		},
		"only evictions": {[]kube.Webhook{{NoEvictions: false, Deletions: false, Timeout: time.Second}}, 0, 0, ""},
		"three hang": {[]kube.Webhook{
			{Timeout: 30 * time.Second, Ignores: true},
			{Timeout: 20 * time.Second, Ignores: true},
			{Timeout: 20 * time.Second, Ignores: true},
		}, time.Minute, http.StatusGatewayTimeout, metav1.StatusReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
				for i := range c.hooks {
					c.hooks[i].Deletions = name != "only evictions"
				}
				server.Webhooks(c.hooks...)
				start := time.Now()
				err := client.CoreV1().Pods("shop").Delete(t.Context(), "a", metav1.DeleteOptions{})
				code := int32(0)
				if status, ok := err.(apierrors.APIStatus); ok {
					code = status.Status().Code
				}
				if took := time.Since(start); took != c.takes || code != c.code || apierrors.ReasonForError(err) != c.why {
					t.Errorf("after %v: %v", took, err)
				}
			}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
		})
	}
}

// TestPodsThatStay: a pod with a finalizer stays, deleted, until that is gone, and its volume is attached for a while
// longer. The owner that behaves like a DaemonSet puts another pod on the same node.
func TestPodsThatStay(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		controllers := server.Run(kube.DefaultTiming())
		defer controllers.Stop()
		for _, o := range []kube.Object{
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, newLoader(),
		} {
			if err := server.Create(o); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		pods := server.PodsOn("n")
		if len(pods) != 1 || pods[0].OwnerReferences[0].Kind != "ExtendedDaemonSet" {
			t.Fatalf("the pods are %v", pods)
		}
		first := pods[0].Name
		if err := client.CoreV1().Pods("shop").Delete(t.Context(), first, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for at, want := range map[time.Duration][2]int{20 * time.Second: {2, 1}, 110 * time.Second: {1, 1}} {
			time.AfterFunc(at, func() {
				_, there := kube.Get[*corev1.Pod](server, types.NamespacedName{Namespace: "shop", Name: first})
				volumes := len(kube.List[*storagev1.VolumeAttachment](server))
				if got := [2]int{len(server.PodsOn("n")), volumes}; got != want || there != (want[0] == 2) {
					t.Errorf("after %v there are %v pods and volumes, want %v", at, got, want)
				}
			})
		}
		time.Sleep(2 * time.Minute)
		kube.Remove[*appsv1.DaemonSet](server, types.NamespacedName{Namespace: "shop", Name: "loader"})
		if err := server.DeletePod("shop", server.PodsOn("n")[0].Name); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if left := kube.List[*storagev1.VolumeAttachment](server); len(left) > 0 {
			t.Errorf("the volumes are still attached: %v", left)
		}
	})
}

// TestRollout: when the template of a Deployment changes, its new pod is Ready before the old one ends.
func TestRollout(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		var mu sync.Mutex
		counts, least, most := false, 9, 0
		server.OnChange = func(kube.Change) {
			time.AfterFunc(1, func() {
				mu.Lock()
				defer mu.Unlock()
				ready := 0
				for _, p := range server.PodsOn("n") {
					if p.DeletionTimestamp == nil && len(p.Status.Conditions) > 1 {
						ready++
					}
				}
				if counts {
					least, most = min(least, ready), max(most, ready)
				}
			})
		}
		controllers := server.Run(kube.DefaultTiming())
		defer controllers.Stop()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		for _, o := range []kube.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, d} {
			if err := server.Create(o); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		before := server.PodsOn("n")
		mu.Lock()
		counts = true
		mu.Unlock()
		_, err := client.AppsV1().Deployments("shop").Patch(t.Context(), "web", types.StrategicMergePatchType,
			[]byte(`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		after := server.PodsOn("n")
		mu.Lock()
		defer mu.Unlock()
		if len(before) != 1 || len(after) != 1 || before[0].UID == after[0].UID || least != 1 || most != 2 {
			t.Errorf("%d pods, then %d, and %d to %d Ready in between", len(before), len(after), least, most)
		}
		got, err := client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || got.Status.ObservedGeneration != 2 || got.Annotations["deployment.kubernetes.io/revision"] != "2" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// newLoader returns an owner of pods that tolerate everything, whose kind is not DaemonSet.
func newLoader() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "loader",
			Annotations: map[string]string{kube.KindAnnotation: "example.com/v1/ExtendedDaemonSet"},
		},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Finalizers:  []string{"example.com/hold"},
				Annotations: map[string]string{kube.FinalizeAnnotation: "1m", kube.DetachAnnotation: "30s"},
			},
			Spec: corev1.PodSpec{
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}}},
			},
		}},
	}
}
