package refresh

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// subject is what the preflight checks.
type subject struct {
	Group
	Facts
}

// fine is a group of three, two of them outdated, for which every check returns OK.
func fine(mode Mode) subject {
	g := group(3, instance(launchedFrom(node("6"))), instance(launchedFrom(node("6"))), instance())
	g.Source, g.Warmup, g.Max = Source{Template: node("6")}, time.Minute, 10
	g.Maintenance = Maintenance{MinHealthy: new(100), MaxHealthy: new(150)}
	s := subject{g, Facts{
		Mode: mode, Batch: 1, Outdated: 2, Pin: true,
		Hooks:   []Hook{{Name: "drain", Terminating: true, GlobalTimeout: 48 * time.Hour}, {Name: "ready", GlobalTimeout: time.Hour}},
		Cluster: &ClusterFacts{}, Verdicts: map[string]Verdict{},
		Target:      known().Resolve(g, "7"),
		Preferences: Preferences{MinHealthy: new(100), MaxHealthy: new(134), SkipMatching: true},
	}}
	s.judge(Criteria{Version: "7"})
	return s
}

func (s *subject) judge(c Criteria) {
	for _, i := range s.Instances {
		s.Verdicts[i.ID] = judged(s.Group, i, c)
	}
}

// alarms sets the states of two alarms; empty is one that does not exist.
func alarms(errors, latency string) func(*subject) {
	return func(s *subject) {
		s.Preferences.Alarms, s.AlarmStates = []string{"errors", "latency"}, map[string]string{"errors": errors, "latency": latency}
	}
}

// pinnedBy sets whether the refresh gets a number.
func pinnedBy(p Pin) func(*subject) {
	return func(s *subject) { s.Pin = p.Applies(s.Group, s.Target, s.Rollback) }
}

// floating sets the group's version to $Latest, and requests no other.
func floating(s *subject) {
	s.Source = Source{Template: node("$Latest")}
	s.Target = known().Resolve(s.Group, "")
}

func rollback(s *subject) { s.Rollback = true }

func launchConfiguration(s *subject) {
	s.Source, s.Pin, s.Preferences.SkipMatching = Source{Configuration: "lc"}, false, false
	s.Target = known().Resolve(s.Group, "")
}

// requirements gives the group a mixed instances policy with attributes instead of types.
func requirements(s *subject) {
	s.Source = mixed("6", Override{Requirements: true})
	s.Target = known().Resolve(s.Group, "")
}

// byAccount has the account launch first.
func byAccount(s *subject) {
	s.Maintenance, s.Preferences.MinHealthy, s.Preferences.MaxHealthy = AccountMaintenance(), nil, nil
}

// noPolicy makes the group terminate first.
func noPolicy(s *subject) { s.Maintenance = Maintenance{} }

func percentages(low, high *int) func(*subject) {
	return func(s *subject) { s.Preferences.MinHealthy, s.Preferences.MaxHealthy = low, high }
}

func all(changes ...func(*subject)) func(*subject) {
	return func(s *subject) {
		for _, change := range changes {
			change(s)
		}
	}
}

func active(status string, to *Source) func(*subject) {
	return func(s *subject) { s.Active = &Refresh{ID: "r-1", Status: status, Desired: to} }
}

const none Level = "" // The check returns no finding.

