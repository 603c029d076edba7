package refresh

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// warnRetention reports a policy by which old instances may stay. Source: InstanceLifecyclePolicy in the API reference.
func warnRetention(Group, Facts) (Level, string) {
	return Warn, "the group retains an instance if a terminating hook is abandoned, or ends by the default result " +
		"ABANDON: it runs on until somebody terminates it, and the rollout ends with the exit code 7"
}

func isPinned(_ Group, f Facts) bool { return f.Cluster != nil && len(f.Cluster.Pinned) > 0 }

// warnPinned reports pods that stay Pending when their nodes are gone.
func warnPinned(_ Group, f Facts) (Level, string) {
	return Warn, "pods that find no other node, and will be Pending: their node selector or affinity matches none but " +
		"their own: " + list(f.Cluster.Pinned)
}

func isUncoordinated(_ Group, f Facts) bool {
	return f.Cluster != nil && len(f.Cluster.Responders)+len(f.Cluster.PodGroups) > 0
}

// warnUncoordinated reports pods whose eviction should be coordinated with others.
func warnUncoordinated(_ Group, f Facts) (Level, string) {
	var found []string
	if pods := f.Cluster.Responders; len(pods) > 0 {
		found = append(found, "pods whose eviction responders are not asked: "+list(pods))
	}
	if groups := f.Cluster.PodGroups; len(groups) > 0 {
		found = append(found, "PodGroups whose members are evicted one by one: "+list(groups))
	}
	return Warn, strings.Join(found, "; ")
}

func checkMaintenancePolicy(g Group, f Facts) (Level, string) {
	switch {
	case g.Maintenance.Account:
		return OK, "the account launches first in groups without a maintenance policy"
	case g.Maintenance.LaunchesFirst():
		return OK, fmt.Sprintf("the group's maintenance policy, %d%% to %d%%, launches first",
			*g.Maintenance.MinHealthy, *g.Maintenance.MaxHealthy)
	case f.Surge > 0:
		return OK, fmt.Sprintf("the desired capacity is raised by %d during the rollout", f.Surge)
	default:
		return Refuse, fmt.Sprintf("the group's maintenance policy does not launch first: instances would be "+
			"terminated before their replacements are in service; set a policy of 100%% to %d%%, or use --surge",
			MaxHealthy(g.Desired, Amount{N: max(f.Batch, 1)}))
	}
}

func checkAccountSetting(g Group, _ Facts) (Level, string) {
	m := g.Maintenance
	if m.Unknown != nil {
		return Warn, fmt.Sprintf("whether the account setting %s is enabled cannot be read, so that it counts as "+
			"disabled: %v", LaunchBeforeTerminate, m.Unknown)
	}
	return OK, fmt.Sprintf("the group has no maintenance policy, and the account setting %s is enabled: between %d%% and "+
		"about %d%% of the desired capacity are kept", LaunchBeforeTerminate, *m.MinHealthy, *m.MaxHealthy)
}

// usesAccountSetting reports whether the account's setting decides, or may, how the group's instances are replaced.
func usesAccountSetting(g Group, f Facts) bool {
	low, high := f.Preferences.MinHealthy, f.Preferences.MaxHealthy
	return (g.Maintenance.Account || g.Maintenance.Unknown != nil) &&
		(f.Mode == ModeUnhealthy || f.Mode == ModeRefresh && low == nil && high == nil)
}

// warnZonalShift reports a policy that leaves marks without effect during a zonal shift. Source:
// AvailabilityZoneImpairmentPolicy in the API reference.
func warnZonalShift(Group, Facts) (Level, string) {
	return Warn, "the group ignores unhealthy instances in an Availability Zone with an active zonal shift " +
		"(IgnoreUnhealthy): marked instances there are not replaced until the shift ends"
}

