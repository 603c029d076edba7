package refresh

import (
	"slices"
	"strings"
	"testing"
)

// TestWaveOf: a tag is a whole number; without one the group is in the last wave.
func TestWaveOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"0": 0, "1": 1, "10": 10, "": LastWave, "-1": LastWave, "first": LastWave, "1.5": LastWave} {
		wave, err := WaveOf(Group{Tags: map[string]string{WaveTag: text}})
		if wave != want || (err != nil) != (want == LastWave) {
			t.Errorf("%q: wave %d, %v", text, wave, err)
		}
	}
	if wave, err := WaveOf(Group{}); wave != LastWave || err != nil {
		t.Errorf("without a tag: wave %d, %v", wave, err)
	}
}

// TestSortGroups: groups are in the order of their names' selection, else of their waves.
func TestSortGroups(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		waves map[string]string
		names []string
		want  string
		same  bool // All are in one wave.
	}{
		"by name":                 {nil, nil, "a b c", true},
		"by wave":                 {map[string]string{"c": "1", "a": "10", "b": "2"}, nil, "c b a", false},
		"equal waves, by name":    {map[string]string{"b": "1", "a": "1"}, nil, "a b c", false},
		"without a tag at last":   {map[string]string{"c": "3"}, nil, "c a b", false},
		"as they are named":       {map[string]string{"c": "1"}, []string{"b", "c", "a"}, "b c a", true},
		"a tag that is no number": {map[string]string{"a": "one", "b": "2"}, nil, "b a c", false},
	} {
		var groups []Group
		for _, name := range []string{"c", "a", "b"} {
			g := Group{Name: name}
			if wave, tagged := tt.waves[name]; tagged {
				g.Tags = map[string]string{WaveTag: wave}
			}
			groups = append(groups, g)
		}
		SortGroups(groups, tt.names)
		var got []string
		for _, g := range groups {
			got = append(got, g.Name)
		}
		waves := Waves(groups, tt.names)
		if strings.Join(got, " ") != tt.want || !slices.IsSorted(waves) || (waves[0] == waves[2]) != tt.same {
			t.Errorf("%s: %s in waves %v, want %s", name, got, waves, tt.want)
		}
	}
}
