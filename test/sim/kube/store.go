package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// store has the objects, and all changes of them.
type store struct {
	mu      sync.Mutex
	version int64 // the resource version of the last change
	serial  int   // of UIDs
	objects map[string]map[types.NamespacedName]Object
	history []Change
	oldest  int64         // the resource version from which a watch can begin
	changed chan struct{} // is closed at the next change
	broken  chan struct{} // is closed when all watches break
}

func newStore() store {
	return store{
		objects: map[string]map[types.NamespacedName]Object{}, changed: make(chan struct{}), broken: make(chan struct{}),
	}
}

// Change is a change of one object.
type Change struct {
	Resource string
	At       time.Time
	Before   Object // nil if it was created
	After    Object // nil if it was removed
	version  int64
}

// Changes returns the changes after the first n, and a channel that is closed at the next one.
func (s *store) Changes(n int) ([]Change, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history[n:]), s.changed
}

func sorted(objects map[types.NamespacedName]Object) []Object {
	return slices.SortedFunc(maps.Values(objects), func(a, b Object) int {
		return compareNames(nameOf(a), nameOf(b))
	})
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// create stores a new object. It needs mu.
func (s *store) create(r resource, o Object) (Object, error) {
	if _, found := s.objects[r.name][nameOf(o)]; found {
		return nil, apierrors.NewAlreadyExists(r.group(), o.GetName())
	}
	o = o.DeepCopyObject().(Object) //nolint:forcetypeassert // A copy has the same type.
	if o.GetUID() == "" {
		s.serial++
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.serial)))
	}
	if t := o.GetCreationTimestamp(); t.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	}
	o.SetGeneration(1)
	s.put(r, nil, o)
	return o, nil
}

// put replaces before by after, one of which may be nil, and tells the watches. It needs mu.
func (s *store) put(r resource, before, after Object) {
	s.version++
	c := Change{Resource: r.name, At: time.Now(), Before: before, After: after, version: s.version}
	if s.objects[r.name] == nil {
		s.objects[r.name] = map[types.NamespacedName]Object{}
	}
	if after == nil {
		delete(s.objects[r.name], nameOf(before))
	} else {
		after.SetResourceVersion(strconv.FormatInt(s.version, 10))
		s.objects[r.name][nameOf(after)] = after
	}
	s.history = append(s.history, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// event returns what a watch with a selector shows of a change, or false if that is nothing. An object that begins to
// match is added, and one that ceases to match is deleted.
func (c Change) event(matches func(Object) bool) (watch.Event, bool) {
	was, is := c.Before != nil && matches(c.Before), c.After != nil && matches(c.After)
	switch {
	case was && is:
		return watch.Event{Type: watch.Modified, Object: c.After}, true
	case is:
		return watch.Event{Type: watch.Added, Object: c.After}, true
	case was: // With the version of the deletion, from which a client watches again.
		last := c.Before.DeepCopyObject().(Object) //nolint:forcetypeassert // A copy has the same type.
		last.SetResourceVersion(strconv.FormatInt(c.version, 10))
		return watch.Event{Type: watch.Deleted, Object: last}, true
	}
	return watch.Event{}, false
}

func (s *store) brokenWatches() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// BreakWatches ends all watches. Their clients can watch on from where they were.
func (s *store) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broken)
	s.broken = make(chan struct{})
}

// Expire forgets all changes: a watch from an earlier resource version must list again.
func (s *store) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = s.version
}

// count returns the number of changes.
func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.history)
}

// next returns a number that it has not returned before.
func (s *store) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return s.serial
}

// changedAt returns when an object was stored.
func (s *store) changedAt(o Object) time.Time {
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history[version-1].At // Each change has the next version.
}

// nodesAt returns the Nodes as they were at a time.
func (s *store) nodesAt(t time.Time) (nodes []*corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byName := map[types.NamespacedName]Object{}
	for _, c := range s.history {
		switch {
		case c.At.After(t):
		case c.Resource != "nodes":
		case c.After == nil:
			delete(byName, nameOf(c.Before))
		default:
			byName[nameOf(c.After)] = c.After
		}
	}
	for _, o := range sorted(byName) {
		nodes = append(nodes, o.(*corev1.Node)) //nolint:forcetypeassert // The resource has one type.
	}
	return nodes
}
