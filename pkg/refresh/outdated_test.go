package refresh

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// now is when the tests take place.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// known are the launch templates of the tests. The template old-node was deleted, and node made anew as lt-9.
func known() Templates {
	return NewTemplates(
		LaunchTemplate{ID: "lt-1", Name: "node", Latest: 7, Default: 5, Images: map[int]string{3: "ami-3", 5: "ami-5", 7: "ami-7"}},
		LaunchTemplate{ID: "lt-2", Name: "gpu", Latest: 4, Default: 4, Images: map[int]string{4: "ami-gpu"}},
		LaunchTemplate{ID: "lt-3", Name: "alias", Latest: 2, Default: 1, Images: map[int]string{1: "ami-new", 2: "ami-2"}, Aliases: map[int]bool{1: true}},
		LaunchTemplate{ID: "lt-4", Name: "gone", Missing: true},
		LaunchTemplate{ID: "lt-5", Name: "short", Latest: 2, Default: 1, Images: map[int]string{1: "ami-1"}, Missing: true},
	)
}

func template(id, name, version string) *Template {
	return &Template{ID: id, Name: name, Version: version}
}

// node is a version of the template that most groups here have.
func node(version string) *Template { return template("lt-1", "node", version) }

func mixed(version string, overrides ...Override) Source {
	return Source{Mixed: &Mixed{Template: *node(version), Overrides: overrides}}
}

// instance is one in service that was launched from version 7 of node, unless changed.
func instance(changes ...func(*Instance)) Instance {
	i := Instance{ID: "i-1", Zone: "a", Type: "m5.large", State: stateInService, Healthy: true, Template: node("7")}
	for _, change := range changes {
		change(&i)
	}
	return i
}

func launchedFrom(t *Template) func(*Instance) {
	return func(i *Instance) { i.Template, i.Configuration = t, "" }
}

func configuration(name string) func(*Instance) {
	return func(i *Instance) { i.Template, i.Configuration = nil, name }
}
func ofType(name string) func(*Instance) { return func(i *Instance) { i.Type = name } }
func image(id string) func(*Instance)    { return func(i *Instance) { i.ImageID = id } }
func state(name string) func(*Instance)  { return func(i *Instance) { i.State = name } }
func unhealthy(i *Instance)              { i.Healthy = false }
func protected(i *Instance)              { i.Protected = true }
func launchedAgo(d time.Duration) func(*Instance) {
	return func(i *Instance) { i.Launched = now.Add(-d) }
}

// codes are those of reasons, in one word each.
func codes(reasons []Reason) string {
	var words []string
	for _, r := range reasons {
		words = append(words, string(r.Code))
	}
	return strings.Join(words, " ")
}

