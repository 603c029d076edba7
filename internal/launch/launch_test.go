package launch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var (
	errOutage = errors.New("no answer")
	errLate   = errors.New("too late")

	nodes      = corev1.SchemeGroupVersion.WithResource("nodes")
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
	daemonSets = appsv1.SchemeGroupVersion.WithResource("daemonsets")
)

// virtual runs a subtest in virtual time.
func virtual(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// running returns a Waiter over client that runs until the test ends.
func running(t *testing.T, client *fake.Clientset, cfg Config) *Waiter {
	t.Helper()
	w, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
	synctest.Wait()
	return w
}

// TestWait: each change of what the Node needs is reported once.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(set("cni"))
		w := running(t, client, defaults(t))
		if !w.Synced() {
			t.Fatal("the DaemonSets have not been listed")
		}
		var reported []string
		done := make(chan error, 1)
		go func() {
			done <- w.Wait(t.Context(), nodeName, func(missing []string) { reported = append(reported, strings.Join(missing, ", ")) })
		}()
		node := object(ready(corev1.ConditionFalse), tainted("node.cilium.io/agent-not-ready", corev1.TaintEffectNoSchedule))
		labelled := node.DeepCopy()
		labelled.Labels["a"] = "b"
		steps := []func() error{
			func() error { return client.Tracker().Add(node) },
			func() error { return client.Tracker().Update(nodes, labelled, "") },
			func() error { return client.Tracker().Add(set("logs")) },
			func() error { return client.Tracker().Update(nodes, object(), "") },
			func() error { return client.Tracker().Add(object(func(n *corev1.Node) { n.Name = "another" })) },
			func() error { return client.Tracker().Delete(nodes, "", "another") },
			func() error { return client.Tracker().Add(podOf("cni", podReady(corev1.ConditionFalse))) },
			func() error { return client.Tracker().Update(pods, podOf("cni"), "kube-system") },
			func() error { return client.Tracker().Delete(daemonSets, "kube-system", "logs") },
		}
		synctest.Wait()
		for _, step := range steps {
			select {
			case err := <-done:
				t.Fatalf("the wait ended too early, with %v", err)
			default:
			}
			if err := step(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if err := <-done; err != nil {
			t.Errorf("the wait ended with %v", err)
		}
		want := []string{
			"a registered Node",
			"Ready, taint node.cilium.io/agent-not-ready, DaemonSet kube-system/cni",
			"Ready, taint node.cilium.io/agent-not-ready, DaemonSet kube-system/cni, DaemonSet kube-system/logs",
			"DaemonSet kube-system/cni, DaemonSet kube-system/logs",
			"DaemonSet kube-system/logs",
		}
		if diff := cmp.Diff(want, reported); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		for one := range w.waits.Range {
			t.Errorf("the wait is still subscribed: %v", one)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	for name, fails := range map[string]bool{"Node not ready": false, "lists fail": true} {
		virtual(t, name, func(t *testing.T) {
			client := fake.NewClientset(object(cordoned))
			if fails {
				t.Cleanup(func() { time.Sleep(2 * time.Minute) }) // until client-go's pauses have ended
				client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errOutage
				})
				client.PrependWatchReactor("*", clienttesting.DefaultWatchReactor(nil, errOutage))
			}
			w := running(t, client, defaults(t))
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errLate)
			defer cancel()
			start, n := time.Now(), 0
			err := w.Wait(ctx, nodeName, func([]string) { n++ })
			if took := time.Since(start); !errors.Is(err, errLate) || took > time.Minute+100*time.Millisecond || (n == 0) != fails {
				t.Errorf("got %v after %v, reported %d times", err, time.Since(start), n)
			}
		})
	}
}

// TestWithoutDaemonSets: neither they nor pods are read.
func TestWithoutDaemonSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(object(), set("cni"))
		cfg := defaults(t)
		cfg.DaemonSets = false
		w := running(t, client, cfg)
		if !w.Synced() {
			t.Error("not synced, although nothing is watched")
		}
		if err := w.Wait(t.Context(), nodeName, func(m []string) { t.Errorf("waits for %q", m) }); err != nil {
			t.Error(err)
		}
		if missing, _, err := w.Missing(t.Context(), nodeName); len(missing) > 0 || err != nil {
			t.Errorf("missing %q, %v", missing, err)
		}
		for _, a := range client.Actions() {
			if a.GetResource().Resource != "nodes" {
				t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
			}
		}
	})
}

