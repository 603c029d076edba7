package node

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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
	check := func(name string, answer func() error, do func(b *conditionFixture), wrote []string, reports ...string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			b := newConditionFixture(t)
			b.answer = answer
			b.run()
			do(b)
			elapse(time.Hour)
			b.expect(wrote, reports...)
		})
	}
	const first, empty = "0s False Draining: 3 left (since 0s)", " True Drained: empty (since 0s)"
	check("an error is retried after a pause that doubles", failing(3, outage), (*conditionFixture).drained,
		[]string{"0s" + empty, "250ms" + empty, "750ms" + empty, "1.75s" + empty},
		"0s"+operation, "250ms"+operation, "750ms"+operation)
	check("the latest report is written after the pause", failing(1, outage),
		func(b *conditionFixture) { b.draining(3); elapse(100 * time.Millisecond); b.drained() },
		[]string{first, "250ms" + empty}, "0s"+operation)
	var attempts []string
	for _, at := range []string{"0s", "250ms", "750ms", "1.75s", "3.75s", "7.75s", "15.75s", "31.75s", "1m1.75s"} {
		attempts = append(attempts, at+empty)
	}
	check("an outage is waited for", failing(8, outage), (*conditionFixture).drained, attempts, "0s"+operation,
		"250ms"+operation, "750ms"+operation, "1.75s"+operation, "3.75s"+operation, "7.75s"+operation,
		"15.75s"+operation, "31.75s"+operation)
	// A later report is written, even the same one.
	check("a forbidden write is not repeated", failing(1, forbidden),
		func(b *conditionFixture) { b.draining(3); elapse(time.Minute); b.draining(3) },
		[]string{first, "1m0s False Draining: 3 left (since 0s)"}, `0s gave up n: nodes "n" is forbidden: no`)
	check("a forbidden write is given up at once, and others wait", failing(1, forbidden), func(b *conditionFixture) {
		for left := 5; left > 0; left-- {
			b.draining(left)
			synctest.Wait()
		}
	}, []string{"0s False Draining: 5 left (since 0s)", "10s False Draining: 1 left (since 0s)"},
		`0s gave up n: nodes "n" is forbidden: no`)
	check("an invalid write is given up at once", failing(1, invalid), (*conditionFixture).drained,
		[]string{"0s" + empty}, "0s gave up n: "+invalid.Error())
	check("a node that is gone is forgotten", failing(1, apierrors.NewNotFound(nodeResource, "n")),
		(*conditionFixture).drained, []string{"0s" + empty})
	check("a node with another UID is forgotten", failing(1, other), (*conditionFixture).drained, []string{"0s" + empty})
	check("a removal is retried", failing(2, outage),
		func(b *conditionFixture) { b.draining(3); elapse(100 * time.Millisecond); b.uncordon() },
		[]string{first, "250ms removed", "750ms removed"}, "0s"+operation, "250ms"+operation)
}

// TestConditionWritesAreSequential: what is reported during a write is written after it, at once.
func TestConditionWritesAreSequential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConditionFixture(t)
		b.answer = func() error { time.Sleep(3 * time.Second); return nil }
		b.run()
		b.draining(3)
		elapse(time.Second)
		b.draining(2)
		b.Conditions.remove("n", "uid-1") // as Uncordon does; the fake client serves one request at a time
		elapse(time.Hour)
		b.expect([]string{"0s False Draining: 3 left (since 0s)", "3s removed"})
	})
}

func TestConditionsAtTheEndOfRun(t *testing.T) {
	var outage error
	check := func(name string, do func(b *conditionFixture), wrote []string, reports ...string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			b := newConditionFixture(t)
			b.answer = func() error { return outage }
			b.run()
			do(b)
			b.stop()
			if took := time.Since(b.began); took > 0 {
				t.Errorf("took %v", took)
			}
			b.expect(wrote, reports...)
		})
	}
	const first, drained = "0s False Draining: 3 left (since 0s)", "0s True Drained: empty (since 0s)"
	check("a final condition is written", func(b *conditionFixture) { b.draining(3); synctest.Wait(); b.drained() },
		[]string{first, drained})
	check("a condition that is not final is left to the next process",
		func(b *conditionFixture) { b.draining(3); synctest.Wait(); b.draining(2) }, []string{first})
	check("a report after the end is not written", func(b *conditionFixture) { b.stop(); b.drained() }, nil)
	outage = errors.New("no answer")
	const failed = "0s write the condition of node n: no answer"
	check("a final condition that fails again is given up", func(b *conditionFixture) { b.drained(); synctest.Wait() },
		[]string{drained, drained}, failed, "0s gave up n: no answer")
	check("a final condition that waits for a retry is written",
		func(b *conditionFixture) { b.drained(); synctest.Wait(); b.answer = func() error { return nil } },
		[]string{drained, drained}, failed)
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
		b := &conditionFixture{t: t}
		if b.Nodes, err = New(client, defaults); err != nil {
			t.Fatal(err)
		}
		if err := b.informer.GetStore().Add(newNode()); err != nil {
			t.Fatal(err)
		}
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
