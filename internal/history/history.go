// Package history keeps the records of the last drains in a ConfigMap, so that they are known when the nodes and their
// Events are gone. The program writes records in the background, and reads them.
package history

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// The outcomes of drains that have not ended as a drain.Result says.
const (
	// Interrupted: the process stopped, or the drain was canceled. If another process continues it, that one's record
	// takes the place of this one.
	Interrupted = "interrupted"
	CutShort    = "cut-short" // the lifecycle action ended before the drain did
)

// What a drain.Result and a drain.PodEnd can be.
const (
	drained, byForce = "drained", "by-force"
	evicted, deleted = "evicted", "deleted"
)

// Drain is the record of the drain of one node: a JSON object on one line, in the log and in the ConfigMap.
type Drain struct {
	Node     string    `json:"node"`
	UID      string    `json:"uid"`
	Instance string    `json:"instance,omitempty"`
	Event    string    `json:"event"`           // the kind of the event, as in the log
	Group    string    `json:"group,omitempty"` // the Auto Scaling group, and the hook, if there is one
	Hook     string    `json:"hook,omitempty"`
	Cause    string    `json:"cause"` // a sentence that says why the node was drained
	Began    time.Time `json:"began"` // when the node was cordoned to be drained
	Deadline time.Time `json:"deadline,omitzero"`
	Expected time.Time `json:"expected,omitzero"` // when it would end, by a forecast made as it began
	Ended    time.Time `json:"ended"`
	Outcome  string    `json:"outcome"`
	Asked    string    `json:"asked,omitempty"` // what a person asked of the drain, by annotations of the Node
	Counts
	Details []Pod `json:"details,omitempty"` // in order of time; those that were only left at the end
	Omitted int   `json:"omitted,omitempty"` // how many pods have no details here
}

// Counts are how many pods had to leave the node, and what became of them.
type Counts struct {
	Pods    int `json:"pods"`
	Evicted int `json:"evicted"`
	Deleted int `json:"deleted"`
	Gone    int `json:"gone"` // by themselves, by a rolling restart, or because somebody else has removed them
	Left    int `json:"left"` // on the node, also those that were still terminating
}

// Pod is what became of a pod.
type Pod struct {
	Name     string    `json:"pod"`                // NAMESPACE/NAME
	At       time.Time `json:"at,omitzero"`        // when it was removed
	How      string    `json:"how,omitempty"`      // evicted, deleted, restarted or ended; empty if it was only left
	Why      string    `json:"why,omitempty"`      // it was removed in spite of its budget or annotations
	Left     string    `json:"left,omitempty"`     // why it was on the node at the end
	Budgets  []string  `json:"budgets,omitempty"`  // that protected it, and were kept
	Bypassed []string  `json:"bypassed,omitempty"` // those that were not: nobody checks them when a pod is deleted
}

// What a record, and all together, can have.
const (
	mostDrains  = 200
	mostPods    = 50  // with details, of each drain
	mostBudgets = 3   // of each pod
	longest     = 256 // text that AWS or a person has written
	// mostBytes is less than the MiB that a ConfigMap can have. When it is not enough, the oldest records lose the
	// details of their pods first.
	mostBytes = 900 << 10
)

// compare orders pods by the time at which they have left.
func (p Pod) compare(o Pod) int {
	if p.At.IsZero() != o.At.IsZero() {
		return o.At.Compare(p.At)
	}
	return cmp.Or(p.At.Compare(o.At), cmp.Compare(p.Name, o.Name))
}

// isRemoved reports whether the drain has removed the pod.
func (p Pod) isRemoved() bool { return p.How == evicted || p.How == deleted }

// isOrdinary reports whether a reader hardly looks for the pod.
func (p Pod) isOrdinary() bool { return p.Why == "" && p.Left == "" && len(p.Bypassed) == 0 }

// Limited returns the record as it is kept: with no more pods and budgets than one can have. Those that were left, or
// forced, are kept rather than others.
func (d Drain) Limited() Drain {
	d.Cause, d.Asked = text.Cut(d.Cause, longest), text.Cut(d.Asked, longest)
	d.Group, d.Hook = text.Cut(d.Group, longest), text.Cut(d.Hook, longest)
	details := slices.Clone(d.Details)
	slices.SortStableFunc(details, Pod.compare)
	for i := len(details) - 1; i >= 0 && len(details) > mostPods; i-- {
		if details[i].isOrdinary() {
			details = slices.Delete(details, i, i+1)
		}
	}
	details = details[:min(len(details), mostPods)]
	for i := range details {
		details[i].Budgets = details[i].Budgets[:min(len(details[i].Budgets), mostBudgets)]
		details[i].Bypassed = details[i].Bypassed[:min(len(details[i].Bypassed), mostBudgets)]
	}
	d.Omitted += len(d.Details) - len(details)
	d.Details = details
	return d
}

