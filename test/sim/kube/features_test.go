package kube_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// TestDeadMachine: the node is unreachable after 40 seconds, its pods are deleted five minutes later and stay, until the
// Node is gone.
func TestDeadMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kube.New(1, newNode("node-1"), newReplicaSet(3))
		controllers := server.Run(kube.DefaultTiming())
		defer controllers.Stop()
		time.Sleep(time.Minute)
		state := func() string {
			node, _ := kube.Get[*corev1.Node](server, types.NamespacedName{Name: "node-1"})
			deleted := 0
			for _, p := range server.PodsOn("node-1") {
				if p.DeletionTimestamp != nil {
					deleted++
				}
			}
			var conditions, taints []string
			if node != nil {
				for _, c := range node.Status.Conditions {
					conditions = append(conditions, string(c.Status))
				}
				for _, taint := range node.Spec.Taints {
					taints = append(taints, taint.Key+":"+string(taint.Effect))
				}
			}
			return fmt.Sprintf("Ready %v, taints %v, %d pods, %d deleted", conditions, taints,
				len(server.PodsOn("node-1")), deleted)
		}
		const unreachable = "[node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/unreachable:NoExecute]"
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			if got := state(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		expect(0, "Ready [True], taints [], 3 pods, 0 deleted")
		controllers.StopKubelet("node-1")
		expect(39*time.Second, "Ready [True], taints [], 3 pods, 0 deleted")
		expect(10*time.Second, "Ready [Unknown], taints "+unreachable+", 3 pods, 0 deleted")
		expect(301*time.Second, "Ready [Unknown], taints "+unreachable+", 3 pods, 3 deleted")
		expect(time.Hour, "Ready [Unknown], taints "+unreachable+", 3 pods, 3 deleted")
		pinned := newPod("pinned")
		pinned.Spec.Tolerations = []corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300)),
		}}
		if err := server.Create(pinned); err != nil {
			t.Fatal(err)
		}
		expect(299*time.Second, "Ready [Unknown], taints "+unreachable+", 4 pods, 3 deleted")
		expect(3*time.Second, "Ready [Unknown], taints "+unreachable+", 4 pods, 4 deleted")
		kube.Remove[*corev1.Node](server, types.NamespacedName{Name: "node-1"})
		expect(2*time.Minute, "Ready [], taints [], 0 pods, 0 deleted")
	})
}

// TestHungRuntime: a node whose container runtime hangs becomes not Ready. Its pods are neither changed nor ended, until
// the machine boots again.
func TestHungRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kube.New(1, newNode("node-1"), newReplicaSet(2))
		controllers := server.Run(kube.DefaultTiming())
		defer controllers.Stop()
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			node, _ := kube.Get[*corev1.Node](server, types.NamespacedName{Name: "node-1"})
			got := fmt.Sprintf("Ready %s", node.Status.Conditions[0].Status)
			for _, p := range server.PodsOn("node-1") {
				got += fmt.Sprintf(", %s %t", p.Status.Phase, p.DeletionTimestamp != nil)
				for _, c := range p.Status.Conditions {
					if c.Type == corev1.PodReady {
						got += " " + string(c.Status)
					}
				}
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		expect(time.Minute, "Ready True, Running false True, Running false True")
		controllers.HangRuntime("node-1")
		if err := server.DeletePod("shop", server.PodsOn("node-1")[0].Name); err != nil {
			t.Fatal(err)
		}
		expect(3*time.Minute, "Ready True, Running true True, Running false True, Pending false")
		expect(2*time.Minute, "Ready False, Running true True, Running false True, Pending false")
		controllers.Restart("node-1", "")
		expect(2*time.Minute, "Ready True, Running false True, Running false True")
	})
}

// TestPodsEnd: a pod whose containers end by themselves after SIGTERM has succeeded, and has failed if they are killed, or
// have more to do, as with a kubelet (TestPodsEnd of test/realnodes).
func TestPodsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"ends":   {map[string]string{kube.WorkAnnotation: "10s"}, "Succeeded PodCompleted"},
		"killed": {map[string]string{kube.WorkAnnotation: "1h"}, "Failed PodFailed"},
		"a job":  {map[string]string{kube.WorkAnnotation: "10s", kube.RunAnnotation: "1h"}, "Failed PodFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := newPod("a")
				pod.Annotations, pod.Spec.TerminationGracePeriodSeconds = c.annotations, new(int64(30))
				server := kube.New(1, newNode("node-1"), pod)
				last := ""
				server.OnChange = func(change kube.Change) {
					p, ok := change.New.(*corev1.Pod)
					if !ok {
						return
					}
					for _, condition := range p.Status.Conditions {
						if condition.Type == corev1.PodReady {
							last = string(p.Status.Phase) + " " + condition.Reason
						}
					}
				}
				controllers := server.Run(kube.DefaultTiming())
				defer controllers.Stop()
				time.Sleep(time.Minute)
				if err := server.DeletePod("shop", "a"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if left := server.PodsOn("node-1"); len(left) > 0 || last != c.want {
					t.Errorf("the pod was last %s, want %s; left: %v", last, c.want, left)
				}
			})
		})
	}
}

