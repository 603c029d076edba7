package drain

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Forecast is how the drain of a node would go if nothing changed before. It counts neither volumes that are detached
// slowly, nor calls that ask pods, nor other nodes that are drained under the same budgets, and expects pods of budgets
// that are not healthy to become so. If few decisions are not enough to tell, the drain takes until its end.
type Forecast struct {
	Pods     int    // that must leave
	Expected Course // if each pod stops as soon as its preStop hooks have slept
	Longest  Course // if each pod needs its whole grace period
}

// Course is one way in which a drain may go.
type Course struct {
	Took   time.Duration
	Causes []Cause  // what it would wait for, the longest first
	Forced []string // NAMESPACE/NAME of pods removed in spite of what holds them
	Left   []string // and of pods that would be left at the end
}

// Cause is what a drain would wait for, and how long.
type Cause struct {
	Reason WaitReason
	Budget string // NAMESPACE/NAME, of what a PodDisruptionBudget blocks
	Pod    string // NAMESPACE/NAME of the first pod that waits for this
	Took   time.Duration
}

// requestTook is how long the API server takes for an eviction or a deletion.
const requestTook = 50 * time.Millisecond

// mostDecisions bounds one forecast. A drain decides a few times for each pod.
func mostDecisions(pods int) int { return 100 + 6*pods }

// simulated is a drain whose course is to be known, from what it decides from first.
type simulated struct {
	target Target
	policy Policy
	state  State
	now    time.Time // as of which the state is
	pods   []*record // of the node
	starts starts
}

// simulation is such a drain in a time of its own.
type simulation struct {
	simulated
	byUID  map[string]*record
	stops  func(*record) time.Duration
	events []occurrence
	course Course
	causes map[Cause]*Cause
}

// occurrence is what happens at a time: a pod is gone, or a pod is Ready in place of one.
type occurrence struct {
	at   time.Time
	then func()
}

// run returns the course of the drain if pods stop within so long.
func (s simulated) run(stops func(*record) time.Duration) Course {
	m := &simulation{
		simulated: s, byUID: map[string]*record{}, stops: stops, causes: map[Cause]*Cause{},
	}
	m.state.Pods, m.state.Budgets = slices.Clone(s.state.Pods), maps.Clone(s.state.Budgets)
	m.state.TierSince = maps.Clone(s.state.TierSince)
	m.forgetMoment()
	for _, rec := range s.pods {
		m.byUID[rec.pod.UID] = rec
	}
	for _, p := range m.state.Pods {
		if !p.GraceEndsAt.IsZero() {
			m.after(laterOf(p.GraceEndsAt, m.now).Sub(m.now), func() { m.gone(p.UID) })
		}
	}
	m.replaceMissing()
	for range mostDecisions(len(s.pods)) {
		if !m.step() {
			return m.ended(s.now)
		}
	}
	m.now = laterOf(m.now, m.end())
	return m.ended(s.now)
}

// replaceMissing has the budgets count the pods that are not healthy now as soon as a new pod would be Ready: those of
// another node may just have been replaced.
func (m *simulation) replaceMissing() {
	starting := map[string]bool{}
	for _, p := range m.state.Pods {
		for _, name := range p.Budgets {
			b := m.state.Budgets[name]
			if missing := b.Expected - b.Healthy; missing > 0 && !starting[name] {
				m.after(m.starts.of(m.byUID[p.UID]), func() { m.count([]string{name}, missing) })
			}
			starting[name] = true
		}
	}
}

// forgetMoment removes what is true of a drain for a moment only, and nobody can foresee.
func (m *simulation) forgetMoment() {
	m.state.Attached = nil
	for i := range m.state.Pods {
		m.state.Pods[i].HandOver, m.state.Pods[i].Try = HandOver{}, Try{}
	}
	for name, b := range m.state.Budgets {
		b.ProbeAt, b.EvictionInFlight, b.StaleUntil, b.ReservedForCall = time.Time{}, false, time.Time{}, 0
		m.state.Budgets[name] = b
	}
}

// end is when the drain is over, whatever is left.
func (m *simulation) end() time.Time {
	t := schedule{deadline: m.target.Deadline, started: m.state.Started, grantedUntil: m.state.GrantedUntil}
	return t.end()
}

// ended returns how the drain went, which began at the time.
func (m *simulation) ended(began time.Time) Course {
	c := m.course
	c.Took = m.now.Sub(began)
	slices.Sort(c.Forced)
	c.Forced = slices.Compact(c.Forced) // its grace period may be shortened after that
	slices.Sort(c.Left)
	for _, cause := range m.causes {
		c.Causes = append(c.Causes, *cause)
	}
	slices.SortFunc(c.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Pod, b.Pod))
	})
	return c
}

// step decides once, does what was decided, and lets the time pass until there is more to decide. It reports whether
// the drain goes on.
func (m *simulation) step() (goesOn bool) {
	step := Decide(m.state, m.now, m.target.Deadline, m.policy)
	if step.Empty && m.state.EmptyAt.IsZero() {
		m.state.EmptyAt = m.now
	}
	if _, started := m.state.TierSince[step.Tier]; !started {
		m.state.TierSince[step.Tier] = m.now
		return true // what this tier waits for counts from now
	}
	if step.Done {
		for _, p := range step.Left {
			m.course.Left = append(m.course.Left, p.Namespace+"/"+p.Name)
		}
		return false
	}
	for _, r := range slices.Concat(step.Evict, step.Delete) {
		m.remove(r)
	}
	next := m.next(step)
	m.blame(step, next.Sub(m.now))
	m.now = next
	m.happen()
	return true
}