// judged is the verdict on an instance of the group, with the launch templates of the tests.
func judged(g Group, i Instance, c Criteria) Verdict {
	return Outdated(i, known().Resolve(g, c.Version), known(), c, now)
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	var (
		lc      = Source{Configuration: "lc-2"}
		seven   = Source{Template: node("7")}
		latest  = Source{Template: node("$Latest")}
		dflt    = Source{Template: node("$Default")}
		nothing = Source{Template: node("")}
		alias   = Source{Template: template("lt-3", "alias", "1")}
		large   = Override{Type: "m5.large"}
		xlarge  = Override{Type: "m5.xlarge"}
		gpu     = Override{Type: "g5.large", Template: template("lt-2", "gpu", "$Latest")}
		anyType = Override{Requirements: true}
	)
	for _, tt := range []struct {
		name   string
		source Source
		from   Instance
		want   string // The codes of its reasons; none if it is current.
		text   string // Part of the first reason.
	}{
		// A6: launch configurations.
		{"launched from the group's launch configuration", lc, instance(configuration("lc-2")), "", ""},
		{"launched from another launch configuration", lc, instance(configuration("lc-1")), "configuration", "launched from launch configuration lc-1, the group is at lc-2"},
		{"launch configurations differ by case alone: names are case-sensitive", lc, instance(configuration("LC-2")), "configuration", ""},
		{"the group moved from a launch configuration to a template", seven, instance(configuration("lc-2")), "source", "launched from launch configuration lc-2, the group is at launch template node (lt-1) version 7"},
		{"the group moved back from a template to a launch configuration", lc, instance(), "source", "launched from launch template node (lt-1) version 7, the group is at launch configuration lc-2"},

		// A7: launch templates, by id and version.
		{"the same version of the same template", seven, instance(), "", ""},
		{"an older version", seven, instance(launchedFrom(node("3"))), "version", "launched from node (lt-1) version 3, the group is at 7"},
		{"a newer version: the group was taken back", Source{Template: node("3")}, instance(), "version", ""},
		{"another template", seven, instance(launchedFrom(template("lt-2", "gpu", "4"))), "template", "launched from launch template gpu (lt-2) version 4, the group is at launch template node (lt-1) version 7"},
		{"peers' mistake: the same version number of another template is not current", seven, instance(launchedFrom(template("lt-2", "gpu", "7"))), "template", ""},
		{"peers' mistake: a template made anew under the same name is another one", Source{Template: template("lt-9", "node", "7")}, instance(), "template", "launched from launch template node (lt-1) version 7, the group is at launch template node (lt-9) version 7"},
		{"peers' mistake: names that differ by case alone are two templates", Source{Template: template("", "Node", "7")}, instance(launchedFrom(template("", "node", "7"))), "template", ""},
		{"one template under one id, by whatever name", seven, instance(launchedFrom(template("lt-1", "", "7"))), "", ""},
		{"where no id is known the name decides", Source{Template: template("", "x", "1")}, instance(launchedFrom(template("", "x", "1"))), "", ""},
		{"where no id is known the name decides: another", Source{Template: template("", "x", "1")}, instance(launchedFrom(template("", "y", "1"))), "template", ""},
		{"a group that names its template is compared by the id that it has", Source{Template: template("", "node", "7")}, instance(launchedFrom(template("lt-8", "node", "7"))), "template", ""},

		{"nothing in common to compare them by: that cannot be told", Source{Template: template("lt-7", "", "7")}, instance(launchedFrom(template("", "x", "3"))), "", ""},

		// A8: $Latest and $Default, on both sides.
		{"$Latest, and the instance has it", latest, instance(), "", ""},
		{"$Latest, and there is a newer one", latest, instance(launchedFrom(node("5"))), "version", "launched from node (lt-1) version 5, the group is at 7 ($Latest)"},
		{"peers' mistake: $Default is resolved, not compared as a word", dflt, instance(launchedFrom(node("5"))), "", ""},
		{"peers' mistake: $Default is not the latest", dflt, instance(), "version", "the group is at 5 ($Default)"},
		{"no version is $Default", nothing, instance(launchedFrom(node("5"))), "", ""},
		{"no version is $Default, and the instance has another", nothing, instance(), "version", "the group is at 5 ($Default)"},
		{"an instance that says $Latest has the latest", seven, instance(launchedFrom(node("$Latest"))), "", ""},
		{"an instance that says $Default has the default", seven, instance(launchedFrom(node("$Default"))), "version", "launched from node (lt-1) version 5"},
		{"an instance that says no version has the default", dflt, instance(launchedFrom(node(""))), "", ""},
		{"$Latest of a template that was not asked for: that cannot be told", Source{Template: template("lt-7", "new", "$Latest")}, instance(launchedFrom(template("lt-7", "new", "1"))), "", ""},
		{"$Latest of another template that was not asked for", Source{Template: template("lt-7", "new", "$Latest")}, instance(), "template", ""},

		// A9: mixed instances policies.
		{"the group moved from a template to a policy with the same: current", mixed("7"), instance(), "", ""},
		{"the group moved to a policy with the same template and the instance's type", mixed("7", large), instance(), "", ""},
		{"the group moved back from a policy to its template", seven, instance(ofType("m5.xlarge")), "", ""},
		{"a policy with another version", mixed("$Latest", large), instance(launchedFrom(node("5"))), "version", "the group is at 7 ($Latest)"},
		{"a policy with another template", mixed("7", large), instance(launchedFrom(template("lt-2", "gpu", "7"))), "template", ""},
		{"the group moved from a launch configuration to a policy", mixed("7", large), instance(configuration("lc-1")), "source", "the group is at mixed instances policy with launch template node (lt-1) version 7 and 1 override"},
		{"the group moved from a policy to a launch configuration", lc, instance(ofType("m5.xlarge")), "source", ""},

		// A10: types.
		{"peers' mistake: a type that was taken out of the overrides", mixed("7", xlarge, gpu), instance(), "type", "its type is m5.large, the group's overrides have m5.xlarge, g5.large"},
		{"types are compared as they are written", mixed("7", Override{Type: "M5.large"}), instance(), "type", ""},
		{"requirements stand for the types: any is fine", mixed("7", anyType), instance(), "", ""},
		{"requirements beside a type: any is fine", mixed("7", xlarge, anyType), instance(), "", ""},

		// A11: overrides with their own template or AMI.
		{"peers' mistake: an override's own template, and the instance has it", mixed("7", large, gpu), instance(ofType("g5.large"), launchedFrom(template("lt-2", "gpu", "4"))), "", ""},
		{"peers' mistake: an override's own template, and the instance has the policy's", mixed("7", large, gpu), instance(ofType("g5.large")), "template", "the group's override for g5.large is at launch template gpu (lt-2) version 4 ($Latest)"},
		{"an override's own template at another version", mixed("7", large, gpu), instance(ofType("g5.large"), launchedFrom(template("lt-2", "gpu", "3"))), "version", "launched from gpu (lt-2) version 3, the group's override for g5.large is at 4 ($Latest)"},
		{"another override's template", mixed("7", large, gpu), instance(launchedFrom(template("lt-2", "gpu", "4"))), "template", ""},
		{"overrides of one type with two templates: either is fine", mixed("7", Override{Type: "m5.large", Template: node("3")}, large), instance(), "", ""},
		{"overrides of one type with two templates, and the instance has neither", mixed("7", Override{Type: "m5.large", Template: node("3")}, large), instance(launchedFrom(node("5"))), "version", "override for m5.large is at 3"},
		{"requirements with a template of their own", mixed("7", large, Override{Requirements: true, Template: template("lt-2", "gpu", "4")}), instance(ofType("c7g.large"), launchedFrom(template("lt-2", "gpu", "4"))), "", ""},
		{"requirements with a template of their own: the policy's is not theirs", mixed("7", large, Override{Requirements: true, Template: template("lt-2", "gpu", "4")}), instance(ofType("c7g.large")), "template", "the group's override is at"},
		{"peers' mistake: an override's own AMI", mixed("7", Override{Type: "m5.large", ImageID: "ami-9"}), instance(image("ami-7")), "image", "its AMI is ami-7, the group's override for m5.large is at ami-9"},
		{"an override's own AMI, and the instance has it", mixed("7", Override{Type: "m5.large", ImageID: "ami-9"}), instance(image("ami-9")), "", ""},
		{"an override's own AMI, and the instance's is not known", mixed("7", Override{Type: "m5.large", ImageID: "ami-9"}), instance(), "", ""},
		{"an override's AMI was taken out", mixed("7", large), instance(image("ami-9")), "image", "its AMI is ami-9, the group is at ami-7"},
		{"two AMIs for one type: either is fine", mixed("7", Override{Type: "m5.large", ImageID: "ami-8"}, Override{Type: "m5.large", ImageID: "ami-9"}), instance(image("ami-9")), "", ""},

		// A12: AMIs.
		{"the template version's AMI", seven, instance(image("ami-7")), "", ""},
		{"the root volume has been replaced by another AMI's", seven, instance(image("ami-5")), "image", "its AMI is ami-5, the group is at ami-7"},
		{"the template's parameter says another AMI by now", alias, instance(launchedFrom(template("lt-3", "alias", "1")), image("ami-old")), "image", "its AMI is ami-old, the group is at ami-new"},
		{"the template's parameter says the same AMI", alias, instance(launchedFrom(template("lt-3", "alias", "1")), image("ami-new")), "", ""},
		{"the instance's AMI is not known", alias, instance(launchedFrom(template("lt-3", "alias", "1"))), "", ""},
		{"another version has another AMI: one cause is one reason", latest, instance(launchedFrom(node("5")), image("ami-5")), "version", ""},
		{"a parameter's name is no AMI to compare with", mixed("7", Override{Type: "m5.large", ImageID: "resolve:ssm:/ami"}), instance(image("ami-7")), "", ""},

		// What was attached, and groups without anything.
		{"attached by hand: an Instance Refresh replaces it, and so do we", seven, instance(launchedFrom(nil)), "unknown-source", "as of an attached instance; the group is at launch template node (lt-1) version 7"},
		{"attached by hand to a group with a launch configuration", lc, instance(launchedFrom(nil)), "unknown-source", ""},
		{"a group that says nothing", Source{}, instance(), "", ""},

		// Health.
		{"unhealthy alone: Auto Scaling replaces it by itself", seven, instance(unhealthy), "unhealthy", "Auto Scaling replaces it"},
		{"unhealthy and of another version", seven, instance(unhealthy, launchedFrom(node("3"))), "version unhealthy", ""},
		{"unhealthy and going: it is being replaced", seven, instance(unhealthy, state("Terminating:Wait")), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := judged(Group{Source: tt.source}, tt.from, Criteria{})
			if codes(got.Reasons) != tt.want || got.Outdated != (tt.want != "" && tt.want != "unhealthy") {
				t.Fatalf("got %+v, want %q", got, tt.want)
			}
			if tt.want != "" && !strings.Contains(got.Reasons[0].Text, tt.text) {
				t.Errorf("it says %q, not %q", got.Reasons[0].Text, tt.text)
			}
		})
	}
}

