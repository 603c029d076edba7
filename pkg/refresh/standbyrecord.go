package refresh

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// StandbyTag begins the keys of the tags of a group that list its StandbyRecord. A number follows.
const StandbyTag = "node-drainer.io/standby-"

const (
	// MaxStandbyTags is how many tags list instances. A group has at most 50 tags.
	MaxStandbyTags = 20
	// MostStandby is how many instances these can list.
	MostStandby = MaxStandbyTags * standbyPerTag

	// standbyPerTag is how many instances a tag lists: its value has at most 256 characters (Tag in the API reference).
	standbyPerTag = 10
)

// StandbyRecord is which instances of a group the trigger has moved into Standby, or is about to move. It is written
// down before, so that a trigger that was killed continues with them, and leaves alone what a user has moved there.
// The value reports whether the instance is replaced already, and stays in Standby.
type StandbyRecord map[string]bool

// keptSuffix follows the id of an instance that is replaced and stays in Standby.
const keptSuffix = "=kept"

// StandbyOf reads the record from the group's tags. Instances that are gone or terminating are not part of it.
func StandbyOf(g Group) StandbyRecord {
	record := StandbyRecord{}
	for _, entries := range standbyEntries(g) {
		for _, entry := range entries {
			id, kept := strings.CutSuffix(entry, keptSuffix)
			stays := func(i Instance) bool { return i.ID == id && !i.Terminating() }
			if slices.ContainsFunc(g.Instances, stays) {
				record[id] = record[id] || kept
			}
		}
	}
	return record
}

// standbyEntries are the entries of each tag of the record, by its number.
func standbyEntries(g Group) map[int][]string {
	all := map[int][]string{}
	for key, value := range g.Tags {
		number, is := strings.CutPrefix(key, StandbyTag)
		if n, err := strconv.Atoi(number); is && err == nil {
			all[n] = strings.Fields(value)
		}
	}
	return all
}

// StandbyTags returns the tags to set, and to remove, so that the group has the record. An instance stays in its tag:
// if not all of the tags can be changed, none of the instances is lost.
func StandbyTags(g Group, record StandbyRecord) (set map[string]string, remove []string) {
	left, entries := maps.Clone(record), standbyEntries(g)
	next := map[int][]string{}
	for _, n := range slices.Sorted(maps.Keys(entries)) {
		next[n] = nil
		for _, entry := range entries[n] {
			id := strings.TrimSuffix(entry, keptSuffix)
			if _, listed := left[id]; listed {
				next[n] = append(next[n], record.entry(id))
				delete(left, id)
			}
		}
	}
	n := 1
	for _, id := range slices.Sorted(maps.Keys(left)) {
		for len(next[n]) >= standbyPerTag {
			n++
		}
		next[n] = append(next[n], record.entry(id))
	}
	set = map[string]string{}
	for _, n := range slices.Sorted(maps.Keys(next)) {
		key := StandbyTag + strconv.Itoa(n)
		switch value := strings.Join(next[n], " "); {
		case value == "":
			remove = append(remove, key)
		case value != g.Tags[key]:
			set[key] = value
		}
	}
	return set, remove
}

func (r StandbyRecord) entry(id string) string {
	if r[id] {
		return id + keptSuffix
	}
	return id
}

// describe lists the instances, and which of them are replaced. Without any it is empty.
func (r StandbyRecord) describe() string {
	var moved, kept []string
	for _, id := range slices.Sorted(maps.Keys(r)) {
		if r[id] {
			kept = append(kept, id)
		} else {
			moved = append(moved, id)
		}
	}
	var parts []string
	if len(moved) > 0 {
		parts = append(parts, "in Standby: "+strings.Join(moved, ", "))
	}
	if len(kept) > 0 {
		parts = append(parts, "replaced, and kept in Standby: "+strings.Join(kept, ", "))
	}
	return strings.Join(parts, "; ")
}

// Equal reports whether the group has tags that list just this record.
func (r StandbyRecord) Equal(g Group) bool {
	set, remove := StandbyTags(g, r)
	return len(set)+len(remove) == 0
}
