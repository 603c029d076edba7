package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// board is a Node whose condition is written in a bubble: what is written, and what is told of it.
type board struct {
	*Nodes
	t      *testing.T
	client *fake.Clientset
	began  time.Time
	end    func()       // of the writing
	answer func() error // to a write; nil is success

	mu    sync.Mutex
	wrote []string
	told  []string
}

func newBoard(t *testing.T, node *corev1.Node) *board {
	t.Helper()
	b := &board{t: t, client: fake.NewClientset(node), began: time.Now(), answer: func() error { return nil }}
	b.Nodes = watched(t, b.client, usual)
	b.client.PrependReactor("patch", "nodes", b.patched)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.WriteConditions(ctx, b) })
	b.end = func() { cancel(); running.Wait() }
	t.Cleanup(b.end)
	return b
}

// patched notes when which condition is written, and since when it says that it has its status.
func (b *board) patched(action clienttesting.Action) (bool, runtime.Object, error) {
	p, ok := action.(clienttesting.PatchActionImpl)
	if !ok || p.GetPatchType() == types.MergePatchType {
		return false, nil, nil // of Retire and Restore
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
	b.wrote = append(b.wrote, line)
	err := b.answer()
	return err != nil, nil, err
}

func (b *board) KubernetesFailed(operation string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, fmt.Sprintf("%v %s: %v", time.Since(b.began), operation, err))
}

func (b *board) ConditionFailed(node string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, fmt.Sprintf("%v lost of %s: %v", time.Since(b.began), node, err))
}

func (b *board) draining(left int) {
	b.Report("n", "uid-1", Condition{Reason: "Draining", Message: fmt.Sprintf("%d left", left)})
}

func (b *board) drained() {
	b.Report("n", "uid-1", Condition{Drained: true, Reason: "Drained", Message: "empty", Final: true})
}

func (b *board) leftBehind() {
	b.Report("n", "uid-1", Condition{Reason: "PodsLeftBehind", Message: "2 left", Final: true})
}

func (b *board) restore() {
	b.t.Helper()
	if _, err := b.Uncordon(b.t.Context(), Node{Name: "n", UID: "uid-1"}); err != nil {
		b.t.Error(err)
	}
}

// pass lets the time go by, and all happen that happens meanwhile.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// conditions are those of the Node in the API server, by type.
func (b *board) conditionsNow() map[corev1.NodeConditionType]string {
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

// showing gives a Node the condition that an earlier process has written, an hour before.
func showing(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: ConditionType, Status: status, Reason: "Earlier", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		})
	}
}

