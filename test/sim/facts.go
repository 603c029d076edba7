package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// facts are what the judge knows besides the records of the models: why instances end, and what agents requested.
type facts struct {
	world *world

	mu        sync.Mutex
	truths    map[string][]truth // by instance
	removals  []removal
	evictions []removal // of EKS
	unguarded []kube.Record
	canceled  []kube.Record          // evictions that the client canceled while the API server decided about them
	losses    map[string]bool        // installs of which messages were lost
	returns   map[string][]time.Time // by instance: when its machine booted again
	cordons   map[string]time.Time   // by instance: when an administrator cordoned its node
	uncordons map[string][]time.Time // by instance: when an administrator uncordoned its node
	replaced  map[string]time.Time   // by instance: when another one registered a Node of its name
	rejoined  map[string][]time.Time // by instance: when its Node registered again
	hung      map[string][]span      // by instance: when its container runtime hung; until its machine booted again
	removed   map[string]int         // by node and owner: the pods that agents removed
	storm     bool                   // agents remove pods without end
	// goroutines and live bytes are the most there were, of this world and of those that run at the same time
	goroutines int
	live       uint64
}

// mostRemovals is far more pods of one owner than agents remove from one node, however often it is drained.
const mostRemovals = 300

func newFacts(w *world) *facts {
	return &facts{
		world: w, truths: map[string][]truth{}, losses: map[string]bool{}, returns: map[string][]time.Time{},
		cordons: map[string]time.Time{}, uncordons: map[string][]time.Time{},
		replaced: map[string]time.Time{}, rejoined: map[string][]time.Time{},
		removed: map[string]int{}, hung: map[string][]span{},
	}
}

// truth is a reason for an instance to end, or for its node to be drained.
type truth struct {
	// terminate, interrupt, recommend, maintain, bypass, killed, stopped, ended, annotated, or asked to drain, cordon or
	// replace
	kind  string
	from  time.Time
	ends  time.Time // when EC2 does what it announced
	until time.Time // when it was canceled
}

func (f *facts) announce(id string, t truth) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.truths[id] = append(f.truths[id], t)
}

// cancel ends the reasons of a kind for an instance to end.
func (f *facts) cancel(id, kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.truths[id] {
		if t := &f.truths[id][i]; t.kind == kind && t.until.IsZero() {
			t.until = time.Now()
		}
	}
}

// returned records that the machine of an instance boots again: it is no longer stopped, and will be in service.
func (f *facts) returned(id string) {
	f.mu.Lock()
	f.returns[id] = append(f.returns[id], time.Now())
	f.mu.Unlock()
	f.cancel(id, "stopped")
}

// hasReturned reports whether the machine of an instance has booted again between two times.
func (f *facts) hasReturned(id string, after, before time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.returns[id], func(at time.Time) bool { return at.After(after) && at.Before(before) })
}

func (f *facts) lost(install string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.losses[install] = true
}

func (f *facts) cordoned(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cordons[id] = time.Now()
}

// uncordoned records that an administrator has uncordoned a node. What an administrator has cordoned before does not
// count any more.
func (f *facts) uncordoned(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uncordons[id] = append(f.uncordons[id], time.Now())
	delete(f.cordons, id)
}

// truthsAt returns the reasons for an instance to end at a time, and those that were canceled less than the grace
// before.
func (f *facts) truthsAt(id string, at time.Time, grace time.Duration) (out []truth) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.truths[id] {
		if !t.from.After(at) && (t.until.IsZero() || t.until.Add(grace).After(at)) {
			out = append(out, t)
		}
	}
	return out
}

// hasFailed reports whether the machine of an instance had failed at a time.
func (f *facts) hasFailed(id string, at time.Time) bool {
	return slices.ContainsFunc(f.truthsAt(id, at, 0), func(t truth) bool { return t.kind == "killed" })
}

// removal is an eviction or a deletion of a pod that an agent requested.
type removal struct {
	kube.Record
	cluster *cluster
	pod     *corev1.Pod // before the request
}

// isDeletion reports whether the request deleted a pod that had not ended and was not deleted before.
func (r removal) isDeletion() bool {
	return !r.IsEviction() && r.OK() && r.pod.DeletionTimestamp == nil && !isFinished(r.pod)
}

