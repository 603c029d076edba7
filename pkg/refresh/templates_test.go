package refresh

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// known are the launch templates of the tests. The template old-node was deleted, and node was created again as lt-9.
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

// node is a version of the template of most groups.
func node(version string) *Template { return template("lt-1", "node", version) }

func mixed(version string, overrides ...Override) Source {
	return Source{Template: node(version), Mixed: true, Overrides: overrides}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		source  Source
		version string
		want    Target // without AsWritten
	}{
		{"a number", Source{Template: node("7")}, "", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7", FromGroup: true}},
		{"$Latest", Source{Template: node("$Latest")}, "", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7 ($Latest)", FromGroup: true}},
		{"no version", Source{Template: node("")}, "", Target{Source: Source{Template: node("5")}, Text: "launch template node (lt-1) version 5 ($Default)", FromGroup: true}},
		{"by name", Source{Template: template("", "node", "$Latest")}, "", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7 ($Latest)", FromGroup: true}},
		{"another version is requested", Source{Template: node("7")}, "3", Target{Source: Source{Template: node("3")}, Text: "launch template node (lt-1) version 3"}},
		{"the same version is requested in another way", Source{Template: node("7")}, "$Latest", Target{Source: Source{Template: node("7")}, Text: "launch template node (lt-1) version 7 ($Latest)", FromGroup: true}},
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
		{"a version that exists, while another was requested that does not", Source{Template: template("lt-5", "short", "1")}, "", Target{Source: Source{Template: template("lt-5", "short", "1")}, Text: "launch template short (lt-5) version 1", FromGroup: true, Newer: "launch template short (lt-5) has version 2: to use it, change the group, or set --launch-template-version 2"}},
		{"an invalid version", Source{Template: node("7")}, "newest", Target{Source: Source{Template: node("newest")}, Text: "launch template node (lt-1) version newest", Problem: "launch template node (lt-1) version newest is unknown"}},
		{"a negative version", Source{Template: node("7")}, "-1", Target{Source: Source{Template: node("-1")}, Text: "launch template node (lt-1) version -1", Problem: "launch template node (lt-1) version -1 is unknown"}},
		{"a template that was not read", Source{Template: template("lt-7", "new", "")}, "", Target{Source: Source{Template: template("lt-7", "new", "")}, Text: "launch template new (lt-7) version $Default", FromGroup: true, Problem: "launch template new (lt-7) version $Default is unknown"}},
		{"a template that was not read, by number", Source{Template: template("lt-7", "new", "2")}, "", Target{Source: Source{Template: template("lt-7", "new", "2")}, Text: "launch template new (lt-7) version 2", FromGroup: true}},
		{"an override's template that does not exist", mixed("7", Override{Type: "x", Template: template("lt-4", "gone", "1")}), "", Target{Source: mixed("7", Override{Type: "x", Template: template("lt-4", "gone", "1")}), Text: "mixed instances policy with launch template node (lt-1) version 7 and 1 override", FromGroup: true, Problem: "launch template gone (lt-4) version 1 does not exist"}},
	} {
		got := known().Resolve(Group{Source: tt.source}, tt.version)
		got.AsWritten, got.Key = Source{}, "" // TestTargetKey checks it.
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

func TestNameStandsForTheTemplateThatExists(t *testing.T) {
	t.Parallel()
	all := []LaunchTemplate{{ID: "lt-1", Name: "node", Missing: true}, {ID: "lt-9", Name: "node", Latest: 1, Default: 1}}
	for range 2 {
		if got := NewTemplates(all...).find(Template{Name: "node"}); got.ID != "lt-9" {
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
		{"a maximum age", Source{Template: node("$Latest")}, "", Criteria{MaxAge: time.Hour}, true},
		{"the version's AMI is a parameter", Source{Template: template("lt-3", "alias", "$Default")}, "", Criteria{}, true},
		{"another version's AMI is a parameter", Source{Template: template("lt-3", "alias", "2")}, "", Criteria{}, false},
		{"the AMI of the version requested is a parameter", Source{Template: template("lt-3", "alias", "2")}, "", Criteria{Version: "1"}, true},
		{"the AMI of an override's template is a parameter", mixed("7", Override{Type: "x", Template: template("lt-3", "alias", "1")}), "", Criteria{}, true},
		{"an override has an AMI, and Auto Scaling describes none of the instances", mixed("7", Override{Type: "x", ImageID: "ami-9"}), "", Criteria{}, true},
		{"an override has an AMI, and Auto Scaling describes those of the instances", mixed("7", Override{Type: "x", ImageID: "ami-9"}), "ami-8", Criteria{}, false},
		{"a launch configuration", Source{Configuration: "lc"}, "", Criteria{}, false},
	} {
		groups := []Group{{Source: Source{Configuration: "other"}}, {Source: tt.source, Instances: []Instance{instance(image(tt.image))}}}
		if got := NeedsEC2(groups, known(), tt.criteria); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}
