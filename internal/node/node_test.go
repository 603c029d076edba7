package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	nodesResource = corev1.SchemeGroupVersion.WithResource("nodes")
	nodeResource  = schema.GroupResource{Resource: "nodes"}
	nodeKind      = schema.GroupKind{Kind: "Node"}
)

func TestInstanceOf(t *testing.T) {
	for providerID, want := range map[string]string{
		"aws:///eu-west-1a/" + instance:                                             instance,
		"aws://x/eu-west-1a/" + instance:                                            instance, // with a host
		"aws:///eu-west-1a/0123456789-fargate/fargate-ip-10-0-0-1.compute.internal": "",
		"gce://project/zone/i-machine":                                              "", // another cloud
		"":                                                                          "", // not registered yet
		"aws://":                                                                    "",
	} {
		index, err := instanceIndex(newNode(func(n *corev1.Node) { n.Spec.ProviderID = providerID }))
		if err != nil || strings.Join(index, ",") != want {
			t.Errorf("%q: got the index %q, %v", providerID, index, err)
		}
	}
	if _, err := instanceIndex("not a Node"); err == nil {
		t.Error("indexed an object that is not a Node")
	}
}

func ready(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: status},
		}
	}
}

// TestLeaving lists the Nodes that no leadership may move to, sorted, and no other.
func TestLeaving(t *testing.T) {
	n := &Nodes{cfg: defaults, informer: cache.NewSharedIndexInformer(nil, &corev1.Node{}, 0, cache.Indexers{})}
	if got := Leaving(n); len(got) > 0 {
		t.Errorf("without a Node: got %q", got)
	}
	for name, changes := range map[string][]func(*corev1.Node){
		"ready": {ready(corev1.ConditionTrue)}, "unready": {ready(corev1.ConditionUnknown)}, "without a condition": {},
		"tainted":     {ready(corev1.ConditionTrue), tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule)},
		"cordoned":    {ready(corev1.ConditionTrue), func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		"disrupted":   {ready(corev1.ConditionTrue), tainted("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule)},
		"scaled down": {ready(corev1.ConditionTrue), tainted("ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule)},
		"with another taint": {
			ready(corev1.ConditionTrue), tainted("example.com/dedicated", corev1.TaintEffectNoSchedule),
		},
		"marked by an agent with another taint": {ready(corev1.ConditionTrue), func(n *corev1.Node) {
			n.Annotations[Annotation] = `{"instance":"` + instance + `","reason":"scheduled-change"}`
		}},
	} {
		node := newNode(changes...)
		node.Name = name
		if err := n.informer.GetStore().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"cordoned", "disrupted", "marked by an agent with another taint", "scaled down", "tainted", "unready",
		"without a condition",
	}
	if diff := cmp.Diff(want, Leaving(n)); diff != "" {
		t.Error(diff)
	}
}

func TestUntainted(t *testing.T) {
	n := &Nodes{cfg: defaults, informer: cache.NewSharedIndexInformer(nil, &corev1.Node{}, 0, cache.Indexers{})}
	n.patcher = &patcher{nodes: n.informer.GetStore()}
	for name, taints := range map[string]func(*corev1.Node){
		"none": func(*corev1.Node) {}, "other": tainted(defaults.TaintKey, corev1.TaintEffectNoExecute),
		"ours": tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule),
	} {
		node := newNode(taints)
		node.Name = name
		if err := n.informer.GetStore().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"none": true, "other": true, "ours": false, "gone": false} {
		if value := TaintValue(n, name); (value == "v") != (name == "ours") {
			t.Errorf("%s: the taint has the value %q", name, value)
		}
		if got := Untainted(n, name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestTrim(t *testing.T) {
	mark := Mark{Since: t0, Added: []string{addedTaint}}
	ours := tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule)
	for _, tt := range []struct {
		name string
		node *corev1.Node
	}{
		{"bare", newNode()},
		{"ready", newNode(ready(corev1.ConditionTrue))},
		{"drained", newNode(showing(corev1.ConditionTrue))},
		{"not ready", newNode(ready(corev1.ConditionUnknown))},
		{"marked", newNode(ready(corev1.ConditionTrue), markOf(mark), ours, cordoned, labelled)},
		{"broken mark", newNode(marked("{"))},
		{"of Karpenter", newNode(withLabel("karpenter.sh/nodepool", "default"))},
		{"of Auto Mode", newNode(withLabel("eks.amazonaws.com/compute-type", "auto"))},
		{"awaits its boot", newNode(booted("boot-1"), markOf(Mark{Since: t0, BootID: "boot-1"}))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.Labels["zone"], tt.node.Annotations["other"] = "a", "x"
			tt.node.CreationTimestamp = metav1.NewTime(t0)
			tt.node.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
			kept := trimmed(t, tt.node)
			if diff := cmp.Diff(nodeOf(tt.node), nodeOf(kept)); diff != "" {
				t.Error(diff)
			}
			want, got := conditionOf(tt.node, ConditionType), conditionOf(kept, ConditionType)
			if (want == nil) != (got == nil) ||
				want != nil && (want.Status != got.Status || !want.LastTransitionTime.Equal(&got.LastTransitionTime)) {
				t.Errorf("got the condition %v, want %v", got, want)
			}
			reason := Reason{Kind: "spot", Deadline: at(time.Hour)}
			for name, made := range map[string][2]patch{
				"cordon":   {patchOnly(cordonPatch(tt.node, defaults, reason, t0)), patchOnly(cordonPatch(kept, defaults, reason, t0))},
				"uncordon": {uncordonPatch(tt.node, defaults), uncordonPatch(kept, defaults)},
				"exclude":  {excludePatch(tt.node), excludePatch(kept)},
			} {
				if diff := cmp.Diff(made[0], made[1]); diff != "" {
					t.Errorf("%s:\n%s", name, diff)
				}
			}
			if kept.ResourceVersion != "7" || len(kept.Status.Images) > 0 || kept.Labels["zone"] != "" {
				t.Error("kept the wrong fields")
			}
		})
	}
	if other, err := trim("not a Node"); err != nil || other != "not a Node" {
		t.Errorf("got %v, %v", other, err)
	}
}

func patchOnly(p patch, _ Mark) patch { return p }

// trimmed is what the informer keeps of the Node.
func trimmed(t *testing.T, node *corev1.Node) *corev1.Node {
	t.Helper()
	kept, err := trim(node)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(*corev1.Node)
}

// fail makes the client's calls fail.
func fail(client *fake.Clientset, verb, resource string, err error) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, err
	})
}

// nodeNow is the Node n in the API server.
func nodeNow(t *testing.T, client *fake.Clientset) *corev1.Node {
	t.Helper()
	got, err := client.Tracker().Get(nodesResource, "", "n")
	if err != nil {
		t.Fatal(err)
	}
	return got.(*corev1.Node)
}

// virtual runs a subtest in virtual time.
func virtual(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// watched returns Nodes that have synced.
func watched(t *testing.T, client *fake.Clientset, cfg Config) *Nodes {
	t.Helper()
	n, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := n.WaitForSync(ctx); err != nil || !n.Synced() {
		t.Fatalf("not synced: %v", err)
	}
	synctest.Wait() // reactors must not be added during requests
	return n
}

func verbs(client *fake.Clientset) string {
	var all []string
	for _, a := range client.Actions() {
		if a.GetVerb() != "list" && a.GetVerb() != "watch" {
			all = append(all, a.GetVerb())
		}
	}
	return strings.Join(all, " ")
}

func TestAwait(t *testing.T) {
	cause := errors.New("never registered")
	type change = func(*fake.Clientset, context.CancelCauseFunc)
	check := func(name string, want error, meanwhile change, shown ...runtime.Object) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			client := fake.NewClientset(shown...)
			n := watched(t, client, defaults)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go meanwhile(client, cancel)
			if found, err := n.Await(ctx, instance, nil); !errors.Is(err, want) || err == nil && found.InstanceID != instance {
				t.Errorf("got %+v, %v", found, err)
			}
		})
	}
	check("the node has registered already", nil, func(*fake.Clientset, context.CancelCauseFunc) {}, newNode())
	check("the node gets its provider id later", nil, func(client *fake.Clientset, _ context.CancelCauseFunc) {
		synctest.Wait()
		err := client.Tracker().Add(newNode(func(o *corev1.Node) { o.Spec.ProviderID = "" }))
		synctest.Wait()
		if err := errors.Join(err, client.Tracker().Update(nodesResource, newNode(), "")); err != nil {
			t.Error(err)
		}
	})
	check("the context ends", cause, func(_ *fake.Clientset, cancel context.CancelCauseFunc) {
		synctest.Wait()
		cancel(cause)
	})
}

