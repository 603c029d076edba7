package awsim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// newest is a time far away, to make keys that grow while times shrink.
const newest = int64(1) << 62

// key orders activities from the newest to the oldest.
func (v activityXML) key() string {
	at, _ := time.Parse(time.RFC3339, v.StartTime)
	return strconv.FormatInt(newest-at.UnixNano(), 16) + v.ActivityID
}

func byNewest(all []activityXML) {
	slices.SortStableFunc(all, func(x, y activityXML) int { return cmp.Compare(x.key(), y.key()) })
}

func (a groupAPI) createAutoScalingGroup(r *reader) (any, error) {
	g := &group{name: r.must("AutoScalingGroupName"), healthCheckType: "EC2", cooldown: 300, warmup: -1}
	r.must("MinSize")
	r.must("MaxSize")
	a.readGroup(r, g)
	g.desired = r.number("DesiredCapacity", g.min, 0, unbounded)
	g.tags = readTags(r)
	var hooks []Hook
	r.each("LifecycleHookSpecificationList.member", func(prefix string) {
		hooks = append(hooks, readHook(r, prefix, Hook{}).withDefaults())
	})
	if r.err == nil && !g.source.isSet() {
		r.fail(errorf("ValidationError", "Valid requests must contain either launchTemplate, "+
			"launchConfigurationName, mixedInstancesPolicy or instanceId parameter."))
	}
	if r.err != nil {
		return nil, r.err
	}
	g.hooks = hooks
	return nil, a.updateErr(func() error { return a.capacity.create(g) })
}

func (a groupAPI) updateAutoScalingGroup(r *reader) (any, error) {
	return nil, r.changeGroup(a.engine, func(g *group) error {
		next := *g
		a.readGroup(r, &next)
		if f := g.refreshing(); f != nil && f.desired != nil && next.source != g.source {
			return errorf("ValidationError", "An active instance refresh with a desired configuration exists. All "+
				"configuration options derived from the desired configuration are not available for update while "+
				"the instance refresh is active.")
		}
		next.desired = r.number("DesiredCapacity", min(max(g.desired, next.min), next.max), 0, unbounded)
		if err := either(r.err, either(next.checkSize(), a.catalog.check(next.source))); err != nil {
			return err
		}
		*g = next
		a.capacity.reconcile(g)
		return nil
	})
}

// readGroup reads what a creation and an update have in common. It changes only what the call names.
func (a groupAPI) readGroup(r *reader, g *group) {
	r.refuse("LaunchConfigurationName", "InstanceId")
	g.min = r.number("MinSize", g.min, 0, unbounded)
	g.max = r.number("MaxSize", g.max, 0, unbounded)
	g.cooldown = r.number("DefaultCooldown", g.cooldown, 0, unbounded)
	g.warmup = r.number("DefaultInstanceWarmup", g.warmup, -1, unbounded)
	g.maxLifetime = r.number("MaxInstanceLifetime", g.maxLifetime, 0, unbounded)
	g.protectNew = r.flag("NewInstancesProtectedFromScaleIn", g.protectNew)
	g.rebalance = r.flag("CapacityRebalance", g.rebalance)
	g.gracePeriod = time.Second * time.Duration(
		r.number("HealthCheckGracePeriod", int(g.gracePeriod/time.Second), 0, unbounded))
	if r.has("HealthCheckType") {
		g.healthCheckType = r.text("HealthCheckType")
	}
	if list := r.members("TerminationPolicies"); len(list) > 0 {
		g.terminations = list
	}
	if r.has("InstanceLifecyclePolicy.RetentionTriggers.TerminateHookAbandon") {
		g.retain = r.oneOf("InstanceLifecyclePolicy.RetentionTriggers.TerminateHookAbandon", "",
			"retain", "terminate") == "retain"
	}
	a.readZones(r, g)
	readMaintenancePolicy(r, g)
	g.source = readSource(r, "", g.source)
}

// readZones takes the zones, or makes one up for each subnet.
func (a groupAPI) readZones(r *reader, g *group) {
	if list := r.members("AvailabilityZones"); len(list) > 0 {
		g.zones = list
	}
	subnets := r.text("VPCZoneIdentifier")
	if subnets == "" {
		return
	}
	given := len(r.members("AvailabilityZones")) > 0
	g.subnets = subnets
	if given {
		return
	}
	g.zones = nil
	for i := range strings.Split(subnets, ",") {
		g.zones = append(g.zones, a.server.opts.Region+string(rune('a'+i)))
	}
}

func readMaintenancePolicy(r *reader, g *group) {
	const lowest, highest = "InstanceMaintenancePolicy.MinHealthyPercentage",
		"InstanceMaintenancePolicy.MaxHealthyPercentage"
	if !r.has(lowest) && !r.has(highest) {
		return
	}
	p := maintenancePolicy{min: r.number(lowest, -2, -1, 100), max: r.number(highest, -2, -1, 200)}
	switch {
	case r.err != nil:
	case p.min == -1 && p.max == -1:
		g.policy = nil
	case p.min < 0 || p.max < 100:
		r.fail(errorf("ValidationError", "You must specify both MinHealthyPercentage and MaxHealthyPercentage, "+
			"and MaxHealthyPercentage must be between 100 and 200."))
	case p.max-p.min > 100:
		r.fail(errorf("ValidationError", "The difference between MinHealthyPercentage and MaxHealthyPercentage "+
			"cannot be greater than 100."))
	default:
		g.policy = &p
	}
}

func (a groupAPI) deleteAutoScalingGroup(r *reader) (any, error) {
	force := r.flag("ForceDelete", false)
	return nil, r.changeGroup(a.engine, func(g *group) error { return a.capacity.deleteGroup(g, force) })
}

