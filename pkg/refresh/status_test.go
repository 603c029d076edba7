package refresh

import "testing"

func TestAims(t *testing.T) {
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
		{"peers' mistake: to the same number of another template", &Source{Template: template("lt-9", "node", "7")}, StatusInProgress, target(""), false},
		{"to $Latest, as the group", &Source{Template: node("$Latest")}, StatusInProgress, target(""), true},
		{"to $Latest, where a number was asked for: it may be another soon", &Source{Template: node("$Latest")}, StatusInProgress, target("7"), false},
		{"to no version, which is $Default", &Source{Template: node("")}, StatusInProgress, target("$Default"), true},
		{"to where the group is", nil, StatusInProgress, target(""), true},
		{"to where the group is, where another version was asked for", nil, StatusInProgress, target("5"), false},
		{"to where the group is, which is what was asked for", nil, StatusPending, target("7"), true},
		{"it bakes", &Source{Template: node("7")}, StatusBaking, target(""), true},
		{"it is being cancelled", &Source{Template: node("7")}, StatusCancelling, target(""), false},
		{"it is being rolled back", &Source{Template: node("7")}, StatusRollbackInProgress, target(""), false},
		{"it is over", &Source{Template: node("7")}, StatusSuccessful, target(""), false},
		{"to a policy with the same template", &Source{Mixed: &Mixed{Template: *node("7")}}, StatusInProgress, target(""), false},
		{"from a policy to a template", &Source{Template: node("7")}, StatusInProgress, known().Resolve(Group{Source: policy}, ""), false},
		{"to the same policy", &policy, StatusInProgress, known().Resolve(Group{Source: policy}, ""), true},
		{"to a policy with fewer overrides", &policy, StatusInProgress, known().Resolve(Group{Source: mixed("7", policy.Mixed.Overrides[0])}, ""), false},
		{"to a policy with another override's template", &policy, StatusInProgress, known().Resolve(Group{Source: mixed("7", policy.Mixed.Overrides[0], Override{Type: "g5.large"})}, ""), false},
		{"to a policy with another type", &policy, StatusInProgress, known().Resolve(Group{Source: mixed("7", Override{Type: "m5.xlarge"}, policy.Mixed.Overrides[1])}, ""), false},
		{"the target is not known", nil, StatusInProgress, Target{FromGroup: true, Problem: "gone"}, false},
		{"to a template, where the group has a launch configuration", &Source{Template: node("7")}, StatusInProgress, known().Resolve(Group{Source: Source{Configuration: "lc"}}, ""), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := (Refresh{Status: tt.status, Desired: tt.desired}).HasTarget(tt.target); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
