package refresh

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/node-drainer/node-drainer/internal/text"
)

// RefreshPreferences' words for what becomes of instances that are protected or in standby.
const (
	preferWait   = "Wait"
	preferIgnore = "Ignore"
)

func launchesFirst(g Group, f Facts) (Level, string) {
	switch {
	case f.Mode != ModeUnhealthy:
		return "", ""
	case g.Maintenance.LaunchesFirst():
		return OK, fmt.Sprintf("the group's maintenance policy, %d%% to %d%%, launches first",
			*g.Maintenance.MinHealthy, *g.Maintenance.MaxHealthy)
	case f.Surge > 0:
		return OK, fmt.Sprintf("the desired capacity is raised by %d meanwhile", f.Surge)
	default:
		low, high := Percentages(g.Desired, Amount{N: max(f.Batch, 1)}, LaunchFirst)
		return Refuse, fmt.Sprintf("the group's maintenance policy does not launch first: what is marked would "+
			"be terminated before there is anything in its place; set a policy of %d%% to %d%%, or say --surge",
			low, high)
	}
}

func roomy(g Group, f Facts) (Level, string) {
	_, raised := SurgeOf(g)
	switch {
	case f.Mode == ModeUnhealthy && f.Surge > 0 && !raised && g.Desired+f.Surge > g.Max:
		return Refuse, fmt.Sprintf("the desired capacity is %d and the maximum %d, which leaves no room for a "+
			"surge of %d: raise the maximum, or take a smaller surge", g.Desired, g.Max, f.Surge)
	case f.Surge == 0 && f.launchesFirst(g) && g.Desired >= g.Max:
		return Warn, fmt.Sprintf("the desired capacity is the maximum, %d: whether AWS launches beyond that is "+
			"not documented; if nothing happens, raise the maximum", g.Max)
	default:
		return OK, fmt.Sprintf("the desired capacity is %d, the maximum %d", g.Desired, g.Max)
	}
}

// launchesFirst tells whether more instances than are desired will be there for a while.
func (f Facts) launchesFirst(g Group) bool {
	if f.Mode == ModeUnhealthy {
		return g.Maintenance.LaunchesFirst()
	}
	low, high := f.bounds(g)
	return low == 100 || high != nil && (*high > 100 || fewest(g.Desired, low) == g.Desired)
}

// defaultMinHealthy is the least percentage where nobody says one. Source: RefreshPreferences in the API
// reference.
const defaultMinHealthy = 90

// bounds are the percentages of a refresh. The most may be nobody's, which is not the same as 100.
func (f Facts) bounds(g Group) (low int, high *int) {
	low = defaultMinHealthy
	if least := cmp.Or(f.Preferences.MinHealthy, g.Maintenance.MinHealthy); least != nil {
		low = *least
	}
	return low, cmp.Or(f.Preferences.MaxHealthy, g.Maintenance.MaxHealthy)
}

// fewest is the least percentage in instances, rounded up, as AWS does.
func fewest(desired, low int) int { return (desired*low + 99) / 100 }

// capacity checks how much is left in service in the worst case.
func capacity(g Group, f Facts) (Level, string) {
	left, why := f.leaves(g)
	text := fmt.Sprintf("the capacity may fall to %d of %d: %s", left, g.Desired, why)
	switch {
	case left >= g.Desired:
		return OK, "the capacity does not fall"
	case left <= 0:
		return Warn, "all instances may go at the same time: " + why
	case f.Mode == ModeUnhealthy:
		return Warn, text
	default:
		return OK, text
	}
}

// leaves is how many instances stay in service at least, and why no more.
func (f Facts) leaves(g Group) (left int, why string) {
	if f.Mode == ModeUnhealthy {
		if g.Maintenance.LaunchesFirst() {
			return g.Desired, ""
		}
		return g.Desired - max(0, f.Batch-f.Surge), fmt.Sprintf("a batch is %d, the surge %d", f.Batch, f.Surge)
	}
	low, _ := f.bounds(g)
	left, why = fewest(g.Desired, low), fmt.Sprintf("the least percentage is %d", low)
	if left == g.Desired && left > 0 && !f.launchesFirst(g) {
		return left - 1, why + ", of which no instance could go, and the most is not given, so that one goes first"
	}
	return left, why
}

// weighs checks whether instances can be counted at all. RefreshPreferences' percentages are of the desired
// capacity, whatever its unit.
func weighs(g Group, f Facts) (Level, string) {
	switch {
	case !g.Weighted:
		return "", ""
	case f.Mode == ModeUnhealthy:
		return Refuse, "the group's numbers are of capacity units, and this mode counts instances: it would " +
			"wait for some that never come; take --mode refresh"
	default:
		return OK, "the group's numbers are of capacity units, and so is a surge that is given as a number"
	}
}

