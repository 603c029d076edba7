package sim

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// owner returns the controller of a pod that an agent has removed, which will perhaps put another one in its place.
func (r removal) owner() (owner types.UID, counts bool) {
	controller := metav1.GetControllerOfNoCopy(r.pod)
	if controller == nil || r.pod.Spec.NodeName == "" {
		return "", false
	}
	isRemoved := r.OK() && !r.DryRun && r.pod.DeletionTimestamp == nil && !isFinished(r.pod) && !r.isOfEarlierPod()
	return controller.UID, isRemoved
}

// hasStorm reports whether agents remove pods without end: the world need not go on.
func (f *facts) hasStorm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storm
}

// replace records that another instance has registered a Node of the name of one, which had not been cordoned.
func (f *facts) replace(id string, another bool) {
	f.mu.Lock()
	if another {
		f.replaced[id] = time.Now()
	} else {
		f.rejoined[id] = append(f.rejoined[id], time.Now())
	}
	delete(f.cordons, id)
	f.mu.Unlock()
	f.cancel(id, "annotated")
}

// hang records that the container runtime of an instance hangs.
func (f *facts) hang(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hung[id] = append(f.hung[id], span{from: time.Now()})
}

// booted records that the machine of an instance has booted: its container runtime works.
func (f *facts) booted(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.hung[id] {
		if one := &f.hung[id][i]; one.until.IsZero() {
			one.until = time.Now()
		}
	}
}

// isHung reports whether the container runtime of an instance hung at a time.
func (f *facts) isHung(id string, at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.hung[id], func(s span) bool { return !s.from.After(at) && isAfter(s.until, at) })
}

// hasRejoined reports whether the Node of an instance registered again between two times.
func (f *facts) hasRejoined(id string, after, before time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.rejoined[id], func(at time.Time) bool { return at.After(after) && at.Before(before) })
}

// isReplaced reports whether the Node of the name of an instance was that of another one at a time.
func (f *facts) isReplaced(id string, at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	replaced, ok := f.replaced[id]
	return ok && !replaced.After(at)
}
