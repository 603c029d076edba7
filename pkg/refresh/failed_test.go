package refresh

import (
	"strings"
	"testing"
	"time"
)

// TestTargetKey: the key changes whenever other instances would be launched, and fits into a tag.
func TestTargetKey(t *testing.T) {
	t.Parallel()
	plain := LaunchTemplate{ID: "lt-1", Name: "node", Latest: 7, Default: 1}
	aliased := plain
	aliased.Images, aliased.Aliases = map[int]string{7: "ami-1"}, map[int]bool{7: true}
	renewed := aliased
	renewed.Images = map[int]string{7: "ami-2"}
	launches := func(version string, overrides ...Override) Source {
		return Source{Template: &Template{ID: "lt-1", Name: "node", Version: version}, Overrides: overrides}
	}
	seen := map[string]string{}
	for _, tt := range []struct {
		name     string
		template LaunchTemplate
		source   Source
		want     string // part of the key
	}{
		{"the latest version", plain, launches(LatestVersion), "lt-1/7"},
		{"another version", plain, launches("6"), "lt-1/6"},
		{"an AMI by a parameter", aliased, launches("7"), "lt-1/7/ami-1"},
		{"the parameter has changed", renewed, launches("7"), "lt-1/7/ami-2"},
		{"overrides", plain, launches("7", Override{Type: "m7i.large"}), "lt-1/7+"},
		{"other overrides", plain, launches("7", Override{Type: "m7g.large"}), "lt-1/7+"},
		{"an override with a template", plain, launches("7", Override{Template: &Template{ID: "lt-1", Version: "6"}}), "lt-1/7+"},
		{"a launch configuration", plain, Source{Configuration: "nodes-1"}, "launch-configuration/nodes-1"},
		{"a name that a tag cannot have", plain, Source{Configuration: "my nodes (1)"}, ""},
		{"a name that is too long for a tag", plain, Source{Configuration: strings.Repeat("n", 250)}, ""},
	} {
		key := NewTemplates(tt.template).Resolve(Group{Source: tt.source}, "").Key
		if !strings.Contains(key, tt.want) || strings.ContainsAny(key, " ()") || key == "" || len(key) > longestKey {
			t.Errorf("%s: the key is %q", tt.name, key)
		}
		if other, is := seen[key]; is {
			t.Errorf("%s and %s have the same key %s", tt.name, other, key)
		}
		seen[key] = tt.name
	}
	same := NewTemplates(plain).Resolve(Group{Source: launches("7")}, "").Key
	if seen[same] != "the latest version" {
		t.Errorf("version 7 has the key %s, and $Latest has another", same)
	}
}

func TestFailedOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 22, 0, 0, 0, time.UTC)
	f := Failed{"lt-1/7", "rolled-back", at}
	for _, tt := range []struct {
		tag, want string
		ok        bool
	}{
		{"", "", false},
		{f.String(), "lt-1/7 rolled-back at 2026-11-23T22:00:00Z", true},
		{"lt-1/7", "lt-1/7", true},
		{"lt-1/7 by hand", "lt-1/7 by", true},
	} {
		got, ok := FailedOf(Group{Tags: map[string]string{FailedTag: tt.tag}})
		if ok != tt.ok || got.Describe() != tt.want {
			t.Errorf("%q: got %q, %v", tt.tag, got.Describe(), ok)
		}
	}
}
