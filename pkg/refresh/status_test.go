package refresh

import (
	"strings"
	"testing"
	"time"
)

func TestHasTarget(t *testing.T) {
	t.Parallel()
	target := func(version string) Target {
		return known().Resolve(Group{Source: Source{Template: node("$Latest")}}, version)
	}
	policy := mixed("7", Override{Type: "m5.large"}, Override{Type: "g5.large", Template: template("lt-2", "gpu", "4")})
	for _, tt := range []struct {
		name    string
		desired *Source
		status  string
		target  Target
		want    bool
	}{
		{"to the same number", &Source{Template: node("7")}, StatusInProgress, target(""), true},
		{"to the same number, by the template's id alone", &Source{Template: template("lt-1", "", "7")}, StatusInProgress, target(""), true},
		{"to another number", &Source{Template: node("6")}, StatusInProgress, target(""), false},
		{"to the same number of another template", &Source{Template: template("lt-9", "node", "7")}, StatusInProgress, target(""), false},
		{"to $Latest, as the group", &Source{Template: node("$Latest")}, StatusInProgress, target(""), true},
		{"to $Latest, where a number was requested: $Latest may change", &Source{Template: node("$Latest")}, StatusInProgress, target("7"), false},
		{"to no version, which is $Default", &Source{Template: node("")}, StatusInProgress, target("$Default"), true},
		{"to the group", nil, StatusInProgress, target(""), true},
		{"to the group, where another version was requested", nil, StatusInProgress, target("5"), false},
		{"to the group, where the number was requested that $Latest is: it may change", nil, StatusPending, target("7"), false},
		{"baking", &Source{Template: node("7")}, StatusBaking, target(""), true},
		{"cancelling", &Source{Template: node("7")}, StatusCancelling, target(""), false},
		{"rolling back", &Source{Template: node("7")}, StatusRollbackInProgress, target(""), false},
		{"ended", &Source{Template: node("7")}, StatusSuccessful, target(""), false},
		{"to a policy with the same template", new(mixed("7")), StatusInProgress, target(""), false},
		{"from a policy to a template", &Source{Template: node("7")}, StatusInProgress, known().Resolve(Group{Source: policy}, ""), false},
		{"to the same policy", &policy, StatusInProgress, known().Resolve(Group{Source: policy}, ""), true},
		{"to a policy with fewer overrides", &policy, StatusInProgress, known().Resolve(Group{Source: mixed("7", policy.Overrides[0])}, ""), false},
		{"to a policy with another override's template", &policy, StatusInProgress, known().Resolve(Group{Source: mixed("7", policy.Overrides[0], Override{Type: "g5.large"})}, ""), false},
		{"to a policy with another type", &policy, StatusInProgress, known().Resolve(Group{Source: mixed("7", Override{Type: "m5.xlarge"}, policy.Overrides[1])}, ""), false},
		{"the target is unknown", nil, StatusInProgress, Target{FromGroup: true, Problem: "gone"}, false},
		{"to a template, where the group has a launch configuration", &Source{Template: node("7")}, StatusInProgress, known().Resolve(Group{Source: Source{Configuration: "lc"}}, ""), false},
	} {
		if got := (Refresh{Status: tt.status, Desired: tt.desired}).HasTarget(tt.target); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}

// TestDifferences: what a request leaves to AWS is no difference. Of the lists and switches everything is one.
func TestDifferences(t *testing.T) {
	t.Parallel()
	sent := func(change func(*Preferences)) Preferences {
		p := Preferences{MinHealthy: new(100), MaxHealthy: new(150), SkipMatching: true, Protected: "Ignore", Standby: "Ignore"}
		if change != nil {
			change(&p)
		}
		return p
	}
	for name, tt := range map[string]struct {
		running, requested func(*Preferences)
		want               string
	}{
		"the same":                   {},
		"left to AWS":                {running: func(p *Preferences) { p.Warmup, p.CheckpointDelay = new(time.Hour), new(time.Hour) }},
		"a number":                   {running: func(p *Preferences) { p.MaxHealthy = new(200) }, want: "MaxHealthyPercentage is 200, not 150"},
		"unset":                      {requested: func(p *Preferences) { p.Warmup = new(time.Minute) }, want: "InstanceWarmup is unset, not 1m0s"},
		"no bake time was requested": {running: func(p *Preferences) { p.Bake = new(time.Hour) }, want: "BakeTime is 1h0m0s, not 0s"},
		"a bake time of 0":           {requested: func(p *Preferences) { p.Bake = new(time.Duration) }},
		"checkpoints":                {running: func(p *Preferences) { p.Checkpoints = []int{50, 100} }, want: "CheckpointPercentages is [50 100], not []"},
		"alarms":                     {requested: func(p *Preferences) { p.Alarms = []string{"errors"} }, want: "AlarmSpecification is [], not [errors]"},
		"a switch":                   {running: func(p *Preferences) { p.SkipMatching = false }, want: "SkipMatching is false, not true"},
		"another client has sent no choice": {
			running: func(p *Preferences) { p.Protected, p.Standby = "", "" },
			want:    "ScaleInProtectedInstances is Wait, not Ignore; StandbyInstances is Wait, not Ignore",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running, requested := sent(tt.running), sent(tt.requested)
			if got := strings.Join(running.DifferencesFrom(requested), "; "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
