package refresh

import (
	"cmp"
	"slices"
	"time"
)

// Level is how serious a Finding is.
type Level string

// The levels, the most serious first.
const (
	Refuse Level = "refuse" // The rollout would do harm, or cannot work.
	Warn   Level = "warn"
	OK     Level = "ok"
)

// Finding is what a check of the preflight found.
type Finding struct {
	Check string `json:"check"` // The check's name, stable: suspended, no-terminating-hook, …
	Level Level  `json:"level"`
	Text  string `json:"text"` // What was found, what it means, and what to do.
}

// Mode is how instances are replaced.
type Mode string

// The modes.
const (
	ModeRefresh   Mode = "refresh"   // By an instance refresh.
	ModeUnhealthy Mode = "unhealthy" // By marking them unhealthy in batches.
	ModeStandby   Mode = "standby"   // By moving them into Standby in batches, and terminating them from there.
	ModeNodegroup Mode = "nodegroup" // By an update of the EKS managed node group.
)

// Operation is what AWS calls its way to replace instances in this mode.
func (m Mode) Operation() string {
	if m == ModeNodegroup {
		return "node group update"
	}
	return "instance refresh"
}

// InBatches reports whether the trigger itself replaces the instances, in batches.
func (m Mode) InBatches() bool { return m == ModeUnhealthy || m == ModeStandby }

// Facts are what the preflight checks, besides the group itself.
type Facts struct {
	Mode         Mode
	Preferences  Preferences // Of the refresh to be started.
	Pin          bool        // The refresh gets the version as a number: see Pin.Applies.
	Rollback     bool        // A rollback is requested: if the refresh fails, or the trigger is interrupted.
	Batch        int         // Of the modes that replace in batches: how many at a time.
	Then         Then        // Of ModeStandby: what happens to replaced instances.
	Surge        int         // Of ModeUnhealthy: by how much the desired capacity is raised; 0 is not at all.
	RaiseMax     bool        // The maximum size is raised where it is too small.
	Suspend      []string    // Processes that are suspended during the rollout.
	Outdated     int
	Target       Target
	Hooks        []Hook
	Agents       *AgentFacts   // nil without Kubernetes.
	Active       *Refresh      // The active refresh, or nil.
	Waves        bool          // Groups are replaced in the order of their waves.
	Self         string        // The instance that the trigger itself runs on, or empty.
	Cluster      *ClusterFacts // nil without Kubernetes.
	LongestGrace time.Duration // The longest termination grace of the pods on the group's nodes; 0 if unknown.

	AlarmStates   map[string]string // Of the alarms of Preferences, by name; one that does not exist has none.
	AlarmsUnknown error             // Why AlarmStates could not be read.

	Verdicts map[string]Verdict // Of the group's instances, by id. Without it all of them count as outdated.
}

// ClusterFacts are what Kubernetes knows of the group.
type ClusterFacts struct {
	Blocking []string // Disruption budgets of pods on the group's nodes that allow nothing: namespace/name.
	Pinned   []string // Pods on outdated nodes that no other node can have: namespace/name.
	Single   []string // Pods on the group's nodes that are the only one of their controller: namespace/name.

	Responders []string // Pods on outdated nodes whose eviction responders an eviction does not ask: namespace/name.
	PodGroups  []string // PodGroups of pods on outdated nodes, whose members are evicted one by one: namespace/name.

	SingleUnknown error    // Why Single could not be read.
	Missing       []string // Instances in service without a Node, or whose Node is not Ready.
}

// Preflight checks whether the group's instances can be replaced without harm. It returns a finding for each
// check, the most serious first. A check that does not apply to the mode, or that needs Kubernetes without
// it, returns none.
func Preflight(g Group, f Facts) []Finding {
	var findings []Finding
	for _, c := range f.Mode.checks() {
		if c.applies == nil || c.applies(g, f) {
			level, text := c.find(g, f)
			findings = append(findings, Finding{Check: c.name, Level: level, Text: text})
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Compare(a.Level.rank(), b.Level.rank())
	})
	return findings
}

// Refused are the findings that stop the rollout: those that refuse, except for checks that are allowed by
// name.
func Refused(findings []Finding, allowed []string) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool {
		return f.Level != Refuse || slices.Contains(allowed, f.Check)
	})
}

