package node

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestConditionRetries(t *testing.T) {
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
	check := func(name string, answer func() error, do func(b *conditionFixture), wrote []string, reports []string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			b := newConditionFixture(t, newNode(ready(corev1.ConditionTrue)))
			b.answer = answer
			synctest.Wait()
			do(b)
			elapse(time.Hour)
			if diff := cmp.Diff(wrote, b.writes); diff != "" {
				t.Errorf("the writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(reports, b.reports); diff != "" {
				t.Errorf("the failures (-want +got):\n%s", diff)
			}
		})
	}
	check("an error is retried after a pause that doubles", failing(3, outage), (*conditionFixture).drained,
		[]string{"0s True Drained: empty (since 0s)", "250ms True Drained: empty (since 0s)", "750ms True Drained: empty (since 0s)", "1.75s True Drained: empty (since 0s)"},
		[]string{"0s" + operation, "250ms" + operation, "750ms" + operation})
	check("the latest report is written after the pause", failing(1, outage),
		func(b *conditionFixture) { b.draining(3); elapse(100 * time.Millisecond); b.drained() },
		[]string{"0s False Draining: 3 left (since 0s)", "250ms True Drained: empty (since 0s)"}, []string{"0s" + operation})
	// A later report is written, even the same one.
	check("a write is given up after half a minute", failing(8, outage),
		func(b *conditionFixture) { b.draining(3); elapse(time.Minute); b.writes = nil; b.draining(3) },
		[]string{"1m0s False Draining: 3 left (since 0s)"},
		[]string{"0s" + operation, "250ms" + operation, "750ms" + operation, "1.75s" + operation, "3.75s" + operation, "7.75s" +
			operation, "15.75s" + operation, "31.75s gave up n: no answer"})
	check("a forbidden write is given up at once, and others wait", failing(1, forbidden), func(b *conditionFixture) {
		for left := 5; left > 0; left-- {
			b.draining(left)
			synctest.Wait()
		}
	}, []string{"0s False Draining: 5 left (since 0s)", "10s False Draining: 1 left (since 0s)"},
		[]string{`0s gave up n: nodes "n" is forbidden: no`})
	check("an invalid write is given up at once", failing(1, invalid), (*conditionFixture).drained,
		[]string{"0s True Drained: empty (since 0s)"}, []string{"0s gave up n: " + invalid.Error()})
	check("a node that is gone is forgotten", failing(1, apierrors.NewNotFound(nodeResource, "n")), (*conditionFixture).drained,
		[]string{"0s True Drained: empty (since 0s)"}, nil)
	check("a node with another UID is forgotten", failing(1, other), (*conditionFixture).drained, []string{"0s True Drained: empty (since 0s)"},
		nil)
	check("a removal is retried", failing(2, outage), func(b *conditionFixture) { b.draining(3); elapse(100 * time.Millisecond); b.uncordon() },
		[]string{"0s False Draining: 3 left (since 0s)", "250ms removed", "750ms removed"}, []string{"0s" + operation, "250ms" + operation})
}

// TestConditionWritesAreSequential: what is reported during a write is written after it, at once.
func TestConditionWritesAreSequential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConditionFixture(t, newNode(ready(corev1.ConditionTrue)))
		b.answer = func() error { time.Sleep(3 * time.Second); return nil }
		b.draining(3)
		elapse(time.Second)
		b.draining(2)
		b.Conditions.remove("n", "uid-1") // as Uncordon does; the fake client serves one request at a time
		elapse(time.Hour)
		want := []string{"0s False Draining: 3 left (since 0s)", "3s removed"}
		if diff := cmp.Diff(want, b.writes); diff != "" {
			t.Errorf("the writes (-want +got):\n%s", diff)
		}
	})
}

func TestConditionsAtTheEndOfRun(t *testing.T) {
	outage := errors.New("no answer")
	tests := []struct {
		name    string
		do      func(b *conditionFixture)
		wrote   []string
		reports []string
	}{
		{
			name: "a final condition is written", do: func(b *conditionFixture) { b.draining(3); synctest.Wait(); b.drained() },
			wrote: []string{"0s False Draining: 3 left (since 0s)", "0s True Drained: empty (since 0s)"},
		},
		{
			name: "a final condition that waits for a retry is written",
			do: func(b *conditionFixture) {
				b.answer = func() error { b.answer = func() error { return nil }; return outage }
				b.drained()
				synctest.Wait()
			},
			wrote:   []string{"0s True Drained: empty (since 0s)", "0s True Drained: empty (since 0s)"},
			reports: []string{"0s write the condition of node n: no answer"},
		},
		{
			name: "a final condition that fails again is given up",
			do: func(b *conditionFixture) {
				b.answer = func() error { return outage }
				b.drained()
				synctest.Wait()
			},
			wrote:   []string{"0s True Drained: empty (since 0s)", "0s True Drained: empty (since 0s)"},
			reports: []string{"0s write the condition of node n: no answer", "0s gave up n: no answer"},
		},
		{
			name: "a condition that is not final is left to the next process",
			do:   func(b *conditionFixture) { b.draining(3); synctest.Wait(); b.draining(2) }, wrote: []string{"0s False Draining: 3 left (since 0s)"},
		},
		{name: "a report after the end is not written", do: func(b *conditionFixture) { b.stop(); b.drained() }, wrote: nil},
	}
	for _, tt := range tests {
		virtual(t, tt.name, func(t *testing.T) {
			b := newConditionFixture(t, newNode())
			synctest.Wait()
			tt.do(b)
			b.stop()
			if took := time.Since(b.began); took > 0 {
				t.Errorf("took %v", took)
			}
			if diff := cmp.Diff(tt.wrote, b.writes); diff != "" {
				t.Errorf("the writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.reports, b.reports); diff != "" {
				t.Errorf("the failures (-want +got):\n%s", diff)
			}
		})
	}
}

// unresponsive is an API server that never answers.
type unresponsive struct{}

func (unresponsive) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// TestConditionsDoNotDelayTheEndForLong of the process when the API server does not answer.
func TestConditionsDoNotDelayTheEndForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://silent", Transport: unresponsive{}, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		n, err := New(client, defaults)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.informer.GetStore().Add(newNode()); err != nil {
			t.Fatal(err)
		}
		b := &conditionFixture{Nodes: n, t: t}
		b.drained()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.began = time.Now()
		b.Conditions.Run(ctx, b)
		if took := time.Since(b.began); took != time.Second+flushTime || len(b.reports) != 1 {
			t.Errorf("ended after %v, reported %q", took, b.reports)
		}
	})
}