// isSame reports whether two records are about one drain, which another process may have continued.
func (d Drain) isSame(o Drain) bool { return d.UID == o.UID && d.Began.Equal(o.Began) }

// continued returns the record of a drain of which a later part is known: another process has continued it, or pods
// came late. What only the earlier part has done is kept, and what it has left is up to the later one.
func (d Drain) continued(later Drain) Drain {
	if later.Outcome == Interrupted && d.Outcome != Interrupted {
		return later.continued(d) // the records were added in another order
	}
	all, before := later, d.withoutLeft()
	if later.Outcome == CutShort && later.Pods == 0 {
		before = d // it says no more than that
	}
	all.add(before.Counts)
	all.Omitted += before.Omitted
	all.continueDetails(d, before)
	all.Asked, all.Expected = cmp.Or(later.Asked, d.Asked), cmp.Or(d.Expected, later.Expected)
	if later.Outcome == drained && d.Outcome == byForce {
		all.Outcome = byForce
	}
	return all
}

// continueDetails adds the details of an earlier part of the drain, as it ended and as far as it still counts. A pod
// that the earlier part has removed, and that was still terminating in the later one, is one pod.
func (d *Drain) continueDetails(earlier, counted Drain) {
	known, repeated := map[string]Pod{}, map[string]bool{}
	for _, p := range earlier.Details {
		known[p.Name] = p
	}
	details := slices.Clone(d.Details)
	for i, p := range details {
		k := known[p.Name]
		if !k.isRemoved() || p.isRemoved() {
			continue
		}
		d.count(p, -1)
		if repeated[p.Name] = true; k.Left == "" {
			d.count(k, -1)
		}
		k.Left = p.Left
		d.count(k, 1)
		details[i] = k
	}
	for _, p := range counted.Details {
		if !repeated[p.Name] {
			details = append(details, p)
		}
	}
	d.Details = details
}

// withoutLeft returns the record without the pods that were left.
func (d Drain) withoutLeft() Drain {
	d.Pods, d.Left = d.Pods-d.Left, 0
	d.Details = slices.DeleteFunc(slices.Clone(d.Details), func(p Pod) bool { return p.Left != "" })
	return d
}

// Count returns how many pods there are, and what became of them.
func Count(pods []Pod) (c Counts) {
	for _, p := range pods {
		c.count(p, 1)
	}
	return c
}

// count counts a pod n times.
func (c *Counts) count(p Pod, n int) {
	c.Pods += n
	switch {
	case p.Left != "":
		c.Left += n
	case p.How == evicted:
		c.Evicted += n
	case p.How == deleted:
		c.Deleted += n
	default:
		c.Gone += n
	}
}

func (c *Counts) add(o Counts) {
	c.Pods += o.Pods
	c.Evicted += o.Evicted
	c.Deleted += o.Deleted
	c.Gone += o.Gone
	c.Left += o.Left
}

// merge returns the records, the newest at the end, with those that were added: at most mostDrains.
func merge(records []Drain, added ...Drain) []Drain {
	all := slices.Clone(records)
	for _, d := range added {
		if i := slices.IndexFunc(all, d.isSame); i >= 0 {
			d = all[i].continued(d)
			all = slices.Delete(all, i, i+1)
		}
		all = append(all, d.Limited())
	}
	return all[max(0, len(all)-mostDrains):]
}

// encode returns a line for each record, and no more bytes than the limit. The oldest lose their details first, and are
// left out if that is not enough.
func encode(records []Drain, limit int) (string, error) {
	lines, size := make([]string, len(records)), 0
	for i, d := range records {
		line, err := d.line()
		if err != nil {
			return "", err
		}
		lines[i], size = line, size+len(line)
	}
	for i := 0; i < len(records) && size > limit; i++ {
		d := records[i]
		d.Omitted += len(d.Details)
		d.Details = nil
		line, err := d.line()
		if err != nil {
			return "", err
		}
		size -= len(lines[i]) - len(line)
		lines[i] = line
	}
	for len(lines) > 0 && size > limit {
		size -= len(lines[0])
		lines = lines[1:]
	}
	return strings.Join(lines, ""), nil
}

// line returns the record as JSON on a line, without characters that a terminal would interpret: kubectl shows it.
func (d Drain) line() (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(d)
	return text.CleanJSON(b.String()), err
}

// parse returns the records of the lines. A line that is none, which somebody else has written, is left out.
func parse(lines string) (records []Drain) {
	for line := range strings.Lines(lines) {
		var d Drain
		if json.Unmarshal([]byte(line), &d) == nil && d.Node != "" {
			records = append(records, d)
		}
	}
	return records
}

// newestFirst returns the records by when the drains began, the newest first.
func newestFirst(records []Drain) []Drain {
	slices.Reverse(records)
	slices.SortStableFunc(records, func(a, b Drain) int { return b.Began.Compare(a.Began) })
	return records
}
