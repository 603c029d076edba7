package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	nodesResource = corev1.SchemeGroupVersion.WithResource("nodes")
	nodeResource  = schema.GroupResource{Resource: "nodes"}
	nodeKind      = schema.GroupKind{Kind: "Node"}
)

func TestInstanceOf(t *testing.T) {
	for _, tt := range []struct{ name, providerID, want string }{
		{"an EC2 instance", "aws:///eu-west-1a/" + instance, instance},
		{"an EC2 instance, with a host", "aws://x/eu-west-1a/" + instance, instance},
		{"Fargate", "aws:///eu-west-1a/0123456789-fargate/fargate-ip-10-0-0-1.compute.internal", ""},
		{"another cloud", "gce://project/zone/i-machine", ""},
		{"not registered yet", "", ""},
		{"a scheme alone", "aws://", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: tt.providerID}}
			if got := instanceOf(n); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			index, err := instanceIndex(n)
			if err != nil || strings.Join(index, ",") != tt.want {
				t.Errorf("got the index %q, %v", index, err)
			}
		})
	}
	if _, err := instanceIndex("no Node"); err == nil {
		t.Error("indexed what is no Node")
	}
}

func ready(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: status},
		}
	}
}

func TestStripKeepsWhatIsRead(t *testing.T) {
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.Labels["zone"], tt.node.Annotations["other"] = "a", "x"
			tt.node.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
			stripped, err := trim(tt.node)
			if err != nil {
				t.Fatal(err)
			}
			kept, ok := stripped.(*corev1.Node)
			if !ok {
				t.Fatalf("got %T", stripped)
			}
			if diff := cmp.Diff(nodeOf(tt.node), nodeOf(kept)); diff != "" {
				t.Error(diff)
			}
			told, shown := conditionOf(tt.node), conditionOf(kept)
			if (told == nil) != (shown == nil) ||
				told != nil && (told.Status != shown.Status || !told.LastTransitionTime.Equal(&shown.LastTransitionTime)) {
				t.Errorf("of the condition %v is kept %v", told, shown)
			}
			reason := Reason{Kind: "spot", Deadline: at(time.Hour)}
			for name, made := range map[string][2]patch{
				"retire":  {first(cordonPatch(tt.node, defaults, reason, t0)), first(cordonPatch(kept, defaults, reason, t0))},
				"restore": {uncordonPatch(tt.node, defaults), uncordonPatch(kept, defaults)},
				"exclude": {excludePatch(tt.node), excludePatch(kept)},
			} {
				if diff := cmp.Diff(made[0], made[1]); diff != "" {
					t.Errorf("%s:\n%s", name, diff)
				}
			}
			if kept.ResourceVersion != "7" || len(kept.Status.Images) > 0 || kept.Labels["zone"] != "" {
				t.Error("too much or too little is kept")
			}
		})
	}
	if other, err := trim("no Node"); err != nil || other != "no Node" {
		t.Errorf("got %v, %v", other, err)
	}
}

func first(p patch, _ Mark) patch { return p }

// watched returns Nodes over client that have seen all there is.
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
	synctest.Wait() // Reactors are added between requests only.
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

// TestOwnPatchBeforeTheWatchShowsIt: the second of two changes begins where the first has left the Node, with no
// conflict and no read, although the watch has yet to show it.
func TestOwnPatchBeforeTheWatchShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newNode()
		first.ResourceVersion = "7"
		client := fake.NewClientset(first)
		n := watched(t, client, defaults)
		var guards []string
		client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			var p struct {
				Metadata struct{ ResourceVersion string }
			}
			if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &p); err != nil {
				t.Error(err)
			}
			guards = append(guards, p.Metadata.ResourceVersion)
			after := tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule)
			return true, newNode(after, cordoned, func(n *corev1.Node) { n.ResourceVersion = fmt.Sprint(7 + len(guards)) }), nil
		})
		found, _ := n.Find(instance)
		for _, by := range []time.Duration{time.Hour, time.Minute} {
			if _, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot", Deadline: time.Now().Add(by)}); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"7", "8"}, guards); diff != "" || verbs(client) != "patch patch" {
			t.Errorf("%s\n%s", verbs(client), diff)
		}
		if _, err := client.Tracker().Get(nodesResource, "", "n"); err != nil {
			t.Error(err)
		}
		last := newNode(func(n *corev1.Node) { n.ResourceVersion = "12" })
		if err := client.Tracker().Update(nodesResource, last, ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, ok := n.patcher.written.Load("n"); ok {
			t.Error("our own patch is remembered although the watch shows what came after it")
		}
	})
}

