package main

import (
	"slices"
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	const n = 300
	first := newPlan(7, n, time.Second)
	if !slices.Equal(first, newPlan(7, n, time.Second)) {
		t.Error("one seed made two plans")
	}
	if slices.Equal(first, newPlan(8, n, time.Second)) {
		t.Error("two seeds made one plan")
	}
	if !slices.IsSortedFunc(first, func(x, y step) int { return int(x.At - y.At) }) {
		t.Error("the plan is not in the order of time")
	}
	total := 0
	for _, k := range first.terminating() {
		total += k
	}
	if total != n || len(first.terminating()) != 9 {
		t.Errorf("%d instances are terminated in %d ways: %v", total, len(first.terminating()), first.terminating())
	}
	count := map[string]int{}
	for _, a := range first {
		count[a.What]++
	}
	for _, what := range []string{
		canceled, forgedSpot, forgedHook, foreignMessage, killAgent, termAgent, stopAPI, fault, duplicate, reorder, delay,
	} {
		if count[what] < 2 {
			t.Errorf("%s: %d times only", what, count[what])
		}
	}
}