func TestConditionIsWrittenInTime(t *testing.T) {
	tests := []struct {
		name string
		node func() *corev1.Node
		do   func(b *board)
		want []string
	}{
		{
			name: "the first state at once",
			do:   func(b *board) { b.draining(3) },
			want: []string{"0s False Draining: 3 left (since 0s)"},
		},
		{
			name: "further ones every ten seconds, the latest of them",
			do: func(b *board) {
				b.draining(30)
				pass(time.Second / 2)
				for left := 29; left >= 0; left-- {
					b.draining(left)
					pass(time.Second)
				}
			},
			want: []string{
				"0s False Draining: 30 left (since 0s)", "10s False Draining: 20 left (since 0s)",
				"20s False Draining: 10 left (since 0s)", "30s False Draining: 0 left (since 0s)",
			},
		},
		{
			name: "after a pause there is nothing to wait for",
			do:   func(b *board) { b.draining(3); pass(time.Minute); b.draining(2) },
			want: []string{"0s False Draining: 3 left (since 0s)", "1m0s False Draining: 2 left (since 0s)"},
		},
		{
			name: "a drain of less than ten seconds takes two: the first and the final one, which does not wait",
			do: func(b *board) {
				for left := 9; left >= 0; left-- {
					b.draining(left)
					pass(900 * time.Millisecond)
				}
				b.drained()
			},
			want: []string{"0s False Draining: 9 left (since 0s)", "9s True Drained: empty (since 9s)"},
		},
		{
			name: "pods that are left behind do not change the status, nor since when it is so",
			do:   func(b *board) { b.draining(3); pass(5 * time.Second); b.leftBehind() },
			want: []string{"0s False Draining: 3 left (since 0s)", "5s False PodsLeftBehind: 2 left (since 0s)"},
		},
		{
			name: "a drain with nothing to move takes one, however many tell of its end",
			do:   func(b *board) { b.drained(); synctest.Wait(); b.drained(); pass(time.Minute); b.drained() },
			want: []string{"0s True Drained: empty (since 0s)"},
		},
		{
			name: "what was shown by an earlier process is written on, and is as old as it was",
			node: func() *corev1.Node { return object(showing(corev1.ConditionFalse)) },
			do:   func(b *board) { b.draining(3); pass(time.Second); b.drained() },
			want: []string{"0s False Draining: 3 left (since -1h0m0s)", "1s True Drained: empty (since 1s)"},
		},
		{
			name: "a second drain of a node begins anew",
			node: func() *corev1.Node { return object(showing(corev1.ConditionTrue)) },
			do:   func(b *board) { b.draining(3) },
			want: []string{"0s False Draining: 3 left (since 0s)"},
		},
		{
			name: "another node of the name gets nothing",
			do:   func(b *board) { b.Report("n", "uid-0", Condition{Reason: "Draining"}) },
		},
		{
			name: "nor one that is not there",
			do:   func(b *board) { b.Report("m", "uid-1", Condition{Reason: "Draining"}) },
		},
		{
			name: "a node that goes is forgotten, with what it was to show",
			do: func(b *board) {
				b.draining(3)
				synctest.Wait()
				b.draining(2)
				if err := b.client.Tracker().Delete(nodesResource, "", "n"); err != nil {
					b.t.Error(err)
				}
				pass(time.Minute)
				if len(b.conditions.nodes) > 0 {
					b.t.Errorf("kept %v", b.conditions.nodes)
				}
			},
			want: []string{"0s False Draining: 3 left (since 0s)"},
		},
		{
			name: "a node that is restored shows none, at once",
			do:   func(b *board) { b.draining(3); pass(time.Second); b.draining(2); b.restore() },
			want: []string{"0s False Draining: 3 left (since 0s)", "1s removed"},
		},
		{
			name: "also if an earlier process has written it, and once only",
			node: func() *corev1.Node { return object(showing(corev1.ConditionFalse)) },
			do:   func(b *board) { b.restore(); pass(time.Minute); b.restore() },
			want: []string{"0s removed"},
		},
		{
			name: "one that shows none costs nothing",
			do:   func(b *board) { b.restore() },
		},
		{
			name: "a node that is drained again after that shows it",
			do:   func(b *board) { b.draining(3); pass(time.Second); b.restore(); synctest.Wait(); b.draining(3) },
			want: []string{
				"0s False Draining: 3 left (since 0s)", "1s removed", "1s False Draining: 3 left (since 1s)",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := object(ready(corev1.ConditionTrue))
				if tt.node != nil {
					node = tt.node()
				}
				b := newBoard(t, node)
				synctest.Wait()
				tt.do(b)
				pass(time.Hour)
				if diff := cmp.Diff(tt.want, b.wrote); diff != "" {
					t.Errorf("the writes (-want +got):\n%s", diff)
				}
				if len(b.told) > 0 {
					t.Errorf("told %q", b.told)
				}
			})
		})
	}
}

// TestConditionIsMerged: the conditions of others stay, and ours goes alone.
func TestConditionIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t, object(ready(corev1.ConditionTrue)))
		b.draining(3)
		synctest.Wait()
		want := map[corev1.NodeConditionType]string{
			corev1.NodeReady: "True ", corev1.NodeMemoryPressure: "False ", ConditionType: "False Draining",
		}
		if diff := cmp.Diff(want, b.conditionsNow()); diff != "" {
			t.Errorf("while it drains (-want +got):\n%s", diff)
		}
		b.restore()
		synctest.Wait()
		delete(want, ConditionType)
		if diff := cmp.Diff(want, b.conditionsNow()); diff != "" {
			t.Errorf("when it is restored (-want +got):\n%s", diff)
		}
	})
}

