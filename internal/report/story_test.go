package report

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what was written with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

var began = time.Date(2026, 11, 21, 12, 3, 4, 0, time.UTC)

func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func drainOf(node, reason, message string) *cluster.Node {
	return &cluster.Node{Name: node, Marked: true, Drain: &cluster.Drain{Done: reason == "Drained", Reason: reason, Message: message}}
}

func oldOnes(state string, numbers ...int) []Instance {
	var all []Instance
	for _, n := range numbers {
		all = append(all, Instance{
			ID: fmt.Sprintf("i-0a%02d", n), Zone: "eu-central-1a", State: state, Old: true,
			Node: &cluster.Node{Name: fmt.Sprintf("ip-10-0-1-%d", n), Ready: true},
		})
	}
	return all
}

func newOne(n int, state string, ready bool) Instance {
	i := Instance{ID: fmt.Sprintf("i-0b%02d", n), Zone: "eu-central-1b", State: state}
	if ready {
		i.Node = &cluster.Node{Name: fmt.Sprintf("ip-10-0-2-%d", n), Ready: true}
	}
	return i
}

func with(i Instance, change func(*Instance)) Instance {
	change(&i)
	return i
}

// story is a rollout of two groups from the start to the end.
func story() []Rollout {
	workers := Group{
		Name: "workers", Mode: refresh.ModeRefresh, Phase: Replacing, Desired: 4, Total: 3,
		Target: "launch template node (lt-1) version 7 ($Latest)", Instances: append(oldOnes("InService", 1, 2, 3), newOne(1, "InService", true)),
	}
	spot := Group{
		Name: "spot", Mode: refresh.ModeUnhealthy, Phase: Queued, Desired: 1, Total: 1,
		Target: "launch template spot (lt-2) version 3", Instances: oldOnes("InService", 9),
	}
	var all []Rollout
	tell := func(second int) {
		all = append(all, snapshot(Rollout{At: at(second), Started: began, Groups: []Group{spot, workers}}))
	}
	tell(0)
	workers.Refresh, workers.Status = "1b2c3d4e-0000-4000-8000-000000000001", refresh.StatusPending
	workers.Notes = []Note{{at(1), refresh.Warn, "the hook can hold an instance for 10m at most"}}
	tell(1)
	workers.Status, workers.Reason = refresh.StatusInProgress, "Waiting for instances to warm up. For example: i-0b02"
	workers.Instances = append(oldOnes("InService", 1, 2, 3), newOne(1, "InService", true), newOne(2, "Pending:Wait", false))
	tell(20)
	workers.Instances = append(oldOnes("InService", 2, 3), newOne(1, "InService", true), newOne(2, "InService", true),
		with(oldOnes("Terminating:Wait", 1)[0], func(i *Instance) { i.Node = drainOf("ip-10-0-1-1", "Draining", "14 of 14 pods left") }))
	workers.Percent = 33
	tell(60)
	workers.Instances[4].Node = drainOf("ip-10-0-1-1", "Draining", "9 of 14 pods left")
	tell(70)
	workers.Instances[4].Node = drainOf("ip-10-0-1-1", "Blocked", "2 of 14 pods left; 2 wait for PodDisruptionBudget shop/api")
	tell(80)
	tell(139)
	tell(140)
	workers.Instances = []Instance{
		newOne(1, "InService", true), newOne(2, "InService", true), newOne(3, "InService", true),
		newOne(4, "InService", true), with(oldOnes("Terminating:Wait", 3)[0], func(i *Instance) { i.Node = drainOf("ip-10-0-1-3", "Drained", "All 9 pods have left the node") }),
	}
	workers.Status, workers.Reason, workers.Percent, workers.Gone, workers.Phase = refresh.StatusSuccessful, "", 100, 2, Draining
	spot.Phase = Replacing
	spot.Notes = []Note{{at(200), refresh.OK, "marked unhealthy: i-0a09"}}
	spot.Instances = []Instance{with(oldOnes("InService", 9)[0], func(i *Instance) { i.Unhealthy = true })}
	tell(200)
	workers.Instances, workers.Gone, workers.Phase = workers.Instances[:4], 3, Finished
	workers.Outcome, workers.Message, workers.Ended = Done, "All 3 outdated instances were replaced.", at(215)
	spot.Instances = []Instance{with(oldOnes("Terminating:Retained", 9)[0], func(i *Instance) { i.Unhealthy = true })}
	tell(215)
	spot.Phase, spot.Outcome, spot.Ended = Finished, Incomplete, at(3905)
	spot.Message = "The drain of i-0a09 was abandoned and the instance is retained. Look at its pods, then terminate it."
	tell(3905)
	return all
}

