package refresh_test

import (
	"testing"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestRaisedMax: a group gets its maximum back if nobody else has changed it, and the desired capacity allows that.
func TestRaisedMax(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tag          string
		desired, max int
		raised       bool
		kept         bool
		raise        string // the tag before the maximum is raised to 20
	}{
		"no tag":                       {desired: 10, max: 10, raise: "10-20"},
		"raised":                       {tag: "10-12", desired: 10, max: 12, raised: true, raise: "10-12-20"},
		"killed before it was":         {tag: "10-12", desired: 10, max: 10, raise: "10-20"},
		"raised twice":                 {tag: "10-12-13", desired: 10, max: 13, raised: true, raise: "10-13-20"},
		"killed before the second":     {tag: "10-12-13", desired: 10, max: 12, raised: true, raise: "10-12-20"},
		"the surge is there":           {tag: "10-12", desired: 11, max: 12, raised: true, kept: true, raise: "10-12-20"},
		"another client raised it":     {tag: "10-12", desired: 14, max: 15, raise: "15-20"},
		"another client lowered it":    {tag: "10-12", desired: 8, max: 8, raise: "8-20"},
		"another client lowered a bit": {tag: "10-12", desired: 11, max: 11, raise: "11-20"},
		"a tag that cannot be read":    {tag: "10", desired: 10, max: 12, raise: "12-20"},
		"a tag without numbers":        {tag: "10-many", desired: 10, max: 12, raise: "12-20"},
		"more than the trigger raises": {tag: "3-12", desired: 10, max: 12, raise: "12-20"},
		"raised twice, to more":        {tag: "9-18", desired: 18, max: 18, raised: true, kept: true, raise: "10-18-20"},
		"from none":                    {tag: "0-1", desired: 0, max: 1, raised: true, raise: "10-1-20"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := refresh.Group{Desired: tt.desired, Max: tt.max, Tags: map[string]string{refresh.MaxTag: tt.tag}}
			m, _ := refresh.RaisedMaxOf(g)
			if raised, kept := m.IsRaised(g), m.Kept(g); raised != tt.raised || (kept != "") != tt.kept {
				t.Errorf("raised %t, kept %q", raised, kept)
			}
			if tag := refresh.RaiseMax(g, 20).String(); tag != tt.raise {
				t.Errorf("the tag is %s, want %s", tag, tt.raise)
			}
		})
	}
}
