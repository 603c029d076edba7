package node

import (
	"context"
	"encoding/json"
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

func newConditionFixture(t *testing.T, node *corev1.Node) *conditionFixture {
	t.Helper()
	b := &conditionFixture{t: t, client: fake.NewClientset(node), began: time.Now(), answer: func() error { return nil }}
	b.Nodes = watched(t, b.client, defaults)
	b.client.PrependReactor("patch", "nodes", b.patched)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Conditions.Run(ctx, b) })
	b.stop = func() { cancel(); running.Wait() }
	t.Cleanup(b.stop)
	return b
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

func (b *conditionFixture) KubernetesFailed(operation string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, fmt.Sprintf("%v %s: %v", time.Since(b.began), operation, err))
}

func (b *conditionFixture) ConditionFailed(node string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, fmt.Sprintf("%v gave up %s: %v", time.Since(b.began), node, err))
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
	if _, err := b.Uncordon(b.t.Context(), Node{Name: "n", UID: "uid-1"}); err != nil {
		b.t.Error(err)
	}
}

// elapse lets the time go by, and all happen that happens meanwhile.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// conditions are those of the Node in the API server, by type.
func (b *conditionFixture) conditionsNow() map[corev1.NodeConditionType]string {
	b.t.Helper()
	got, err := b.client.Tracker().Get(nodesResource, "", "n")
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[corev1.NodeConditionType]string{}
	for _, c := range got.(*corev1.Node).Status.Conditions { //nolint:forcetypeassert // Nodes are asked for
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
	check := func(name string, node func() *corev1.Node, do func(b *conditionFixture), want []string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			if node == nil {
				node = func() *corev1.Node { return newNode(ready(corev1.ConditionTrue)) }
			}
			b := newConditionFixture(t, node())
			synctest.Wait()
			do(b)
			elapse(time.Hour)
			if diff := cmp.Diff(want, b.writes); diff != "" {
				t.Errorf("the writes (-want +got):\n%s", diff)
			}
			if len(b.reports) > 0 {
				t.Errorf("reported %q", b.reports)
			}
		})
	}
	check("the first condition is written at once", nil, func(b *conditionFixture) { b.draining(3) },
		[]string{"0s False Draining: 3 left (since 0s)"})
	check("further ones are written every ten seconds, the latest of them", nil, func(b *conditionFixture) {
		b.draining(30)
		elapse(time.Second / 2)
		for left := 29; left >= 0; left-- {
			b.draining(left)
			elapse(time.Second)
		}
	},
		[]string{"0s False Draining: 30 left (since 0s)", "10s False Draining: 20 left (since 0s)", "20s False Draining: 10 left (since 0s)", "30s False Draining: 0 left (since 0s)"})
	check("after ten seconds without a write the next one does not wait", nil,
		func(b *conditionFixture) { b.draining(3); elapse(time.Minute); b.draining(2) },
		[]string{"0s False Draining: 3 left (since 0s)", "1m0s False Draining: 2 left (since 0s)"})
	check("a drain of less than ten seconds takes two writes: the final one does not wait", nil, func(b *conditionFixture) {
		for left := 9; left >= 0; left-- {
			b.draining(left)
			elapse(900 * time.Millisecond)
		}
		b.drained()
	}, []string{"0s False Draining: 9 left (since 0s)", "9s True Drained: empty (since 9s)"})
	check("pods left behind do not change the status, nor its transition time", nil,
		func(b *conditionFixture) { b.draining(3); elapse(5 * time.Second); b.leftBehind() },
		[]string{"0s False Draining: 3 left (since 0s)", "5s False PodsLeftBehind: 2 left (since 0s)"})
	check("a drain without pods takes one write, however often its end is reported", nil,
		func(b *conditionFixture) { b.drained(); synctest.Wait(); b.drained(); elapse(time.Minute); b.drained() },
		[]string{"0s True Drained: empty (since 0s)"})
	check("a condition of an earlier process keeps its transition time", func() *corev1.Node { return newNode(showing(corev1.ConditionFalse)) },
		func(b *conditionFixture) { b.draining(3); elapse(time.Second); b.drained() },
		[]string{"0s False Draining: 3 left (since -1h0m0s)", "1s True Drained: empty (since 1s)"})
	check("a second drain of a node has a new transition time", func() *corev1.Node { return newNode(showing(corev1.ConditionTrue)) },
		func(b *conditionFixture) { b.draining(3) }, []string{"0s False Draining: 3 left (since 0s)"})
	check("another node with the same name is ignored", nil,
		func(b *conditionFixture) { b.Conditions.Report("n", "uid-0", Condition{Reason: "Draining"}) }, nil)
	check("a node that does not exist is ignored", nil,
		func(b *conditionFixture) { b.Conditions.Report("m", "uid-1", Condition{Reason: "Draining"}) }, nil)
	check("a deleted node is forgotten", nil, func(b *conditionFixture) {
		b.draining(3)
		synctest.Wait()
		b.draining(2)
		if err := b.client.Tracker().Delete(nodesResource, "", "n"); err != nil {
			b.t.Error(err)
		}
		elapse(time.Minute)
		if len(b.Conditions.states) > 0 {
			b.t.Errorf("kept %v", b.Conditions.states)
		}
	}, []string{"0s False Draining: 3 left (since 0s)"})
	check("uncordoning removes the condition at once", nil,
		func(b *conditionFixture) { b.draining(3); elapse(time.Second); b.draining(2); b.uncordon() },
		[]string{"0s False Draining: 3 left (since 0s)", "1s removed"})
	check("uncordoning removes the condition of an earlier process once",
		func() *corev1.Node { return newNode(showing(corev1.ConditionFalse)) },
		func(b *conditionFixture) { b.uncordon(); elapse(time.Minute); b.uncordon() }, []string{"0s removed"})
	check("uncordoning a node without a condition writes nothing", nil, func(b *conditionFixture) { b.uncordon() }, nil)
	check("a node that is drained again after that gets a condition", nil, func(b *conditionFixture) {
		b.draining(3)
		elapse(time.Second)
		b.uncordon()
		synctest.Wait()
		b.draining(3)
	}, []string{"0s False Draining: 3 left (since 0s)", "1s removed", "1s False Draining: 3 left (since 1s)"})
}

// TestConditionIsMerged: the conditions of other writers are kept.
func TestConditionIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConditionFixture(t, newNode(ready(corev1.ConditionTrue)))
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

// TestConditionReportedBeforeRun waits for it.
func TestConditionReportedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		b := &conditionFixture{Nodes: watched(t, client, defaults), t: t, client: client, answer: func() error { return nil }}
		b.draining(3)
		client.PrependReactor("patch", "nodes", b.patched)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.began = time.Now()
		b.Conditions.Run(ctx, b)
		if len(b.writes) != 1 {
			t.Errorf("wrote %q", b.writes)
		}
	})
}

// TestConditionsRunAgain: a report that was not written before the end of Run is dropped, since another process may
// have written a later one. The same report is written again after that.
func TestConditionsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConditionFixture(t, newNode())
		b.draining(3)
		synctest.Wait()
		b.draining(2) // to be written in ten seconds
		b.stop()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.Conditions.Run(ctx, b) })
		time.Sleep(time.Minute)
		b.draining(3)
		synctest.Wait()
		cancel()
		running.Wait()
		want := []string{"0s False Draining: 3 left (since 0s)", "1m0s False Draining: 3 left (since 0s)"}
		if diff := cmp.Diff(want, b.writes); diff != "" || len(b.reports) > 0 {
			t.Errorf("wrote (-want +got):\n%s\nreported %q", diff, b.reports)
		}
	})
}
