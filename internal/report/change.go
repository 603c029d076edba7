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

// Kind is what a change is about.
type Kind string

// The kinds.
const (
	KindStarted  Kind = "started"  // A refresh or the first batch was started, or an active refresh is followed.
	KindStatus   Kind = "status"   // The status of the refresh, or its reason.
	KindPhase    Kind = "phase"    // The phase of the rollout.
	KindNote     Kind = "note"     // A Note.
	KindInstance Kind = "instance" // An instance appeared, left, or changed its state.
	KindDrain    Kind = "drain"    // What blocks the drain of a node.
	KindProgress Kind = "progress" // The number of replaced instances.
	KindOutcome  Kind = "outcome"  // The outcome.
)

// Change is something that has happened in one group.
type Change struct {
	At       time.Time
	Group    Group // As it is since.
	Kind     Kind
	Level    refresh.Level
	Instance Instance // Of KindInstance and KindDrain.
	Text     string   // Empty if other changes say it.
}

// Changes returns what has happened in a group between two of its states; the one before the first is the zero Group.
// The number of pods left on a node is not a change, because it would be reported every few seconds; what blocks the
// drain is.
func Changes(before, after Group, at time.Time) []Change {
	found := slices.Concat(
		startChanges(before, after), statusChanges(before, after), phaseChanges(before, after),
		noteChanges(before, after), instanceChanges(before, after), progressChanges(before, after),
		outcomeChanges(before, after),
	)
	for n := range found {
		found[n].Group = after
		found[n].At = cmp.Or(found[n].At, at).In(at.Location())
		found[n].Level = cmp.Or(found[n].Level, refresh.OK)
	}
	return found
}

func startChanges(before, after Group) []Change {
	rest := fmt.Sprintf("%s, %s", after.Target, text.Count(after.Total, "instance"))
	switch {
	case after.Refresh != before.Refresh && after.Refresh != "":
		what := "started"
		if after.Attached {
			what = "was active and is followed"
		}
		words := fmt.Sprintf("%s %s %s: %s", after.Mode.Operation(), after.Refresh, what, rest)
		return []Change{{Kind: KindStarted, Text: words}}
	case after.Mode.InBatches() && after.Phase == Replacing && before.Phase != Replacing:
		return []Change{{Kind: KindStarted, Text: "replacing instances in batches: " + rest}}
	}
	return nil
}

func statusChanges(before, after Group) []Change {
	if before.Refresh != after.Refresh {
		before.Status, before.Reason = refresh.StatusPending, "" // The first status of every refresh.
	}
	if after.Refresh == "" || after.Status == "" ||
		(after.Status == before.Status && (after.Reason == before.Reason || after.Reason == "")) {
		return nil
	}
	c := Change{Kind: KindStatus, Level: levelOf(after.Status)}
	c.Text = joinNonEmpty(": ", after.Mode.Operation()+" "+after.Status, after.Reason)
	return []Change{c}
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

func phaseChanges(before, after Group) []Change {
	operation := after.Mode.Operation()
	operation = operation[strings.LastIndexByte(operation, ' ')+1:]
	if after.Phase == before.Phase {
		return nil
	}
	return []Change{{Kind: KindPhase, Text: map[Phase]string{
		Queued: "queued", Draining: "the " + operation + " has ended, old nodes are still being drained",
	}[after.Phase]}}
}

func noteChanges(before, after Group) []Change {
	var found []Change
	for _, note := range after.Notes[min(len(before.Notes), len(after.Notes)):] {
		found = append(found, Change{Kind: KindNote, At: note.At, Level: note.Level, Text: note.Text})
	}
	return found
}

// instanceChanges returns the changes of instances. It skips those that are in service at first.
func instanceChanges(before, after Group) []Change {
	known := map[string]Instance{}
	for _, i := range before.Instances {
		known[i.ID] = i
	}
	var found []Change
	for _, i := range after.Instances {
		previous, ok := known[i.ID]
		delete(known, i.ID)
		switch {
		case ok:
			found = append(found, instanceChange(previous, i)...)
		case before.Name != "": // It is not the first state.
			found = append(found, i.change(i.describe()+", new in "+i.Zone))
		case !i.inService():
			found = append(found, i.change(i.describe()))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		found = append(found, Change{Kind: KindInstance, Instance: known[id], Text: id + " left the group"})
	}
	return found
}

// change returns a change of the instance. It is a warning if a drain is blocked, or the instance is retained.
func (i Instance) change(text string) Change {
	c := Change{Kind: KindInstance, Instance: i, Text: text}
	if i.terminating() && i.blocked() || i.retained() {
		c.Level = refresh.Warn
	}
	return c
}

// instanceChange returns the most important change of one instance, whose text covers the others.
func instanceChange(before, after Instance) []Change {
	c := after.change("")
	switch {
	case after.State != before.State:
		c.Text = after.describe()
	case after.terminating() && drainChanged(before, after):
		c.Kind, c.Text = KindDrain, after.describe()
	case after.Unhealthy && !before.Unhealthy && !after.terminating():
		c.Text = after.ID + " is unhealthy and will be replaced"
	case !after.Old && ready(after) && !ready(before):
		c.Text = fmt.Sprintf("%s node %s is Ready", after.ID, after.nodeName())
	default:
		return nil
	}
	return []Change{c}
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

func progressChanges(before, after Group) []Change {
	if after.Total == 0 || (after.Gone == before.Gone && after.Percent == before.Percent) {
		return nil
	}
	return []Change{{Kind: KindProgress, Text: after.progress()}}
}

func outcomeChanges(before, after Group) []Change {
	if after.Outcome == "" || after.Outcome == before.Outcome {
		return nil
	}
	return []Change{{
		At: after.Ended, Kind: KindOutcome, Level: after.Outcome.level(),
		Text: joinNonEmpty(": ", string(after.Outcome), after.Message),
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