// next is when there is more to decide.
func (m *simulation) next(step Step) time.Time {
	if len(step.Evict)+len(step.Delete) > 0 {
		return m.now.Add(requestTook)
	}
	next := laterOf(m.end(), m.now.Add(requestTook))
	if step.Again.After(m.now) {
		next = earliest(next, step.Again)
	}
	for _, e := range m.events {
		next = earliest(next, e.at)
	}
	return laterOf(next, m.now.Add(time.Millisecond))
}

func (m *simulation) after(d time.Duration, then func()) {
	m.events = append(m.events, occurrence{m.now.Add(d), then})
}

// happen has everything happen that is due by now, the earliest first.
func (m *simulation) happen() {
	slices.SortStableFunc(m.events, func(a, b occurrence) int { return a.at.Compare(b.at) })
	for len(m.events) > 0 && !m.events[0].at.After(m.now) {
		due := m.events[0]
		m.events = m.events[1:]
		due.then()
	}
}

// remove has the pod stop, and what owns it replace it.
func (m *simulation) remove(r Removal) {
	i := slices.IndexFunc(m.state.Pods, func(p Pod) bool { return p.UID == r.Pod.UID })
	pod, rec := &m.state.Pods[i], m.byUID[r.Pod.UID]
	grace := cmp.Or(r.Grace, pod.Grace)
	stops := min(m.stops(rec), grace+time.Second)
	if r.Reason != "" {
		m.course.Forced = append(m.course.Forced, pod.Namespace+"/"+pod.Name)
	}
	if !pod.GraceEndsAt.IsZero() { // a shorter grace period of a pod that stops already
		pod.GraceEndsAt = earliest(pod.GraceEndsAt, m.now.Add(grace))
		pod.Try = Try{Last: Forced, Next: m.now.Add(podUpdateTimeout), EndsAt: m.now.Add(grace)}
		m.after(stops, func() { m.gone(r.Pod.UID) })
		return
	}
	pod.DeletedAt, pod.GraceEndsAt = m.now, m.now.Add(grace)
	pod.Try = Try{Last: Accepted, Next: m.now.Add(podUpdateTimeout)}
	if !r.Kind.evicts() {
		pod.Try.Last, pod.Try.EndsAt = Forced, pod.GraceEndsAt
	}
	if m.now.Before(m.target.Deadline) {
		m.state.GrantedUntil = laterOf(m.state.GrantedUntil, pod.GraceEndsAt)
	}
	m.after(stops, func() { m.gone(r.Pod.UID) })
	if pod.Ready {
		m.replace(pod.Budgets, rec, stops)
	}
}

// replace has the budgets count the pod no more, until another one is Ready in its place.
func (m *simulation) replace(budgets []string, rec *record, stops time.Duration) {
	m.count(budgets, -1)
	if !rec.pace.isReplaced {
		return
	}
	takes := m.starts.of(rec)
	if rec.pace.waitsForEnd {
		takes += stops
	}
	m.after(takes, func() { m.count(budgets, 1) })
}

// count changes how many pods of the budgets are healthy, and with it what they allow.
func (m *simulation) count(budgets []string, healthy int) {
	for _, name := range budgets {
		b := m.state.Budgets[name]
		b.Healthy += healthy
		if b.Allowed = 0; b.SyncFailed == "" {
			b.Allowed = max(b.Healthy-b.Desired, 0)
		}
		m.state.Budgets[name] = b
	}
}

func (m *simulation) gone(uid string) {
	m.state.Pods = slices.DeleteFunc(m.state.Pods, func(p Pod) bool { return p.UID == uid })
}

// blame counts the time for what most holds up the drain.
func (m *simulation) blame(step Step, took time.Duration) {
	if len(step.Wait) == 0 {
		return
	}
	worst := slices.MinFunc(step.Wait, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(weight(a.Reason), weight(b.Reason)), b.Pod.GraceEndsAt.Compare(a.Pod.GraceEndsAt))
	})
	key := Cause{Reason: worst.Reason, Budget: worst.Budget}
	if m.causes[key] == nil {
		first := key
		if worst.Pod.Name != "" {
			first.Pod = worst.Pod.Namespace + "/" + worst.Pod.Name
		}
		m.causes[key] = &first
	}
	m.causes[key].Took += took
}

// weight orders the reasons to wait: what something else than the pod itself holds up comes first.
func weight(reason WaitReason) int {
	order := []WaitReason{Misconfigured, BlockedByBudget, OptedOut, WaitedFor, EvictionDelayed}
	if i := slices.Index(order, reason); i >= 0 {
		return i
	}
	if reason == LaterTier {
		return len(order) + 2 // an earlier one holds it up
	}
	return len(order) + 1
}

// foresee makes a forecast of the drain, once, when the budgets of its pods are known.
func (r *run) foresee(state State, records []*record) {
	if !r.expected.IsZero() || !cache.IsDone(r.drainer.pdbs.listed.HasSyncedChecker()) {
		return
	}
	now := time.Now()
	s := simulated{target: r.target(), policy: r.policy, state: state, now: now, pods: records, starts: starts{}}
	for _, rec := range records {
		s.starts.add(rec)
	}
	r.expected = now.Add(s.run((*record).stopsSoon).Took)
}

// expectedEnd returns when the drain ends by its forecast; zero without one. Its deadline may be earlier since.
func (r *run) expectedEnd() time.Time {
	if r.expected.IsZero() {
		return time.Time{}
	}
	return earliest(r.expected, r.end())
}

// expectedLength returns how long the drain takes by its forecast; 0 without one.
func (r *run) expectedLength() time.Duration {
	if end := r.expectedEnd(); !end.IsZero() {
		return end.Sub(r.started)
	}
	return 0
}
