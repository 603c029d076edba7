package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var start = time.Date(2027, 3, 1, 10, 0, 0, 0, time.UTC)

// at returns a pod that was evicted so many seconds after the start, after a change.
func at(seconds int, name string, changes ...func(*Pod)) Pod {
	p := Pod{Name: name, At: start.Add(time.Duration(seconds) * time.Second), How: evicted}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func left(why string) func(*Pod) { return func(p *Pod) { p.Left = why } }

func byDeletion(p *Pod) { p.How, p.Why, p.Bypassed = deleted, "deadline", []string{"web/b"} }

func ended(p *Pod) { p.How = "ended" }

func onlyLeft(p *Pod) { p.How, p.At, p.Left = "", time.Time{}, "blocked-by-budget" }

// drainOf returns the record of a drain with an outcome and pods.
func drainOf(node, outcome string, pods ...Pod) Drain {
	return Drain{
		Node: node, UID: "uid-" + node, Event: "lifecycle-terminating", Cause: "it ends", Began: start,
		Ended: start.Add(time.Minute), Outcome: outcome, Counts: Count(pods), Details: pods,
	}
}

// TestContinued: what two processes did in one drain is one record, and no pod counts twice.
func TestContinued(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		first, later Drain
		want         Drain
	}{
		{
			"another process continues the drain", drainOf("n", Interrupted, at(1, "a"), at(2, "b")),
			drainOf("n", drained, at(3, "b", ended), at(4, "c")), drainOf("n", drained, at(1, "a"), at(2, "b"), at(4, "c")),
		},
		{
			"the record of the first process is late", drainOf("n", drained, at(3, "c")), drainOf("n", Interrupted, at(1, "a")),
			drainOf("n", drained, at(1, "a"), at(3, "c")),
		},
		{
			"the pod that was left has gone", drainOf("n", "left-behind", at(1, "a"), at(0, "b", onlyLeft)), drainOf("n", drained),
			drainOf("n", drained, at(1, "a")),
		},
		{
			"the pod that was still terminating has gone", drainOf("n", "left-behind", at(1, "a", left("terminating"))),
			drainOf("n", drained, at(5, "a", ended)), drainOf("n", drained, at(1, "a")),
		},
		{
			"the pod that was evicted is terminating at the end", drainOf("n", Interrupted, at(1, "a")),
			drainOf("n", "left-behind", at(0, "a", onlyLeft, left("terminating"))),
			drainOf("n", "left-behind", at(1, "a", left("terminating"))),
		},
		{
			"pods that come late after a drain by force", drainOf("n", byForce, at(1, "a", byDeletion)), drainOf("n", drained, at(2, "b")),
			drainOf("n", byForce, at(1, "a", byDeletion), at(2, "b")),
		},
		{
			"the lifecycle action ends during the drain", drainOf("n", Interrupted, at(1, "a"), at(0, "b", onlyLeft)),
			drainOf("n", CutShort), drainOf("n", CutShort, at(1, "a"), at(0, "b", onlyLeft)),
		},
		{
			"the same, in the other order", drainOf("n", CutShort), drainOf("n", Interrupted, at(1, "a")),
			drainOf("n", CutShort, at(1, "a")),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := merge([]Drain{drainOf("other", drained)}, tt.first, tt.later)
			if diff := cmp.Diff([]Drain{drainOf("other", drained), tt.want}, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestContinuedForecast: a drain is compared with what was expected when it began, whichever record is written first.
func TestContinuedForecast(t *testing.T) {
	t.Parallel()
	first, later := drainOf("n", Interrupted, at(1, "a")), drainOf("n", drained, at(3, "b"))
	first.Expected, later.Expected = start.Add(time.Minute), start.Add(time.Hour)
	for _, order := range [][]Drain{{first, later}, {later, first}} {
		if got := merge(nil, order...); len(got) != 1 || !got[0].Expected.Equal(first.Expected) {
			t.Errorf("got %+v", got)
		}
	}
}

// TestAnotherDrainOfTheNode: it has a record of its own.
func TestAnotherDrainOfTheNode(t *testing.T) {
	t.Parallel()
	again := drainOf("n", drained)
	again.Began = again.Began.Add(time.Second)
	if got := merge([]Drain{drainOf("n", drained)}, again); len(got) != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestLastDrains: the oldest records are dropped.
func TestLastDrains(t *testing.T) {
	t.Parallel()
	var all []Drain
	for i := range 1000 {
		all = merge(all, drainOf(fmt.Sprint(i), drained))
	}
	if len(all) != mostDrains || all[0].Node != "800" || all[mostDrains-1].Node != "999" {
		t.Errorf("%d records, from %s to %s", len(all), all[0].Node, all[len(all)-1].Node)
	}
}

// TestLimited: a record has no more pods than it can have, and those that matter most.
func TestLimited(t *testing.T) {
	t.Parallel()
	var pods []Pod
	for i := range 2 * mostPods {
		pods = append(pods, at(i, fmt.Sprint("web/", i)))
	}
	pods[2*mostPods-1] = at(2*mostPods, "web/deleted", byDeletion, func(p *Pod) {
		p.Bypassed = []string{"web/1", "web/2", "web/3", "web/4"}
	})
	pods[0] = at(0, "web/left", onlyLeft)
	d := drainOf("n", byForce, pods...)
	d.Cause = strings.Repeat("x", 10*longest)
	got := d.Limited()
	if len(got.Details) != mostPods || got.Omitted != mostPods || got.Pods != 2*mostPods || len(got.Cause) > longest {
		t.Fatalf("%d details of %d pods, %d omitted, a cause of %d bytes", len(got.Details), got.Pods, got.Omitted, len(got.Cause))
	}
	if first, last := got.Details[0].Name, got.Details[mostPods-1].Name; first != "web/1" || last != "web/left" {
		t.Errorf("the details are of %s to %s", first, last)
	}
	if p := got.Details[mostPods-2]; p.Name != "web/deleted" || len(p.Bypassed) != mostBudgets {
		t.Errorf("the pod that was deleted is %+v", p)
	}
	if len(d.Details) != 2*mostPods || len(d.Details[2*mostPods-1].Bypassed) != 4 {
		t.Error("the record itself was changed")
	}
}

// TestEncode: the lines are JSON, and are no longer than the limit: the oldest lose their details, and then are dropped.
func TestEncode(t *testing.T) {
	t.Parallel()
	records := []Drain{drainOf("old", drained, at(1, "a")), drainOf("new", byForce, at(2, "b", byDeletion))}
	whole, err := encode(records, mostBytes)
	if err != nil || strings.Count(whole, "\n") != 2 {
		t.Fatalf("%s, %v", whole, err)
	}
	if diff := cmp.Diff(records, parse(whole+"no record\n{}\n")); diff != "" {
		t.Error(diff)
	}
	short, err := encode(records, len(whole)-1)
	if err != nil || len(short) >= len(whole) {
		t.Fatalf("%s, %v", short, err)
	}
	records[0].Details, records[0].Omitted = nil, 1
	if diff := cmp.Diff(records, parse(short)); diff != "" {
		t.Error(diff)
	}
	one, err := records[1].line()
	if err != nil {
		t.Fatal(err)
	}
	records[1].Omitted, records[1].Details = 1, nil
	if least, err := encode(records, len(one)); err != nil || len(parse(least)) != 1 || parse(least)[0].Node != "new" {
		t.Errorf("%s, %v", least, err)
	}
}

// TestLongestRecords: 200 records with the longest names that Kubernetes permits fit into a ConfigMap.
func TestLongestRecords(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 253)
	var records []Drain
	for i := range mostDrains {
		var pods []Pod
		for range mostPods {
			pods = append(pods, Pod{
				Name: name[:63] + "/" + name, At: start, How: evicted, Left: "misconfigured-budget",
				Budgets: []string{name, name, name},
			})
		}
		d := drainOf(name, drained, pods...)
		d.UID, d.Cause, d.Asked = fmt.Sprint(i), name, name
		records = merge(records, d)
	}
	lines, err := encode(records, mostBytes)
	if err != nil || len(lines) > mostBytes || len(parse(lines)) != mostDrains {
		t.Errorf("%d records have %d bytes: %v", len(parse(lines)), len(lines), err)
	}
}

// TestControlCharacters: kubectl shows none of a name that others have chosen.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	d := drainOf("n", drained)
	d.Hook = "a\u009b\u202eb\nc"
	line, err := d.line()
	if err != nil || strings.ContainsAny(line[:len(line)-1], "\u009b\u202e\n") {
		t.Errorf("the line is %q, %v", line, err)
	}
	var read Drain
	if err := json.Unmarshal([]byte(line), &read); err != nil || read.Hook != d.Hook {
		t.Errorf("it is read as %+v, %v", read, err)
	}
}

// FuzzParse: whatever is in the ConfigMap, what is read of it is written again as it is.
func FuzzParse(f *testing.F) {
	line, err := drainOf("n", drained, at(1, "a", byDeletion)).line()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add("{\"node\":\"a\"}\nx\n[]")
	f.Fuzz(func(t *testing.T, lines string) {
		records := parse(lines)
		again, err := encode(records, len(lines)*100+mostBytes)
		if err != nil {
			t.Skip() // a time of a year that JSON cannot have
		}
		if diff := cmp.Diff(records, parse(again), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