// TestAwaitBoot: the Node of the boot before does not count.
func TestAwaitBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		awaiting := markOf(Mark{Since: t0, BootID: "boot-1"})
		client := fake.NewClientset(newNode(booted("boot-1"), awaiting))
		n := watched(t, client, defaults)
		go func() {
			time.Sleep(time.Minute)
			changed := newNode(booted("boot-1"), awaiting, ready(corev1.ConditionTrue))
			err := client.Tracker().Update(nodesResource, changed, "")
			time.Sleep(time.Minute)
			if err := errors.Join(err, client.Tracker().Update(nodesResource, newNode(booted("boot-2"), awaiting), "")); err != nil {
				t.Error(err)
			}
		}()
		start := time.Now()
		found, err := n.Await(t.Context(), instance, Node.IsBooted)
		if took := time.Since(start); err != nil || found.BootID != "boot-2" || took != 2*time.Minute {
			t.Errorf("got %+v, %v after %v", found, err, took)
		}
	})
}

func TestWaitForSyncEndsWithTheCause(t *testing.T) {
	n, err := New(fake.NewClientset(), defaults)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("leaving")
	cancel(cause)
	if err := n.WaitForSync(ctx); !errors.Is(err, cause) || n.Synced() {
		t.Errorf("got %v, want %v", err, cause)
	}
}

