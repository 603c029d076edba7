package observe_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// keeper keeps records.
type keeper []history.Drain

func (k *keeper) Add(d history.Drain) { *k = append(*k, d) }

// TestRecords: a drain has one record, which the line of its end has too.
func TestRecords(t *testing.T) {
	r := newRecorder("info")
	var kept keeper
	r.KeepHistory(&kept)
	synctest.Test(t, func(*testing.T) { // on 2000-01-01
		s, now := newSubject(1), time.Now()
		s.node.Mark.Since = now.Add(-time.Minute + time.Millisecond)
		r.NodeDrained(s.event, s.node, drain.Report{
			Total: 4, Forced: 1, Left: []string{"web/d"}, Took: time.Minute, Expected: 45 * time.Second,
			Controls: drain.Controls{HoldUntil: now.Add(-time.Minute), EndNow: true},
			Pods: []drain.PodReport{
				{Name: "web/a", How: drain.Evicted, At: now.Add(-30 * time.Second), Budgets: []string{"web/one"}},
				{Name: "web/b", How: drain.Deleted, At: now.Add(-10 * time.Second), Reason: drain.AtDeadline, Budgets: []string{"web/two"}},
				{Name: "web/c", How: drain.Ended, At: now},
				{Name: "web/d", Left: drain.Misconfigured, Budgets: []string{"web/two"}},
			},
		})
	})
	at := func(seconds int) time.Time {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
	}
	want := history.Drain{
		Node: "node-1", UID: "uid-1", Instance: "i-00000000000000001", Event: "lifecycle-terminating", Group: "group-1",
		Hook: "hook-1", Cause: "Instance i-00000000000000001 is terminating (hook hook-1 of group group-1)",
		Began: at(-60), Deadline: at(3600), Expected: at(-15), Ended: at(0), Outcome: "left-behind",
		Asked:  "no eviction before 1999-12-31T23:59:00Z; end at once",
		Counts: history.Counts{Pods: 4, Evicted: 1, Deleted: 1, Gone: 1, Left: 1},
		Details: []history.Pod{
			{Name: "web/a", At: at(-30), How: "evicted", Budgets: []string{"web/one"}},
			{Name: "web/b", At: at(-10), How: "deleted", Why: "deadline", Bypassed: []string{"web/two"}},
			{Name: "web/c", At: at(0), How: "ended"},
			{Name: "web/d", Left: "misconfigured-budget", Budgets: []string{"web/two"}},
		},
	}
	if diff := cmp.Diff(keeper{want}, kept); diff != "" {
		t.Errorf("the records (-want +got):\n%s", diff)
	}
	var line struct{ Record history.Drain }
	if err := json.Unmarshal(r.log.Bytes(), &line); err != nil || cmp.Diff(want, line.Record) != "" {
		t.Errorf("the log is %s, %v", &r.log, err)
	}
}

// TestRecordsOfUnfinishedDrains: a drain that is interrupted has a record if it has done something, and so has one whose
// lifecycle action ends before it does.
func TestRecordsOfUnfinishedDrains(t *testing.T) {
	r := newRecorder("info")
	var kept keeper
	r.KeepHistory(&kept)
	s := newSubject(1)
	r.DrainInterrupted(s.event, s.node, drain.Report{Total: 2})
	if len(kept) > 0 || r.log.Len() > 0 {
		t.Errorf("a drain that has done nothing: %+v, %s", kept, &r.log)
	}
	r.DrainInterrupted(s.event, s.node, drain.Report{
		Total: 2, Pods: []drain.PodReport{{Name: "web/a", How: drain.Evicted, At: time.Now()}},
	})
	r.DrainCutShort(s.event, s.node)
	if len(kept) != 2 || kept[0].Outcome != history.Interrupted || kept[0].Pods != 1 || kept[1].Outcome != history.CutShort {
		t.Errorf("the records are %+v", kept)
	}
	if n := strings.Count(r.log.String(), `"message":"drain interrupted"`); n != 1 {
		t.Errorf("the log is %s", &r.log)
	}
}

// TestHistoryFailed: a failure counts as one of the API, and the log says whether the records are lost.
func TestHistoryFailed(t *testing.T) {
	r := newRecorder("info")
	before := r.scrape(t)
	r.HistoryFailed(3, true, errOutage)
	r.HistoryFailed(3, false, errOutage)
	const name = `api_errors_total{api="kubernetes"}`
	if grown := growth(before, r.scrape(t)); len(grown) != 1 || grown[name] != 2 {
		t.Errorf("the metrics have grown by %v", grown)
	}
	for _, message := range []string{"failed to write the records of drains, retrying", "records of drains were not written; they are in the log"} {
		if !strings.Contains(r.log.String(), message) {
			t.Errorf("the log has no %q: %s", message, &r.log)
		}
	}
}