// TestConditionToldBeforeTheWriting waits for it.
func TestConditionToldBeforeTheWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(object())
		b := &board{Nodes: watched(t, client, usual), t: t, client: client, answer: func() error { return nil }}
		b.draining(3)
		client.PrependReactor("patch", "nodes", b.patched)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.began = time.Now()
		b.WriteConditions(ctx, b)
		if len(b.wrote) != 1 {
			t.Errorf("wrote %q", b.wrote)
		}
	})
}

// TestConditionsWrittenAgain: what one leader has not come to tell is not told later, when another may have
// told more; and what it has told is told again when it leads again.
func TestConditionsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t, object())
		b.draining(3)
		synctest.Wait()
		b.draining(2) // in ten seconds
		b.end()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.WriteConditions(ctx, b) })
		time.Sleep(time.Minute)
		b.draining(3)
		synctest.Wait()
		cancel()
		running.Wait()
		want := []string{"0s False Draining: 3 left (since 0s)", "1m0s False Draining: 3 left (since 0s)"}
		if diff := cmp.Diff(want, b.wrote); diff != "" || len(b.told) > 0 {
			t.Errorf("wrote (-want +got):\n%s\ntold %q", diff, b.told)
		}
	})
}

func TestConditionThatCannotBeWritten(t *testing.T) {
	outage := errors.New("no answer")
	forbidden := apierrors.NewForbidden(nodeResource, "n", errors.New("no"))
	other := apierrors.NewInvalid(nodeKind, "n", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "uid-1", "immutable")})
	invalid := apierrors.NewInvalid(nodeKind, "n", field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "wrong")})
	failing := func(times int, err error) func() error {
		return func() error {
			if times--; times >= 0 {
				return err
			}
			return nil
		}
	}
	const operation = " write the condition of node n: no answer"
	tests := []struct {
		name   string
		answer func() error
		do     func(b *board)
		wrote  []string
		told   []string
	}{
		{
			name: "is tried again after a pause that doubles", answer: failing(3, outage), do: (*board).drained,
			wrote: []string{
				"0s True Drained: empty (since 0s)", "250ms True Drained: empty (since 0s)",
				"750ms True Drained: empty (since 0s)", "1.75s True Drained: empty (since 0s)",
			},
			told: []string{"0s" + operation, "250ms" + operation, "750ms" + operation},
		},
		{
			name: "meanwhile the latest wins, and does not jump the pause", answer: failing(1, outage),
			do: func(b *board) { b.draining(3); pass(100 * time.Millisecond); b.drained() },
			wrote: []string{
				"0s False Draining: 3 left (since 0s)", "250ms True Drained: empty (since 0s)",
			},
			told: []string{"0s" + operation},
		},
		{
			name: "is given up after half a minute, and told", answer: failing(8, outage),
			do: func(b *board) { b.draining(3); pass(time.Minute); b.wrote = nil; b.draining(3) },
			// What is told afterwards is written, be it the same.
			wrote: []string{"1m0s False Draining: 3 left (since 0s)"},
			told: []string{
				"0s" + operation, "250ms" + operation, "750ms" + operation, "1.75s" + operation, "3.75s" + operation,
				"7.75s" + operation, "15.75s" + operation, "31.75s lost of n: no answer",
			},
		},
		{
			name: "is given up at once if it is forbidden, and not asked for all the time", answer: failing(1, forbidden),
			do: func(b *board) {
				for left := 5; left > 0; left-- {
					b.draining(left)
					synctest.Wait()
				}
			},
			wrote: []string{"0s False Draining: 5 left (since 0s)", "10s False Draining: 1 left (since 0s)"},
			told:  []string{`0s lost of n: nodes "n" is forbidden: no`},
		},
		{
			name: "is given up at once if the API server finds fault with it", answer: failing(1, invalid), do: (*board).drained,
			wrote: []string{"0s True Drained: empty (since 0s)"},
			told:  []string{"0s lost of n: " + invalid.Error()},
		},
		{
			name: "is forgotten if the node is gone", answer: failing(1, apierrors.NewNotFound(nodeResource, "n")),
			do: (*board).drained, wrote: []string{"0s True Drained: empty (since 0s)"},
		},
		{
			name: "is forgotten if the node is another", answer: failing(1, other),
			do: (*board).drained, wrote: []string{"0s True Drained: empty (since 0s)"},
		},
		{
			name: "is removed in the end", answer: failing(2, outage),
			do:    func(b *board) { b.draining(3); pass(100 * time.Millisecond); b.restore() },
			wrote: []string{"0s False Draining: 3 left (since 0s)", "250ms removed", "750ms removed"},
			told:  []string{"0s" + operation, "250ms" + operation},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(t, object(ready(corev1.ConditionTrue)))
				b.answer = tt.answer
				synctest.Wait()
				tt.do(b)
				pass(time.Hour)
				if diff := cmp.Diff(tt.wrote, b.wrote); diff != "" {
					t.Errorf("the writes (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.told, b.told); diff != "" {
					t.Errorf("what was told of them (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestConditionWaitsForTheWriteBefore: what is told while a write is under way comes after it, in one write.
func TestConditionWaitsForTheWriteBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t, object(ready(corev1.ConditionTrue)))
		b.answer = func() error { time.Sleep(3 * time.Second); return nil }
		b.draining(3)
		pass(time.Second)
		b.draining(2)
		b.withdraw("n", "uid-1") // as Restore does; the fake client does one thing at a time
		pass(time.Hour)
		want := []string{"0s False Draining: 3 left (since 0s)", "3s removed"}
		if diff := cmp.Diff(want, b.wrote); diff != "" {
			t.Errorf("the writes (-want +got):\n%s", diff)
		}
	})
}

func TestConditionAtTheEndOfTheProcess(t *testing.T) {
	outage := errors.New("no answer")
	tests := []struct {
		name  string
		do    func(b *board)
		wrote []string
		told  []string
	}{
		{
			name:  "what is final is written",
			do:    func(b *board) { b.draining(3); synctest.Wait(); b.drained() },
			wrote: []string{"0s False Draining: 3 left (since 0s)", "0s True Drained: empty (since 0s)"},
		},
		{
			name: "even if it waits to be tried again",
			do: func(b *board) {
				b.answer = func() error { b.answer = func() error { return nil }; return outage }
				b.drained()
				synctest.Wait()
			},
			wrote: []string{"0s True Drained: empty (since 0s)", "0s True Drained: empty (since 0s)"},
			told:  []string{"0s write the condition of node n: no answer"},
		},
		{
			name: "and told to be lost if that fails as well",
			do: func(b *board) {
				b.answer = func() error { return outage }
				b.drained()
				synctest.Wait()
			},
			wrote: []string{"0s True Drained: empty (since 0s)", "0s True Drained: empty (since 0s)"},
			told:  []string{"0s write the condition of node n: no answer", "0s lost of n: no answer"},
		},
		{
			name:  "what is not final is left to the next process",
			do:    func(b *board) { b.draining(3); synctest.Wait(); b.draining(2) },
			wrote: []string{"0s False Draining: 3 left (since 0s)"},
		},
		{
			name:  "what is told afterwards is not written",
			do:    func(b *board) { b.end(); b.drained() },
			wrote: nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(t, object())
				synctest.Wait()
				tt.do(b)
				b.end()
				if took := time.Since(b.began); took > 0 {
					t.Errorf("took %v", took)
				}
				if diff := cmp.Diff(tt.wrote, b.wrote); diff != "" {
					t.Errorf("the writes (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.told, b.told); diff != "" {
					t.Errorf("what was told of them (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// silence is an API server that never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// TestConditionDoesNotHoldUpTheEnd of the process when the API server does not answer.
func TestConditionDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://silent", Transport: silence{}, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		n, err := New(client, usual)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.informer.GetStore().Add(object()); err != nil {
			t.Fatal(err)
		}
		b := &board{Nodes: n, t: t}
		b.drained()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.began = time.Now()
		b.WriteConditions(ctx, b)
		if took := time.Since(b.began); took != time.Second+flushTime || len(b.told) != 1 {
			t.Errorf("ended after %v, and told %q", took, b.told)
		}
	})
}
