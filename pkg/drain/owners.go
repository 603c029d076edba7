package drain

import (
	"maps"
	"sync"
	"time"
)

// Owners is what a drain knows of the controllers of a node's pods: which pods it has asked them to move, and which
// they have put on the node since. A drain that repeats another one gets it by Target.Earlier. The zero value knows
// nothing.
type Owners struct {
	mu     sync.Mutex // guards what follows: budgets start evictions while the drain decides
	byName map[string]*controller
	pods   map[string]ownedPod // by UID
	listed bool                // the pods of the first list are known
}

// lateMargin is how many more late pods of a controller are evicted at once than it had: a scheduler that lags binds
// several. Each one after these is evicted at twice the time since the cordon at which it came, so that they are few
// however fast they come back, until longestSchedulerWait after the cordon. firstLateEviction is the shortest such
// time.
const (
	lateMargin        = 4
	firstLateEviction = time.Second
)

// controller is one that has, or had, pods on the node.
type controller struct {
	before int  // its pods of before the cordon
	asked  bool // one of its pods was evicted, or deleted
	late   int  // later ones that are evicted as these are, since a scheduler that lags may have bound them
	told   bool // pods that it has put back were told to stop
}

// ownedPod is a pod that must leave, or had to.
type ownedPod struct {
	owner   string
	class   class
	evictAt time.Time // of an ordinary pod that is late: not before this; zero is at once
}

// class is how a drain treats a pod that must leave.
type class int

const (
	ordinary class = iota // it is evicted
	returned              // it is told to stop when the others have left
	putBack               // it stays
)

// clone returns a copy for a drain that repeats the one that these are of.
func (o *Owners) clone() *Owners {
	c := &Owners{byName: map[string]*controller{}, pods: map[string]ownedPod{}}
	if o == nil {
		return c
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, one := range o.byName {
		same := *one
		c.byName[name] = &same
	}
	maps.Copy(c.pods, o.pods)
	c.listed = o.listed
	return c
}

// add classifies the pods that are new, as docs/draining.md says ("Pods that return"). Pods are late since then, and
// have returned from half of the drain on.
func (o *Owners) add(records []*record, since, half time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, rec := range records {
		if _, known := o.pods[rec.pod.UID]; !known && rec.pod.StayReason == "" {
			o.pods[rec.pod.UID] = o.classify(rec, since, half)
		}
	}
	o.listed = true
}

// retain forgets the pods that are not among these.
func (o *Owners) retain(records []*record) {
	present := make(map[string]struct{}, len(records))
	for _, rec := range records {
		present[rec.pod.UID] = struct{}{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	deleteMissing(o.pods, present)
}

// classify classifies a pod that is new. The pods of the first list that no scheduler can have put there since the
// cordon are from before it: the clocks of the API server and of this process may differ.
func (o *Owners) classify(rec *record, since, half time.Time) ownedPod {
	pod := ownedPod{owner: rec.owner}
	if rec.owner == "" {
		return pod // it is a DaemonSet's, which does not put it back
	}
	one := o.byName[rec.owner]
	if one == nil {
		one = &controller{}
		o.byName[rec.owner] = one
	}
	age := time.Since(since)
	again := since.Add(lateAgain * max(age, firstLateEviction))
	switch {
	case one.told:
		pod.class = putBack
	case !o.listed && !rec.returns, !one.asked && !rec.created.After(since):
		one.before++
	case rec.returns:
		pod.class = returned
	case one.late < max(one.before, 1)+lateMargin:
		one.late++
	case age < longestSchedulerWait && time.Now().Before(half):
		pod.evictAt = again
	default:
		pod.class = returned
	}
	return pod
}

// isNew reports whether the pod is one that a drain must still move, or tell to stop.
func (o *Owners) isNew(rec *record, since time.Time) bool {
	if _, known := o.pods[rec.pod.UID]; known || rec.pod.StayReason != "" {
		return false
	}
	return o.clone().classify(rec, since, time.Time{}).class != putBack
}

// fill sets what the drain does with the pod.
func (o *Owners) fill(pod *Pod, policy Policy) {
	o.mu.Lock()
	owned := o.pods[pod.UID]
	o.mu.Unlock()
	switch owned.class {
	case returned:
		pod.Returned, pod.Brief, pod.Tier = true, true, max(pod.Tier, policy.returnedTier())
		pod.WaitReason, pod.WaitUntil = "", time.Time{}
	case putBack:
		pod.StayReason = PutBack
	case ordinary:
		pod.EvictAt = owned.evictAt
	}
}

// tell records that a pod is told to stop, and returns its owner; "" if that puts no other in its place. If the pod has
// returned, what its controller puts on the node from now on stays.
func (o *Owners) tell(uid string) (owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pod := o.pods[uid]
	if pod.owner != "" {
		one := o.byName[pod.owner]
		one.asked, one.told = true, one.told || pod.class == returned
	}
	return pod.owner
}
