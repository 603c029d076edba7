package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// kind is what a change is about.
type kind string

// The kinds of changes.
const (
	kindStarted  kind = "started"  // A refresh was started, or is followed; or the first batch begins.
	kindStatus   kind = "status"   // The status of the refresh, or its reason.
	kindPhase    kind = "phase"    // Where the rollout is, as far as the status does not tell.
	kindNote     kind = "note"     // A Note.
	kindInstance kind = "instance" // An instance came, went, or is in another state.
	kindDrain    kind = "drain"    // What holds up the drain of a node.
	kindProgress kind = "progress" // How many are replaced.
	kindOutcome  kind = "outcome"  // How it ended.
)

// change is one fact that one snapshot tells and the one before did not.
type change struct {
	at       time.Time
	group    Group // As it is now.
	kind     kind
	level    refresh.Level
	instance Instance // Of kindInstance and kindDrain.
	text     string
}

// changes tells what is new in a snapshot. Before the first one is the zero Rollout. How many pods are left
// on a node is no change, or a drain would be told of every few seconds; what holds it up is one.
func changes(before, after Rollout) []change {
	known := map[string]Group{}
	for _, g := range before.Groups {
		known[g.Name] = g
	}
	var all []change
	for _, g := range after.Groups {
		earlier, seen := known[g.Name]
		all = append(all, groupChanges(earlier, g, seen, after.At)...)
	}
	return all
}

func groupChanges(before, after Group, seen bool, at time.Time) []change {
	found := slices.Concat(
		startChanges(before, after), statusChanges(before, after), phaseChanges(before, after),
		noteChanges(before, after), instanceChanges(before, after, seen), progressChanges(before, after),
		outcomeChanges(before, after),
	)
	for n := range found {
		found[n].group = after
		if found[n].at.IsZero() {
			found[n].at = at
		}
		found[n].at = found[n].at.In(at.Location())
		if found[n].level == "" {
			found[n].level = refresh.OK
		}
	}
	return found
}

func startChanges(before, after Group) []change {
	rest := fmt.Sprintf("%s, %s", after.Target, count(after.Total, "instance"))
	switch {
	case after.Refresh != before.Refresh && after.Refresh != "":
		what := "started"
		if after.Attached {
			what = "was under way and is followed"
		}
		words := fmt.Sprintf("instance refresh %s %s: %s", after.Refresh, what, rest)
		return []change{{kind: kindStarted, text: words}}
	case after.Mode == refresh.ModeUnhealthy && after.Phase == Replacing && before.Phase != Replacing:
		return []change{{kind: kindStarted, text: "replacing instances in batches: " + rest}}
	}
	return nil
}

func statusChanges(before, after Group) []change {
	if before.Refresh != after.Refresh {
		before.Status, before.Reason = refresh.StatusPending, "" // What every refresh begins with.
	}
	if after.Refresh == "" || after.Status == "" ||
		(after.Status == before.Status && (after.Reason == before.Reason || after.Reason == "")) {
		return nil
	}
	c := change{kind: kindStatus, level: levelOf(after.Status)}
	c.text = joined(": ", "instance refresh "+after.Status, after.Reason)
	return []change{c}
}

// levelOf is how grave a status of a refresh is.
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
	if after.Phase == before.Phase {
		return nil
	}
	switch after.Phase {
	case Queued:
		return []change{{kind: kindPhase, text: "waiting for its turn"}}
	case Draining:
		return []change{{kind: kindPhase, text: "AWS has done its part, old nodes are still to be drained"}}
	default:
		return nil
	}
}

func noteChanges(before, after Group) []change {
	var found []change
	for _, note := range after.Notes[min(len(before.Notes), len(after.Notes)):] {
		found = append(found, change{kind: kindNote, at: note.At, level: note.Level, text: note.Text})
	}
	return found
}

// instanceChanges tells of instances. Those that are simply in service when the group is first seen are no
// news.
func instanceChanges(before, after Group, seen bool) []change {
	known := map[string]Instance{}
	for _, i := range before.Instances {
		known[i.ID] = i
	}
	var found []change
	for _, i := range after.Instances {
		earlier, there := known[i.ID]
		delete(known, i.ID)
		switch {
		case there:
			found = append(found, instanceChange(earlier, i)...)
		case seen:
			found = append(found, i.change(i.describe()+", new in "+i.Zone))
		case !i.serving():
			found = append(found, i.change(i.describe()))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		found = append(found, change{kind: kindInstance, instance: known[id], text: id + " left the group"})
	}
	return found
}

// change is one of the instance.
func (i Instance) change(text string) change {
	return change{kind: kindInstance, instance: i, level: drainLevel(i), text: text}
}

// instanceChange tells what is new of one instance: the most important fact says the others too.
func instanceChange(before, after Instance) []change {
	c := after.change("")
	switch {
	case after.State != before.State:
		c.text = after.describe()
	case after.going() && drainNews(before, after):
		c.kind, c.text = kindDrain, after.describe()
	case after.Unhealthy && !before.Unhealthy && !after.going():
		c.text = after.ID + " is unhealthy and will be replaced"
	case !after.Old && ready(after) && !ready(before):
		c.text = fmt.Sprintf("%s node %s is Ready", after.ID, after.nodeName())
	default:
		return nil
	}
	return []change{c}
}

func ready(i Instance) bool { return i.Node != nil && i.Node.Ready }

// drainLevel warns of a drain that something holds up, and of an instance that stays although it should be
// gone.
func drainLevel(i Instance) refresh.Level {
	if i.going() && i.blocked() || i.retained() {
		return refresh.Warn
	}
	return refresh.OK
}

// drainNews tells whether the drain says something else, numbers apart.
func drainNews(before, after Instance) bool {
	return after.drain() != "" &&
		(before.blocked() != after.blocked() || wordsOf(before.drain()) != wordsOf(after.drain()))
}

// wordsOf is the text without the words that are numbers.
func wordsOf(text string) string {
	number := func(word string) bool {
		return !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsDigit(r) })
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(text), number), " ")
}

func progressChanges(before, after Group) []change {
	if after.Total == 0 || (after.Gone == before.Gone && after.percent() == before.percent()) {
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
		text: joined(": ", string(after.Outcome), after.Message),
	}}
}

// level is how grave the outcome is.
func (o Outcome) level() refresh.Level {
	switch {
	case o.good():
		return refresh.OK
	case o == Skipped:
		return refresh.Warn
	}
	return refresh.Refuse
}