// TestSelector: Nodes that the selector leaves out are neither seen nor looked up.
func TestSelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := newNode()
		theirs.Labels = map[string]string{"pool": "theirs"}
		client := fake.NewClientset(theirs)
		n := watched(t, client, with(func(c *Config) { c.Selector = "pool=ours" }))
		if all := n.All(); len(all) > 0 {
			t.Errorf("all nodes are %+v", all)
		}
		if _, err := n.Lookup(t.Context(), instance); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	})
}

func TestRetireAndRestoreOverTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode(ready(corev1.ConditionTrue)))
		n := watched(t, client, defaults)
		found, ok := n.Find(instance)
		if !ok || !found.Ready || found.Name != "n" || found.UID != "uid-1" || !found.Mark.Since.IsZero() {
			t.Fatalf("got %+v, %v", found, ok)
		}
		reason := Reason{Kind: "lifecycle-terminating", Hook: "g/h", Deadline: time.Now().Add(time.Hour)}
		mark, news, err := n.Cordon(t.Context(), found, reason)
		if err != nil || !news {
			t.Fatalf("news: %v, %v", news, err)
		}
		synctest.Wait()
		if again, _ := n.Find(instance); cmp.Diff(mark, again.Mark) != "" {
			t.Errorf("the mark on the node:\n%s", cmp.Diff(mark, again.Mark))
		}
		if _, news, err := n.Cordon(t.Context(), found, reason); err != nil || news {
			t.Errorf("news: %v, %v", news, err)
		}
		if got := verbs(client); got != "patch get" {
			t.Errorf("got %q, want one patch, and a look before the second is left out", got)
		}
		reason.Deadline = reason.Deadline.Add(-time.Minute)
		if mark, news, err := n.Cordon(t.Context(), found, reason); err != nil || !news || !mark.Deadline.Equal(reason.Deadline.Truncate(time.Second)) {
			t.Errorf("an earlier deadline gave %+v, news: %v, %v", mark, news, err)
		}
		if all := n.All(); len(all) != 1 || all[0].InstanceID != instance {
			t.Errorf("all nodes are %+v", all)
		}
		if restored, err := n.Uncordon(t.Context(), found); !restored || err != nil {
			t.Errorf("got %v, %v", restored, err)
		}
		got, err := client.Tracker().Get(nodesResource, "", "n")
		if err != nil {
			t.Fatal(err)
		}
		after, ok := got.(*corev1.Node)
		if !ok || after.Spec.Unschedulable || len(after.Spec.Taints)+len(after.Labels)+len(after.Annotations) > 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// TestAWatchThatIsBehindHidesNothing takes a mark off that the watch does not show yet.
func TestAWatchThatIsBehindHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode(cordoned, markOf(Mark{Since: t0, Added: []string{addedCordon}})))
		n := watched(t, client, defaults)
		if err := n.informer.GetStore().Update(newNode()); err != nil {
			t.Fatal(err)
		}
		found, _ := n.Find(instance)
		if restored, err := n.Uncordon(t.Context(), found); !restored || err != nil {
			t.Errorf("got %v, %v, want it restored", restored, err)
		}
	})
}