func checkMaxSize(g Group, f Facts) (Level, string) {
	_, raised := SurgeOf(g)
	surge := min(f.Surge, f.Outdated)
	most := f.MostInstances(g)
	switch {
	case f.RaiseMax && most > g.Max:
		return OK, fmt.Sprintf("the maximum is raised from %d to %d during the rollout", g.Max, most)
	case f.Mode == ModeUnhealthy && surge > 0 && !raised && g.Desired+surge > g.Max:
		return Refuse, fmt.Sprintf("the desired capacity is %d, and a surge of %d exceeds the maximum, %d: raise the "+
			"maximum, use a smaller surge, or --raise-max", g.Desired, surge, g.Max)
	case f.Surge == 0 && f.exceedsDesired(g) && g.Desired >= g.Max:
		return Warn, fmt.Sprintf("the desired capacity is the maximum, %d: whether AWS launches beyond that is "+
			"not documented; if nothing happens, raise the maximum, or use --raise-max", g.Max)
	default:
		return OK, fmt.Sprintf("the desired capacity is %d, the maximum %d", g.Desired, g.Max)
	}
}

// MostInstances is how many instances the group has at most during the rollout, by what it launches before it
// terminates: in ModeUnhealthy with a surge, by the new desired capacity.
func (f Facts) MostInstances(g Group) int {
	if f.Mode == ModeUnhealthy && f.Surge > 0 {
		return max(g.Desired, DesiredWithoutSurge(g)+min(f.Surge, f.Outdated))
	}
	if !f.exceedsDesired(g) {
		return g.Desired
	}
	most := g.Desired + 1
	if _, high := f.percentages(g); high != nil {
		most = max(most, g.Desired**high/100)
	}
	if f.Mode == ModeUnhealthy {
		most = min(most, g.Desired+max(f.Batch, 1))
	}
	return most
}

// exceedsDesired reports whether there will be more instances than are desired for a while.
func (f Facts) exceedsDesired(g Group) bool {
	switch f.Mode {
	case ModeUnhealthy:
		return g.Maintenance.LaunchesFirst()
	case ModeStandby:
		return false // Instances in Standby do not count.
	case ModeRefresh, ModeNodegroup:
	}
	low, high := f.percentages(g)
	return low == 100 || high != nil && (*high > 100 || minHealthyCount(g.Desired, low) == g.Desired)
}

// defaultMinHealthy is MinHealthyPercentage if neither the preferences nor the group set it. Source:
// RefreshPreferences in the API reference.
const defaultMinHealthy = 90

// percentages are those of a refresh. MaxHealthyPercentage may be unset, which is not the same as 100.
func (f Facts) percentages(g Group) (low int, high *int) {
	least, high := g.Maintenance.Percentages(f.Preferences)
	if least == nil {
		return defaultMinHealthy, high
	}
	return *least, high
}

// minHealthyCount is MinHealthyPercentage in instances, rounded up, as AWS does.
func minHealthyCount(desired, low int) int { return (desired*low + 99) / 100 }

// checkCapacity checks how many instances stay in service in the worst case.
func checkCapacity(g Group, f Facts) (Level, string) {
	left, why := f.leastInService(g)
	found := fmt.Sprintf("the capacity may fall to %d of %d: %s", left, g.Desired, why)
	switch {
	case left >= g.Desired:
		return OK, "the capacity does not fall"
	case left <= 0:
		return Warn, "all instances may be out of service at the same time: " + why
	case f.Mode.InBatches():
		return Warn, found
	default:
		return OK, found
	}
}

// leastInService is how many instances stay in service at least, and why no more.
func (f Facts) leastInService(g Group) (left int, why string) {
	switch f.Mode {
	case ModeStandby:
		if !g.LoadBalanced {
			return g.Desired, ""
		}
		return g.Desired - f.Batch, fmt.Sprintf("a batch is %d: in Standby, instances are not registered with the "+
			"group's load balancers, and their replacements are not yet", f.Batch)
	case ModeUnhealthy:
		if g.Maintenance.LaunchesFirst() {
			return g.Desired, ""
		}
		return g.Desired - max(0, f.Batch-f.Surge), fmt.Sprintf("a batch is %d, the surge %d", f.Batch, f.Surge)
	case ModeRefresh, ModeNodegroup:
	}
	low, _ := f.percentages(g)
	left, why = minHealthyCount(g.Desired, low), fmt.Sprintf("the minimum healthy percentage is %d", low)
	if left == g.Desired && left > 0 && !f.exceedsDesired(g) {
		return left - 1, why + ", with which no instance could be terminated, and the maximum is not set, so that AWS " +
			"terminates one first"
	}
	return left, why
}

