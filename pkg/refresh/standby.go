package refresh

import (
	"fmt"
	"maps"
	"slices"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Then is what happens to an instance in Standby when it is replaced.
type Then string

// What can happen.
const (
	ThenTerminate Then = "terminate" // It is terminated, and its terminating hook has the node drained.
	ThenStop      Then = "stop"      // Its node is drained; then it is stopped, and stays in Standby.
	ThenKeep      Then = "keep"      // Its node is drained; then it stays in Standby, and runs.
)

// NextStandby decides what to do in a group in ModeStandby. Outdated instances are moved into Standby, where they do
// not count for the desired capacity, so that the group launches a replacement for each. They leave when as many as are
// desired are in service, with ready nodes. Only instances of the record leave, whatever else is in Standby.
//
// Unhealthy instances are those that Auto Scaling replaces. Where ReplaceUnhealthy is suspended it does not: then they
// count as in service, as Auto Scaling counts them, and outdated ones are the first to be replaced.
func NextStandby(m Snapshot, p Pace) Step {
	if slices.Contains(m.Group.Suspended, processReplace) {
		m = m.unreplaced()
	}
	record := StandbyOf(m.Group)
	f, entering, waiting := m.classify(), m.entering(record), m.inStandby(record)
	switch rest := m.LastBatchEnded.Add(p.Between).Sub(m.Now); {
	case len(entering) > 0:
		return Step{InFlight: true, Waiting: fmt.Sprintf("waiting for %s to enter Standby: %s",
			text.Count(len(entering), "old instance"), list(entering))}
	case f.waitReason() != "":
		return Step{Waiting: f.waitReason(), InFlight: true}
	case len(waiting) > 0:
		return m.leave(waiting, p.Then)
	case m.SurgeInDoubt:
		return Step{Confirm: true}
	case len(f.outdated) == 0 && !record.Held(m.Group).Equal(m.Group):
		return Step{Forget: true}
	case len(f.outdated) == 0:
		return m.takeBack(f.current, p.Batch)
	case !m.LastBatchEnded.IsZero() && rest > 0:
		return Step{Waiting: "waiting " + p.Between.String() + " between two batches", RecheckAfter: rest}
	}
	batch := p.nextBatch(m.sorted(f.outdated, p.Order), DesiredWithoutSurge(m.Group), 0).Mark
	room := max(MostStandby-len(record.Held(m.Group)), 0)
	if room == 0 { // What is kept there stays: the rest cannot be replaced.
		return Step{Done: true}
	}
	return Step{Standby: batch[:min(len(batch), room)]}
}

// unreplaced is the snapshot in which no instance waits for Auto Scaling to replace it. An unhealthy one counts as one
// whose node is not ready, if it is outdated.
func (m Snapshot) unreplaced() Snapshot {
	m.Group.Instances, m.NotReady = slices.Clone(m.Group.Instances), maps.Clone(m.NotReady)
	for n := range m.Group.Instances {
		i := &m.Group.Instances[n]
		if i.Healthy || !i.InService() {
			continue
		}
		i.Healthy = true
		if slices.Contains(m.Outdated, i.ID) {
			if m.NotReady == nil {
				m.NotReady = map[string]bool{}
			}
			m.NotReady[i.ID] = true
		}
	}
	return m
}

// entering are the instances that this run has moved into Standby, and that are not there yet.
func (m Snapshot) entering(record StandbyRecord) []string {
	var ids []string
	for _, i := range m.Group.Instances {
		kept, ours := record[i.ID]
		if ours && !kept && (i.State == enteringStandby || i.InService() && m.Marked[i.ID]) {
			ids = append(ids, i.describe())
		}
	}
	return ids
}

// inStandby are the instances of the record that are to leave.
func (m Snapshot) inStandby(record StandbyRecord) []string {
	return m.Group.InstanceIDs(func(i Instance) bool {
		kept, ours := record[i.ID]
		return ours && !kept && i.Standby()
	})
}

// leave has the instances leave that have not done so yet, as this run knows. One that is to stay has its node drained
// first.
func (m Snapshot) leave(waiting []string, then Then) Step {
	if then != ThenStop && then != ThenKeep {
		left := slices.DeleteFunc(slices.Clone(waiting), func(id string) bool { return m.Left[id] })
		if len(left) == 0 {
			return Step{InFlight: true, Waiting: fmt.Sprintf("waiting for %s to leave Standby: %s",
				text.Count(len(waiting), "old instance"), list(waiting))}
		}
		return Step{Leave: left, InFlight: true}
	}
	ask, draining, drained := []string{}, []string{}, []string{}
	for _, id := range waiting {
		switch d := m.Drains[id]; {
		case d.Done:
			drained = append(drained, id)
		case d.Requested:
			draining = append(draining, id)
		default:
			ask = append(ask, id)
		}
	}
	switch {
	case len(ask) > 0:
		return Step{Drain: ask, InFlight: true}
	case len(drained) > 0:
		return Step{Keep: drained, InFlight: true}
	}
	return Step{InFlight: true, Waiting: fmt.Sprintf("waiting for the drain of %s: %s",
		text.Count(len(draining), "node"), list(draining))}
}

// Held is the part of the record that is in Standby.
func (r StandbyRecord) Held(g Group) StandbyRecord {
	held := StandbyRecord{}
	for _, i := range g.Instances {
		if kept, ours := r[i.ID]; ours && i.Standby() {
			held[i.ID] = kept
		}
	}
	return held
}

// StandbyUnfinished reports whether the record names instances that are to be replaced yet, or that are gone.
func StandbyUnfinished(g Group) bool {
	record := StandbyOf(g)
	for _, kept := range record {
		if !kept {
			return true
		}
	}
	return !record.Equal(g)
}

// checkStandbyRoom checks whether tags of the group can list the instances of a batch.
func checkStandbyRoom(g Group, f Facts) (Level, string) {
	const most = 50 // Source: Tag in the API reference.
	others := len(g.Tags) - len(standbyEntries(g))
	instances := min(f.Batch, f.Outdated)
	if f.Then == ThenStop || f.Then == ThenKeep { // Those of all batches stay.
		instances = f.Outdated
	}
	needed := (len(StandbyOf(g)) + instances + standbyPerTag - 1) / standbyPerTag
	switch {
	case needed > MaxStandbyTags && instances > f.Batch:
		return Refuse, fmt.Sprintf("%d instances are outdated, and %d can be kept in Standby at a time: use --then "+
			"terminate, or name some by --instance", f.Outdated, MostStandby)
	case needed > MaxStandbyTags:
		return Refuse, fmt.Sprintf("a batch is %d instances, and %d can be in Standby at a time: use a smaller --batch",
			f.Batch, MostStandby)
	case others+needed > most:
		return Refuse, fmt.Sprintf("the group has %d tags, and %s more to list the instances in Standby; AWS "+
			"allows %d: remove some, or use a smaller --batch", others, text.Plural(needed, "is needed", "are needed"), most)
	}
	return OK, "tags of the group can list the instances in Standby"
}

// checkRebalance reports that Auto Scaling may terminate instances to balance the zones. Source: "Temporarily remove
// instances from your Auto Scaling group" in the user guide.
func checkRebalance(g Group, f Facts) (Level, string) {
	if slices.Contains(g.Suspended, processRebalance) || slices.Contains(f.Suspend, processRebalance) {
		return OK, "AZRebalance is suspended: instances in Standby do not make Auto Scaling rebalance the zones"
	}
	return Warn, "while instances are in Standby, Auto Scaling may rebalance the Availability Zones, and terminate " +
		"others: use --suspend AZRebalance"
}