func TestPreflight(t *testing.T) {
	t.Parallel()
	r, u := ModeRefresh, ModeUnhealthy
	seven := &Source{Template: node("7")}
	otherImage := Verdict{Outdated: true, Reasons: []Reason{{Code: CodeImage}}}
	keptImage := Verdict{Outdated: true, Reasons: otherImage.Reasons, Kept: []Reason{{Code: CodeProtected}}}
	labeled := map[string]string{"i-1": "its node has the label keep", "i-3": "it, too"}
	var refused []string
	for _, tt := range []struct {
		check, name string
		mode        Mode
		change      func(*subject)
		want        Level
		text        string // A part of it.
	}{
		{"operator", "another service manages the group", r, func(s *subject) { s.Operator = "x.amazonaws.com" }, Refuse, "x.amazonaws.com manages the group"},
		{"operator", "no other service does", r, nil, OK, ""},

		{"managed-nodegroup", "of EKS", r, func(s *subject) { s.Tags = map[string]string{tagNodegroup: "ng"} }, Refuse, "EKS managed node group ng"},
		{"managed-nodegroup", "of none", r, nil, OK, ""},

		{"target", "it does not exist", r, func(s *subject) { s.Target.Problem = "launch template x does not exist" }, Refuse, "launch template x does not exist: "},
		{"target", "it exists", r, nil, OK, "launch template node (lt-1) version 7"},

		{"suspended", "Launch", r, func(s *subject) { s.Suspended = []string{"Launch"} }, Refuse, "suspended: Launch;"},
		{"suspended", "Terminate", u, func(s *subject) { s.Suspended = []string{"AZRebalance", "Terminate"} }, Refuse, "suspended: Terminate;"},
		{"suspended", "InstanceRefresh, in mode refresh", r, func(s *subject) { s.Suspended = []string{"InstanceRefresh", "Launch"} }, Refuse, "suspended: Launch, InstanceRefresh;"},
		{"suspended", "InstanceRefresh, in mode unhealthy", u, func(s *subject) { s.Suspended = []string{"InstanceRefresh"} }, OK, ""},
		{"suspended", "ReplaceUnhealthy, in mode unhealthy", u, func(s *subject) { s.Suspended = []string{"ReplaceUnhealthy"} }, Refuse, "ReplaceUnhealthy"},
		{"suspended", "ReplaceUnhealthy, in mode refresh", r, func(s *subject) { s.Suspended = []string{"ReplaceUnhealthy"} }, OK, ""},
		{"suspended", "HealthCheck", r, func(s *subject) { s.Suspended = []string{"HealthCheck"} }, Warn, "HealthCheck"},
		{"suspended", "AZRebalance is not needed", r, func(s *subject) { s.Suspended = []string{"AZRebalance", "AlarmNotification"} }, OK, ""},
		{"suspended", "AddToLoadBalancer, in a group with a load balancer", r, func(s *subject) { s.Suspended, s.LoadBalanced = []string{"AddToLoadBalancer"}, true }, Refuse, "suspended: AddToLoadBalancer;"},
		{"suspended", "the same, in mode unhealthy", u, func(s *subject) { s.Suspended, s.LoadBalanced = []string{"AddToLoadBalancer"}, true }, Refuse, "never registered"},
		{"suspended", "AddToLoadBalancer and another", r, func(s *subject) { s.Suspended, s.LoadBalanced = []string{"AddToLoadBalancer", "Launch"}, true }, Refuse, "suspended: Launch;"},
		{"suspended", "AddToLoadBalancer, in a group without a load balancer", r, func(s *subject) { s.Suspended = []string{"AddToLoadBalancer"} }, OK, ""},

		{"zonal-shift", "unhealthy instances are ignored meanwhile", u, func(s *subject) { s.IgnoresImpaired = true }, Warn, "IgnoreUnhealthy"},
		{"zonal-shift", "not for a refresh", r, func(s *subject) { s.IgnoresImpaired = true }, none, ""},
		{"zonal-shift", "unhealthy instances are replaced", u, nil, none, ""},

		{"active-refresh", "none", r, nil, OK, ""},
		{"active-refresh", "to the same target", r, active(StatusInProgress, seven), OK, "r-1 is InProgress, and has the same target"},
		{"active-refresh", "to another target", r, active(StatusInProgress, nil), Warn, "--on-conflict"},
		{"active-refresh", "being rolled back", r, active(StatusRollbackInProgress, seven), Warn, "r-1 is RollbackInProgress"},
		{"active-refresh", "in mode unhealthy, whatever its target", u, active(StatusInProgress, seven), Refuse, "r-1"},

		{"no-terminating-hook", "there is one", r, nil, OK, "drain"},
		{"no-terminating-hook", "there is none", u, func(s *subject) { s.Hooks = nil }, Refuse, "EC2_INSTANCE_TERMINATING"},
		{"no-terminating-hook", "a launch hook is none", r, func(s *subject) { s.Hooks = s.Hooks[1:] }, Refuse, "no terminating hook"},
		{"no-terminating-hook", "what leaves Standby is terminated", ModeStandby, func(s *subject) { s.Hooks, s.Then = nil, ThenTerminate }, Refuse, "no terminating hook"},
		{"no-terminating-hook", "what is stopped is not terminated", ModeStandby, func(s *subject) { s.Hooks, s.Then = nil, ThenStop }, Warn, "trigger rollback would"},
		{"no-terminating-hook", "what is kept is not terminated", ModeStandby, func(s *subject) { s.Hooks, s.Then = nil, ThenKeep }, Warn, "trigger rollback would"},

		{"hook-timeout", "long enough", r, nil, OK, "48h0m0s"},
		{"hook-timeout", "there is no hook", r, func(s *subject) { s.Hooks = s.Hooks[1:] }, none, ""},
		{"hook-timeout", "a heartbeat of 30 s makes 50 min", r, func(s *subject) { s.Hooks[0].GlobalTimeout = 50 * time.Minute }, Warn, "raise its heartbeat timeout above 36s"},
		{"hook-timeout", "an hour", r, func(s *subject) { s.Hooks[0].GlobalTimeout = time.Hour }, OK, ""},
		{"hook-timeout", "shorter than a pod's grace", r, func(s *subject) { s.Hooks[0].GlobalTimeout, s.LongestGrace = 2*time.Hour, 3*time.Hour }, Refuse, "raise its heartbeat timeout above 1m48s"},
		{"hook-timeout", "as long as a pod's grace", r, func(s *subject) { s.Hooks[0].GlobalTimeout, s.LongestGrace = 2*time.Hour, 2*time.Hour }, Refuse, "grace period of a pod, 2h0m0s"},
		{"hook-timeout", "longer than a pod's grace", r, func(s *subject) { s.LongestGrace = time.Hour - 1 }, OK, ""},
		{"hook-timeout", "longer than a pod's grace, which the agent cuts", r, func(s *subject) { s.LongestGrace = 3 * time.Hour }, Warn, "its DRAIN_TIMEOUT, 1h0m0s by default"},
		{"hook-timeout", "a grace that no hook can wait for", r, func(s *subject) { s.LongestGrace = 72 * time.Hour }, Refuse, "shorten it"},
		{"hook-timeout", "the longest of several hooks counts", r, func(s *subject) { s.Hooks = append(s.Hooks, Hook{Terminating: true, GlobalTimeout: time.Minute}) }, OK, ""},

		{"maintenance-policy", "not for a refresh", r, noPolicy, none, ""},
		{"maintenance-policy", "it launches first", u, nil, OK, "100% to 150%"},
		{"maintenance-policy", "there is none", u, noPolicy, Refuse, "set a policy of 100% to 134%"},
		{"maintenance-policy", "there is none, for batches of two", u, all(noPolicy, func(s *subject) { s.Batch = 2 }), Refuse, "100% to 167%"},
		{"maintenance-policy", "there is none, but a surge", u, all(noPolicy, func(s *subject) { s.Surge = 1 }), OK, "raised by 1"},
		{"retention", "by the group", r, func(s *subject) { s.Retains = true }, Warn, "exit code 7"},
		{"retention", "by none", r, nil, none, ""},
		{"pinned", "nothing", r, func(s *subject) { s.Cluster = &ClusterFacts{} }, none, ""},
		{"pinned", "pods", u, func(s *subject) { s.Cluster = &ClusterFacts{Pinned: []string{"shop/db-0"}} }, Warn, "no other node, and will be Pending: their node selector or affinity matches none but their own: shop/db-0"},
		{"uncoordinated", "nothing", r, func(s *subject) { s.Cluster = &ClusterFacts{} }, none, ""},
		{"uncoordinated", "pods", u, func(s *subject) {
			s.Cluster = &ClusterFacts{Responders: []string{"shop/db-0"}, PodGroups: []string{"ml/train"}}
		}, Warn, "not asked: shop/db-0; PodGroups whose members are evicted one by one: ml/train"},
		{"maintenance-policy", "that of the account", u, byAccount, OK, "account launches first"},
		{"account-setting", "enabled", u, byAccount, OK, "launchBeforeTerminate is enabled"},
		{"account-setting", "enabled, for a refresh without percentages", r, byAccount, OK, "launchBeforeTerminate is enabled"},
		{"account-setting", "a refresh has percentages", r, all(byAccount, func(s *subject) { s.Preferences.MinHealthy = new(90) }), none, ""},
		{"account-setting", "unknown", u, func(s *subject) { s.Maintenance = Maintenance{Unknown: errors.New("denied")} }, Warn, "counts as disabled: denied"},
		{"account-setting", "the group has a policy", u, nil, none, ""},
		{"capacity", "the account launches first", r, byAccount, OK, "does not fall"},
		{"capacity", "the percentages of the refresh, not the account's", r, all(byAccount, func(s *subject) { s.Preferences.MinHealthy = new(50) }), OK, "minimum healthy percentage is 50"},
		{"max-size", "the account launches first", r, all(byAccount, func(s *subject) { s.Max = s.Desired }), Warn, "launches beyond that"},
		{"maintenance-policy", "it terminates first", u, func(s *subject) { s.Maintenance.MinHealthy = new(90) }, Refuse, ""},
		{"maintenance-policy", "it leaves no room", u, func(s *subject) { s.Maintenance.MaxHealthy = new(100) }, Refuse, ""},

		{"max-size", "the desired capacity is smaller", r, nil, OK, ""},
		{"max-size", "the desired capacity is the maximum", r, func(s *subject) { s.Max = 3 }, Warn, "not documented"},
		{"max-size", "the desired capacity is the maximum, and the old ones are terminated first", r, all(percentages(new(66), new(100)), func(s *subject) { s.Max = 3 }), OK, ""},
		{"max-size", "the desired capacity is the maximum, and 100% alone launches first", r, all(noPolicy, percentages(new(100), nil), func(s *subject) { s.Max = 3 }), Warn, ""},
		{"max-size", "the desired capacity is the maximum, and an explicit 100% that cannot be kept launches first", r, all(percentages(new(90), new(100)), func(s *subject) { s.Max = 3 }), Warn, ""},
		{"max-size", "the desired capacity is the maximum, and the group's policy launches first", r, all(percentages(nil, nil), func(s *subject) { s.Max = 3 }), Warn, ""},
		{"max-size", "the desired capacity is the maximum, in mode unhealthy", u, func(s *subject) { s.Max = 3 }, Warn, ""},
		{"max-size", "smaller than the surge needs", u, func(s *subject) { s.Max, s.Surge = 4, 2 }, Refuse, "a surge of 2 exceeds the maximum, 4"},
		{"max-size", "as large as the surge needs", u, func(s *subject) { s.Max, s.Surge = 5, 2 }, OK, ""},
		{"max-size", "a surge of more than are outdated", u, func(s *subject) { s.Max, s.Surge = 5, 3 }, OK, ""},
		{"max-size", "raised already", u, func(s *subject) { s.Max, s.Surge, s.Desired = 5, 2, 5; s.Group = surged(s.Group, "3-5") }, OK, ""},
		{"max-size", "smaller than the surge needs, and raised for it", u, func(s *subject) { s.Max, s.Surge, s.RaiseMax = 4, 2, true }, OK, "is raised from 4 to 5 during"},
		{"max-size", "raised for the percentage of a refresh", r, all(percentages(new(100), new(200)), func(s *subject) { s.Max, s.RaiseMax = 3, true }), OK, "is raised from 3 to 6"},
		{"max-size", "raised for an instance more than a percentage that is rounded away", r, all(percentages(new(100), new(110)), func(s *subject) { s.Max, s.RaiseMax = 3, true }), OK, "from 3 to 4"},
		{"max-size", "raised for a batch and the group's policy", u, func(s *subject) { s.Max, s.RaiseMax = 3, true }, OK, "from 3 to 4"},
		{"max-size", "large enough, so that it is not raised", u, func(s *subject) { s.Max, s.Surge, s.RaiseMax = 5, 2, true }, OK, "the maximum 5"},

		{"capacity", "it does not fall", r, nil, OK, "does not fall"},
		{"capacity", "it may fall as the preferences allow", r, percentages(new(66), new(100)), OK, "may fall to 2 of 3"},
		{"capacity", "it may fall to 0", r, percentages(new(0), new(100)), Warn, "all instances may be out of service at the same time: the minimum healthy percentage is 0"},
		{"capacity", "the only instance is terminated first by default", r, all(noPolicy, percentages(nil, nil), func(s *subject) { s.Desired = 1 }), Warn, "terminates one first"},
		{"capacity", "the only instance is replaced first if the maximum allows it", r, all(percentages(new(90), new(200)), func(s *subject) { s.Desired = 1 }), OK, "does not fall"},
		{"capacity", "an empty group", r, func(s *subject) { s.Desired = 0 }, OK, ""},
		{"capacity", "a policy that launches first keeps it", u, func(s *subject) { s.Batch = 3 }, OK, ""},
		{"capacity", "a batch larger than the surge", u, all(noPolicy, func(s *subject) { s.Batch, s.Surge = 2, 1 }), Warn, "may fall to 2 of 3: a batch is 2, the surge 1"},
		{"capacity", "a batch as large as the surge", u, all(noPolicy, func(s *subject) { s.Batch, s.Surge = 2, 2 }), OK, ""},
		{"capacity", "a batch as large as the group", u, all(noPolicy, func(s *subject) { s.Batch = 3 }), Warn, "all instances may be out of service"},

		{"weighted", "a group that counts instances", u, nil, none, ""},
		{"weighted", "in mode refresh", r, func(s *subject) { s.Weighted = true }, OK, "capacity units"},
		{"weighted", "one instance may be more than the desired capacity", r, func(s *subject) { s.Weighted, s.LargestWeight = true, 4 }, Refuse, "a weight of 4, and the desired capacity is 3"},
		{"weighted", "one instance may be the desired capacity", r, func(s *subject) { s.Weighted, s.LargestWeight = true, 3 }, Refuse, "all instances at once"},
		{"weighted", "one instance is less than the desired capacity", r, func(s *subject) { s.Weighted, s.LargestWeight = true, 2 }, OK, "capacity units"},
		{"weighted", "an empty group with weights", r, func(s *subject) { s.Weighted, s.LargestWeight, s.Desired = true, 2, 0 }, OK, "capacity units"},
		{"weighted", "in mode unhealthy", u, func(s *subject) { s.Weighted = true }, Refuse, "--mode refresh"},

		{"wave", "none", u, nil, none, ""},
		{"wave", "of a number", u, func(s *subject) { s.Tags, s.Waves = map[string]string{WaveTag: "2"}, true }, OK, "in wave 2"},
		{"wave", "that is no number", r, func(s *subject) { s.Tags, s.Waves = map[string]string{WaveTag: "two"}, true }, Refuse, `"two"`},
		{"wave", "of groups that are named", r, func(s *subject) { s.Tags = map[string]string{WaveTag: "two"} }, none, ""},
		{"lease", "none", u, nil, none, ""},
		{"lease", "of a trigger", u, func(s *subject) {
			s.Tags = map[string]string{LeaseTag: "ci-1/42 2026-11-23T10:00:00Z"}
		}, Warn, "ci-1/42 works on the group"},
		{"lease", "that cannot be read", u, func(s *subject) { s.Tags = map[string]string{LeaseTag: "ci-1/42"} }, none, ""},
		{"surge-left", "none", u, nil, none, ""},
		{"surge-left", "an earlier run is continued", u, func(s *subject) { s.Group = surged(s.Group, "3-5") }, OK, "from 3 to 5"},
		{"surge-left", "in mode refresh it stays", r, func(s *subject) { s.Group = surged(s.Group, "3-5") }, Warn, SurgeTag},

		{"warmup", "a launch hook", r, func(s *subject) { s.Warmup = 0 }, OK, "launch hook"},
		{"warmup", "the group's", r, func(s *subject) { s.Hooks = s.Hooks[:1] }, OK, "1m0s"},
		{"warmup", "neither", u, func(s *subject) { s.Hooks, s.Warmup = s.Hooks[:1], 0 }, Warn, "before its node is ready"},
		{"warmup", "the refresh's own", r, func(s *subject) { s.Hooks, s.Warmup, s.Preferences.Warmup = s.Hooks[:1], 0, new(time.Hour) }, OK, "1h0m0s"},
		{"warmup", "the refresh sets it to 0", r, func(s *subject) { s.Hooks, s.Preferences.Warmup = s.Hooks[:1], new(time.Duration) }, Warn, ""},

		{"pin", "the requested version", r, nil, OK, "writes the requested version"},
		{"pin", "$Latest becomes a number", r, floating, Warn, "$Latest"},
		{"pin", "$Latest stays", r, all(floating, func(s *subject) { s.Pin = false }), OK, "$Latest"},
		{"pin", "the group has a number", r, func(s *subject) { s.Target = known().Resolve(s.Group, "") }, OK, "is a number"},
		{"pin", "the group as it is", r, func(s *subject) { s.Pin, s.Target = false, known().Resolve(s.Group, "") }, OK, "the group's own version"},
		{"pin", "an override has $Default", r, func(s *subject) {
			s.Source = mixed("6", Override{Type: "m5.large", Template: node("")})
			s.Target = known().Resolve(s.Group, "")
		}, Warn, ""},
		{"pin", "$Latest by default", r, all(floating, pinnedBy(PinAuto)), OK, "$Latest"},
		{"pin", "$Latest, and a rollback is requested", r, all(floating, rollback, pinnedBy(PinAuto)), Warn, "replaces it"},
		{"pin", "another version than $Latest", r, all(func(s *subject) { s.Source.Template.Version = "$Latest" }, pinnedBy(PinAuto)), Warn, "replaces it"},
		{"pin", "a number by default", r, all(func(s *subject) { s.Target = known().Resolve(s.Group, "") }, pinnedBy(PinAuto)), OK, "is a number"},
		{"pin", "a launch configuration has no version", r, launchConfiguration, none, ""},
		{"pin", "not in mode unhealthy", u, floating, none, ""},

		{"pin", "instance requirements, by default", r, all(requirements, pinnedBy(PinAuto)), OK, "the group's own version"},
		{"pin", "instance requirements", r, requirements, Refuse, "--pin=false"},

		{"ami-parameter", "the AMI is known", r, nil, none, ""},
		{"ami-parameter", "with a desired configuration", r, func(s *subject) { s.Target.ImageIsParameter, s.Preferences.SkipMatching = true, false }, Warn, "--all --pin=false"},
		{"ami-parameter", "with skip matching", r, func(s *subject) { s.Target.ImageIsParameter, s.Pin = true, false }, Warn, "--mode unhealthy"},
		{"ami-parameter", "with neither", r, func(s *subject) { s.Target.ImageIsParameter, s.Pin, s.Preferences.SkipMatching = true, false, false }, none, ""},
		{"ami-parameter", "not in mode unhealthy", u, func(s *subject) { s.Target.ImageIsParameter = true }, none, ""},

		{"rollback", "none requested", r, floating, OK, "no rollback"},
		{"rollback", "it is possible", r, rollback, OK, "can be rolled back"},
		{"rollback", "the group has $Latest", r, all(floating, rollback), Refuse, "$Latest or $Default"},
		{"rollback", "a policy has $Default", r, all(rollback, func(s *subject) { s.Source = mixed("", Override{Type: "m5.large"}) }), Refuse, "$Latest or $Default"},
		{"rollback", "a launch configuration", r, all(launchConfiguration, rollback), Refuse, "launch configuration"},
		{"rollback", "the AMI is a parameter", r, all(rollback, func(s *subject) { s.Target.ImageIsParameter = true }), Refuse, "parameter"},
		{"rollback", "the group has been changed already", r, all(rollback, func(s *subject) { s.Target.FromGroup = true }), Warn, "no older version"},
		{"rollback", "instance requirements", r, all(requirements, rollback), Refuse, "instance requirements"},
		{"rollback", "not in mode unhealthy", u, all(floating, rollback), none, ""},

		{"alarms", "OK", r, alarms("OK", "OK"), OK, "errors, latency"},
		{"alarms", "one is on", r, alarms("OK", "ALARM"), Refuse, "latency is in the state ALARM"},
		{"alarms", "one has no data, another does not exist", r, alarms("", "INSUFFICIENT_DATA"), Refuse, "errors does not exist, latency is in"},
		{"alarms", "not readable", r, func(s *subject) { s.AlarmsUnknown = errors.New("access denied") }, Warn, "cannot be read: access denied"},

		{"skip-matching", "matching instances are kept", r, nil, OK, ""},
		{"skip-matching", "with instance requirements", r, requirements, Refuse, "--all, which replaces all instances, or --mode unhealthy"},
		{"skip-matching", "off, with instance requirements", r, all(requirements, func(s *subject) { s.Preferences.SkipMatching = false }), Warn, "all instances are replaced"},
		{"skip-matching", "with a launch configuration", r, all(launchConfiguration, func(s *subject) { s.Preferences.SkipMatching = true }), Refuse, "use --all"},
		{"skip-matching", "outdated by a difference that AWS does not compare", r, func(s *subject) { s.Verdicts["i-3"] = otherImage }, Warn, "AWS would not replace 1 outdated instance, since template and type match: i-3;"},
		{"skip-matching", "all are outdated by that: AWS would replace none", r, func(s *subject) { s.Verdicts, s.Outdated = map[string]Verdict{"i-3": otherImage}, 1 }, Refuse, "AWS would replace nothing"},
		{"skip-matching", "all are outdated by that, except one that is kept", r, func(s *subject) { s.Verdicts, s.Outdated = map[string]Verdict{"i-2": keptImage, "i-3": otherImage}, 1 }, Refuse, "by which all outdated instances match: i-3;"},
		{"skip-matching", "unhealthy ones are replaced anyway", r, func(s *subject) {
			s.Verdicts["i-3"] = Verdict{Outdated: true, Reasons: []Reason{{Code: CodeUnhealthy}}}
		}, OK, ""},
		{"skip-matching", "off: current ones are replaced too", r, func(s *subject) { s.Preferences.SkipMatching = false }, Warn, "also those that are not outdated"},
		{"skip-matching", "off, and all are outdated", r, func(s *subject) {
			s.Preferences.SkipMatching = false
			s.judge(Criteria{All: true})
		}, OK, "all instances"},
		{"skip-matching", "off, and one of the outdated ones is terminating already", r, func(s *subject) {
			s.Preferences.SkipMatching, s.Instances[0].State, s.Outdated = false, "Terminating:Wait", 2
			s.judge(Criteria{All: true})
		}, OK, "all instances"},
		{"skip-matching", "not in mode unhealthy", u, nil, none, ""},

		{"protected", "none", r, nil, OK, ""},
		{"protected", "waited for by default", r, func(s *subject) { s.Instances[0].Protected = true }, Warn, "1 instance is protected from scale in: i-1; the refresh waits"},
		{"protected", "ignored", r, func(s *subject) { s.Instances[0].Protected, s.Preferences.Protected = true, "Ignore" }, Warn, "these are not replaced"},
		{"protected", "replaced", r, func(s *subject) { s.Instances[0].Protected, s.Preferences.Protected = true, "Refresh" }, OK, "replaced too"},
		{"protected", "a current one does not count", r, func(s *subject) { s.Instances[2].Protected = true }, OK, ""},
		{"protected", "a current one, if all are replaced", r, func(s *subject) { s.Instances[2].Protected, s.Preferences.SkipMatching = true, false }, Warn, "i-3"},
		{"protected", "not replaced in mode unhealthy", u, func(s *subject) { s.Instances[0].Protected, s.Preferences.Protected = true, "Refresh" }, Warn, "these are not replaced"},
		{"protected", "one that is terminating already", r, func(s *subject) { s.Instances[0].Protected, s.Instances[0].State = true, "Terminating:Wait" }, OK, ""},

		{"standby", "none", r, nil, OK, ""},
		{"standby", "waited for", r, func(s *subject) { s.Instances[0].State, s.Preferences.Standby = "Standby", "Wait" }, Warn, "i-1; the refresh waits"},
		{"standby", "ignored", r, func(s *subject) { s.Instances[0].State, s.Preferences.Standby = "Standby", "Ignore" }, Warn, "these are not replaced"},
		{"standby", "terminated", r, func(s *subject) { s.Instances[0].State, s.Preferences.Standby = "Standby", "Terminate" }, OK, ""},
		{"standby", "not replaced in mode unhealthy", u, func(s *subject) { s.Instances[0].State = "Standby" }, Warn, "these are not replaced"},

		{"kept", "none", u, nil, OK, ""},
		{"kept", "excluded", u, func(s *subject) { s.judge(Criteria{Version: "7", Exclude: labeled}) }, Warn, "not replaced: i-1 (its node has the label keep)"},
		{"kept", "retained", r, func(s *subject) { s.Instances[1].State = "Terminating:Retained"; s.judge(Criteria{Version: "7"}) }, Warn, "i-2 (its termination was abandoned"},
		{"kept", "protected ones have their own check", u, func(s *subject) { s.Instances[0].Protected = true; s.judge(Criteria{Version: "7"}) }, OK, ""},

		{"warm-pool", "none", u, nil, none, ""},
		{"warm-pool", "replaced in mode refresh", r, func(s *subject) { s.WarmPool = true }, OK, ""},
		{"warm-pool", "outdated ones", r, func(s *subject) { s.WarmPool, s.Instances[0].State = true, "Warmed:Stopped" }, OK, ": 1 outdated"},
		{"warm-pool", "not replaced in mode unhealthy", u, func(s *subject) { s.WarmPool = true }, Warn, "warm pool"},

		{"disruption-budgets", "all allow disruptions", r, nil, OK, ""},
		{"disruption-budgets", "one allows none", u, func(s *subject) { s.Cluster.Blocking = []string{"a/b: 1 of 1 needed"} }, Warn, "1 disruption budget allows no disruption now"},
		{"disruption-budgets", "two allow none", r, func(s *subject) { s.Cluster.Blocking = []string{"a/b: x", "c/d: y"} }, Warn, "a/b: x, c/d: y"},
		{"disruption-budgets", "without Kubernetes", r, func(s *subject) { s.Cluster = nil }, none, ""},

		{"nodes", "all are ready", r, nil, OK, ""},
		{"nodes", "one is not", r, func(s *subject) { s.Cluster.Missing = []string{"i-2"} }, Warn, "1 instance has no ready node"},
		{"nodes", "none is, as with another cluster", r, func(s *subject) { s.Cluster.Missing = s.InstanceIDs(Instance.InService) }, Warn, "name that with --kubeconfig and --context"},
		{"nodes", "without Kubernetes", r, func(s *subject) { s.Cluster = nil }, none, ""},

		{"self", "on another instance", r, func(s *subject) { s.Self = "i-9" }, OK, ""},
		{"self", "on an old instance", r, func(s *subject) { s.Self = "i-1" }, Warn, "--no-wait"},
		{"self", "on a current one", r, func(s *subject) { s.Self = "i-3" }, OK, ""},
		{"self", "on a current one, if all are replaced", r, func(s *subject) { s.Self, s.Preferences.SkipMatching = "i-3", false }, Warn, ""},
		{"self", "on one of the group, which was not judged", u, func(s *subject) { s.Self, s.Verdicts = "i-3", nil }, Warn, ""},

		{"outdated", "some", r, nil, OK, "2 instances are outdated"},
		{"outdated", "none", r, func(s *subject) { s.Outdated = 0 }, OK, "no instance is outdated"},
		{"outdated", "an empty group", r, func(s *subject) { s.Desired, s.Outdated = 0, 0 }, OK, "nothing to replace"},
		{"outdated", "an empty group with a warm pool", r, func(s *subject) { s.Desired = 0 }, OK, "2 instances are outdated"},
	} {
		s := fine(tt.mode)
		if tt.change != nil {
			tt.change(&s)
		}
		var got Finding
		for _, f := range Preflight(s.Group, s.Facts) {
			if f.Check == tt.check {
				got = f
			}
		}
		refused = append(refused, namesOf(got)...)
		if got.Level != tt.want || !strings.Contains(got.Text, tt.text) || !slices.Contains(Checks(), tt.check) {
			t.Errorf("%s: %s: got %+v, want %q: %q", tt.check, tt.name, got, tt.want, tt.text)
		}
	}
	expectAllowable(t, append(refused, "standby-tags"), checks()) // as TestStandbyRoom shows
}