type groupXML struct {
	AutoScalingGroupName             string
	AutoScalingGroupARN              string
	MinSize                          int
	MaxSize                          int
	DesiredCapacity                  int
	DefaultCooldown                  int
	DefaultInstanceWarmup            *int     `xml:",omitempty"`
	WarmPoolConfiguration            *poolXML `xml:",omitempty"`
	WarmPoolSize                     *int     `xml:",omitempty"`
	MaxInstanceLifetime              int      `xml:",omitempty"`
	AvailabilityZones                []string `xml:"AvailabilityZones>member"`
	VPCZoneIdentifier                string
	HealthCheckType                  string
	HealthCheckGracePeriod           int
	NewInstancesProtectedFromScaleIn bool
	CapacityRebalance                bool `xml:",omitempty"`
	CreatedTime                      string
	Status                           string              `xml:",omitempty"`
	LaunchTemplate                   *templateSpecXML    `xml:",omitempty"`
	MixedInstancesPolicy             *mixedXML           `xml:",omitempty"`
	InstanceMaintenancePolicy        *policyXML          `xml:",omitempty"`
	InstanceLifecyclePolicy          *lifecyclePolicyXML `xml:",omitempty"`
	Instances                        []memberXML         `xml:"Instances>member"`
	SuspendedProcesses               []suspendedXML      `xml:"SuspendedProcesses>member"`
	Tags                             []tagXML            `xml:"Tags>member"`
	TerminationPolicies              []string            `xml:"TerminationPolicies>member"`
	EnabledMetrics                   struct{}
	LoadBalancerNames                struct{}
	TargetGroupARNs                  struct{}
}

type policyXML struct {
	MinHealthyPercentage int
	MaxHealthyPercentage int
}

type lifecyclePolicyXML struct {
	TerminateHookAbandon string `xml:"RetentionTriggers>TerminateHookAbandon"`
}

type suspendedXML struct {
	ProcessName      string
	SuspensionReason string
}

func (a groupAPI) groupWire(g *group) groupXML {
	out := groupXML{
		AutoScalingGroupName:             g.name,
		AutoScalingGroupARN:              groupARN(a.engine, g.name),
		MinSize:                          g.min,
		MaxSize:                          g.max,
		DesiredCapacity:                  g.desired,
		DefaultCooldown:                  g.cooldown,
		MaxInstanceLifetime:              g.maxLifetime,
		AvailabilityZones:                g.zones,
		VPCZoneIdentifier:                g.subnets,
		HealthCheckType:                  cmp.Or(g.healthCheckType, "EC2"),
		HealthCheckGracePeriod:           int(g.gracePeriod / time.Second),
		NewInstancesProtectedFromScaleIn: g.protectNew,
		CapacityRebalance:                g.rebalance,
		CreatedTime:                      stamp(g.createdAt),
		TerminationPolicies:              g.terminations,
	}
	out.LaunchTemplate, out.MixedInstancesPolicy = a.catalog.sourceWire(g.source)
	addOptions(g, &out)
	if len(g.terminations) == 0 {
		out.TerminationPolicies = []string{"Default"}
	}
	for _, process := range sortedKeys(g.suspended) {
		out.SuspendedProcesses = append(out.SuspendedProcesses, suspendedXML{process, "User suspended"})
	}
	for _, t := range g.tags {
		out.Tags = append(out.Tags, t.wire(g.name))
	}
	return out
}

// addOptions adds the optional parts of a group.
func addOptions(g *group, out *groupXML) {
	if g.pool != nil {
		out.WarmPoolConfiguration, out.WarmPoolSize = g.pool.wire(), new(len(g.pooled()))
	}
	if g.warmup >= 0 {
		out.DefaultInstanceWarmup = new(g.warmup)
	}
	if g.deleting {
		out.Status = "Delete in progress"
	}
	if g.policy != nil {
		out.InstanceMaintenancePolicy = &policyXML{g.policy.min, g.policy.max}
	}
	if g.retain {
		out.InstanceLifecyclePolicy = &lifecyclePolicyXML{"retain"}
	}
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
		var all []*group
		for _, name := range sortedKeys(a.groups) {
			g := a.groups[name]
			if (len(names) == 0 || contains(names, name)) && g.passes(filters) {
				all = append(all, g)
			}
		}
		page, next, err := paginate(all, func(g *group) string { return g.name }, r.text("NextToken"), most)
		out := describeGroupsXML{NextToken: next}
		for _, g := range page {
			wire := a.groupWire(g)
			if instances {
				wire.Instances = slices.DeleteFunc(a.membersWire(g), memberXML.isWarmed)
			}
			out.AutoScalingGroups = append(out.AutoScalingGroups, wire)
		}
		return out, err
	})
}

// checkGroupFilters refuses a filter of groups that the API does not have: one passed over would look like an
// account without such groups.
func checkGroupFilters(r *reader, filters []criterion) {
	for _, f := range filters {
		if f.name != "tag-key" && f.name != "tag-value" && !strings.HasPrefix(f.name, "tag:") {
			r.fail(errorf("ValidationError", "Filter type %s is not correct. Allowed Filter types are: "+
				"[tag-key, tag-value, tag:<key>]", f.name))
		}
	}
}

// passes reports whether all filters allow the group, each by any of its tags.
func (g *group) passes(filters []criterion) bool {
	for _, f := range filters {
		if !slices.ContainsFunc(g.tags, func(t tag) bool {
			switch f.name {
			case "tag-key":
				return f.allows(t.Key)
			case "tag-value":
				return f.allows(t.Value)
			default:
				return f.name == "tag:"+t.Key && f.allows(t.Value)
			}
		}) {
			return false
		}
	}
	return true
}
