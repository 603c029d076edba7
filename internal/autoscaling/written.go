package autoscaling

import (
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// written are the records that a Writer has written into tags of groups, by which a description is known that is older.
// Without it a trigger would take what it has changed for something that others have changed back.
type written struct {
	mu sync.Mutex
	of map[string]map[string]record // By group and key.
}

// record is the value of a tag, empty if it was removed, and when that was.
type record struct {
	value string
	at    time.Time
}

// add keeps what was written. If it is not known whether it was, nothing is known of the tag any more.
func (w *written) add(group, key, value string, err error) {
	if !refresh.IsRecord(key) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[group] == nil {
		w.of[group] = map[string]record{}
	}
	if w.of[group][key] = (record{value, time.Now()}); err != nil {
		delete(w.of[group], key)
	}
}

// isAfter reports whether a record was written a short time ago that the description of the group does not show. The
// lease is renewed all the time, and another trigger may take it: any is enough.
func (w *written) isAfter(g refresh.Group) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, r := range w.of[g.Name] {
		isShown := g.Tags[key] == r.value
		if key == refresh.LeaseTag {
			isShown = r.value == "" || g.Tags[key] != ""
		}
		if !isShown && time.Since(r.at) < refresh.ShownWithin {
			return true
		}
	}
	return false
}
