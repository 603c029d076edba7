package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// reductions is how many worlds Reduce runs at most.
const reductions = 400

// Reduce leaves out parts of a world as long as the invariant is still violated, and describes what is left.
func Reduce(t *testing.T, spec Spec, invariant string) string {
	t.Helper()
	violation := func(r Result) int {
		return slices.IndexFunc(r.Violations, func(v Violation) bool { return v.Invariant == invariant })
	}
	result := Run(t, spec)
	if violation(result) < 0 {
		return "The world did not violate the invariant again: " + invariant
	}
	for tries, smaller := 0, true; smaller && tries < reductions; {
		smaller = slices.ContainsFunc(smallerSpecs(spec), func(next Spec) bool {
			tries++
			r := Run(t, next)
			if violation(r) < 0 || tries > reductions {
				return false
			}
			spec, result = next, r
			return true
		})
	}
	return reportOf(spec, result, result.Violations[violation(result)])
}

// smallerSpecs returns copies of a world, each of which lacks one part.
func smallerSpecs(s Spec) (out []Spec) {
	add := func(change func(*Spec)) { out = append(out, changed(s, change)) }
	for i := range s.Clusters {
		if len(s.Clusters) > 1 {
			add(func(n *Spec) { n.Clusters = slices.Delete(n.Clusters, i, i+1) })
		}
	}
	for i := range s.Faults {
		add(func(n *Spec) { n.Faults = slices.Delete(n.Faults, i, i+1) })
	}
	for i := range s.Triggers {
		if len(s.Triggers) > 1 {
			add(func(n *Spec) { n.Triggers = slices.Delete(n.Triggers, i, i+1) })
		}
	}
	for i := range s.Versions {
		add(func(n *Spec) { n.Versions = slices.Delete(n.Versions, i, i+1) })
	}
	for i := range s.Steps {
		add(func(n *Spec) { n.Steps = slices.Delete(n.Steps, i, i+1) })
	}
	for i, c := range s.Clusters {
		for _, smaller := range c.smaller() {
			add(func(n *Spec) { n.Clusters[i] = smaller })
		}
	}
	if s.Visible > 0 {
		add(func(n *Spec) { n.Visible = 0 })
	}
	return out
}

// changed returns a changed deep copy of plain data.
func changed[T any](data T, change func(*T)) (out T) {
	text, err := json.Marshal(data)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err) // cannot happen: it is plain data
	}
	change(&out)
	return out
}

// smaller returns copies of a cluster, each of which lacks one part.
func (c Cluster) smaller() (out []Cluster) {
	add := func(change func(*Cluster)) { out = append(out, changed(c, change)) }
	for i := range c.Groups {
		if len(c.Groups) > 1 {
			add(func(n *Cluster) { n.Groups = slices.Delete(n.Groups, i, i+1) })
		}
	}
	for i := range c.Workloads {
		add(func(n *Cluster) { n.Workloads = slices.Delete(n.Workloads, i, i+1) })
	}
	for i := range c.Daemons {
		add(func(n *Cluster) { n.Daemons = slices.Delete(n.Daemons, i, i+1) })
	}
	out = append(out, c.withSmallerParts()...)
	if (c.Timing != Timing{Boot: c.Timing.Boot, Delete: c.Timing.Delete}) {
		add(func(n *Cluster) { n.Timing = Timing{Boot: c.Timing.Boot, Delete: c.Timing.Delete} })
	}
	return out
}

// withSmallerParts returns copies of a cluster, each of which has a smaller install, group or workload.
func (c Cluster) withSmallerParts() (out []Cluster) {
	add := func(change func(*Cluster)) { out = append(out, changed(c, change)) }
	for i, in := range c.Installs {
		for k := range in.Settings {
			add(func(n *Cluster) { n.Installs[i].Settings = slices.Delete(n.Installs[i].Settings, k, k+1) })
		}
		if in.ByNode {
			add(func(n *Cluster) { n.Installs[i].ByNode = false })
		}
		if in.Old {
			add(func(n *Cluster) { n.Installs[i].Old = false })
		}
		if in.Replicas > 1 {
			add(func(n *Cluster) { n.Installs[i].Replicas = 1 })
		}
	}
	for i, g := range c.Groups {
		for k := range g.Hooks {
			add(func(n *Cluster) { n.Groups[i].Hooks = slices.Delete(n.Groups[i].Hooks, k, k+1) })
		}
		if g.Pool != nil {
			add(func(n *Cluster) { n.Groups[i].Pool = nil })
		}
		if g.Nodes > 1 {
			add(func(n *Cluster) { n.Groups[i].Nodes-- })
		}
	}
	return append(out, c.withSmallerWorkloads()...)
}

func (c Cluster) withSmallerWorkloads() (out []Cluster) {
	add := func(change func(*Cluster)) { out = append(out, changed(c, change)) }
	for i, w := range c.Workloads {
		if w.Replicas > 1 {
			add(func(n *Cluster) { n.Workloads[i].Replicas-- })
		}
		for k := range w.Budgets {
			add(func(n *Cluster) { n.Workloads[i].Budgets = slices.Delete(n.Workloads[i].Budgets, k, k+1) })
		}
	}
	return out
}

// reportLines is how long a report is at most.
const reportLines = 30

// reportOf describes a world that violates an invariant: the world, the violation, and what happened last before it.
func reportOf(spec Spec, r Result, v Violation) string {
	lines := slices.DeleteFunc(slices.Clone(r.lines), func(l line) bool {
		return l.at.Sub(r.began) > v.At+time.Second || l.at.Before(r.began) && l.who == "aws"
	})
	head := []string{"world: " + spec.String(), fmt.Sprintf("violated: %v", v)}
	lines = lines[max(0, len(lines)-reportLines+len(head)):]
	for _, l := range lines {
		head = append(head, fmt.Sprintf("%10v %-14s %s", l.at.Sub(r.began).Round(time.Millisecond), l.who, compact(l.text)))
	}
	return strings.Join(head, "\n")
}

// compact returns a log line of the agent, which is JSON, as its message followed by its fields.
func compact(text string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(text), &fields) != nil {
		return text
	}
	var out strings.Builder
	fmt.Fprint(&out, fields["message"])
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if k != "message" && k != "level" && k != "time" {
			fmt.Fprintf(&out, " %s=%v", k, fields[k])
		}
	}
	return out.String()
}

// Log returns all that happened, a line each.
func (r Result) Log() string {
	var out strings.Builder
	for _, l := range r.lines {
		fmt.Fprintf(&out, "%12v %-14s %s\n", l.at.Sub(r.began).Round(time.Millisecond), l.who, compact(l.text))
	}
	return out.String()
}