// TestPodsWithoutNode: pods that name a Node that does not exist are removed once a minute, and created again.
func TestPodsWithoutNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newReplicaSet(2)
		set.Spec.Template.Spec.NodeName = "node-9"
		server := kube.New(1, newNode("node-1"), set)
		controllers := server.Run(kube.DefaultTiming())
		defer controllers.Stop()
		time.Sleep(time.Hour)
		created := 0
		for _, p := range server.PodsOn("node-9") {
			_, serial, _ := strings.Cut(p.Name, "-")
			n, err := strconv.Atoi(serial)
			if err != nil {
				t.Fatal(err)
			}
			created = max(created, n)
		}
		if created < 80 || created > 400 { // Two a minute or more: the times vary.
			t.Errorf("%d pods were created in an hour", created)
		}
	})
}

// TestRestart: a machine that boots again has another boot ID, and its pods are Ready again after a while.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kube.New(1, newNode("node-1"), newReplicaSet(3))
		controllers := server.Run(kube.DefaultTiming())
		defer controllers.Stop()
		time.Sleep(time.Minute)
		healthy := func() (n int) {
			for _, p := range server.PodsOn("node-1") {
				for _, c := range p.Status.Conditions {
					if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
						n++
					}
				}
			}
			return n
		}
		before := healthy()
		controllers.Restart("node-1", "second")
		during := healthy()
		time.Sleep(time.Minute)
		node, _ := kube.Get[*corev1.Node](server, types.NamespacedName{Name: "node-1"})
		if after := healthy(); before != 3 || during != 0 || after != 3 || node.Status.NodeInfo.BootID != "second" ||
			len(node.Spec.Taints) > 0 {
			t.Errorf("%d, %d and %d pods were Ready; boot %s, taints %v", before, during, after,
				node.Status.NodeInfo.BootID, node.Spec.Taints)
		}
	})
}

// TestGracePeriod: a pod works after SIGTERM as long as it needs, and is killed at the end of its grace period, also of
// one that is shortened.
func TestGracePeriod(t *testing.T) {
	for name, tt := range map[string]struct {
		work     string
		grace    int64
		shorten  int64 // after ten seconds
		from, to time.Duration
	}{
		"works":     {"20s", 60, 0, 20 * time.Second, 23 * time.Second},
		"is killed": {"90s", 60, 0, 60 * time.Second, 63 * time.Second},
		"shortened": {"90s", 60, 30, 40 * time.Second, 43 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("a")
			pod.Annotations = map[string]string{kube.WorkAnnotation: tt.work}
			pod.Spec.TerminationGracePeriodSeconds = &tt.grace
			inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
				defer server.Run(kube.DefaultTiming()).Stop()
				start := time.Now()
				remove := func(o metav1.DeleteOptions) {
					if err := client.CoreV1().Pods("shop").Delete(t.Context(), "a", o); err != nil {
						t.Fatal(err)
					}
				}
				remove(metav1.DeleteOptions{})
				if tt.shorten > 0 {
					time.Sleep(10 * time.Second)
					remove(*metav1.NewDeleteOptions(tt.shorten))
				}
				for len(server.PodsOn("node-1")) > 0 {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(start); took < tt.from || took > tt.to {
					t.Errorf("it was gone after %v", took)
				}
			}, pod, newNode("node-1"))
		})
	}
}

// TestFaultsOfOneClient: one client is cut off, and the other is not. A watch is cut too.
func TestFaultsOfOneClient(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, other kubernetes.Interface) {
		one, err := server.Client("one")
		if err != nil {
			t.Fatal(err)
		}
		events, err := one.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-events.ResultChan()
		list := func(client kubernetes.Interface) error {
			_, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			return err
		}
		server.Unavailable(time.Now().Add(time.Minute), time.Now().Add(time.Hour), "one")
		if err := list(one); err != nil {
			t.Errorf("before: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, open := <-events.ResultChan(); open {
			t.Error("the watch is open")
		}
		if err := list(one); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("during: %v", err)
		}
		if err := list(other); err != nil {
			t.Errorf("during, the other: %v", err)
		}
		time.Sleep(time.Hour)
		if err := list(one); err != nil {
			t.Errorf("after: %v", err)
		}
	}, newNode("node-1"))
}