// checkWeights checks whether instances can be counted at all. RefreshPreferences' percentages are of the
// desired capacity, whatever its unit. Source for large weights: "How an instance refresh works" in the user guide.
func checkWeights(g Group, f Facts) (Level, string) {
	switch {
	case f.Mode == ModeRefresh && g.Desired > 0 && g.LargestWeight >= g.Desired:
		return Refuse, fmt.Sprintf("an instance type has a weight of %d, and the desired capacity is %d: AWS may replace "+
			"all instances at once, whatever the percentages say; raise the desired capacity above the weight, or use "+
			"--allow weighted", g.LargestWeight, g.Desired)
	case f.Mode.InBatches():
		return Refuse, "the group's numbers are of capacity units, and this mode counts instances: it would wait for " +
			"instances that are never launched; use --mode refresh"
	}
	return OK, "the group's numbers are of capacity units, and so is a surge that is given as a number"
}

func warnLease(g Group, _ Facts) (Level, string) {
	l, _ := LeaseOf(g)
	return Warn, fmt.Sprintf("the trigger %s works on the group; its lease expires at %s unless "+
		"it is renewed", l.Holder, l.Expires.UTC().Format(time.RFC3339))
}

func checkSurge(g Group, f Facts) (Level, string) {
	s, _ := SurgeOf(g)
	if f.Mode.InBatches() {
		return OK, fmt.Sprintf("an earlier run raised the desired capacity from %d to %d; this run lowers it again",
			s.From, s.To)
	}
	return Warn, fmt.Sprintf("an interrupted run in mode unhealthy raised the desired capacity from %d to %d: run "+
		"it again so that it lowers it, or set it yourself and remove the tag %s", s.From, s.To, SurgeTag)
}

func checkWarmup(g Group, f Facts) (Level, string) {
	warmup := f.warmup(g)
	switch {
	case f.LaunchHook():
		return OK, "a launch hook keeps new instances out of service until their nodes are ready"
	case warmup > 0:
		return OK, fmt.Sprintf("new instances have %s to warm up", warmup)
	default:
		return Warn, "there is neither a launch hook nor a warmup: AWS continues as soon as an instance runs, before " +
			"its node is ready; add a launch hook, or use --warmup"
	}
}

// isUnpinned reports whether the group's own source has $Latest or $Default as a version.
func (s Source) isUnpinned() bool {
	return slices.ContainsFunc(s.Templates(), func(t Template) bool { return t.number() == 0 })
}

// byRequirements reports whether the source names instance types by their attributes. An instance refresh of such a
// group takes neither skip matching nor a desired configuration. Source: "How an instance refresh works" in the user
// guide.
func (s Source) byRequirements() bool {
	return slices.ContainsFunc(s.Overrides, func(o Override) bool { return o.Requirements })
}

func checkPin(g Group, f Facts) (Level, string) {
	switch {
	case f.Pin && g.Source.byRequirements():
		return Refuse, "the group has instance requirements, for which AWS takes no desired configuration: use --pin=false " +
			"and the group's own version, or --mode unhealthy"
	case f.Pin && g.Source.isUnpinned():
		return Warn, fmt.Sprintf("the group's version is $Latest or $Default, and AWS replaces it with the number when "+
			"the refresh succeeds, which is a drift for infrastructure as code: use --pin=false to keep it; target: %s",
			f.Target.Text)
	case f.Pin && f.Target.FromGroup:
		return OK, "the group's version is a number"
	case f.Pin:
		return OK, "AWS writes the requested version into the group when the refresh succeeds"
	case g.Source.isUnpinned():
		return OK, "each instance is launched from what $Latest or $Default is at that time, also if it changes"
	default:
		return OK, "the refresh uses the group's own version"
	}
}

func isImageParameterUsed(g Group, f Facts) bool {
	return inRefresh(g, f) && f.Target.ImageIsParameter && (f.Pin || f.Preferences.SkipMatching)
}

// warnImageParameter reports a documented limit, which AWS may have lifted. Source: "Use AWS Systems Manager
// parameters instead of AMI IDs in launch templates" in the user guide.
func warnImageParameter(Group, Facts) (Level, string) {
	return Warn, "the AMI is a Systems Manager parameter: according to the user guide AWS starts no refresh for it " +
		"with a desired configuration or with skip matching; if it refuses, use --all --pin=false, or --mode unhealthy"
}

