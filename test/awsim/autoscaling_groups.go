package awsim

import (
	"slices"
	"strings"
	"time"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// updateAutoScalingGroup changes what the group launches from, and its maximum, and nothing else. A maximum below the
// desired capacity lowers that (UpdateAutoScalingGroup in the API reference).
func (a groupAPI) updateAutoScalingGroup(r *reader) (any, error) {
	most := r.number("MaxSize", -1, 0, unbounded)
	r.refuse("MinSize", "DesiredCapacity", "HealthCheckGracePeriod", "InstanceMaintenancePolicy",
		"InstanceLifecyclePolicy", "LaunchConfigurationName")
	return nil, r.changeGroup(a.engine, func(g *group) error {
		next := readSource(r, "", g.source)
		if f := g.refreshing(); f != nil && f.desired != nil && next != g.source {
			return errorf("ValidationError", "An active instance refresh with a desired configuration exists. All "+
				"configuration options derived from the desired configuration are not available for update while "+
				"the instance refresh is active.")
		}
		if r.err != nil {
			return r.err
		}
		if err := a.catalog.check(next); err != nil {
			return err
		}
		g.source = next
		if most >= 0 && most < g.min {
			return errorf("ValidationError", "Max bound, %d, must be greater than or equal to min bound, %d", most, g.min)
		}
		if most >= 0 {
			g.max, g.desired = most, min(g.desired, most)
		}
		a.capacity.reconcile(g)
		return nil
	})
}

func (a groupAPI) deleteAutoScalingGroup(r *reader) (any, error) {
	force := r.flag("ForceDelete", false)
	return nil, r.changeGroup(a.engine, func(g *group) error { return a.capacity.deleteGroup(g, force) })
}

func (a groupAPI) setDesiredCapacity(r *reader) (any, error) {
	r.must("DesiredCapacity")
	desired := r.number("DesiredCapacity", 0, 0, unbounded)
	return nil, r.changeGroup(a.engine, func(g *group) error { return a.capacity.resize(g, desired) })
}

func (a groupAPI) suspendProcesses(r *reader) (any, error) {
	return nil, a.setProcesses(r, func(g *group, process string) { g.suspended[process] = true })
}

func (a groupAPI) resumeProcesses(r *reader) (any, error) {
	return nil, a.setProcesses(r, func(g *group, process string) { delete(g.suspended, process) })
}

// setProcesses does the same to each named process; to all when none is named.
func (a groupAPI) setProcesses(r *reader, set func(g *group, process string)) error {
	named := r.members("ScalingProcesses")
	if len(named) == 0 {
		named = processes()
	}
	for _, process := range named {
		if !contains(processes(), process) {
			r.fail(errorf("ValidationError", "%s is not a valid process type", process))
		}
	}
	return r.changeGroup(a.engine, func(g *group) error {
		for _, process := range named {
			set(g, process)
		}
		a.capacity.reconcile(g)
		return nil
	})
}

func (a groupAPI) putWarmPool(r *reader) (any, error) {
	pool := warmPool{
		minSize:  r.number("MinSize", 0, 0, unbounded),
		prepared: r.number("MaxGroupPreparedCapacity", -1, -1, unbounded),
		rests:    r.oneOf("PoolState", poolStopped, poolStopped, poolRunning, poolHibernated),
		reuse:    r.flag("InstanceReusePolicy.ReuseOnScaleIn", false),
	}
	return struct{}{}, r.changeGroup(a.engine, func(g *group) error {
		g.pool = &pool
		a.capacity.reconcile(g)
		return nil
	})
}

type groupXML struct {
	AutoScalingGroupName      string
	MinSize                   int
	MaxSize                   int
	DesiredCapacity           int
	AvailabilityZones         []string `xml:"AvailabilityZones>member"`
	HealthCheckGracePeriod    int
	WarmPoolConfiguration     *poolXML            `xml:",omitempty"`
	LaunchTemplate            *templateSpecXML    `xml:",omitempty"`
	MixedInstancesPolicy      *mixedXML           `xml:",omitempty"`
	InstanceMaintenancePolicy *policyXML          `xml:",omitempty"`
	InstanceLifecyclePolicy   *lifecyclePolicyXML `xml:",omitempty"`
	Instances                 []memberXML         `xml:"Instances>member"`
	SuspendedProcesses        []suspendedXML      `xml:"SuspendedProcesses>member"`
	Tags                      []tagXML            `xml:"Tags>member"`
	Status                    string              `xml:",omitempty"`
}

// retain is what InstanceLifecyclePolicy has happen to instances whose termination is abandoned.
const retain = "retain"

type lifecyclePolicyXML struct {
	TerminateHookAbandon string `xml:"RetentionTriggers>TerminateHookAbandon"`
}

type policyXML struct {
	MinHealthyPercentage int
	MaxHealthyPercentage int
}

type poolXML struct {
	MinSize   int
	PoolState string
}

type suspendedXML struct{ ProcessName string }

func (a *engine) groupWire(g *group) groupXML {
	out := groupXML{
		AutoScalingGroupName:   g.name,
		MinSize:                g.min,
		MaxSize:                g.max,
		DesiredCapacity:        g.desired,
		AvailabilityZones:      g.zones,
		HealthCheckGracePeriod: int(g.gracePeriod / time.Second),
	}
	out.LaunchTemplate, out.MixedInstancesPolicy = a.catalog.sourceWire(g.source)
	if g.pool != nil {
		out.WarmPoolConfiguration = &poolXML{g.pool.minSize, g.pool.rests}
	}
	if g.retain {
		out.InstanceLifecyclePolicy = &lifecyclePolicyXML{retain}
	}
	if g.policy != nil {
		out.InstanceMaintenancePolicy = &policyXML{g.policy.min, g.policy.max}
	}
	for _, process := range sortedKeys(g.suspended) {
		out.SuspendedProcesses = append(out.SuspendedProcesses, suspendedXML{process})
	}
	for _, t := range g.tags {
		out.Tags = append(out.Tags, t.wire(g.name))
	}
	if g.deleting {
		out.Status = "Delete in progress"
	}
	return out
}

func groupARN(a *engine, name string) string {
	return Envelope{Account: a.server.opts.Account, Region: a.server.opts.Region}.groupARN(name)
}

type describeGroupsXML struct {
	AutoScalingGroups []groupXML `xml:"AutoScalingGroups>member"`
	NextToken         string     `xml:",omitempty"`
}

// defaultGroups is how many groups a page has, and how many names a call may have, unless MaxRecords is
// larger.
const defaultGroups = 50

func (a groupAPI) describeAutoScalingGroups(r *reader) (any, error) {
	names, filters := r.members("AutoScalingGroupNames"), r.filters()
	most := r.number("MaxRecords", defaultGroups, 1, 100)
	instances := r.flag("IncludeInstances", true)
	if limit := max(defaultGroups, most); len(names) > limit {
		r.fail(errorf("ValidationError", "The number of group names that may be passed in is limited to %d", limit))
	}
	checkGroupFilters(r, filters)
	return view(a.engine, r, func() (any, error) {
		var all []groupXML
		for _, name := range sortedKeys(a.groups) {
			if one := a.described(a.groups[name]); (len(names) == 0 || contains(names, name)) && one.passes(filters) {
				all = append(all, one)
			}
		}
		name := func(g groupXML) string { return g.AutoScalingGroupName }
		page, next, err := paginate(all, name, r.text("NextToken"), most)
		if !instances {
			for n := range page {
				page[n].Instances = nil
			}
		}
		return describeGroupsXML{AutoScalingGroups: page, NextToken: next}, err
	})
}

// checkGroupFilters refuses a filter of groups that is not simulated: one passed over would look like an
// account without such groups.
func checkGroupFilters(r *reader, filters []criterion) {
	for _, f := range filters {
		if f.name != "tag-key" && !strings.HasPrefix(f.name, "tag:") {
			r.fail(errorf("ValidationError", "awsim does not simulate the filter %s", f.name))
		}
	}
}

// passes reports whether all filters allow the group, each by any of its tags.
func (g groupXML) passes(filters []criterion) bool {
	for _, f := range filters {
		if !slices.ContainsFunc(g.Tags, func(t tagXML) bool {
			return f.name == "tag-key" && f.allows(t.Key) || f.name == "tag:"+t.Key && f.allows(t.Value)
		}) {
			return false
		}
	}
	return true
}