// namesOf is the name of the check if it refuses.
func namesOf(f Finding) []string {
	if f.Level != Refuse {
		return nil
	}
	return []string{f.Check}
}

// expectAllowable fails the test unless the checks that have refused are those that can be allowed, and the target.
func expectAllowable(t *testing.T, refused []string, all []check) {
	t.Helper()
	want := slices.DeleteFunc(append(Allowable(), CheckTarget), func(name string) bool {
		return !slices.ContainsFunc(all, func(c check) bool { return c.name == name })
	})
	slices.Sort(want)
	slices.Sort(refused)
	if diff := cmp.Diff(want, slices.Compact(refused)); diff != "" {
		t.Errorf("the checks that refuse (-allowable +refused):\n%s", diff)
	}
}

func TestPreflightOfAGroupWithoutProblems(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{ModeRefresh, ModeUnhealthy} {
		s := fine(mode)
		for _, f := range Preflight(s.Group, s.Facts) {
			if f.Level != OK || f.Text == "" {
				t.Errorf("%s: %+v", mode, f)
			}
		}
	}
}

func TestPreflightSortsByLevel(t *testing.T) {
	t.Parallel()
	s := fine(ModeRefresh)
	s.Max, s.Hooks, s.Suspended, s.Cluster.Missing = 3, nil, []string{processLaunch}, []string{"i-1"}
	var got []string
	for _, f := range Preflight(s.Group, s.Facts)[:5] {
		got = append(got, string(f.Level)+" "+f.Check)
	}
	want := []string{"refuse suspended", "refuse no-terminating-hook", "warn max-size", "warn nodes", "ok operator"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	findings := []Finding{{"a", Refuse, ""}, {"b", Refuse, ""}, {"c", Warn, ""}, {"d", OK, ""}}
	for allowed, want := range map[string][]Finding{"": findings[:2], "a": findings[1:2], "b a c": nil, "e": findings[:2]} {
		if got := Refused(findings, strings.Fields(allowed)); !slices.Equal(got, want) {
			t.Errorf("%q is allowed: got %+v", allowed, got)
		}
	}
}