// checkRollback checks what the API requires of a refresh that can be rolled back. Source: AutoRollback of
// RefreshPreferences in the API reference.
func checkRollback(g Group, f Facts) (Level, string) {
	why := ""
	switch {
	case !f.Rollback:
		return OK, "no rollback is requested"
	case g.Source.Template == nil:
		why = "the group has a launch configuration: move it to a launch template"
	case g.Source.isUnpinned():
		why = "the group's version is $Latest or $Default: set a number"
	case g.Source.byRequirements():
		why = "the group has instance requirements, for which AWS takes no desired configuration: use --mode unhealthy"
	case f.Target.ImageIsParameter:
		why = "the AMI is a Systems Manager parameter: set an AMI id in the launch template"
	case f.Target.FromGroup:
		return Warn, "the group is already at the target, so that a rollback has no older version to return to: leave " +
			"the group at its old version, and use --launch-template-version"
	default:
		return OK, "the refresh can be rolled back"
	}
	return Refuse, "a rollback is requested, and the refresh could not be rolled back: " + why
}

// checkSkipMatching checks whether AWS skips what it should, and nothing else: it compares launch templates
// and types. Source: "Use an instance refresh with skip matching" in the user guide.
func checkSkipMatching(g Group, f Facts) (Level, string) {
	const instead = "use --all, which replaces all instances, or --mode unhealthy"
	matching := f.matchingOutdated(g)
	switch skip := f.Preferences.SkipMatching; {
	case !skip && slices.ContainsFunc(g.Instances, f.isCurrent):
		return Warn, "all instances are replaced, also those that are not outdated; without --all they are kept"
	case !skip:
		return OK, "all instances are replaced"
	case g.Source.byRequirements():
		return Refuse, "skip matching does not work with instance requirements: " + instead
	case f.Target.Source.Configuration != "":
		return Refuse, "skip matching does not work with a launch configuration: " + instead
	case len(matching) == 0:
		return OK, "instances that match are kept"
	case len(matching) == f.Outdated:
		return Refuse, fmt.Sprintf("AWS would replace nothing: it compares template and type, by which all outdated "+
			"instances match: %s; %s", list(matching), instead)
	default:
		return Warn, fmt.Sprintf("AWS would not replace %s, since template and type match: %s; %s",
			text.Count(len(matching), "outdated instance"), list(matching), instead)
	}
}

// isCurrent reports whether the instance was judged, and is not outdated.
func (f Facts) isCurrent(i Instance) bool {
	v, judged := f.Verdicts[i.ID]
	return judged && !v.Outdated
}

// matchingOutdated are the outdated instances that match for an instance refresh, so that it would skip them.
// An unhealthy one does not count, since Auto Scaling replaces it anyway.
func (f Facts) matchingOutdated(g Group) []string {
	seen := []Code{
		CodeSource, CodeConfiguration, CodeTemplate, CodeVersion, CodeType, CodeUnknown, CodeUnhealthy,
	}
	sees := func(r Reason) bool { return slices.Contains(seen, r.Code) }
	return g.InstanceIDs(func(i Instance) bool {
		v := f.Verdicts[i.ID]
		return v.Outdated && len(v.Kept) == 0 && !slices.ContainsFunc(v.Reasons, sees)
	})
}

// checkAlarms reports alarms with which AWS refuses to start a refresh. Source: "Undo changes with a rollback" in the
// user guide.
func checkAlarms(_ Group, f Facts) (Level, string) {
	const rule = "AWS starts a refresh only when all of its alarms are in the state OK"
	if f.AlarmsUnknown != nil {
		return Warn, fmt.Sprintf("%s, and their states cannot be read: %v", rule, f.AlarmsUnknown)
	}
	var wrong []string
	for _, name := range f.Preferences.Alarms {
		switch state := f.AlarmStates[name]; state {
		case "OK":
		case "":
			wrong = append(wrong, name+" does not exist")
		default:
			wrong = append(wrong, name+" is in the state "+state)
		}
	}
	if len(wrong) > 0 {
		return Refuse, rule + ": " + strings.Join(wrong, ", ")
	}
	return OK, "the alarms are in the state OK: " + strings.Join(f.Preferences.Alarms, ", ")
}