func surgeLeft(g Group, f Facts) (Level, string) {
	s, raised := SurgeOf(g)
	switch {
	case !raised:
		return "", ""
	case f.Mode == ModeUnhealthy:
		return OK, fmt.Sprintf("an earlier run has raised the desired capacity from %d to %d, which is taken back",
			s.From, s.To)
	default:
		return Warn, fmt.Sprintf("an interrupted run in mode unhealthy has raised the desired capacity from %d "+
			"to %d: start it again so that it takes that back, or set it yourself and remove the tag %s",
			s.From, s.To, surgeTag)
	}
}

func warms(g Group, f Facts) (Level, string) {
	warmup := g.Warmup
	if f.Mode == ModeRefresh && f.Preferences.Warmup != nil {
		warmup = *f.Preferences.Warmup
	}
	switch {
	case slices.ContainsFunc(f.Hooks, func(h Hook) bool { return !h.Terminating }):
		return OK, "a launch hook keeps new instances out of service until their nodes can serve"
	case warmup > 0:
		return OK, fmt.Sprintf("new instances have %s to warm up", warmup)
	default:
		return Warn, "there is neither a launch hook nor a time to warm up: AWS goes on as soon as a machine " +
			"runs, before its node is ready; add a launch hook, or say --warmup"
	}
}

// floats tells whether the group's own source says $Latest or $Default somewhere.
func (s Source) floats() bool {
	switch {
	case s.Mixed != nil:
		return !numbered(s.Mixed.Template) || slices.ContainsFunc(s.Mixed.Overrides, func(o Override) bool {
			return o.Template != nil && !numbered(*o.Template)
		})
	case s.Template != nil:
		return !numbered(*s.Template)
	default:
		return false
	}
}

func pins(g Group, f Facts) (Level, string) {
	switch {
	case f.Mode != ModeRefresh || f.Target.Source.Configuration != "":
		return "", ""
	case f.Pin:
		return pinned(g.Source.floats(), f.Target)
	case !f.Target.FromGroup:
		return Refuse, "another version is asked for than the group's, of which a refresh hears only by --pin: " +
			"say that, or change the group"
	case g.Source.floats():
		return OK, "each instance is launched from what $Latest or $Default is then, also if that changes meanwhile"
	default:
		return OK, "the refresh takes the group as it is"
	}
}

func pinned(floats bool, target Target) (Level, string) {
	switch {
	case floats:
		return Warn, fmt.Sprintf("the group says $Latest or $Default, and AWS writes the number in its place "+
			"when the refresh succeeds, which your infrastructure code will find changed: say --pin=false to leave "+
			"it; target: %s", target.Text)
	case target.FromGroup:
		return OK, "the group says its version by number"
	default:
		return OK, "AWS writes the version asked for into the group when the refresh succeeds"
	}
}

// resolves tells of a limit that is documented, and that AWS may have lifted. Source: "Use AWS Systems
// Manager parameters instead of AMI IDs in launch templates" in the user guide.
func resolves(_ Group, f Facts) (Level, string) {
	if f.Mode != ModeRefresh || !f.Target.ImageIsParameter || !f.Pin && !f.Preferences.SkipMatching {
		return "", ""
	}
	return Warn, "the AMI is a Systems Manager parameter: by the user guide AWS starts no refresh for it that " +
		"has a desired configuration or skips what matches; if it refuses, say --all --pin=false, or " +
		"--mode unhealthy"
}

// rollsBack checks what the API demands of a refresh that can be rolled back. Source: AutoRollback of
// RefreshPreferences in the API reference.
func rollsBack(g Group, f Facts) (Level, string) {
	why := ""
	switch {
	case f.Mode != ModeRefresh:
		return "", ""
	case !f.Rollback:
		return OK, "no rollback is asked for"
	case g.Source.Template == nil && g.Source.Mixed == nil:
		why = "the group has a launch configuration: move it to a launch template"
	case g.Source.floats():
		why = "the group says $Latest or $Default: have it say a number"
	case f.Target.ImageIsParameter:
		why = "the AMI is a Systems Manager parameter: have the launch template say an AMI"
	case !f.Pin:
		why = "the refresh has no desired configuration: say --pin"
	case f.Target.FromGroup:
		return Warn, "the group has been changed to the target already, so that a rollback has nothing older to " +
			"go back to: leave the group at its old version, and say --launch-template-version"
	default:
		return OK, "the refresh can be rolled back"
	}
	return Refuse, "the refresh could not be rolled back, as is asked for: " + why
}