// TestMissingReads: it reads from the API server, and an outage is an error.
func TestMissingReads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		objects []runtime.Object
		fails   string // the resource that cannot be read
		want    []string
		broken  []string
	}{
		{"a ready Node", []runtime.Object{object(), set("cni"), podOf("cni")}, "", nil, nil},
		{"a cordoned Node without a pod of a DaemonSet", []runtime.Object{object(cordoned), set("cni")}, "", []string{"schedulable", "DaemonSet kube-system/cni"}, nil},
		{
			"a DaemonSet that is Ready nowhere",
			[]runtime.Object{object(), set("cni"), set("csi", readyNowhere), set("logs", readyNowhere, priority(""))},
			"",
			[]string{"DaemonSet kube-system/cni", "DaemonSet kube-system/csi"},
			[]string{"DaemonSet kube-system/csi"},
		},
		{"no Node", []runtime.Object{set("cni")}, "", []string{"a registered Node"}, nil},
		{"the Node cannot be read", []runtime.Object{object()}, "nodes", nil, nil},
		{"the pods cannot be read", []runtime.Object{object()}, "pods", nil, nil},
		{"the DaemonSets cannot be read", []runtime.Object{object()}, "daemonsets", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(tt.objects...)
			if tt.fails != "" {
				client.PrependReactor("*", tt.fails, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errOutage })
			}
			w, err := New(client, defaults(t)) // it does not run: nothing is watched
			if err != nil {
				t.Fatal(err)
			}
			missing, broken, err := w.Missing(t.Context(), nodeName)
			if diff := cmp.Diff(tt.want, missing) + cmp.Diff(tt.broken, broken); diff != "" || errors.Is(err, errOutage) != (tt.fails != "") {
				t.Errorf("%v, (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestWatches: a launch watches one Node and its pods.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(object())
		w := running(t, client, defaults(t))
		if err := w.Wait(t.Context(), nodeName, func([]string) {}); err != nil {
			t.Error(err)
		}
		var got []string
		for _, a := range client.Actions() {
			if l, ok := a.(clienttesting.ListActionImpl); ok {
				got = append(got, a.GetResource().Resource+" "+l.ListRestrictions.Fields.String())
			}
		}
		slices.Sort(got)
		want := []string{"daemonsets ", "nodes metadata.name=node-1", "pods spec.nodeName=node-1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
	})
}

// TestDaemonSetChanges: a wait checks again when a change can matter for the nodes that a DaemonSet runs on, and not
// for each change of its status.
func TestDaemonSetChanges(t *testing.T) {
	check := func(name string, wakes bool, change func(ds *appsv1.DaemonSet)) {
		virtual(t, name, func(t *testing.T) {
			ds := set("cni")
			ds.ResourceVersion = "1"
			client := fake.NewClientset(ds)
			w := running(t, client, defaults(t))
			one := &wait{changed: make(chan struct{}, 1)}
			w.waits.Store(one, nil)
			now := ds.DeepCopy()
			change(now)
			now.ResourceVersion = "2"
			if err := client.Tracker().Update(daemonSets, now, ds.Namespace); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if known := w.daemonSets(); len(one.changed) > 0 != wakes || known[0].ResourceVersion != "2" {
				t.Errorf("wakes: %v, want %v; the watch is at %s", len(one.changed) > 0, wakes, known[0].ResourceVersion)
			}
		})
	}
	check("its status", false, func(ds *appsv1.DaemonSet) { ds.Status.NumberReady++ })
	check("its managed fields", false, func(ds *appsv1.DaemonSet) {
		ds.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	})
	check("its image", false, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers = []corev1.Container{{Image: "new"}}
	})
	check("its node selector", true, selects("a", "b"))
	check("its tolerations", true, tolerates("a", ""))
	check("its annotation", true, ignored("true"))
	check("its priority class", true, priority(""))
	check("its labels", true, func(ds *appsv1.DaemonSet) { ds.Labels = map[string]string{"app": "x"} })
}

func TestStrip(t *testing.T) {
	for _, strip := range []func(any) (any, error){strip, stripDaemonSet} {
		if got, err := strip("no object"); got != "no object" || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	ds := set("cni")
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Image: "large"}}
	if kept := stripped(t, false, stripDaemonSet, ds); len(kept.Spec.Template.Spec.Containers) > 0 {
		t.Error("the containers of a DaemonSet are kept")
	}
}
