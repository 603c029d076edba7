package awsim

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// descriptions are what the API has described a group as, in order of time; only while descriptions are late.
type descriptions struct{ past []description }

// description is what a group, and what its instances, are since a time.
type description struct {
	since time.Time
	shown groupXML
}

// describeAll keeps what has changed of what the API describes of groups. It needs mu.
func (a *engine) describeAll() {
	if a.delays.Visible == 0 {
		return
	}
	for _, g := range a.groups {
		now := a.currently(g)
		if n := len(g.past); n == 0 || !reflect.DeepEqual(g.past[n-1].shown, now) {
			g.past = append(g.past, description{time.Now(), now})
		}
		g.past = g.past[a.indexShown(g):]
	}
}

// indexShown returns which of the descriptions of a group the API shows now: the last that is as old as Delays.Visible,
// or the first. It needs mu.
func (a *engine) indexShown(g *group) int {
	at := time.Now().Add(-a.delays.Visible)
	isLater := func(d description) bool { return d.since.After(at) }
	if n := slices.IndexFunc(g.past, isLater); n >= 0 {
		return max(n-1, 0)
	}
	return max(len(g.past)-1, 0)
}

// described is what the API shows of a group: all of it as it was Delays.Visible ago. It needs mu.
func (a *engine) described(g *group) groupXML {
	one := a.currently(g)
	if a.delays.Visible > 0 && len(g.past) > 0 {
		one = g.past[a.indexShown(g)].shown
	}
	one.Instances = slices.DeleteFunc(slices.Clone(one.Instances), func(m memberXML) bool {
		return !a.instances[m.InstanceID].hasAppeared()
	})
	return one
}

// currently is what a group is, with its instances but for those of its warm pool. It needs mu.
func (a *engine) currently(g *group) groupXML {
	one := a.groupWire(g)
	for _, inst := range g.members {
		if state := inst.state(); !strings.HasPrefix(state, warmed) {
			one.Instances = append(one.Instances, memberWire(inst, state))
		}
	}
	return one
}
