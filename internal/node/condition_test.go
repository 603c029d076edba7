package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// conditionFixture is a Node whose condition is written in a bubble: the writes, and the failures that are reported.
type conditionFixture struct {
	*Nodes
	t      *testing.T
	client *fake.Clientset
	began  time.Time
	stop   func()       // of the writing
	answer func() error // to a write; nil is success

	mu      sync.Mutex
	writes  []string
	reports []string
}

// newConditionFixture returns a fixture that does not write yet.
func newConditionFixture(t *testing.T, changes ...func(*corev1.Node)) *conditionFixture {
	t.Helper()
	b := &conditionFixture{t: t, client: fake.NewClientset(newNode(changes...)), answer: func() error { return nil }}
	b.Nodes = watched(t, b.client, defaults)
	b.client.PrependReactor("patch", "nodes", b.patched)
	b.began = time.Now()
	return b
}

// run writes until stop is called.
func (b *conditionFixture) run() {
	ctx, cancel := context.WithCancel(b.t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Conditions.Run(ctx, b) })
	b.stop = func() { cancel(); running.Wait() }
	b.t.Cleanup(b.stop)
	synctest.Wait()
}

func (b *conditionFixture) expect(writes []string, reports ...string) {
	b.t.Helper()
	if diff := cmp.Diff(writes, b.writes); diff != "" {
		b.t.Errorf("the writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(reports, b.reports); diff != "" {
		b.t.Errorf("the failures (-want +got):\n%s", diff)
	}
}

// patched records each write of the condition, with its transition time.
func (b *conditionFixture) patched(action clienttesting.Action) (bool, runtime.Object, error) {
	p, ok := action.(clienttesting.PatchActionImpl)
	if !ok || p.GetPatchType() == types.MergePatchType {
		return false, nil, nil // of Cordon and Uncordon
	}
	var body struct {
		Metadata struct{ UID string }
		Status   struct {
			Conditions []struct {
				corev1.NodeCondition
				Directive string `json:"$patch"`
			}
		}
	}
	if err := json.Unmarshal(p.GetPatch(), &body); err != nil {
		return true, nil, err
	}
	if p.GetSubresource() != "status" || p.GetPatchType() != types.StrategicMergePatchType ||
		body.Metadata.UID != "uid-1" || len(body.Status.Conditions) != 1 || body.Status.Conditions[0].Type != ConditionType {
		b.t.Errorf("got the patch %s of %q", p.GetPatch(), p.GetSubresource())
	}
	c := body.Status.Conditions[0]
	line := fmt.Sprintf("%v %s %s: %s", time.Since(b.began), c.Status, c.Reason, c.Message)
	if !c.LastTransitionTime.IsZero() {
		line += fmt.Sprintf(" (since %v)", c.LastTransitionTime.Sub(b.began))
		if beat := c.LastHeartbeatTime.Time; !beat.Equal(time.Now().Truncate(time.Second)) {
			b.t.Errorf("written at %v with a heartbeat at %v", time.Now(), beat)
		}
	}
	if c.Directive == "delete" {
		line = fmt.Sprintf("%v removed", time.Since(b.began))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = append(b.writes, line)
	err := b.answer()
	return err != nil, nil, err
}

func (b *conditionFixture) report(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, fmt.Sprintf("%v ", time.Since(b.began))+fmt.Sprintf(format, args...))
}

func (b *conditionFixture) KubernetesFailed(operation string, err error) {
	b.report("%s: %v", operation, err)
}

func (b *conditionFixture) ConditionFailed(node string, err error) {
	b.report("gave up %s: %v", node, err)
}

func (b *conditionFixture) draining(left int) {
	b.Conditions.Report("n", "uid-1", Condition{Reason: "Draining", Message: fmt.Sprintf("%d left", left)})
}

func (b *conditionFixture) drained() {
	b.Conditions.Report("n", "uid-1", Condition{Drained: true, Reason: "Drained", Message: "empty", Final: true})
}

func (b *conditionFixture) leftBehind() {
	b.Conditions.Report("n", "uid-1", Condition{Reason: "PodsLeftBehind", Message: "2 left", Final: true})
}

func (b *conditionFixture) uncordon() {
	b.t.Helper()
	if _, err := b.Uncordon(b.t.Context(), Node{Name: "n", UID: "uid-1"}, never); err != nil {
		b.t.Error(err)
	}
}

// find returns the Node as the watch shows it.
func (b *conditionFixture) find() Node {
	b.t.Helper()
	n, ok := b.Find(instance)
	if !ok {
		b.t.Fatal("the watch does not show the Node")
	}
	return n
}

// wantForgotten fails the test if the state of a Node is kept for a minute.
func (b *conditionFixture) wantForgotten() {
	b.t.Helper()
	elapse(time.Minute)
	if len(b.Conditions.states) > 0 {
		b.t.Errorf("kept %v", b.Conditions.states)
	}
}

// elapse lets the time go by, and all happen that happens meanwhile.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// conditionsNow are those of the Node in the API server, by type.
func (b *conditionFixture) conditionsNow() map[corev1.NodeConditionType]string {
	b.t.Helper()
	out := map[corev1.NodeConditionType]string{}
	for _, c := range nodeNow(b.t, b.client).Status.Conditions {
		out[c.Type] = string(c.Status) + " " + c.Reason
	}
	return out
}

// showing adds a condition that an earlier process has written an hour ago.
func showing(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: ConditionType, Status: status, Reason: "Earlier", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		})
	}
}