// TestLongAnnotations: what a kubelet writes on its Node is not kept, and not parsed, if it is longer than what the agent
// writes. It counts as there, so that no other annotation takes its place.
func TestLongAnnotations(t *testing.T) {
	long := strings.Repeat(" ", longestAnnotation)
	node := newNode(func(n *corev1.Node) {
		n.Annotations = map[string]string{
			Annotation:             Mark{InstanceID: instance, Reason: "spot", Since: t0}.encode() + long,
			MaintenanceAnnotation:  `{"instance":"` + instance + `","startsAt":"2026-01-01T00:00:00Z"}` + long,
			DrainRequestAnnotation: instance + long, scaleDownDisabled: "true" + long, ScaleDownOwner: "workers" + long,
		}
	})
	for _, n := range []*corev1.Node{node, trimmed(t, node)} {
		got := nodeOf(n)
		if _, isMarked := MarkOf(n); isMarked || !got.Mark.Since.IsZero() || !got.Maintenance.IsZero() || got.DrainRequested {
			t.Errorf("got %+v", got)
		}
		if ScaleDownDisabled(n, "workers") != nil {
			t.Error("an annotation of the autoscaler is replaced")
		}
	}
	for key, value := range trimmed(t, node).Annotations {
		if value != "" {
			t.Errorf("%s is kept with %d bytes", key, len(value))
		}
	}
	short := newNode(func(n *corev1.Node) {
		mark := Mark{InstanceID: instance, Reason: "spot", Since: t0}.encode()
		n.Annotations = map[string]string{Annotation: mark + long[len(mark):]}
	})
	if _, isMarked := MarkOf(trimmed(t, short)); !isMarked {
		t.Error("a mark of the greatest length is ignored")
	}
}

// TestOnChange: a Node that registers, replaces another one of its name, becomes Ready or not, or is deleted has changed
// for those who drain it. One with another label has not.
func TestOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n, err := New(client, defaults)
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		n.OnChange(func(name string) {
			if name == newNode().Name {
				changes++
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.Run(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()
		nodes := client.CoreV1().Nodes()
		another := func(o *corev1.Node) { o.UID = "another" }
		unknown := func(o *corev1.Node) {
			another(o)
			o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		}
		held := func(o *corev1.Node) {
			unknown(o)
			o.Annotations = map[string]string{HoldAnnotation: "2026-11-28T16:00:00+01:00"}
		}
		heldOn := func(o *corev1.Node) {
			held(o)
			o.Labels = map[string]string{"a": "b"}
		}
		for i, step := range []struct {
			change func(*corev1.Node) // nil: it is deleted
			want   int
		}{
			{func(o *corev1.Node) { o.Labels = map[string]string{"a": "b"} }, 1}, // It has registered before.
			{another, 2}, {unknown, 3}, {unknown, 3}, {held, 4}, {heldOn, 4}, {nil, 5},
		} {
			if step.change == nil {
				err = nodes.Delete(ctx, newNode().Name, metav1.DeleteOptions{})
			} else {
				_, err = nodes.Update(ctx, newNode(step.change), metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if changes != step.want {
				t.Errorf("after step %d: %d changes, want %d", i, changes, step.want)
			}
		}
	})
}
