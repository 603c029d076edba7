package refresh

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/node-drainer/node-drainer/internal/text"
)

// ReturnSnapshot is what is known of a group whose instances are returned from Standby.
type ReturnSnapshot struct {
	Group    Group
	Machines map[string]string     // The states of the instances in Standby, in EC2's words.
	Drains   map[string]DrainState // Of the nodes; nil without Kubernetes.
	NotReady map[string]bool       // In service, and the Node is missing, not Ready or cordoned by the agent.
	RaiseMax bool                  // The maximum size may be raised.

	SurgeInDoubt bool // As in Snapshot.
}

// ReturnStep is what to do next.
type ReturnStep struct {
	Confirm   bool     // Find out how much of the surge is one, by Surge.Confirm.
	Start     []string // Start these, which are stopped.
	Withdraw  []string // Ask the agent no more to drain the nodes of these.
	Exit      []string // Move these out of Standby, which raises the desired capacity by as many.
	Terminate []string // Terminate these, and lower the desired capacity with each.
	Settle    bool     // Remove the tags of the surge and of the record.
	Done      bool
	Waiting   string // What it waits for; empty if there is something to do.
	Problem   string // Why it cannot go on.
}

// NextReturn decides what to do so that the instances of the record that are in Standby are in service again, and the
// desired capacity is what it was: what moving them out adds to it is a surge, which is taken back by terminating new
// instances without replacement. So what an autoscaler asks for meanwhile stays.
func NextReturn(m ReturnSnapshot) ReturnStep {
	g, record := m.Group, StandbyOf(m.Group)
	held := g.InstanceIDs(func(i Instance) bool { _, ours := record[i.ID]; return ours && i.State == "Standby" })
	surge, raised := SurgeOf(g)
	spare := surge.Left(g)
	start, machines := m.machines(held)
	switch withdraw, waiting := m.requested(record), cmp.Or(machines, m.arriving(record)); {
	case m.SurgeInDoubt:
		return ReturnStep{Confirm: true}
	case len(start) > 0:
		return ReturnStep{Start: start}
	case len(withdraw) > 0:
		return ReturnStep{Withdraw: withdraw}
	case waiting != "":
		return ReturnStep{Waiting: waiting}
	case spare > 0:
		return m.giveBack(record, spare)
	case len(held) > 0:
		return m.exit(held)
	case raised || !(StandbyRecord{}).Equal(g):
		return ReturnStep{Settle: true}
	}
	return ReturnStep{Done: true}
}

// exit moves as many out of Standby as the maximum size allows, or all if it may be raised.
func (m ReturnSnapshot) exit(held []string) ReturnStep {
	g := m.Group
	switch {
	case m.RaiseMax:
		return ReturnStep{Exit: held}
	case g.Desired >= g.Max:
		return ReturnStep{Problem: fmt.Sprintf("the desired capacity is the maximum, %d, and an instance that leaves "+
			"Standby adds to it: use --raise-max", g.Max)}
	}
	return ReturnStep{Exit: held[:min(len(held), g.Max-g.Desired)]}
}

// machines are those of the instances that are stopped, and what the others wait for.
func (m ReturnSnapshot) machines(held []string) (start []string, waiting string) {
	var others []string
	for _, id := range held {
		switch state := m.Machines[id]; state {
		case "running":
		case "stopped":
			start = append(start, id)
		default:
			others = append(others, id+" ("+state+")")
		}
	}
	if len(others) > 0 {
		waiting = fmt.Sprintf("waiting for %s to run: %s", text.Count(len(others), "instance"), list(others))
	}
	return start, waiting
}

// requested are the instances of the record whose nodes have the annotation.
func (m ReturnSnapshot) requested(record StandbyRecord) []string {
	return m.Group.InstanceIDs(func(i Instance) bool {
		_, ours := record[i.ID]
		return ours && m.Drains[i.ID].Requested
	})
}

// arriving is what the instances wait for that have left Standby, or enter it.
func (m ReturnSnapshot) arriving(record StandbyRecord) string {
	var all []string
	for _, i := range m.Group.Instances {
		_, ours := record[i.ID]
		if ours && (i.Pending() || i.State == enteringStandby || i.InService() && m.NotReady[i.ID]) {
			all = append(all, i.describe())
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("waiting for %s to be in service, with a ready node: %s", text.Count(len(all), "instance"),
		list(all))
}

// giveBack terminates new instances with what is left of the surge, of the zones that have the most.
func (m ReturnSnapshot) giveBack(record StandbyRecord, spare int) ReturnStep {
	launched := m.launched(record)
	n := min(spare, len(launched))
	if since := m.launchedSince(launched); len(since) >= n {
		launched = since
	}
	if n == 0 {
		return ReturnStep{Waiting: "waiting for a new instance in service that is not protected from scale in"}
	}
	var step ReturnStep
	for _, i := range (Snapshot{Group: m.Group}).keepForLast(launched, n)[len(launched)-n:] {
		step.Terminate = append(step.Terminate, i.ID)
	}
	return step
}

// launched are the instances in service that the rollout has had launched, and that may be terminated. Others may be
// old ones whose turn had not come. New ones were launched from something else than those of the record; or later,
// where all were launched from the same, as with another AMI behind a parameter, or by age.
func (m ReturnSnapshot) launched(record StandbyRecord) (launched []Instance) {
	var old []Instance
	for _, i := range m.Group.Instances {
		if _, ours := record[i.ID]; ours {
			old = append(old, i)
		}
	}
	isNew := func(i Instance) bool {
		return !slices.ContainsFunc(old, func(o Instance) bool { return o.source() == i.source() })
	}
	if !slices.ContainsFunc(m.Group.Instances, isNew) {
		isNew = func(i Instance) bool {
			return !slices.ContainsFunc(old, func(o Instance) bool { return !i.Launched.After(o.Launched) })
		}
	}
	for _, i := range m.Group.Instances {
		if _, ours := record[i.ID]; !ours && i.InService() && !i.Protected && isNew(i) {
			launched = append(launched, i)
		}
	}
	return launched
}

// launchedSince are those of the instances that were launched after the rollout began. The others had what the rollout
// is for before it: somebody else has had them launched.
func (m ReturnSnapshot) launchedSince(all []Instance) (since []Instance) {
	begun, ok := BegunOf(m.Group)
	for _, i := range all {
		if ok && begun.Precedes(i.Launched) {
			since = append(since, i)
		}
	}
	return since
}

// source is what the instance was launched from, for comparison.
func (i Instance) source() string {
	if i.Template == nil {
		return i.Configuration
	}
	return cmp.Or(i.Template.ID, i.Template.Name) + "/" + i.Template.Version
}
