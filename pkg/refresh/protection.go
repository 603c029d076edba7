package refresh

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// ProtectedTag is the first of the tags of a group that list the instances that the trigger protects from scale in.
	ProtectedTag = "node-drainer.io/protected"
	// idsPerTag is how many ids, without their beginning, one tag holds: its value has at most 256 characters.
	idsPerTag = 14
	// idPrefix begins the id of every instance.
	idPrefix = "i-"
)

// ProtectedTags are the keys of the tags that list protected instances, in their order.
func ProtectedTags() []string {
	keys := []string{ProtectedTag}
	for n := 2; n <= 4; n++ {
		keys = append(keys, fmt.Sprintf("%s-%d", ProtectedTag, n))
	}
	return keys
}

// ProtectedBy are the instances that the trigger protects from scale in, by the group's tags.
func ProtectedBy(g Group) []string {
	var ids []string
	for _, key := range ProtectedTags() {
		for id := range strings.FieldsSeq(g.Tags[key]) {
			ids = append(ids, idPrefix+id)
		}
	}
	return ids
}

// ListProtected returns the tags that list the instances, and those for which there is no space.
func ListProtected(ids []string) (tags map[string]string, rest []string) {
	tags = map[string]string{}
	for n, some := range slices.Collect(slices.Chunk(ids, idsPerTag)) {
		if n >= len(ProtectedTags()) {
			return tags, ids[n*idsPerTag:]
		}
		var short []string
		for _, id := range some {
			short = append(short, strings.TrimPrefix(id, idPrefix))
		}
		tags[ProtectedTags()[n]] = strings.Join(short, " ")
	}
	return tags, nil
}