// isOfEarlierPod reports whether the request names the UID of an earlier pod of the same name: the API server refuses
// it.
func (r removal) isOfEarlierPod() bool { return r.UID != "" && r.UID != string(r.pod.UID) }

// isAllowed reports whether the budgets of a pod allow its eviction. The API server evicts no pod that has two.
func (r removal) isAllowed() bool {
	switch len(r.Budgets) {
	case 0:
		return true
	case 1:
		status := r.Budgets[0].Status
		return status.DisruptionsAllowed > 0 && status.ObservedGeneration >= r.Budgets[0].Generation
	}
	return false
}

// record keeps a request if it removes a pod.
func (f *facts) record(c *cluster, r kube.Record) {
	if r.Client != eksClient && isUnguarded(r) {
		f.mu.Lock()
		f.unguarded = append(f.unguarded, r)
		f.mu.Unlock()
	}
	if r.Canceled && c.stops(r.Client) {
		f.mu.Lock()
		f.canceled = append(f.canceled, r)
		f.mu.Unlock()
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.IsEviction() && !r.IsDeletion() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one := removal{Record: r, cluster: c, pod: pod}
	if r.Client == eksClient {
		f.evictions = append(f.evictions, one)
		return
	}
	f.removals = append(f.removals, one)
	if owner, counts := one.owner(); counts {
		key := fmt.Sprint(c.Name, pod.Spec.NodeName, owner)
		f.removed[key]++
		f.storm = f.storm || f.removed[key] > mostRemovals
	}
}

// isUnguarded reports whether a request changes a Node or removes a pod whatever has the name by then.
func isUnguarded(r kube.Record) bool {
	switch {
	case !r.OK(): // It may have been refused before anybody read it.
	case r.IsEviction(), r.IsDeletion():
		return r.UID == ""
	case r.Verb == "patch" && strings.HasPrefix(r.Resource, "nodes"):
		return !strings.Contains(r.Patch, `"uid"`) && !strings.Contains(r.Patch, `"resourceVersion"`)
	}
	return false
}

// changes are all changes of the pods and Nodes of a cluster.
type changes struct {
	mu  sync.Mutex
	all []kube.Change
}

func (c *changes) add(one kube.Change) {
	if slices.Contains([]string{"pods", "nodes", "poddisruptionbudgets", "events"}, one.Resource) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, one)
	}
}

// of returns the changes of a resource.
func (c *changes) of(resource string) (out []kube.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if one.Resource == resource {
			out = append(out, one)
		}
	}
	return out
}

// podLife is the life of a pod on a node.
type podLife struct {
	*corev1.Pod           // as it was last
	bound       time.Time // to its node
	deleted     time.Time // when its deletion began; zero if never
	ended       time.Time // when it was finished or removed; zero if never
}

// isOn reports whether the pod was on its node at a time.
func (p *podLife) isOn(at time.Time) bool {
	return !p.bound.After(at) && (p.ended.IsZero() || p.ended.After(at))
}

// lives returns the pods of a cluster that were bound to a node, by UID.
func lives(all *changes) map[types.UID]*podLife {
	out := map[types.UID]*podLife{}
	for _, c := range all.of("pods") {
		if c.New == nil {
			if p := out[c.Old.GetUID()]; p != nil {
				setOnce(&p.ended, c.At)
			}
			continue
		}
		pod, ok := c.New.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" {
			continue
		}
		if out[pod.UID] == nil {
			out[pod.UID] = &podLife{bound: c.At}
		}
		out[pod.UID].change(pod, c.At)
	}
	return out
}

// change records how the pod has changed at a time.
func (p *podLife) change(pod *corev1.Pod, at time.Time) {
	p.Pod = pod
	if pod.DeletionTimestamp != nil {
		setOnce(&p.deleted, at)
	}
	if isFinished(pod) {
		setOnce(&p.ended, at)
	}
}

// setOnce sets a time that is not set yet.
func setOnce(t *time.Time, at time.Time) {
	if t.IsZero() {
		*t = at
	}
}

func isFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// marking is a period in which a Node had a mark.
type marking struct {
	node    string
	mark    node.Mark // the first one
	changed []remark  // in order of time
	from    time.Time
	until   time.Time // zero if it never ended
	gone    bool      // it ended with the Node
}

// remark is a mark that took the place of another.
type remark struct {
	at   time.Time
	mark node.Mark
}

// markings returns the periods in which Nodes of a cluster had a mark.
func markings(all *changes) (out []marking) {
	open := map[string]int{}
	for _, c := range all.of("nodes") {
		name := ""
		var mark node.Mark
		if c.New != nil {
			name = c.New.GetName()
			_ = json.Unmarshal([]byte(c.New.GetAnnotations()[node.Annotation]), &mark)
		} else {
			name = c.Old.GetName()
		}
		i, isOpen := open[name]
		switch {
		case !mark.Since.IsZero() && !isOpen:
			open[name] = len(out)
			out = append(out, marking{node: name, mark: mark, from: c.At})
		case !mark.Since.IsZero():
			out[i].changed = append(out[i].changed, remark{c.At, mark})
		case isOpen:
			out[i].until, out[i].gone = c.At, c.New == nil
			delete(open, name)
		}
	}
	return out
}

// markAt returns the marking of a node at a time, with the mark of that time: an event that comes later may have
// another deadline.
func markAt(all []marking, name string, at time.Time) (marking, bool) {
	i := slices.IndexFunc(all, func(m marking) bool {
		return m.node == name && !m.from.After(at) && (m.until.IsZero() || m.until.After(at))
	})
	if i < 0 {
		return marking{}, false
	}
	found := all[i]
	for _, c := range found.changed {
		if !c.at.After(at) {
			found.mark = c.mark
		}
	}
	return found, true
}

// outages returns the periods in which an install could not work: none of its processes ran, or what it needs failed.
// Faults are left out that are harmless.
func (w *world) outages(install string, c *cluster, harmless ...func(Fault) bool) (out []span) {
	for _, f := range w.spec.Faults {
		isHarmless := slices.ContainsFunc(harmless, func(is func(Fault) bool) bool { return is(f) })
		if isAWS := strings.HasPrefix(f.Do, "aws-"); !isHarmless && (isAWS || f.On == install || f.On == c.Name) {
			out = append(out, w.outage(f)...)
		}
	}
	for _, a := range c.agents {
		if a.Name == install {
			a.mu.Lock()
			out = append(out, a.down...)
			out = append(out, w.leaderless(a, c)...)
			a.mu.Unlock()
		}
	}
	return out
}

// leaderless returns when no replica leads after a process has crashed while the API server was away: none could read
// meanwhile that its Lease was not renewed. The lock of the agent is held.
func (w *world) leaderless(a *agent, c *cluster) (out []span) {
	for _, f := range w.spec.Faults {
		from := w.began.Add(f.From)
		until := from.Add(f.For)
		isAway := slices.Contains([]string{"kube-down", "kube-hang", "kube-fail"}, f.Do)
		for _, d := range a.down {
			if isAway && f.On == c.Name && a.Replicas > 1 && from.Before(d.until) && until.After(d.until) {
				out = append(out, span{until, until.Add(leaseLasts)})
			}
		}
	}
	return out
}

// outage returns how long a fault keeps an install from its work; nothing if it does not.
func (w *world) outage(f Fault) []span {
	from := w.began.Add(f.From)
	s := span{from, from.Add(f.For)}
	switch f.Do {
	case "crash", "stop", "queue-duplicate", "queue-reorder", "aws-drop", "aws-fail":
		return nil
	case "queue-delay":
		s.until = s.until.Add(30 * time.Second)
	case "kube-lag", "kube-slow":
		s.until = s.until.Add(20 * time.Second)
	}
	return []span{s}
}

// overlap returns how long the spans last between two times; those that overlap each other count twice.
func overlap(spans []span, from, until time.Time) (d time.Duration) {
	for _, s := range spans {
		begin, end := s.from, s.until
		if begin.Before(from) {
			begin = from
		}
		if end.After(until) {
			end = until
		}
		d += max(0, end.Sub(begin))
	}
	return d
}
