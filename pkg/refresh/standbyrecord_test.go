package refresh

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStandbyTags(t *testing.T) {
	t.Parallel()
	full := "i-1 i-2=kept i-3 i-4 i-5 i-6 i-7 i-8 i-9 i-10"
	for name, tt := range map[string]struct {
		tags   string // of the group, separated by commas: the first is number 1
		record StandbyRecord
		set    map[string]string
		remove []string
	}{
		"the first ones":                 {"", StandbyRecord{"i-1": false, "i-2": true}, map[string]string{StandbyTag + "1": "i-1 i-2=kept"}, nil},
		"none":                           {"", nil, map[string]string{}, nil},
		"as it is":                       {"i-2=kept i-1", StandbyRecord{"i-1": false, "i-2": true}, map[string]string{}, nil},
		"one is kept":                    {"i-2 i-1", StandbyRecord{"i-1": false, "i-2": true}, map[string]string{StandbyTag + "1": "i-2=kept i-1"}, nil},
		"one is gone":                    {"i-2 i-1", StandbyRecord{"i-1": false}, map[string]string{StandbyTag + "1": "i-1"}, nil},
		"all are gone":                   {"i-2 i-1", nil, map[string]string{}, []string{StandbyTag + "1"}},
		"others stay in their tags":      {full + ",i-11", StandbyRecord{"i-11": false}, map[string]string{}, []string{StandbyTag + "1"}},
		"a new one in place of another":  {full + ",i-11", StandbyRecord{"i-11": false, "i-12": false}, map[string]string{StandbyTag + "1": "i-12"}, nil},
		"a full tag":                     {full, StandbyRecord{"i-1": false, "i-2": true, "i-3": false, "i-4": false, "i-5": false, "i-6": false, "i-7": false, "i-8": false, "i-9": false, "i-10": false, "i-12": true}, map[string]string{StandbyTag + "2": "i-12=kept"}, nil},
		"tags that others have written":  {"x y", StandbyRecord{"i-1": false}, map[string]string{StandbyTag + "1": "i-1"}, nil},
		"one that two tags list is once": {"i-1,i-1", StandbyRecord{"i-1": false}, map[string]string{}, []string{StandbyTag + "2"}},
	} {
		g := Group{Tags: map[string]string{"team": "x", StandbyTag + "x": "i-1"}}
		for n, value := range slices.DeleteFunc(strings.Split(tt.tags, ","), func(v string) bool { return v == "" }) {
			g.Tags[fmt.Sprint(StandbyTag, n+1)] = value
		}
		set, remove := StandbyTags(g, tt.record)
		if diff := cmp.Diff(tt.set, set) + cmp.Diff(tt.remove, remove); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		maps.Copy(g.Tags, set)
		for _, key := range remove {
			delete(g.Tags, key)
		}
		for id := range tt.record {
			g.Instances = append(g.Instances, Instance{ID: id, State: "Standby"})
		}
		if got := StandbyOf(g); !maps.Equal(got, tt.record) || !tt.record.Equal(g) {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}

// TestStandbyTagLength: the longest value of a tag is one that AWS takes.
func TestStandbyTagLength(t *testing.T) {
	t.Parallel()
	record := StandbyRecord{}
	for n := range MostStandby {
		record[fmt.Sprintf("i-%017x", n)] = true
	}
	set, _ := StandbyTags(Group{}, record)
	for key, value := range set {
		if len(value) > 256 {
			t.Errorf("%s has %d characters", key, len(value))
		}
	}
	if len(set) != MaxStandbyTags {
		t.Errorf("%d tags", len(set))
	}
}

// TestStandbyOfOthers: instances that are terminating or gone are not part of the record.
func TestStandbyOfOthers(t *testing.T) {
	t.Parallel()
	g := group(1, instance(state("Standby")), instance(state("Terminating:Wait")), instance(), instance(state("Standby")))
	g.Tags = map[string]string{StandbyTag + "1": "i-1=kept i-2 i-3", StandbyTag + "2": "i-9 i-1"}
	if got := StandbyOf(g); !maps.Equal(got, StandbyRecord{"i-1": true, "i-3": false}) {
		t.Errorf("the record is %v", got)
	}
}
