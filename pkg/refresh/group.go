package refresh

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Group is an Auto Scaling group, as it was described. Its numbers are of instances.
type Group struct {
	Name              string
	Desired, Min, Max int
	Source            Source
	Instances         []Instance // Those of its warm pool are among them where Reader.Pool was asked for them.
	Tags              map[string]string
	Suspended         []string // Processes, in the API's words.
	Maintenance       Maintenance
	Warmup            time.Duration // What an instance refresh uses if its preferences name none.
	Operator          string        // The service that manages the group, and alone may change it; or empty.
	WarmPool          bool
	IgnoresImpaired   bool // During a zonal shift, unhealthy instances in the zone are not replaced.
	LoadBalanced      bool // It registers its instances with a load balancer, target group or other traffic source.
	Weighted          bool // Its numbers are of capacity units instead: one instance may be several.
	Retains           bool // It retains an instance whose termination a hook abandons.
	LargestWeight     int  // The most capacity units of one of its types; 0 if it names no weights.

	Nodegroup *Nodegroup // What EKS says of its managed node group; nil unless that was asked for.
}

// InstanceIDs are the ids of the instances for which the predicate holds.
func (g Group) InstanceIDs(holds func(Instance) bool) []string {
	var ids []string
	for _, i := range g.Instances {
		if holds(i) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// tagNodegroup is the tag that EKS puts on the groups of its managed node groups.
const tagNodegroup = "eks:nodegroup-name"

// ManagedNodegroup is the EKS managed node group that the group belongs to, or empty.
func (g Group) ManagedNodegroup() string { return g.Tags[tagNodegroup] }

// Maintenance is by which instance maintenance policy instances of a group are replaced, in percent of the desired
// capacity; nil where there is none.
type Maintenance struct {
	MinHealthy, MaxHealthy *int

	Account bool  // The group has no policy: it is that of the account setting LaunchBeforeTerminate.
	Unknown error // The group has no policy, and this is why the account setting is not known.
}

// LaunchBeforeTerminate is the account setting that has groups without a maintenance policy launch first.
const LaunchBeforeTerminate = "launchBeforeTerminate"

// AccountMaintenance is the policy of groups without one while LaunchBeforeTerminate is enabled. Its minimum is
// documented; the maximum is assumed to be that of the console's option "Launch before terminating". Source: "Launch
// replacement instances before terminating old ones" in the user guide.
func AccountMaintenance() Maintenance {
	return Maintenance{MinHealthy: new(100), MaxHealthy: new(110), Account: true}
}

// Percentages are those of a refresh with these preferences; nil where neither they nor the policy set one. That of the
// account is for refreshes without percentages.
func (m Maintenance) Percentages(p Preferences) (low, high *int) {
	if m.Account && (p.MinHealthy != nil || p.MaxHealthy != nil) {
		m = Maintenance{}
	}
	return cmp.Or(p.MinHealthy, m.MinHealthy), cmp.Or(p.MaxHealthy, m.MaxHealthy)
}

// LaunchesFirst reports whether Auto Scaling, when it replaces an unhealthy instance, launches before it
// terminates. That needs a minimum of 100 % and a maximum above 100 %. Source: InstanceMaintenancePolicy in
// the API reference.
func (m Maintenance) LaunchesFirst() bool {
	return m.MinHealthy != nil && m.MaxHealthy != nil && *m.MinHealthy >= 100 && *m.MaxHealthy > 100
}

// Source is what a group launches its instances from: a launch configuration, or a launch template, which may
// be that of a mixed instances policy.
type Source struct {
	Configuration string // The name of a launch configuration.
	Template      *Template

	Mixed     bool // It is a mixed instances policy.
	Overrides []Override
	Policy    any // All of the policy, as package autoscaling described it and sends it back; nil elsewhere.
}

// Templates are all launch templates of the source: its own, then those of overrides.
func (s Source) Templates() []Template {
	var all []Template
	for _, o := range slices.Concat([]Override{{Template: s.Template}}, s.Overrides) {
		if o.Template != nil {
			all = append(all, *o.Template)
		}
	}
	return all
}

// Template names a launch template and one of its versions. Auto Scaling describes a template by id and name;
// a request names it by one of them.
type Template struct {
	ID, Name string
	Version  string // A number, $Latest or $Default; empty is $Default.
}

// Override is one of the kinds of instances that a mixed instances policy allows.
type Override struct {
	Type         string    // An instance type; empty if it is given by requirements.
	Requirements bool      // Attributes stand for the type.
	Allowed      []string  // The types that the attributes are limited to, with wildcards; empty is all.
	Excluded     []string  // The types that are left out, with wildcards.
	Template     *Template // Its own launch template, instead of the policy's.
	ImageID      string    // Its own AMI, instead of the template's.
}

// Instance is one instance of a group.
type Instance struct {
	ID, Zone, Type string
	State          string // Its lifecycle state, in the API's words: InService, Terminating:Wait, …
	Healthy        bool   // By its health status in Auto Scaling.
	Protected      bool   // It is protected from scale in.
	Configuration  string // The launch configuration that it was launched from, or empty.
	Template       *Template
	ImageID        string // Its AMI, from EC2: Auto Scaling describes it for some overrides only.

	Launched time.Time // When it was launched first, from EC2; zero if that was not read.
}

// InService reports whether the instance runs in the group and counts for its desired capacity.
func (i Instance) InService() bool { return i.State == "InService" }

// Pending reports whether the instance is entering the group.
func (i Instance) Pending() bool { return strings.HasPrefix(i.State, "Pending") }

// pooled begins the lifecycle states of a warm pool. Source: "Lifecycle state transitions for instances in a warm
// pool" in the user guide.
const pooled = "Warmed:"

// Pooled reports whether the instance is in the group's warm pool, or enters it.
func (i Instance) Pooled() bool { return strings.HasPrefix(i.State, pooled) }

// leaving is the lifecycle state without what tells instances of a warm pool from others.
func (i Instance) leaving() string { return strings.TrimPrefix(i.State, pooled) }

// Terminating reports whether the instance is leaving the group, or its warm pool.
func (i Instance) Terminating() bool {
	return strings.HasPrefix(i.leaving(), "Terminating") || i.leaving() == "Terminated"
}

// Draining reports whether a terminating hook may still hold the instance, so that its node may have pods
// left.
func (i Instance) Draining() bool {
	return i.leaving() == "Terminating" || i.leaving() == terminatingWait
}

// terminatingWait is the lifecycle state in which terminating hooks hold an instance.
const terminatingWait = "Terminating:Wait"

// AwaitsHook reports whether a terminating hook holds the instance, which is not one of the warm pool.
func (i Instance) AwaitsHook() bool { return i.State == terminatingWait }

// Retained reports whether the instance was kept when its termination was abandoned. It stays until a user
// terminates it. Source: InstanceLifecyclePolicy in the API reference.
func (i Instance) Retained() bool { return i.leaving() == "Terminating:Retained" }

// Standby reports whether the instance is in standby, or enters it.
func (i Instance) Standby() bool { return i.State == "Standby" || i.State == enteringStandby }

// enteringStandby is the lifecycle state on the way into Standby.
const enteringStandby = "EnteringStandby"

// Hook is a lifecycle hook of a group.
type Hook struct {
	Name             string
	Terminating      bool          // Else of a launch.
	Target           string        // The ARN of what it notifies; empty where EventBridge delivers.
	HeartbeatTimeout time.Duration // For how long it holds an instance without a heartbeat.
	GlobalTimeout    time.Duration // The longest that it can hold an instance.
}

// Bounds of a lifecycle hook. Source: LifecycleHook and PutLifecycleHook in the API reference.
const (
	MinHeartbeatTimeout     = 30 * time.Second
	DefaultHeartbeatTimeout = time.Hour

	maxGlobalTimeout     = 48 * time.Hour
	heartbeatsPerTimeout = 100
)

// GlobalTimeout is the longest that a hook with the heartbeat timeout can hold an instance: a hundred times
// that, and at most 48 hours.
func GlobalTimeout(heartbeat time.Duration) time.Duration {
	return min(heartbeatsPerTimeout*heartbeat, maxGlobalTimeout)
}
