package refresh

import (
	"strings"
	"testing"
	"time"
)

// now is the time of the tests.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// instance is one in service that was launched from version 7 of node, unless changed.
func instance(changes ...func(*Instance)) Instance {
	i := Instance{ID: "i-1", Zone: "a", Type: "m5.large", State: "InService", Healthy: true, Template: node("7")}
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

// codes are the codes of the reasons.
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

// checkVerdict compares the codes of the reasons, and a part of the first one's text. Unhealthy alone is not outdated.
func checkVerdict(t *testing.T, name string, source Source, i Instance, c Criteria, want, text string) {
	t.Helper()
	got := judged(Group{Source: source}, i, c)
	if codes(got.Reasons) != want || got.Outdated != (want != "" && want != "unhealthy") || len(got.Kept) > 0 {
		t.Errorf("%s: got %+v, want %q", name, got, want)
	} else if want != "" && !strings.Contains(got.Reasons[0].Text, text) {
		t.Errorf("%s: the text is %q, not %q", name, got.Reasons[0].Text, text)
	}
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
		// Launch configurations.
		{"launched from the group's launch configuration", lc, instance(configuration("lc-2")), "", ""},
		{"launched from another launch configuration", lc, instance(configuration("lc-1")), "configuration", "launched from launch configuration lc-1, the group is at lc-2"},
		{"the group moved from a launch configuration to a template", seven, instance(configuration("lc-2")), "source", "launched from launch configuration lc-2, the group is at launch template node (lt-1) version 7"},
		{"the group moved back from a template to a launch configuration", lc, instance(), "source", "launched from launch template node (lt-1) version 7, the group is at launch configuration lc-2"},

		// Launch templates, by id and version.
		{"the same version of the same template", seven, instance(), "", ""},
		{"an older version", seven, instance(launchedFrom(node("3"))), "version", "launched from node (lt-1) version 3, the group is at 7"},
		{"a newer version: the group was rolled back", Source{Template: node("3")}, instance(), "version", ""},
		{"another template", seven, instance(launchedFrom(template("lt-2", "gpu", "4"))), "template", "launched from launch template gpu (lt-2) version 4, the group is at launch template node (lt-1) version 7"},
		{"the same version number of another template", seven, instance(launchedFrom(template("lt-2", "gpu", "7"))), "template", ""},
		{"a template created again under the same name", Source{Template: template("lt-9", "node", "7")}, instance(), "template", "launched from launch template node (lt-1) version 7, the group is at launch template node (lt-9) version 7"},
		{"the same id, without a name", seven, instance(launchedFrom(template("lt-1", "", "7"))), "", ""},
		{"without ids the names decide", Source{Template: template("", "x", "1")}, instance(launchedFrom(template("", "x", "1"))), "", ""},
		{"without ids the names decide: another", Source{Template: template("", "x", "1")}, instance(launchedFrom(template("", "y", "1"))), "template", ""},
		{"a group that names its template is compared by the id that it has", Source{Template: template("", "node", "7")}, instance(launchedFrom(template("lt-8", "node", "7"))), "template", ""},

		{"neither ids nor names to compare: not outdated", Source{Template: template("lt-7", "", "7")}, instance(launchedFrom(template("", "x", "3"))), "", ""},

		// $Latest and $Default, on both sides.
		{"$Latest, and the instance has it", latest, instance(), "", ""},
		{"$Latest, and there is a newer one", latest, instance(launchedFrom(node("5"))), "version", "launched from node (lt-1) version 5, the group is at 7 ($Latest)"},
		{"$Default is resolved", dflt, instance(launchedFrom(node("5"))), "", ""},
		{"$Default is not the latest", dflt, instance(), "version", "the group is at 5 ($Default)"},
		{"no version is $Default", nothing, instance(launchedFrom(node("5"))), "", ""},
		{"an instance with $Latest has the latest", seven, instance(launchedFrom(node("$Latest"))), "", ""},
		{"an instance with $Default has the default", seven, instance(launchedFrom(node("$Default"))), "version", "launched from node (lt-1) version 5"},
		{"an instance without a version has the default", dflt, instance(launchedFrom(node(""))), "", ""},
		{"$Latest of a template that was not read: not outdated", Source{Template: template("lt-7", "new", "$Latest")}, instance(launchedFrom(template("lt-7", "new", "1"))), "", ""},
		{"$Latest of another template that was not read", Source{Template: template("lt-7", "new", "$Latest")}, instance(), "template", ""},

		// Mixed instances policies.
		{"the group moved from a template to a policy with the same: current", mixed("7"), instance(), "", ""},
		{"the group moved to a policy with the same template and the instance's type", mixed("7", large), instance(), "", ""},
		{"the group moved back from a policy to its template", seven, instance(ofType("m5.xlarge")), "", ""},
		{"a policy with another version", mixed("$Latest", large), instance(launchedFrom(node("5"))), "version", "the group is at 7 ($Latest)"},
		{"a policy with another template", mixed("7", large), instance(launchedFrom(template("lt-2", "gpu", "7"))), "template", ""},
		{"the group moved from a launch configuration to a policy", mixed("7", large), instance(configuration("lc-1")), "source", "the group is at mixed instances policy with launch template node (lt-1) version 7 and 1 override"},
		{"the group moved from a policy to a launch configuration", lc, instance(ofType("m5.xlarge")), "source", ""},

		// Types.
		{"a type that was removed from the overrides", mixed("7", xlarge, gpu), instance(), "type", "its type is m5.large, the group's overrides have m5.xlarge, g5.large"},
		{"requirements beside a type: any is current", mixed("7", xlarge, anyType), instance(), "", ""},

		// Overrides with their own template or AMI.
		{"an override's own template, and the instance has it", mixed("7", large, gpu), instance(ofType("g5.large"), launchedFrom(template("lt-2", "gpu", "4"))), "", ""},
		{"an override's own template, and the instance has the policy's", mixed("7", large, gpu), instance(ofType("g5.large")), "template", "the group's override for g5.large is at launch template gpu (lt-2) version 4 ($Latest)"},
		{"an override's own template at another version", mixed("7", large, gpu), instance(ofType("g5.large"), launchedFrom(template("lt-2", "gpu", "3"))), "version", "launched from gpu (lt-2) version 3, the group's override for g5.large is at 4 ($Latest)"},
		{"another override's template", mixed("7", large, gpu), instance(launchedFrom(template("lt-2", "gpu", "4"))), "template", ""},
		{"overrides of one type with two templates: either is current", mixed("7", Override{Type: "m5.large", Template: node("3")}, large), instance(), "", ""},
		{"overrides of one type with two templates, and the instance has neither", mixed("7", Override{Type: "m5.large", Template: node("3")}, large), instance(launchedFrom(node("5"))), "version", "override for m5.large is at 3"},
		{"requirements that allow its type", mixed("7", Override{Requirements: true, Allowed: []string{"r*", "c7*.large"}}), instance(ofType("c7g.large")), "", ""},
		{"requirements that allow others only", mixed("7", Override{Requirements: true, Allowed: []string{"c7g.*large", "m5*"}}), instance(ofType("c7g.medium")), "type", "its type is c7g.medium, the group's overrides have requirements that exclude it"},
		{"requirements that exclude its type", mixed("7", large, Override{Requirements: true, Excluded: []string{"t*", "*7g*"}}), instance(ofType("c7g.large")), "type", "the group's overrides have m5.large, requirements that exclude it"},
		{"requirements that exclude others", mixed("7", Override{Requirements: true, Excluded: []string{"t*", "c7.large"}}), instance(ofType("c7g.large")), "", ""},
		{"requirements with a template of their own", mixed("7", large, Override{Requirements: true, Template: template("lt-2", "gpu", "4")}), instance(ofType("c7g.large"), launchedFrom(template("lt-2", "gpu", "4"))), "", ""},
		{"requirements with a template of their own: the policy's is not theirs", mixed("7", large, Override{Requirements: true, Template: template("lt-2", "gpu", "4")}), instance(ofType("c7g.large")), "template", "the group's override is at"},
		{"an override's own AMI", mixed("7", Override{Type: "m5.large", ImageID: "ami-9"}), instance(image("ami-7")), "image", "its AMI is ami-7, the group's override for m5.large is at ami-9"},
		{"an override's own AMI, and the instance has it", mixed("7", Override{Type: "m5.large", ImageID: "ami-9"}), instance(image("ami-9")), "", ""},
		{"an override's own AMI, and the instance's is unknown", mixed("7", Override{Type: "m5.large", ImageID: "ami-9"}), instance(), "", ""},
		{"an override's AMI was removed", mixed("7", large), instance(image("ami-9")), "image", "its AMI is ami-9, the group is at ami-7"},
		{"two AMIs for one type: either is current", mixed("7", Override{Type: "m5.large", ImageID: "ami-8"}, Override{Type: "m5.large", ImageID: "ami-9"}), instance(image("ami-9")), "", ""},

		// AMIs.
		{"the template version's AMI", seven, instance(image("ami-7")), "", ""},
		{"the root volume has been replaced by another AMI's", seven, instance(image("ami-5")), "image", "its AMI is ami-5, the group is at ami-7"},
		{"the template's parameter has another AMI now", alias, instance(launchedFrom(template("lt-3", "alias", "1")), image("ami-old")), "image", "its AMI is ami-old, the group is at ami-new"},
		{"the template's parameter has the same AMI", alias, instance(launchedFrom(template("lt-3", "alias", "1")), image("ami-new")), "", ""},
		{"the instance's AMI is unknown", alias, instance(launchedFrom(template("lt-3", "alias", "1"))), "", ""},
		{"another version has another AMI: one cause is one reason", latest, instance(launchedFrom(node("5")), image("ami-5")), "version", ""},
		{"a parameter's name is not compared with an AMI", mixed("7", Override{Type: "m5.large", ImageID: "resolve:ssm:/ami"}), instance(image("ami-7")), "", ""},

		// Attached instances, and groups without a source.
		{"attached: an instance refresh replaces it", seven, instance(launchedFrom(nil)), "unknown-source", "as of an attached instance; the group is at launch template node (lt-1) version 7"},
		{"attached to a group with a launch configuration", lc, instance(launchedFrom(nil)), "unknown-source", ""},
		{"a group without a source", Source{}, instance(), "", ""},

		// Health.
		{"unhealthy alone: Auto Scaling replaces it by itself", seven, instance(unhealthy), "unhealthy", "Auto Scaling replaces it"},
		{"unhealthy and of another version", seven, instance(unhealthy, launchedFrom(node("3"))), "version unhealthy", ""},
		{"unhealthy and terminating", seven, instance(unhealthy, state("Terminating:Wait")), "", ""},
	} {
		checkVerdict(t, tt.name, tt.source, tt.from, Criteria{}, tt.want, tt.text)
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
		{"another version is requested", Criteria{Version: "5"}, instance(), "version", "launched from node (lt-1) version 7, requested is 5"},
		{"another version is requested, and the instance has it", Criteria{Version: "5"}, instance(launchedFrom(node("5"))), "", ""},
		{"$Default is requested", Criteria{Version: "$Default"}, instance(), "version", "requested is 5 ($Default)"},
		{"the group's own version is requested", Criteria{Version: "$Latest"}, instance(launchedFrom(node("5"))), "version", "the group is at 7 ($Latest)"},
		{"older than allowed", Criteria{MaxAge: 6 * day}, instance(launchedAgo(7*day + 3*time.Hour)), "age", "launched 7d3h ago, and at most 6d0h is allowed"},
		{"as old as allowed", Criteria{MaxAge: 6 * day}, instance(launchedAgo(6 * day)), "", ""},
		{"unknown age", Criteria{MaxAge: time.Hour}, instance(), "", ""},
		{"no limit of age", Criteria{}, instance(launchedAgo(1000 * day)), "", ""},
		{"older than allowed, and of another version", Criteria{MaxAge: time.Hour}, instance(launchedAgo(2*time.Hour), launchedFrom(node("5"))), "version age", ""},
		{"all", Criteria{All: true}, instance(), "requested", "all instances were requested"},
		{"all, and of another version", Criteria{All: true}, instance(launchedFrom(node("5"))), "requested version", ""},
		{"the instance itself", Criteria{Only: []string{"i-1"}}, instance(), "requested", "it was requested"},
		{"another one only", Criteria{Only: []string{"i-2"}}, instance(), "", ""},
		{"another one only, and this one is outdated: neither outdated nor kept", Criteria{Only: []string{"i-2"}, All: true, Exclude: map[string]string{"i-1": "no"}}, instance(launchedFrom(node("3")), protected), "", ""},
	} {
		checkVerdict(t, tt.name, Source{Template: node("7")}, tt.from, tt.criteria, tt.want, tt.text)
	}
	policy := mixed("7", Override{Type: "m5.large"}, Override{Type: "g5.large", Template: node("3")})
	for _, tt := range []struct {
		name string
		from Instance
		want string
	}{
		{"the policy's template is at the requested version", instance(launchedFrom(node("5"))), ""},
		{"the policy's template is at its own version", instance(), "version"},
		{"an override's template is at its own version", instance(ofType("g5.large"), launchedFrom(node("3"))), ""},
		{"an override's template is at the requested version", instance(ofType("g5.large"), launchedFrom(node("5"))), "version"},
	} {
		checkVerdict(t, tt.name, policy, tt.from, Criteria{Version: "5"}, tt.want, "")
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
		{"held by a terminating hook", Criteria{}, instance(state("Terminating:Wait")), "terminating"},
		{"retained", Criteria{}, instance(state("Terminating:Retained")), "retained"},
		{"excluded", Criteria{Exclude: map[string]string{"i-1": "its node has the label keep"}}, instance(), "excluded"},
		{"excluded and protected", Criteria{Exclude: map[string]string{"i-1": ""}}, instance(protected), "excluded protected"},
		{"in the warm pool: an instance refresh replaces it there", Criteria{}, instance(state("Warmed:Stopped")), ""},
		{"entering service", Criteria{}, instance(state("Pending:Wait")), ""},
	} {
		g := Group{Source: Source{Template: node("7")}}
		if got := judged(g, tt.from, tt.criteria); got.Outdated || got.Kept != nil {
			t.Errorf("%s: a current one is outdated or kept: %+v", tt.name, got)
		}
		tt.from.Template = node("3")
		if got := judged(g, tt.from, tt.criteria); !got.Outdated || codes(got.Kept) != tt.want {
			t.Errorf("%s: outdated: got %+v, want it kept as %q", tt.name, got, tt.want)
		}
	}
}
