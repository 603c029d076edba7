package refresh

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// WaveTag is a tag that users put on groups: the number of the wave in which the group is replaced.
const WaveTag = "node-drainer.io/wave"

// LastWave is the wave of groups that have no tag.
const LastWave = math.MaxInt

// WaveOf returns the wave of the group. With an error it is the last one.
func WaveOf(g Group) (wave int, err error) {
	text, tagged := g.Tags[WaveTag]
	if !tagged {
		return LastWave, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return LastWave, fmt.Errorf("the tag %s is %q, and must be a whole number, such as 1", WaveTag, text)
	}
	return int(n), nil
}

// Waves returns the waves of the groups. All are in the same if they were selected by these names: the order of the
// names is that of the groups then.
func Waves(groups []Group, names []string) []int {
	waves := make([]int, len(groups))
	for n, g := range groups {
		if len(names) == 0 {
			waves[n], _ = WaveOf(g)
		}
	}
	return waves
}

// SortGroups puts the groups into the order in which they are replaced: as these names have it, else by wave, and by
// name within a wave.
func SortGroups(groups []Group, names []string) {
	slices.SortFunc(groups, func(a, b Group) int {
		waves := Waves([]Group{a, b}, names)
		return cmp.Or(cmp.Compare(a.indexIn(names), b.indexIn(names)),
			cmp.Compare(waves[0], waves[1]), cmp.Compare(a.Name, b.Name))
	})
}

// indexIn is where the names have the group, or its managed node group; -1 if they do not.
func (g Group) indexIn(names []string) int {
	return slices.IndexFunc(names, func(name string) bool {
		return name == g.Name || g.Nodegroup != nil && name == g.Nodegroup.Name
	})
}