func TestCriteria(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name     string
		criteria Criteria
		from     Instance
		want     string
		text     string
	}{
		{"another version is asked for", Criteria{Version: "5"}, instance(), "version", "launched from node (lt-1) version 7, requested is 5"},
		{"another version is asked for, and the instance has it", Criteria{Version: "5"}, instance(launchedFrom(node("5"))), "", ""},
		{"$Default is asked for", Criteria{Version: "$Default"}, instance(), "version", "requested is 5 ($Default)"},
		{"the group's own version is asked for", Criteria{Version: "$Latest"}, instance(launchedFrom(node("5"))), "version", "the group is at 7 ($Latest)"},
		{"older than allowed", Criteria{MaxAge: 6 * day}, instance(launchedAgo(7*day + 3*time.Hour)), "age", "launched 7d3h ago, and at most 6d0h is allowed"},
		{"as old as allowed", Criteria{MaxAge: 6 * day}, instance(launchedAgo(6 * day)), "", ""},
		{"nobody knows how old", Criteria{MaxAge: time.Hour}, instance(), "", ""},
		{"no limit of age", Criteria{}, instance(launchedAgo(1000 * day)), "", ""},
		{"older than allowed, and of another version", Criteria{MaxAge: time.Hour}, instance(launchedAgo(2*time.Hour), launchedFrom(node("5"))), "version age", ""},
		{"all", Criteria{All: true}, instance(), "requested", "all instances were requested"},
		{"all, and of another version", Criteria{All: true}, instance(launchedFrom(node("5"))), "requested version", ""},
		{"this one", Criteria{Only: []string{"i-1"}}, instance(), "requested", "it was requested"},
		{"another one alone", Criteria{Only: []string{"i-2"}}, instance(), "", ""},
		{"another one alone, and this one is outdated: neither outdated nor kept", Criteria{Only: []string{"i-2"}, All: true, Exclude: map[string]string{"i-1": "no"}}, instance(launchedFrom(node("3")), protected), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := judged(Group{Source: Source{Template: node("7")}}, tt.from, tt.criteria)
			if codes(got.Reasons) != tt.want || got.Outdated != (tt.want != "") || len(got.Kept) != 0 {
				t.Fatalf("got %+v, want %q", got, tt.want)
			}
			if tt.want != "" && !strings.Contains(got.Reasons[0].Text, tt.text) {
				t.Errorf("it says %q, not %q", got.Reasons[0].Text, tt.text)
			}
		})
	}
}