// skips checks whether AWS skips what it should, and nothing else: it compares launch templates and types.
// Source: "Use an instance refresh with skip matching" in the user guide.
func skips(g Group, f Facts) (Level, string) {
	switch {
	case f.Mode != ModeRefresh:
		return "", ""
	case f.Preferences.SkipMatching:
		return matches(g, f)
	case slices.ContainsFunc(g.Instances, f.current):
		return Warn, "all instances are replaced, also those that are not outdated; --skip-matching leaves them"
	default:
		return OK, "all instances are replaced"
	}
}

// matches checks what AWS would take for matching.
func matches(g Group, f Facts) (Level, string) {
	unseen := f.unseen(g)
	switch {
	case f.Target.Source.Configuration != "":
		return Refuse, "skip matching does not work with a launch configuration: say --skip-matching=false, " +
			"which replaces all instances, or --mode unhealthy"
	case len(unseen) == 0:
		return OK, "instances that match are left alone"
	case len(unseen) == f.Outdated:
		return Refuse, fmt.Sprintf("AWS would replace nothing: all that is outdated matches by template and type, "+
			"which is what it compares: %s; say --skip-matching=false, which replaces all instances, or "+
			"--mode unhealthy", listed(unseen))
	default:
		return Warn, fmt.Sprintf("AWS does not see that %s outdated, since template and type match: %s; say "+
			"--skip-matching=false, which replaces all instances, or --mode unhealthy",
			text.Plural(len(unseen), "instance is", "instances are"), listed(unseen))
	}
}

// current tells whether the instance was judged, and is not outdated.
func (f Facts) current(i Instance) bool {
	v, judged := f.Verdicts[i.ID]
	return judged && !v.Outdated
}

// unseen are the instances to be replaced that an Instance Refresh takes for matching.
func (f Facts) unseen(g Group) []string {
	seen := []Code{CodeSource, CodeConfiguration, CodeTemplate, CodeVersion, CodeType, CodeUnknown}
	var ids []string
	for _, i := range g.Instances {
		v := f.Verdicts[i.ID]
		if v.Outdated && len(v.Kept) == 0 && !slices.ContainsFunc(v.Reasons, func(r Reason) bool {
			return slices.Contains(seen, r.Code) || r.Code == CodeUnhealthy // That one Auto Scaling replaces anyway.
		}) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

func guarded(g Group, f Facts) (Level, string) {
	ids := f.named(g, func(i Instance) bool { return i.Protected && !i.Terminating() })
	return f.left(ids, f.Preferences.Protected, "protected from scale in", "take that off, or say --protected")
}

func standsBy(g Group, f Facts) (Level, string) {
	ids := f.named(g, Instance.Standby)
	return f.left(ids, f.Preferences.Standby, "in standby", "return them to service, or say --standby")
}

// left tells what becomes of instances that are in the way. What RefreshPreferences does not say is Wait.
func (f Facts) left(ids []string, preference, are, todo string) (Level, string) {
	text := fmt.Sprintf("%s %s: %s", text.Plural(len(ids), "instance is", "instances are"), are, listed(ids))
	switch {
	case len(ids) == 0:
		return OK, "no instance that is to be replaced is " + are
	case f.Mode == ModeUnhealthy || preference == preferIgnore:
		return Warn, text + "; what is so stays as it is"
	case cmp.Or(preference, preferWait) == preferWait:
		return Warn, text + "; the refresh waits for them, and fails after an hour: " + todo
	default:
		return OK, text + "; they are replaced too"
	}
}

// keeps tells of outdated instances that stay, for reasons that have no check of their own.
func keeps(g Group, f Facts) (Level, string) {
	excluded, retained := f.kept(g, CodeExcluded), f.kept(g, CodeRetained)
	switch {
	case len(excluded) > 0 && f.Mode == ModeRefresh:
		return Refuse, fmt.Sprintf("an instance refresh cannot leave out what is excluded: %s; protect it from "+
			"scale in and say --protected=%s, or take --mode unhealthy", listed(excluded), preferIgnore)
	case len(excluded)+len(retained) > 0:
		return Warn, "outdated, and let alone: " + listed(slices.Concat(excluded, retained))
	default:
		return OK, "no outdated instance is let alone"
	}
}

// kept are the instances that are kept for the reason of the code, and that reason.
func (f Facts) kept(g Group, code Code) []string {
	var kept []string
	for _, i := range g.Instances {
		for _, r := range f.Verdicts[i.ID].Kept {
			if r.Code == code {
				kept = append(kept, i.ID+" ("+r.Text+")")
			}
		}
	}
	return kept
}