func TestConditionWrites(t *testing.T) {
	var changes []func(*corev1.Node)
	check := func(name string, do func(b *conditionFixture), want ...string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			b := newConditionFixture(t, changes...)
			b.run()
			do(b)
			elapse(time.Hour)
			b.expect(want)
		})
	}
	const first = "0s False Draining: 3 left (since 0s)"
	check("the first condition is written at once", func(b *conditionFixture) { b.draining(3) }, first)
	check("further ones are written every ten seconds, the latest of them", func(b *conditionFixture) {
		b.draining(30)
		elapse(time.Second / 2)
		for left := 29; left >= 0; left-- {
			b.draining(left)
			elapse(time.Second)
		}
	}, "0s False Draining: 30 left (since 0s)", "10s False Draining: 20 left (since 0s)",
		"20s False Draining: 10 left (since 0s)", "30s False Draining: 0 left (since 0s)")
	check("after ten seconds without a write the next one does not wait",
		func(b *conditionFixture) { b.draining(3); elapse(time.Minute); b.draining(2) },
		first, "1m0s False Draining: 2 left (since 0s)")
	check("the final one does not wait", func(b *conditionFixture) {
		b.draining(3)
		elapse(5 * time.Second)
		b.draining(2)
		elapse(4 * time.Second)
		b.drained()
	}, first, "9s True Drained: empty (since 9s)")
	check("pods left behind do not change the status, nor its transition time",
		func(b *conditionFixture) { b.draining(3); elapse(5 * time.Second); b.leftBehind() },
		first, "5s False PodsLeftBehind: 2 left (since 0s)")
	check("a drain without pods takes one write, however often its end is reported",
		func(b *conditionFixture) { b.drained(); synctest.Wait(); b.drained(); elapse(time.Minute); b.drained() },
		"0s True Drained: empty (since 0s)")
	check("another node with the same name is ignored",
		func(b *conditionFixture) { b.Conditions.Report("n", "uid-0", Condition{Reason: "Draining"}) })
	check("a node that does not exist is tried once", func(b *conditionFixture) {
		b.Conditions.Report("m", "uid-1", Condition{Reason: "Draining", Message: "3 left"})
		b.wantForgotten()
		b.Conditions.remove("m", "uid-1")
	}, first)
	check("a node that the watch does not show yet gets its condition, and loses it", func(b *conditionFixture) {
		b.Conditions.existing = cache.NewStore(cache.MetaNamespaceKeyFunc)
		b.draining(3)
		synctest.Wait()
		b.Conditions.remove("n", "uid-1")
	}, first, "0s removed")
	check("a deleted node is forgotten", func(b *conditionFixture) {
		b.draining(3)
		synctest.Wait()
		b.draining(2)
		if err := b.client.Tracker().Delete(nodesResource, "", "n"); err != nil {
			b.t.Error(err)
		}
		b.wantForgotten()
	}, first)
	check("uncordoning removes the condition at once",
		func(b *conditionFixture) { b.draining(3); elapse(time.Second); b.draining(2); b.uncordon() }, first, "1s removed")
	check("uncordoning a node without a condition writes nothing", func(b *conditionFixture) { b.uncordon() })
	check("a node that is drained again after that gets a condition",
		func(b *conditionFixture) {
			b.draining(3)
			elapse(time.Second)
			b.uncordon()
			synctest.Wait()
			b.draining(3)
		},
		first, "1s removed", "1s False Draining: 3 left (since 1s)")

	changes = append(changes, showing(corev1.ConditionFalse))
	check("a condition of an earlier process keeps its transition time",
		func(b *conditionFixture) { b.draining(3); elapse(time.Second); b.drained() },
		"0s False Draining: 3 left (since -1h0m0s)", "1s True Drained: empty (since 1s)")
	check("uncordoning removes the condition of an earlier process once",
		func(b *conditionFixture) { b.uncordon(); elapse(time.Minute); b.uncordon() }, "0s removed")
	check("the condition of an earlier process is removed without a mark",
		func(b *conditionFixture) {
			b.RemoveCondition(b.find())
			elapse(time.Minute)
			b.RemoveCondition(b.find())
		}, "0s removed")
	changes[0] = showing(corev1.ConditionTrue)
	check("a second drain of a node has a new transition time", func(b *conditionFixture) { b.draining(3) }, first)
}

