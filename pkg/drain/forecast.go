package drain

import (
	"cmp"
	"slices"
	"time"
)

// Forecast is how the drain of a node would go if nothing changed before. It counts neither volumes that are detached
// slowly, nor calls that ask pods, nor other nodes that are drained under the same budgets.
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

// Forecast returns how a drain of the target would go. It decides as a drain does, in a time of its own.
func (s *Snapshot) Forecast(t Target) Forecast {
	f := Forecast{Expected: s.simulate(t, seenPod.stopsSoon), Longest: s.simulate(t, seenPod.stopsLate)}
	for _, p := range s.nodes[t.Name] {
		if p.StayReason == "" {
			f.Pods++
		}
	}
	if f.Longest.Took < f.Expected.Took {
		f.Longest = f.Expected
	}
	return f
}

// stopsSoon and stopsLate are how long the pod takes to stop, at the shortest and at the longest.
func (p seenPod) stopsSoon() time.Duration { return min(p.preStop, p.Grace) + time.Second }
func (p seenPod) stopsLate() time.Duration { return p.Grace + time.Second }

const (
	// requestTook is how long the API server takes for an eviction or a deletion.
	requestTook = 50 * time.Millisecond
	// mostDecisions bounds one forecast. A drain decides a few times for each pod.
	mostDecisions = 10_000
)

// simulation is a drain in a time of its own.
type simulation struct {
	target   Target
	policy   Policy
	state    State
	seen     map[string]seenPod // by UID
	stops    func(seenPod) time.Duration
	startsIn func(seenPod) time.Duration
	now      time.Time
	events   []occurrence
	course   Course
	causes   map[Cause]*Cause
}

// occurrence is what happens at a time: a pod is gone, or a pod is Ready in place of one.
type occurrence struct {
	at   time.Time
	then func()
}

func (s *Snapshot) simulate(t Target, stops func(seenPod) time.Duration) Course {
	m := &simulation{
		target: t, policy: s.rules.of(t), state: s.state(t.Name, t.Since), seen: map[string]seenPod{}, stops: stops,
		startsIn: s.startsIn, now: t.Since, causes: map[Cause]*Cause{},
	}
	for _, p := range s.nodes[t.Name] {
		m.seen[p.UID] = p
	}
	for _, p := range m.state.Pods {
		if !p.GraceEndsAt.IsZero() {
			m.after(laterOf(p.GraceEndsAt, t.Since).Sub(t.Since), func() { m.gone(p.UID) })
		}
	}
	for range mostDecisions {
		if !m.step() {
			break
		}
	}
	return m.ended()
}

// ended returns how the drain went.
func (m *simulation) ended() Course {
	c := m.course
	c.Took = m.now.Sub(m.target.Since)
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
	end := schedule{deadline: m.target.Deadline, started: m.state.Started, grantedUntil: m.state.GrantedUntil}
	next := laterOf(end.end(), m.now.Add(requestTook))
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
	pod, seen := &m.state.Pods[i], m.seen[r.Pod.UID]
	grace := cmp.Or(r.Grace, pod.Grace)
	stops := min(m.stops(seen), grace+time.Second)
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
		m.replace(pod.Budgets, seen, stops)
	}
}

// replace has the budgets count the pod no more, until another one is Ready in its place.
func (m *simulation) replace(budgets []string, seen seenPod, stops time.Duration) {
	m.count(budgets, -1)
	if seen.owner == "" {
		return
	}
	takes := m.startsIn(seen)
	if seen.waitsForEnd {
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
