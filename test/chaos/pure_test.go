package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
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
	if last := first[len(first)-1].At; last < n*time.Second*3/4 || last > n*time.Second*5/4 {
		t.Errorf("it takes %v", last)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"":                  "",
		"-seed 7 -agents 2": "",
		"-agents 0":         "at least 1",
		"-terminations -1":  "at least 1",
		"fast":              `unknown argument "fast"`,
		"-speed 3":          "not defined",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if want == "" && (err != nil || o.seed == 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v", args, o, err)
		}
	}
}

func TestHandovers(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, lines ...string) {
		if err := os.WriteFile(filepath.Join(dir, name+".log"), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	say := func(seconds float64, message, instance, outcome string) string {
		return `{"time":"` + at(seconds).Format(time.RFC3339Nano) + `","message":"` + message + `","instance":"` + instance +
			`","outcome":"` + outcome + `"}`
	}
	write("a.1",
		say(1, "started leading", "", ""), say(2, "termination started", "i-1", ""), say(3, "termination started", "i-2", ""),
		say(4, "termination ended", "i-1", "drained"), "SIGQUIT: no JSON")
	write("b.1", say(8, "termination started", "i-2", ""), say(9, "heartbeat sent", "i-2", ""), say(14.5, "started leading", "", ""), say(15, "heartbeat sent", "i-1", ""),
		say(17, "heartbeat sent", "i-2", ""), say(20, "stopped leading", "", ""),
		say(20, "termination ended", "i-2", "interrupted"))
	write("a.2", say(12, "event received", "i-3", ""), say(21, "started leading", "", ""), say(23, "event received", "i-2", ""))
	work, lead, err := handovers(dir, facts{Processes: []processRecord{
		{Name: "a.1", Ended: killed, Signaled: at(10)},
		{Name: "b.1", Ended: stopped, Signaled: at(19.5)},
		{Name: "a.2", Ended: stopped, Signaled: at(60)},
	}, Actions: []awsim.Action{
		{InstanceID: "i-1", Hook: ourHook, StartedAt: at(1), ClosedAt: at(4)},
		{InstanceID: "i-2", Hook: ourHook, StartedAt: at(2), ClosedAt: at(30)},
	}})
	switch {
	case err != nil:
		t.Fatal(err)
	case work[killed] != 7*time.Second || work[stopped] != 3500*time.Millisecond:
		t.Errorf("of work: %v", work)
	case lead[killed] != 4500*time.Millisecond || lead[stopped] != 1500*time.Millisecond:
		t.Errorf("of the lead: %v", lead)
	}
}
