package report

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden compares the output with a file of testdata.
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

var started = time.Date(2026, 11, 21, 12, 3, 4, 0, time.UTC)

func at(seconds int) time.Time { return started.Add(time.Duration(seconds) * time.Second) }

func drainOf(node, reason, message string) *cluster.Node {
	return &cluster.Node{Name: node, Marked: true, Drain: &cluster.Drain{Done: reason == "Drained", Reason: reason, Message: message}}
}

func oldInstances(state string, numbers ...int) []Instance {
	var all []Instance
	for _, n := range numbers {
		all = append(all, Instance{
			ID: fmt.Sprintf("i-0a%02d", n), Zone: "eu-central-1a", State: state, Old: true,
			Node: &cluster.Node{Name: fmt.Sprintf("ip-10-0-1-%d", n), Ready: true},
		})
	}
	return all
}

func newInstance(n int, state string, ready bool) Instance {
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

// rollouts returns the snapshots of a rollout of two groups, from its start to its end.
func rollouts() []Rollout {
	workers := Group{
		Name: "workers", Mode: refresh.ModeRefresh, Phase: Replacing, Desired: 4, Total: 3,
		Target: "launch template node (lt-1) version 7 ($Latest)", Instances: append(oldInstances("InService", 1, 2, 3), newInstance(1, "InService", true)),
	}
	spot := Group{
		Name: "spot", Mode: refresh.ModeUnhealthy, Phase: Queued, Desired: 1, Total: 1,
		Target: "launch template spot (lt-2) version 3", Instances: oldInstances("InService", 9),
	}
	var all []Rollout
	add := func(second int) {
		groups := []Group{spot, workers}
		for n := range groups {
			groups[n].Instances = slices.Clone(groups[n].Instances)
		}
		all = append(all, Rollout{At: at(second), Started: started, Groups: groups})
	}
	add(0)
	workers.Refresh, workers.Status = "1b2c3d4e-0000-4000-8000-000000000001", refresh.StatusPending
	workers.Notes = []Note{{at(1), refresh.Warn, findings()[1].Text}}
	add(1)
	workers.Status, workers.Reason = refresh.StatusInProgress, "Waiting for instances to warm up. For example: i-0b02"
	workers.Instances = append(oldInstances("InService", 1, 2, 3), newInstance(1, "InService", true), newInstance(2, "Pending:Wait", false))
	add(20)
	workers.Instances = append(oldInstances("InService", 2, 3), newInstance(1, "InService", true), newInstance(2, "InService", true),
		with(oldInstances("Terminating:Wait", 1)[0], func(i *Instance) {
			i.Node = drainOf("ip-10-0-1-1", "Draining", "14 of 14 pods left; expected end: 2026-11-21T12:04:50Z")
		}))
	workers.Percent = 33
	add(60)
	workers.Instances[4].Node = drainOf("ip-10-0-1-1", "Draining", "9 of 14 pods left; expected end: 2026-11-21T12:04:50Z")
	add(70)
	workers.Instances[4].Node = drainOf("ip-10-0-1-1", "Blocked", "2 of 14 pods left; 2 wait for PodDisruptionBudget shop/api; expected end: 2026-11-21T12:04:50Z")
	add(80)
	add(139)
	add(140)
	workers.Instances = []Instance{
		newInstance(1, "InService", true), newInstance(2, "InService", true), newInstance(3, "InService", true),
		newInstance(4, "InService", true), with(oldInstances("Terminating:Wait", 3)[0], func(i *Instance) { i.Node = drainOf("ip-10-0-1-3", "Drained", "All 9 pods have left the node") }),
	}
	workers.Status, workers.Reason, workers.Percent, workers.Gone, workers.Phase = refresh.StatusSuccessful, "", 100, 2, Draining
	spot.Phase = Replacing
	spot.Notes = []Note{{at(200), refresh.OK, "marked unhealthy: i-0a09"}}
	spot.Instances = []Instance{with(oldInstances("InService", 9)[0], func(i *Instance) { i.Unhealthy = true })}
	add(200)
	workers.Instances, workers.Gone, workers.Phase = workers.Instances[:4], 3, Finished
	workers.Outcome, workers.Message, workers.Ended = Done, "3 instances replaced", at(215)
	spot.Instances = []Instance{with(oldInstances("Terminating:Retained", 9)[0], func(i *Instance) { i.Unhealthy = true })}
	add(215)
	spot.Phase, spot.Outcome, spot.Ended = Finished, Incomplete, at(3905)
	spot.Message = "The drain of i-0a09 was abandoned and the instance is retained. Look at its pods, then terminate it."
	add(3905)
	return all
}

// texts are rows of a table: what is said, and what should be.
type texts map[string]struct{ got, want string }

func (rows texts) check(t *testing.T) {
	t.Helper()
	for name, row := range rows {
		if row.got != row.want {
			t.Errorf("%s: %q, want %q", name, row.got, row.want)
		}
	}
}

// report passes all of a rollout to a Reporter.
func report(r Reporter) {
	all := rollouts()
	for n, moment := range all {
		step(r, all[:n], moment)
	}
}

// step passes what has happened since the moments before to a Reporter, and how far the rollout is, as the trigger does.
// The last moment is the end.
func step(r Reporter, before []Rollout, now Rollout) {
	last := map[string]Group{}
	for _, moment := range before {
		for _, g := range moment.Groups {
			last[g.Name] = g
		}
	}
	for _, g := range now.Groups {
		for _, c := range Changes(last[g.Name], g, now.At) {
			r.Changed(c)
		}
	}
	if slices.ContainsFunc(now.Groups, func(g Group) bool { return g.Outcome == "" }) {
		r.Show(now)
		return
	}
	r.End(now)
}

// findings are some that the preflight has of a group with a suspended process and a short hook, one of each level. So the
// pictures show what the trigger says.
func findings() []refresh.Finding {
	all := refresh.Preflight(refresh.Group{Suspended: []string{"Launch"}}, refresh.Facts{
		Mode: refresh.ModeRefresh, Preferences: refresh.Preferences{Warmup: new(2 * time.Minute)},
		Hooks: []refresh.Hook{{Name: "node-drainer-terminating", Terminating: true, GlobalTimeout: 50 * time.Minute}},
	})
	return slices.DeleteFunc(all, func(f refresh.Finding) bool {
		return !slices.Contains([]string{"suspended", "hook-timeout", "warmup"}, f.Check)
	})
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
	instances[0].Drain = &Forecast{
		Pods: 14, Expected: 3571, Longest: 3600, Forced: []string{"shop/cart-7"},
		Waits: []string{"53m20s PodDisruptionBudget shop/cart, which never allows a disruption", "6m10s PodDisruptionBudget shop/api"},
	}
	return []Plan{
		{
			Group: "workers", Mode: refresh.ModeRefresh, Target: "launch template node (lt-1) version 7 ($Latest)", Desired: 4,
			Outdated: 2, Kept: 1, Instances: instances, Findings: findings(), Refused: []string{"suspended"},
			Duration: &Duration{Shortest: 3571, Longest: 7440},
		},
		{
			Group: "batch", Mode: refresh.ModeRefresh, Target: "launch template batch (lt-3) version 2", Desired: 1, Outdated: 1,
			Instances: []Planned{{ID: "i-0c01", Zone: "eu-central-1a", Type: "m7g.large", State: "InService", Outdated: true, Reasons: older}},
			Findings:  findings()[1:],
			Steps: []string{"StartInstanceRefresh with the desired configuration launch template batch (lt-3) version 2: " +
				refresh.Preferences{MinHealthy: new(100), MaxHealthy: new(200), SkipMatching: true, Protected: "Ignore", Standby: "Ignore"}.String()},
		},
		{Group: "spot", Mode: refresh.ModeRefresh, Target: "launch template spot (lt-2) version 3", Desired: 1, Instances: []Planned{{ID: "i-0b09", State: "InService"}}, Findings: []refresh.Finding{}},
	}
}

// hostileText is text that would do something to a terminal, to a line of a log, to Markdown or to a
// workflow.
const hostileText = "\x1b[2J\x1b]0;title\a\r\n::error::forged\n##[add-mask]x \u009b31m\u202e\u2028|`<b>\x7f\xff\x9b end"

// hostile returns a rollout and plans with hostileText in all fields that are not our own.
func hostile() (Rollout, []Plan) {
	i := Instance{ID: hostileText, Zone: hostileText, State: hostileText, Old: true, Node: drainOf(hostileText, "Blocked", hostileText)}
	waiting := with(i, func(i *Instance) { i.State = "Terminating:Wait" })
	g := Group{
		Name: hostileText, Mode: refresh.ModeRefresh, Phase: Replacing, Target: hostileText, Total: 2, Refresh: hostileText, Status: hostileText, Reason: hostileText,
		Instances: []Instance{i, waiting, {ID: hostileText + "2", State: "Terminating:Retained"}},
		Notes:     []Note{{at(0), refresh.Warn, hostileText}}, Message: hostileText, Outcome: Failed, Ended: at(1),
	}
	p := Plan{
		Group: hostileText, Target: hostileText, Active: hostileText, Outdated: 1, Findings: []refresh.Finding{{Check: hostileText, Level: refresh.Refuse, Text: hostileText}},
		Instances: []Planned{{
			ID: hostileText, Zone: hostileText, Type: hostileText, State: hostileText, Outdated: true, Reasons: []refresh.Reason{{Text: hostileText}},
			Kept: []refresh.Reason{{Text: hostileText}}, Node: i.Node, Load: &cluster.Load{Blocking: []string{hostileText}},
			Drain: &Forecast{Waits: []string{hostileText}, Forced: []string{hostileText}, Left: []string{hostileText}},
		}},
	}
	return Rollout{At: at(1), Started: started, Groups: []Group{g}}, []Plan{p, p}
}

// brokenWriter fails once, after some bytes. Anything written later would follow a gap.
type brokenWriter struct {
	left   int
	later  int // Bytes written after the failure.
	failed bool
}

var errGone = errors.New("the pipe is broken")

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.failed {
		b.later += len(p)
		return len(p), nil
	}
	if b.left -= len(p); b.left < 0 {
		b.failed = true
		return 0, errGone
	}
	return len(p), nil
}
