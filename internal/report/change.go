package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// kind is what a change is about.
type kind string

const (
	kindStarted  kind = "started"  // A refresh or the first batch was started, or an active refresh is followed.
	kindStatus   kind = "status"   // The status of the refresh, or its reason.
	kindPhase    kind = "phase"    // The phase of the rollout, if the status does not show it.
	kindNote     kind = "note"     // A Note.
	kindInstance kind = "instance" // An instance appeared, left, or changed its state.
	kindDrain    kind = "drain"    // What blocks the drain of a node.
	kindProgress kind = "progress" // The number of replaced instances.
	kindOutcome  kind = "outcome"  // The outcome.
)

// change is one difference between two snapshots.
type change struct {
	at       time.Time
	group    Group // As it is now.
	kind     kind
	level    refresh.Level
	instance Instance // Of kindInstance and kindDrain.
	text     string
}

// changes returns the changes between two snapshots; the one before the first is the zero Rollout. The number
// of pods left on a node is not a change, because it would be reported every few seconds; what blocks the
// drain is.
func changes(before, after Rollout) []change {
	known := map[string]Group{}
	for _, g := range before.Groups {
		known[g.Name] = g
	}
	var all []change
	for _, g := range after.Groups {
		if last := known[g.Name]; g.Revision == 0 || g.Revision != last.Revision {
			all = append(all, groupChanges(last, g, after.At)...)
		}
	}
	return all
}

func groupChanges(before, after Group, at time.Time) []change {
	found := slices.Concat(
		startChanges(before, after), statusChanges(before, after), phaseChanges(before, after),
		noteChanges(before, after), instanceChanges(before, after), progressChanges(before, after),
		outcomeChanges(before, after),
	)
	for n := range found {
		found[n].group = after
		found[n].at = cmp.Or(found[n].at, at).In(at.Location())
		found[n].level = cmp.Or(found[n].level, refresh.OK)
	}
	return found
}

func startChanges(before, after Group) []change {
	rest := fmt.Sprintf("%s, %s", after.Target, text.Count(after.Total, "instance"))
	switch {
	case after.Refresh != before.Refresh && after.Refresh != "":
		what := "started"
		if after.Attached {
			what = "was active and is followed"
		}
		words := fmt.Sprintf("%s %s %s: %s", after.Mode.Operation(), after.Refresh, what, rest)
		return []change{{kind: kindStarted, text: words}}
	case after.Mode.InBatches() && after.Phase == Replacing && before.Phase != Replacing:
		return []change{{kind: kindStarted, text: "replacing instances in batches: " + rest}}
	}
	return nil
}

func statusChanges(before, after Group) []change {
	if before.Refresh != after.Refresh {
		before.Status, before.Reason = refresh.StatusPending, "" // The first status of every refresh.
	}
	if after.Refresh == "" || after.Status == "" ||
		(after.Status == before.Status && (after.Reason == before.Reason || after.Reason == "")) {
		return nil
	}
	c := change{kind: kindStatus, level: levelOf(after.Status)}
	c.text = joinNonEmpty(": ", after.Mode.Operation()+" "+after.Status, after.Reason)
	return []change{c}
}

func levelOf(status string) refresh.Level {
	switch status {
	case refresh.StatusPending, refresh.StatusInProgress, refresh.StatusBaking, refresh.StatusSuccessful:
		return refresh.OK
	case refresh.StatusFailed, refresh.StatusRollbackFailed:
		return refresh.Refuse
	}
	return refresh.Warn
}

func phaseChanges(before, after Group) []change {
	operation := after.Mode.Operation()
	operation = operation[strings.LastIndexByte(operation, ' ')+1:]
	text := map[Phase]string{
		Queued: "queued", Draining: "the " + operation + " has ended, old nodes are still being drained",
	}[after.Phase]
	if after.Phase == before.Phase || text == "" {
		return nil
	}
	return []change{{kind: kindPhase, text: text}}
}

func noteChanges(before, after Group) []change {
	var found []change
	for _, note := range after.Notes[min(len(before.Notes), len(after.Notes)):] {
		found = append(found, change{kind: kindNote, at: note.At, level: note.Level, text: note.Text})
	}
	return found
}

// instanceChanges returns the changes of instances. It skips those that are in service in the first snapshot.
func instanceChanges(before, after Group) []change {
	known := map[string]Instance{}
	for _, i := range before.Instances {
		known[i.ID] = i
	}
	var found []change
	for _, i := range after.Instances {
		previous, ok := known[i.ID]
		delete(known, i.ID)
		switch {
		case ok:
			found = append(found, instanceChange(previous, i)...)
		case before.Name != "": // The group was in the last snapshot.
			found = append(found, i.change(i.describe()+", new in "+i.Zone))
		case !i.inService():
			found = append(found, i.change(i.describe()))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		found = append(found, change{kind: kindInstance, instance: known[id], text: id + " left the group"})
	}
	return found
}

// change returns a change of the instance. It is a warning if a drain is blocked, or the instance is retained.
func (i Instance) change(text string) change {
	c := change{kind: kindInstance, instance: i, text: text}
	if i.terminating() && i.blocked() || i.retained() {
		c.level = refresh.Warn
	}
	return c
}

// instanceChange returns the most important change of one instance, whose text covers the others.
func instanceChange(before, after Instance) []change {
	c := after.change("")
	switch {
	case after.State != before.State:
		c.text = after.describe()
	case after.terminating() && drainChanged(before, after):
		c.kind, c.text = kindDrain, after.describe()
	case after.Unhealthy && !before.Unhealthy && !after.terminating():
		c.text = after.ID + " is unhealthy and will be replaced"
	case !after.Old && ready(after) && !ready(before):
		c.text = fmt.Sprintf("%s node %s is Ready", after.ID, after.nodeName())
	default:
		return nil
	}
	return []change{c}
}

func ready(i Instance) bool { return i.Node != nil && i.Node.Ready }

// drainChanged reports whether the drain has another message, apart from numbers.
func drainChanged(before, after Instance) bool {
	return after.drainMessage() != "" &&
		(before.blocked() != after.blocked() ||
			withoutNumbers(before.drainMessage()) != withoutNumbers(after.drainMessage()))
}

// withoutNumbers removes the numbers from the text.
func withoutNumbers(text string) string {
	number := func(word string) bool {
		return !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsDigit(r) })
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(text), number), " ")
}

func progressChanges(before, after Group) []change {
	if after.Total == 0 || (after.Gone == before.Gone && after.Percent == before.Percent) {
		return nil
	}
	return []change{{kind: kindProgress, text: after.progress()}}
}

func outcomeChanges(before, after Group) []change {
	if after.Outcome == "" || after.Outcome == before.Outcome {
		return nil
	}
	return []change{{
		at: after.Ended, kind: kindOutcome, level: after.Outcome.level(),
		text: joinNonEmpty(": ", string(after.Outcome), after.Message),
	}}
}

func (o Outcome) level() refresh.Level {
	switch {
	case o.isSuccess():
		return refresh.OK
	case o == Skipped:
		return refresh.Warn
	}
	return refresh.Refuse
}