// conflicts has the first n patches refused, as of a Node that has changed, and keeps the bodies of all.
func conflicts(client *fake.Clientset, n int, bodies *[]string) {
	client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p, ok := action.(clienttesting.PatchActionImpl)
		if !ok || p.GetPatchType() != types.MergePatchType {
			return true, nil, fmt.Errorf("got a %T", action)
		}
		var body struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(p.GetPatch(), &body); err != nil {
			return true, nil, err
		}
		if *bodies = append(*bodies, body.Metadata.ResourceVersion); len(*bodies) <= n {
			return true, nil, apierrors.NewConflict(nodeResource, "n", errors.New("the object has been modified"))
		}
		return true, newNode(), nil
	})
}

func TestAConflictIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		found, _ := n.Find(instance)
		var versions []string
		conflicts(client, 2, &versions)
		client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, newNode(func(o *corev1.Node) { o.ResourceVersion = fmt.Sprintf("%d", 7+len(versions)) }), nil
		})
		if _, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"}); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"7", "8", "9"}, versions); diff != "" {
			t.Errorf("the versions that guard the patches:\n%s", diff)
		}
	})
}

func TestANodeThatIsGone(t *testing.T) {
	renewed := func(o *corev1.Node) { o.UID = "uid-2" }
	tests := []struct {
		name  string
		stale bool // the watch does not show it yet
		get   func() (runtime.Object, error)
	}{
		{"the watch shows none", false, func() (runtime.Object, error) { return nil, apierrors.NewNotFound(nodeResource, "n") }},
		{"the API has none", true, func() (runtime.Object, error) { return nil, apierrors.NewNotFound(nodeResource, "n") }},
		{"the name is another instance's by now", true, func() (runtime.Object, error) { return newNode(renewed), nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				if tt.stale {
					client = fake.NewClientset(newNode())
				}
				n := watched(t, client, defaults)
				var versions []string
				conflicts(client, 1, &versions)
				client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					obj, err := tt.get()
					return true, obj, err
				})
				_, _, err := n.Cordon(t.Context(), Node{Name: "n", UID: "uid-1"}, Reason{Kind: "spot"})
				if !errors.Is(err, ErrGone) {
					t.Errorf("got %v, want %v", err, ErrGone)
				}
			})
		})
	}
}

func TestAnotherErrorIsToldAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(nodeResource, "n", errors.New("no"))
		})
		found, _ := n.Find(instance)
		_, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"})
		if !apierrors.IsForbidden(err) || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "change node n") {
			t.Errorf("got %v", err)
		}
	})
}

func TestExcludeIsForLateOnly(t *testing.T) {
	for _, tt := range []struct {
		when string
		want string
	}{{Early, ""}, {Off, ""}, {Late, "patch"}} {
		t.Run(tt.when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(newNode(markOf(Mark{Since: t0})))
				n := watched(t, client, with(func(c *Config) { c.ExcludeFromLB = tt.when }))
				found, _ := n.Find(instance)
				if err := n.Exclude(t.Context(), found); err != nil {
					t.Error(err)
				}
				if got := verbs(client); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestAwait(t *testing.T) {
	type result struct {
		node Node
		err  error
	}
	// await runs Await while meanwhile does what it does, and returns what came of it.
	await := func(t *testing.T, client *fake.Clientset, meanwhile func(cancel context.CancelCauseFunc)) result {
		t.Helper()
		n := watched(t, client, defaults)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		done := make(chan result, 1)
		go func() {
			found, err := n.Await(ctx, instance)
			done <- result{found, err}
		}()
		synctest.Wait()
		meanwhile(cancel)
		got := <-done
		if n.waiters.mu.Lock(); len(n.waiters.byInstance) > 0 {
			t.Errorf("still waiting: %v", n.waiters.byInstance)
		}
		n.waiters.mu.Unlock()
		return got
	}
	t.Run("a node that is there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			got := await(t, fake.NewClientset(newNode()), func(context.CancelCauseFunc) {})
			if got.err != nil || got.node.Name != "n" {
				t.Errorf("got %+v", got)
			}
		})
	})
	t.Run("a node that registers, and gets its provider id later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			got := await(t, client, func(context.CancelCauseFunc) {
				nameless := newNode(func(o *corev1.Node) { o.Spec.ProviderID = "" })
				if err := client.Tracker().Add(nameless); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if err := client.Tracker().Update(nodesResource, newNode(), ""); err != nil {
					t.Error(err)
				}
			})
			if got.err != nil || got.node.InstanceID != instance {
				t.Errorf("got %+v", got)
			}
		})
	})
	t.Run("nobody waits for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("never registered")
			got := await(t, fake.NewClientset(), func(cancel context.CancelCauseFunc) { cancel(cause) })
			if !errors.Is(got.err, cause) {
				t.Errorf("got %+v", got)
			}
		})
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

func TestEventsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		ctx, cancel := context.WithCancel(t.Context())
		events := NewEvents(ctx, client, "node-drainer")
		synctest.Wait() // The recorder listens.
		cancel()        // The process is about to end, which is not to be missed.
		events.OnNode("n", "uid-1", "Draining", "draining node n", false)
		events.OnPod("x", "a", "uid-a", "Blocked", "held by b", true)
		events.Close()
		type event struct{ Namespace, Object, UID, Type, Reason, Message, By string }
		var got []event
		for _, a := range client.Actions() {
			create, ok := a.(clienttesting.CreateActionImpl)
			if !ok {
				t.Fatalf("got %v", a)
			}
			e, ok := create.Object.(*corev1.Event)
			if !ok {
				t.Fatalf("got a %T", create.Object)
			}
			o := e.InvolvedObject
			got = append(got, event{
				create.Namespace, o.Kind + " " + o.Namespace + "/" + o.Name, string(o.UID), e.Type, e.Reason, e.Message,
				e.Source.Component,
			})
		}
		want := []event{
			{"default", "Node /n", "uid-1", "Normal", "Draining", "draining node n", "node-drainer"},
			{"x", "Pod x/a", "uid-a", "Warning", "Blocked", "held by b", "node-drainer"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestEventsDoNotHoldUpTheEnd of the process when the API server does not answer.
func TestEventsDoNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no answer")
		})
		events := NewEvents(t.Context(), client, "node-drainer")
		synctest.Wait()
		events.OnNode("n", "uid-1", "Draining", "draining node n", false)
		began := time.Now()
		events.Close()
		if took := time.Since(began); took != flushTime {
			t.Errorf("took %v", took)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string // in the error, all at once
	}{
		{"the usual", defaults, nil},
		{"no waiting for registration", with(late, func(c *Config) { c.RegistrationTimeout = 0 }), nil},
		{"NoExecute", with(off, func(c *Config) { c.TaintEffect = "NoExecute" }), nil},
		{"nothing set", Config{}, []string{`NODE_TAINT_KEY is ""`, `NODE_TAINT_EFFECT is ""`, `NODE_EXCLUDE_FROM_LOAD_BALANCERS is ""`}},
		{
			"everything wrong",
			Config{
				TaintKey: "a b", TaintEffect: "Never", ExcludeFromLB: "sometimes", RegistrationTimeout: 2 * time.Hour,
				Selector: "pool in",
			},
			[]string{
				`NODE_SELECTOR is "pool in"`,
				`NODE_TAINT_KEY is "a b"`, `NODE_TAINT_EFFECT is "Never"`,
				`NODE_EXCLUDE_FROM_LOAD_BALANCERS is "sometimes"`, "NODE_REGISTRATION_TIMEOUT is 2h0m0s",
			},
		},
		{"time runs backwards", with(func(c *Config) { c.RegistrationTimeout = -1 }), []string{"NODE_REGISTRATION_TIMEOUT is -1ns"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if err != nil && strings.Count(err.Error(), "\n")+1 != len(tt.want) {
				t.Errorf("got %q, want %d mistakes", err, len(tt.want))
			}
		})
	}
}