// TestConditionIsMerged: the conditions of other writers are kept.
func TestConditionIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConditionFixture(t, ready(corev1.ConditionTrue))
		b.run()
		b.draining(3)
		synctest.Wait()
		want := map[corev1.NodeConditionType]string{
			corev1.NodeReady: "True ", corev1.NodeMemoryPressure: "False ", ConditionType: "False Draining",
		}
		if diff := cmp.Diff(want, b.conditionsNow()); diff != "" {
			t.Errorf("while it drains (-want +got):\n%s", diff)
		}
		b.uncordon()
		synctest.Wait()
		delete(want, ConditionType)
		if diff := cmp.Diff(want, b.conditionsNow()); diff != "" {
			t.Errorf("after the uncordon (-want +got):\n%s", diff)
		}
	})
}

// TestConditionAfterUncordon: a condition whose removal could not be written before the end of the process is still
// known, from the Node, and another process removes it.
func TestConditionAfterUncordon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConditionFixture(t, showing(corev1.ConditionTrue))
		b.run()
		b.answer = func() error { return errors.New("no answer") }
		if _, _, err := b.Cordon(t.Context(), b.find(), Reason{Kind: "test"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.uncordon()
		b.stop()
		b.answer = func() error { return nil }
		b.run()
		if left := b.find(); !left.HasCondition || !left.Mark.Since.IsZero() {
			t.Errorf("after the uncordon the node is %+v", left)
		}
		b.RemoveCondition(b.find())
		synctest.Wait()
		if left := b.find(); left.HasCondition {
			t.Errorf("in the end the node is %+v", left)
		}
	})
}

// TestConditionsRunAgain: what was reported before Run is written. A report that was not written before the end of Run
// is dropped, since another process may have written a later one. The same report is written again after that.
func TestConditionsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConditionFixture(t)
		b.draining(3)
		b.run()
		b.draining(2) // to be written in ten seconds
		b.stop()
		b.run()
		elapse(time.Minute)
		b.draining(3)
		synctest.Wait()
		b.expect([]string{"0s False Draining: 3 left (since 0s)", "1m0s False Draining: 3 left (since 0s)"})
	})
}