// tell has a reporter tell the whole story.
func tell(r Reporter) {
	all := story()
	for _, moment := range all[:len(all)-1] {
		r.Show(moment)
	}
	r.End(all[len(all)-1])
}

func plans() []Plan {
	node := func(n int, ready bool, pods int, blocking ...string) (*cluster.Node, *cluster.Load) {
		return &cluster.Node{Name: fmt.Sprintf("ip-10-0-1-%d", n), Ready: ready}, &cluster.Load{Pods: pods, Blocking: blocking}
	}
	older := []refresh.Reason{{Code: refresh.CodeVersion, Text: "launched from version 6, the group has version 7"}}
	instances := []Planned{
		{ID: "i-0a01", Zone: "eu-central-1a", Type: "m7g.large", State: "InService", Outdated: true, Reasons: older},
		{ID: "i-0a02", Zone: "eu-central-1b", Type: "m7g.large", State: "InService", Outdated: true, Reasons: older},
		{
			ID: "i-0a03", Zone: "eu-central-1c", Type: "m7g.2xlarge", State: "Standby", Outdated: true, Reasons: older,
			Kept: []refresh.Reason{{Code: refresh.CodeStandby, Text: "in standby"}},
		},
		{ID: "i-0b04", Zone: "eu-central-1c", Type: "m7g.large", State: "InService"},
	}
	instances[0].Node, instances[0].Load = node(1, true, 14, "shop/api", "shop/cart")
	instances[1].Node, instances[1].Load = node(2, false, 3)
	return []Plan{
		{
			Group: "workers", Mode: refresh.ModeRefresh, Target: "launch template node (lt-1) version 7 ($Latest)", Desired: 4,
			Outdated: 2, Kept: 1, Active: "1b2c3d4e", Instances: instances,
			Findings: []refresh.Finding{
				{Check: "warmup", Level: refresh.OK, Text: "New instances warm up for 2m."},
				{Check: "suspended", Level: refresh.Refuse, Text: "The process Launch is suspended: nothing would be replaced. Resume it."},
				{Check: "no-terminating-hook", Level: refresh.Warn, Text: "The group has no terminating hook: its nodes would not be drained."},
			},
		},
		{Group: "spot", Mode: refresh.ModeRefresh, Target: "launch template spot (lt-2) version 3", Desired: 1, Instances: []Planned{{ID: "i-0b09", State: "InService"}}},
	}
}

// evil is text that would do something to a terminal, to a line of a log, to Markdown or to a workflow.
const evil = "\x1b[2J\x1b]0;title\a\r\n::error::forged\n##[add-mask]x \u009b31m\u202e\u2028|`<b>\x7f\xff\x9b end"

// hostile has such text everywhere that a name or a reason from elsewhere can stand.
func hostile() (Rollout, []Plan) {
	i := Instance{ID: evil, Zone: evil, State: evil, Old: true, Node: drainOf(evil, "Blocked", evil)}
	waiting := with(i, func(i *Instance) { i.State = "Terminating:Wait" })
	g := Group{
		Name: evil, Mode: refresh.ModeRefresh, Phase: Replacing, Target: evil, Total: 2, Refresh: evil, Status: evil, Reason: evil,
		Instances: []Instance{i, waiting, {ID: evil + "2", State: "Terminating:Retained"}},
		Notes:     []Note{{at(0), refresh.Warn, evil}}, Message: evil, Outcome: Failed, Ended: at(1),
	}
	p := Plan{
		Group: evil, Target: evil, Active: evil, Outdated: 1, Findings: []refresh.Finding{{Check: evil, Level: refresh.Refuse, Text: evil}},
		Instances: []Planned{{
			ID: evil, Zone: evil, Type: evil, State: evil, Outdated: true, Reasons: []refresh.Reason{{Text: evil}},
			Kept: []refresh.Reason{{Text: evil}}, Node: i.Node, Load: &cluster.Load{Blocking: []string{evil}},
		}},
	}
	return Rollout{At: at(1), Started: began, Groups: []Group{g}}, []Plan{p, p}
}

// broken is a writer that fails once, after some bytes. What comes later would stand behind a gap.
type broken struct {
	left  int
	later int // How many bytes came after the failure.
	gone  bool
}

var errGone = errors.New("the pipe is broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.gone {
		b.later += len(p)
		return len(p), nil
	}
	if b.left -= len(p); b.left < 0 {
		b.gone = true
		return 0, errGone
	}
	return len(p), nil
}

func linesOf(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