func TestCriteriaVersionIsOfThePolicyNotOfItsOverrides(t *testing.T) {
	t.Parallel()
	g := Group{Source: mixed("7", Override{Type: "m5.large"}, Override{Type: "g5.large", Template: node("3")})}
	for _, tt := range []struct {
		name string
		from Instance
		want string
	}{
		{"the policy's template is at the version asked for", instance(launchedFrom(node("5"))), ""},
		{"the policy's own version is not", instance(), "version"},
		{"an override's own template stays", instance(ofType("g5.large"), launchedFrom(node("3"))), ""},
		{"and is not at the version asked for", instance(ofType("g5.large"), launchedFrom(node("5"))), "version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := judged(g, tt.from, Criteria{Version: "5"}); codes(got.Reasons) != tt.want {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}

func TestKept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		criteria Criteria
		from     Instance
		want     string
	}{
		{"nothing keeps it", Criteria{}, instance(), ""},
		{"protected from scale in", Criteria{}, instance(protected), "protected"},
		{"in standby", Criteria{}, instance(state("Standby")), "standby"},
		{"entering standby", Criteria{}, instance(state("EnteringStandby")), "standby"},
		{"terminating", Criteria{}, instance(state("Terminating")), "terminating"},
		{"held by a hook", Criteria{}, instance(state("Terminating:Wait")), "terminating"},
		{"kept by an abandoned hook", Criteria{}, instance(state("Terminating:Retained")), "retained"},
		{"excluded, by the reason given", Criteria{Exclude: map[string]string{"i-1": "its node has the label keep"}}, instance(), "excluded"},
		{"excluded and protected", Criteria{Exclude: map[string]string{"i-1": ""}}, instance(protected), "excluded protected"},
		{"in the warm pool: an Instance Refresh replaces it there", Criteria{}, instance(state("Warmed:Stopped")), ""},
		{"on its way into service", Criteria{}, instance(state("Pending:Wait")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := Group{Source: Source{Template: node("7")}}
			old := tt.from
			old.Template = node("3")
			if got := judged(g, old, tt.criteria); !got.Outdated || codes(got.Kept) != tt.want {
				t.Errorf("outdated: got %+v, want it kept as %q", got, tt.want)
			}
			if got := judged(g, tt.from, tt.criteria); got.Outdated || got.Kept != nil {
				t.Errorf("a current one is neither outdated nor kept: %+v", got)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		source  Source
		version string
		want    Target // Without Words.
	}{
		{"a number", Source{Template: node("7")}, "", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7", FromGroup: true}},
		{"$Latest", Source{Template: node("$Latest")}, "", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7 ($Latest)", FromGroup: true}},
		{"no version", Source{Template: node("")}, "", Target{Source: Source{Template: node("5")}, Text: "launch template node (lt-1) version 5 ($Default)", FromGroup: true}},
		{"by name", Source{Template: template("", "node", "$Latest")}, "", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7 ($Latest)", FromGroup: true}},
		{"another version is asked for", Source{Template: node("7")}, "3", Target{Source: Source{Template: node("3")}, Text: "launch template node (lt-1) version 3"}},
		{"the same version is asked for in other words", Source{Template: node("7")}, "$Latest", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7 ($Latest)", FromGroup: true}},
		{"the AMI is a parameter", Source{Template: template("lt-3", "alias", "$Default")}, "", Target{Source: Source{Template: template("lt-3", "alias", "1")}, Text: "launch template alias (lt-3) version 1 ($Default)", FromGroup: true, ImageIsParameter: true}},
		{
			"a policy, with an override's own template", mixed("$Latest", Override{Type: "g5.large", Template: template("lt-2", "gpu", "")}), "",
			Target{Source: mixed("7", Override{Type: "g5.large", Template: template("lt-2", "gpu", "4")}), Text: "mixed instances policy with launch template node (lt-1) version 7 ($Latest) and 1 override", FromGroup: true},
		},
		{"a launch configuration", Source{Configuration: "lc"}, "", Target{Source: Source{Configuration: "lc"}, Text: "launch configuration lc", FromGroup: true}},
		{"a version for a launch configuration", Source{Configuration: "lc"}, "7", Target{Source: Source{Configuration: "lc"}, Text: "launch configuration lc", FromGroup: true, Problem: "version 7 of a launch template is requested, but the group has launch configuration lc"}},
		{"nothing", Source{}, "", Target{Text: "nothing", FromGroup: true, Problem: "the group has neither a launch template nor a launch configuration"}},
		{"a template that does not exist", Source{Template: template("lt-4", "gone", "$Latest")}, "", Target{Source: Source{Template: template("lt-4", "gone", "$Latest")}, Text: "launch template gone (lt-4) version $Latest", FromGroup: true, Problem: "launch template gone (lt-4) version $Latest does not exist"}},
		{"a version that does not exist", Source{Template: template("lt-5", "short", "1")}, "9", Target{Source: Source{Template: template("lt-5", "short", "9")}, Text: "launch template short (lt-5) version 9", Problem: "launch template short (lt-5) version 9 does not exist"}},
		{"a version that exists, where another was asked for that does not", Source{Template: template("lt-5", "short", "1")}, "", Target{Source: Source{Template: template("lt-5", "short", "1")}, Text: "launch template short (lt-5) version 1", FromGroup: true}},
		{"a version that is none", Source{Template: node("7")}, "newest", Target{Source: Source{Template: node("newest")}, Text: "launch template node (lt-1) version newest", Problem: "launch template node (lt-1) version newest is unknown"}},
		{"a negative version", Source{Template: node("7")}, "-1", Target{Source: Source{Template: node("-1")}, Text: "launch template node (lt-1) version -1", Problem: "launch template node (lt-1) version -1 is unknown"}},
		{"a template that was not asked for", Source{Template: template("lt-7", "new", "")}, "", Target{Source: Source{Template: template("lt-7", "new", "")}, Text: "launch template new (lt-7) version $Default", FromGroup: true, Problem: "launch template new (lt-7) version $Default is unknown"}},
		{"a template that was not asked for, by number", Source{Template: template("lt-7", "new", "2")}, "", Target{Source: Source{Template: template("lt-7", "new", "2")}, Text: "launch template new (lt-7) version 2", FromGroup: true}},
		{"an override's template that does not exist", mixed("7", Override{Type: "x", Template: template("lt-4", "gone", "1")}), "", Target{Source: mixed("7", Override{Type: "x", Template: template("lt-4", "gone", "1")}), Text: "mixed instances policy with launch template node (lt-1) version 7 and 1 override", FromGroup: true, Problem: "launch template gone (lt-4) version 1 does not exist"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := known().Resolve(Group{Source: tt.source}, tt.version)
			got.AsWritten = Source{}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNameBelongsToTheTemplateThatExists(t *testing.T) {
	t.Parallel()
	all := []LaunchTemplate{{ID: "lt-1", Name: "node", Missing: true}, {ID: "lt-9", Name: "node", Latest: 1, Default: 1}}
	for range 2 {
		if got := NewTemplates(all...).find(Template{Name: "node"}); got == nil || got.ID != "lt-9" {
			t.Errorf("got %+v", got)
		}
		slices.Reverse(all)
	}
}

func TestNeedsEC2(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		source   Source
		image    string
		criteria Criteria
		want     bool
	}{
		{"versions are enough", Source{Template: node("$Latest")}, "", Criteria{}, false},
		{"the age is asked for", Source{Template: node("$Latest")}, "", Criteria{MaxAge: time.Hour}, true},
		{"the version's AMI is a parameter", Source{Template: template("lt-3", "alias", "$Default")}, "", Criteria{}, true},
		{"another version's AMI is a parameter", Source{Template: template("lt-3", "alias", "2")}, "", Criteria{}, false},
		{"the AMI of the version requested is a parameter", Source{Template: template("lt-3", "alias", "2")}, "", Criteria{Version: "1"}, true},
		{"the AMI of an override's template is a parameter", mixed("7", Override{Type: "x", Template: template("lt-3", "alias", "1")}), "", Criteria{}, true},
		{"an override has an AMI, and the instances' are not told", mixed("7", Override{Type: "x", ImageID: "ami-9"}), "", Criteria{}, true},
		{"an override has an AMI, and the instances' are told", mixed("7", Override{Type: "x", ImageID: "ami-9"}), "ami-8", Criteria{}, false},
		{"a launch configuration", Source{Configuration: "lc"}, "", Criteria{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			groups := []Group{{Source: Source{Configuration: "other"}}, {Source: tt.source, Instances: []Instance{instance(image(tt.image))}}}
			if got := NeedsEC2(groups, known(), tt.criteria); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// What a group launches now is never outdated, and is so as soon as one thing about it differs: whatever the group
// launches from.
func TestWhatTheTargetLaunchesIsCurrent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5000) {
		dice := rand.New(rand.NewPCG(seed, 0))
		g := Group{Source: anySource(dice)}
		version := pick(dice, "", "", "3", "$Latest", "$Default")
		if g.Source.Configuration != "" {
			version = ""
		}
		target := known().Resolve(g, version)
		if target.Problem != "" {
			t.Fatalf("seed %d: %s", seed, target.Problem)
		}
		i := launch(dice, target.Source)
		judge := func() Verdict { return judged(g, i, Criteria{Version: version}) }
		if got := judge(); got.Outdated {
			t.Fatalf("seed %d: %+v from %s is outdated: %+v", seed, i, target.Text, got)
		}
		switch {
		case i.Template == nil:
			i.Configuration += "x"
		case dice.IntN(2) == 0:
			i.Template.ID += "x"
		default:
			i.Template.Version = "99"
		}
		if got := judge(); !got.Outdated {
			t.Fatalf("seed %d: %+v from %s is current", seed, i, target.Text)
		}
	}
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

func anyTemplate(dice *rand.Rand) *Template {
	s := *pick(dice, node(""), template("lt-2", "gpu", ""), template("", "alias", ""))
	s.Version = pick(dice, "", "$Latest", "$Default", "1", "2", "7")
	return &s
}

func anySource(dice *rand.Rand) Source {
	switch dice.IntN(4) {
	case 0:
		return Source{Configuration: "lc"}
	case 1:
		return Source{Template: anyTemplate(dice)}
	}
	m := Mixed{Template: *anyTemplate(dice)}
	for n := range dice.IntN(4) {
		o := Override{Type: fmt.Sprint("type-", dice.IntN(3)), Requirements: dice.IntN(4) == 0}
		if o.Requirements {
			o.Type = ""
		}
		if dice.IntN(2) == 0 {
			o.Template = anyTemplate(dice)
		}
		if dice.IntN(3) == 0 {
			o.ImageID = "ami-own-" + strconv.Itoa(n)
		}
		m.Overrides = append(m.Overrides, o)
	}
	return Source{Mixed: &m}
}

// launch is what Auto Scaling says of an instance that it has launched from the resolved source.
func launch(dice *rand.Rand, s Source) Instance {
	i := instance(launchedFrom(nil))
	switch {
	case s.Configuration != "":
		i.Configuration = s.Configuration
	case s.Template != nil:
		copied := *s.Template
		i.Template = &copied
	default:
		copied := s.Mixed.Template
		if len(s.Mixed.Overrides) > 0 {
			o := pick(dice, s.Mixed.Overrides...)
			i.Type, i.ImageID = o.Type, o.ImageID
			if o.Template != nil {
				copied = *o.Template
			}
		}
		i.Template = &copied
	}
	return i
}