func (l Level) rank() int { return slices.Index([]Level{Refuse, Warn, OK}, l) }

// Names of checks that other packages need.
const (
	CheckActive  = "active-refresh"
	CheckTarget  = "target"
	CheckBudgets = "disruption-budgets"
)

// Checks are the names of the checks of all modes, in their order.
func Checks() []string {
	var names []string
	for _, c := range slices.Concat(checks(), nodegroupChecks()) {
		if !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// Allowable are the names of the checks that may refuse a rollout, and whose refusal a user may override: not that of a
// target from which nothing can be launched.
func Allowable() []string {
	return []string{
		"operator", "managed-nodegroup", "suspended", CheckActive, "no-terminating-hook", "hook-timeout",
		"maintenance-policy", "standby-tags", "max-size", "weighted", "wave", "pin", "rollback", "alarms", "skip-matching",
		"nodegroup-health", "version-skew", "addresses",
	}
}

// check is one check of the preflight.
type check struct {
	name    string
	find    func(Group, Facts) (Level, string)
	applies func(Group, Facts) bool // nil is always
}

func inRefresh(_ Group, f Facts) bool      { return f.Mode == ModeRefresh }
func inUnhealthy(_ Group, f Facts) bool    { return f.Mode == ModeUnhealthy }
func inStandby(_ Group, f Facts) bool      { return f.Mode == ModeStandby }
func withKubernetes(_ Group, f Facts) bool { return f.Cluster != nil }

// checks are those of the mode, in their order.
func (m Mode) checks() []check {
	if m == ModeNodegroup {
		return nodegroupChecks()
	}
	return checks()
}

// checks are all checks of rollouts of Auto Scaling groups, in their order.
func checks() []check {
	return []check{
		{name: "operator", find: checkManagedBy},
		{name: "managed-nodegroup", find: checkNodegroup},
		{name: CheckTarget, find: checkTarget},
		{name: "suspended", find: checkSuspended},
		{"zonal-shift", warnZonalShift, func(g Group, f Facts) bool { return inUnhealthy(g, f) && g.IgnoresImpaired }},
		{name: CheckActive, find: checkActiveRefresh},
		{name: "no-terminating-hook", find: checkTerminatingHook},
		{"hook-timeout", checkHookTimeout, func(_ Group, f Facts) bool { return longestHook(f.ownHooks()).Terminating }},
		{"maintenance-policy", checkMaintenancePolicy, inUnhealthy},
		{"account-setting", checkAccountSetting, usesAccountSetting},
		{"standby-tags", checkStandbyRoom, inStandby},
		{"rebalance", checkRebalance, inStandby},
		{name: "max-size", find: checkMaxSize},
		{name: "capacity", find: checkCapacity},
		{"weighted", checkWeights, func(g Group, _ Facts) bool { return g.Weighted }},
		{"wave", checkWave, func(g Group, f Facts) bool { return f.Waves && g.Tags[WaveTag] != "" }},
		{"lease", warnLease, func(g Group, _ Facts) bool { _, held := LeaseOf(g); return held }},
		{"surge-left", checkSurge, func(g Group, _ Facts) bool { _, raised := SurgeOf(g); return raised }},
		{name: "warmup", find: checkWarmup},
		{"pin", checkPin, func(g Group, f Facts) bool { return inRefresh(g, f) && f.Target.Source.Configuration == "" }},
		{"ami-parameter", warnImageParameter, isImageParameterUsed},
		{"rollback", checkRollback, inRefresh},
		{"alarms", checkAlarms, func(_ Group, f Facts) bool { return f.AlarmStates != nil || f.AlarmsUnknown != nil }},
		{"skip-matching", checkSkipMatching, inRefresh},
		{name: "protected", find: checkProtected},
		{name: "standby", find: checkStandby},
		{name: "kept", find: checkKept},
		{"retention", warnRetention, func(g Group, _ Facts) bool { return g.Retains }},
		{"warm-pool", checkWarmPool, func(g Group, _ Facts) bool { return g.WarmPool }},
		{CheckBudgets, checkBudgets, withKubernetes},
		{"pinned", warnPinned, isPinned},
		{"uncoordinated", warnUncoordinated, isUncoordinated},
		{"nodes", checkNodes, withKubernetes},
		{name: "self", find: checkSelf},
		{name: "outdated", find: checkOutdated},
	}
}