// TestStaleList: a list of resource version 0 shows what the server's cache has, which may be old; others do not.
func TestStaleList(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		server.Inject(kube.Fault{Effect: kube.Stale, Delay: time.Minute})
		time.Sleep(time.Hour)
		if err := server.Create(newNode("node-2")); err != nil {
			t.Fatal(err)
		}
		kube.Remove[*corev1.Node](server, types.NamespacedName{Name: "node-1"})
		names := func(version string) (out string) {
			nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{ResourceVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range nodes.Items {
				out += n.Name + " "
			}
			return out
		}
		if old, now := names("0"), names(""); old != "node-1 " || now != "node-2 " {
			t.Errorf("the cache has %s, and there is %s", old, now)
		}
		time.Sleep(time.Minute)
		if got := names("0"); got != "node-2 " {
			t.Errorf("a minute later the cache has %s", got)
		}
	}, newNode("node-1"))
}

// TestAudit: refusals of faults and webhooks, and what the records say about evictions.
func TestAudit(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		var records []kube.Record
		server.Audit = func(r kube.Record) { records = append(records, r) }
		var actors []string
		server.OnChange = func(c kube.Change) { actors = append(actors, c.Actor+" "+c.Resource) }
		uid, grace := types.UID("Pod-uid-1"), int64(60)
		evict := func(dryRun ...string) error {
			return client.PolicyV1().Evictions("shop").Evict(t.Context(), &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, DeleteOptions: &metav1.DeleteOptions{
					GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}, DryRun: dryRun,
				},
			})
		}
		server.Webhooks(kube.Webhook{Name: "drain.example", Message: "not yet"})
		if err := evict(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"drain.example" denied`) {
			t.Errorf("a webhook that refuses: %v", err)
		}
		server.Webhooks(kube.Webhook{Name: "drain.example", Timeout: 10 * time.Second})
		start := time.Now()
		if err := evict(); !apierrors.IsInternalError(err) || time.Since(start) != 10*time.Second {
			t.Errorf("a webhook that does not answer: %v after %v", err, time.Since(start))
		}
		server.Webhooks()
		for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
			if err := evict(dryRun...); err != nil {
				t.Error(err)
			}
		}
		var got []string
		for _, r := range records {
			if r.At.IsZero() || !r.IsEviction() || !r.IsWrite() || r.OK() && *r.Grace != 60 {
				t.Errorf("the record is %+v", r)
			}
			got = append(got, fmt.Sprintf("%s %d %s %q %v %d", r.Client, r.Code, r.Webhook, r.UID, r.DryRun, len(r.Budgets)))
		}
		want := "[test 403 drain.example \"\" false 0 test 500 drain.example \"\" false 0 " +
			"test 201  \"Pod-uid-1\" true 1 test 201  \"Pod-uid-1\" false 1]"
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if want := "[test poddisruptionbudgets test pods test pods]"; fmt.Sprint(actors) != want {
			t.Errorf("got the changes %v, want %s", actors, want)
		}
	}, newPod("a"), newBudget("web", 1))
}

// TestReplay: the same seed gives the same changes at the same times, and another seed gives others.
func TestReplay(t *testing.T) {
	run := func(seed uint64) (out string) {
		synctest.Test(t, func(t *testing.T) {
			set := newReplicaSet(20)
			server := kube.New(seed, newNode("node-1"), newNode("node-2"), newNode("node-3"), set)
			defer server.Run(kube.DefaultTiming()).Stop()
			time.Sleep(time.Minute)
			drainNode(t, server, "node-1")
			time.Sleep(time.Minute)
			for _, c := range server.History(0) {
				after, err := json.Marshal(c.New)
				if err != nil {
					t.Fatal(err)
				}
				out += fmt.Sprintf("%v %s %s %s\n", c.At, c.Actor, c.Resource, after)
			}
		})
		return out
	}
	first, again, other := run(1), run(1), run(2)
	if first != again {
		t.Errorf("two runs of a seed differ, from %s", difference(first, again))
	}
	if first == other {
		t.Error("two seeds give the same")
	}
}

// difference returns the first lines that differ.
func difference(a, b string) string {
	other := strings.Split(b, "\n")
	for i, line := range strings.Split(a, "\n") {
		if i >= len(other) || line != other[i] {
			return fmt.Sprintf("%s\nto %s", line, other[min(i, len(other)-1)])
		}
	}
	return "the end"
}
