package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// The promises, in the words of docs/chaos.md.
const (
	proof     = "no hook is completed while pods are on the node, before its deadline"
	budgets   = "pods leave by eviction; they are deleted only when the deadline is near"
	completes = "every hook of ours is completed by us, with CONTINUE, in time"
	others    = "hooks of others are left alone"
	innocent  = "no pod is evicted from a node that is not going"
	clean     = "nothing of ours is left on nodes that live on"
	emptied   = "the queue is empty in the end"
	told      = "every pod of an instance that EC2 takes back has got its SIGTERM before"
	alive     = "no agent ends by itself"
)

// broken is a promise that was not kept.
type broken struct {
	Promise string
	How     string
}

const (
	// lag is how much later the watches show things than they happened.
	lag = 2 * time.Second
	// calledOff is how long a drain may go on after what it was for was called off: the message must come.
	calledOff = 15 * time.Second
	// handOver is how long it takes at most until an agent leads and sees the cluster when both are back.
	handOver = 10 * time.Second
	// presence is how long before EC2 takes an instance there must have been somebody to tell its pods: they
	// are told when the deadline is near at the latest, by an agent that may have been elected first.
	presence = handOver + 5*time.Second
)

// judge tells which promises were broken. It reads nothing but its argument.
func judge(f facts) []broken {
	j := &verdict{facts: f, podsByName: map[string][]pod{}, nodes: map[string]node{}}
	for _, p := range f.Pods {
		key := p.Namespace + "/" + p.Name
		j.podsByName[key] = append(j.podsByName[key], p)
	}
	for _, pods := range j.podsByName {
		slices.SortFunc(pods, func(x, y pod) int { return x.Seen.From.Compare(y.Seen.From) })
	}
	for _, n := range f.Nodes {
		j.nodes[n.InstanceID] = n
	}
	for _, a := range f.Actions {
		j.action(a)
	}
	for _, r := range f.Requests {
		j.request(r)
	}
	for _, i := range f.Interruptions {
		j.interruption(i)
	}
	j.each(others, f.Meddling)
	j.each(clean, f.Remains)
	j.each(emptied, f.Left)
	for _, l := range f.Lives {
		if l.Ended != killed && l.Ended != stopped {
			j.breaks(alive, "%s: %s at %s; its last words:\n%s",
				l.Name, l.Ended, clock(l.To), strings.Join(l.Last, "\n"))
		}
	}
	return j.all
}

// verdict is the judgement in the making.
type verdict struct {
	facts
	podsByName map[string][]pod
	nodes      map[string]node // By instance.
	all        []broken
}

func (j *verdict) breaks(promise, format string, args ...any) {
	j.all = append(j.all, broken{promise, fmt.Sprintf(format, args...)})
}

func (j *verdict) each(promise string, all []string) {
	for _, one := range all {
		j.breaks(promise, "%s", one)
	}
}

// action judges a lifecycle action.
func (j *verdict) action(a awsim.Action) {
	switch {
	case a.Group == abroad:
		j.foreign(a)
		return
	case a.ClosedAt.IsZero():
		j.breaks(completes, "still open: %s", describe(a))
		return
	case a.Hook == otherHook, j.excused(a):
		return
	case a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE":
		j.breaks(completes, "%s", describe(a))
		return
	}
	if a.Transition == awsim.Terminating {
		j.proven(a)
	}
}

// excused tells whether nobody could complete the action: EC2 took the machine while the hook was waited for,
// or nobody could keep it open.
func (j *verdict) excused(a awsim.Action) bool {
	return a.ClosedBy == awsim.ByInterruption && j.taken(a.InstanceID) || j.leaderless(a)
}

// leaderless tells whether the action has timed out, and for more than half of that no agent could lead. A
// heartbeat is due before half of the timeout has passed.
func (f facts) leaderless(a awsim.Action) bool {
	if a.ClosedBy != awsim.ByHeartbeatTimeout {
		return false
	}
	since := a.StartedAt
	if n := len(a.Heartbeats); n > 0 {
		since = a.Heartbeats[n-1]
	}
	return span{since, a.ClosedAt}.covered(handOver, f.absences()) > beat/2
}

// foreign judges the lifecycle action of an instance of another cluster.
func (j *verdict) foreign(a awsim.Action) {
	if !a.ClosedAt.IsZero() || len(a.Heartbeats) > 0 {
		j.breaks(others, "the action of another cluster: %s", describe(a))
	}
}

// proven judges whether the node was empty when the action was completed. Where the API server could not say
// so at that moment, the pods tell that the end of the machine killed.
func (j *verdict) proven(a awsim.Action) {
	pods := a.PodsAtClose
	switch {
	case a.PodsError == "":
	case !j.outage(a.ClosedAt):
		j.breaks(proof, "the API server was there, and still the pods are not known: %s", describe(a))
		return
	case !j.taken(a.InstanceID):
		pods = a.Killed
	}
	gone := j.nodes[a.InstanceID].Gone
	if len(pods) == 0 || !gone.IsZero() && gone.Before(a.ClosedAt) {
		return // Without a node there is no machine, though a scheduler that lags behind still binds pods to it.
	}
	deadline := j.due(a.InstanceID, a.ClosedAt).Deadline
	if deadline.IsZero() || a.ClosedAt.Before(deadline) {
		j.breaks(proof, "deadline %s: %s", clock(deadline), describe(a))
	}
}

// taken tells whether the instance's machine did not wait for any hook.
func (j *verdict) taken(instanceID string) bool {
	return slices.ContainsFunc(j.Fates, func(f fate) bool {
		return f.InstanceID == instanceID && (f.Kind == spot || f.Kind == spotAmid || f.Kind == reservation ||
			f.Kind == console)
	})
}

// outage tells whether the API server was away at a time, or was just coming back.
func (j *verdict) outage(at time.Time) bool {
	return slices.ContainsFunc(j.silences(), func(s span) bool { return s.has(at, lag) })
}

// late is how much later the watches may show what happened at a time.
func (j *verdict) late(at time.Time) time.Duration {
	late := lag
	for _, s := range j.Stalls {
		if s.has(at, lag) {
			late += s.To.Sub(s.From)
		}
	}
	return late
}

// mark returns the tightest mark that the instance's node had at a time.
func (j *verdict) mark(instanceID string, at time.Time) (m mark) {
	for _, one := range j.nodes[instanceID].Marks {
		early := m.Deadline.IsZero() || one.Deadline.Before(m.Deadline)
		if one.Seen.Before(at.Add(j.late(at))) && !one.Deadline.IsZero() && early {
			m = one
		}
	}
	return m
}

// due is the mark that the drain of the instance's node goes by at a time. A node that could not be marked,
// since the API server was away, is drained all the same: from the beginning, by whatever ends it first.
func (j *verdict) due(instanceID string, at time.Time) mark {
	m := j.mark(instanceID, at)
	unmarked := func(f fate) bool {
		until := at
		if !m.Seen.IsZero() && m.Seen.Before(at) {
			until = m.Seen
		}
		return f.InstanceID == instanceID && span{f.From, until}.covered(0, j.silences()) > 0
	}
	if i := slices.IndexFunc(j.Fates, unmarked); i >= 0 {
		return mark{Since: j.Fates[i].From, Deadline: j.end(instanceID)}
	}
	return m
}

// end is the earliest deadline that the instance's node ever had, or should have had; else when it had gone.
func (j *verdict) end(instanceID string) time.Time {
	var all []time.Time
	for _, m := range j.nodes[instanceID].Marks {
		if !m.Deadline.IsZero() {
			all = append(all, m.Deadline)
		}
	}
	for _, i := range j.Interruptions {
		if i.InstanceID == instanceID {
			all = append(all, i.DueAt.Add(-margin))
		}
	}
	if len(all) == 0 {
		return j.nodes[instanceID].Gone
	}
	return slices.MinFunc(all, time.Time.Compare)
}

// request judges what an agent has asked of the API server about a pod, if it was done.
func (j *verdict) request(r cluster.Request) {
	deletes := isDeletion(r)
	if !deletes && !isEviction(r) {
		return
	}
	p, ok := j.podAt(r)
	if !ok || p.Node == "" {
		j.breaks(innocent, "%s of %s/%s at %s: no such pod was seen on a node",
			r.Verb, r.Namespace, r.Name, clock(r.At))
		return
	}
	what := fmt.Sprintf("pod %s/%s of node %s, at %s", p.Namespace, p.Name, p.Node, clock(r.At))
	if !j.going(instanceOf(p.Node), r.At) {
		j.breaks(innocent, "%s %s: its instance was not going %v", r.Verb, what, j.fatesOf(instanceOf(p.Node)))
	}
	if deletes {
		j.deletion(p, r.At, what)
	}
}

// isEviction tells whether the request was an eviction that was granted.
func isEviction(r cluster.Request) bool {
	return r.Verb == "create" && r.Subresource == "eviction" && r.Code == http.StatusCreated
}

// isDeletion tells whether the request deleted a pod past its budget.
func isDeletion(r cluster.Request) bool {
	return r.Verb == "delete" && r.Resource == "pods" && r.Code == http.StatusOK
}

// deletion judges a pod's deletion past its budget: not before half of the time of the drain is over, or, if
// the pod's grace is shorter, not before the grace must begin for pods without a budget.
func (j *verdict) deletion(p pod, at time.Time, what string) {
	m := j.due(instanceOf(p.Node), at)
	half := m.Deadline.Sub(m.Since) / 2
	early := half
	if !p.Guarded {
		early = min(half, max(p.Grace, time.Second))
	}
	if m.Deadline.IsZero() || at.Before(m.Deadline.Add(-early-lag)) {
		j.breaks(budgets, "deleted: %s, guarded %v, grace %v, marked %s, deadline %s",
			what, p.Guarded, p.Grace, clock(m.Since), clock(m.Deadline))
	}
}

// podAt returns the pod that had the name when it was asked about: of those that the watch had shown, the
// last; else the first, which it was late to show.
func (j *verdict) podAt(r cluster.Request) (found pod, ok bool) {
	for _, p := range j.podsByName[r.Namespace+"/"+r.Name] { // The oldest first.
		if p.Seen.has(r.At, j.late(r.At)) && (!ok || !p.Seen.From.After(r.At)) {
			found, ok = p, true
		}
	}
	return found, ok
}

// going tells whether an instance was going at a time. What is called off goes on until the agents know. An
// instance whose launch was abandoned goes, too.
func (j *verdict) going(instanceID string, at time.Time) bool {
	fated := func(f fate) bool {
		silence := span{f.To, at}.covered(0, j.silences())
		return f.InstanceID == instanceID && !at.Before(f.From.Add(-lag)) &&
			(f.To.IsZero() || at.Before(f.To.Add(calledOff+silence)))
	}
	abandoned := func(a awsim.Action) bool {
		return a.InstanceID == instanceID && a.Transition == awsim.Launching && a.Result == "ABANDON" &&
			!at.Before(a.ClosedAt.Add(-lag))
	}
	return slices.ContainsFunc(j.Fates, fated) || slices.ContainsFunc(j.Actions, abandoned)
}

// interruption judges whether the pods were told of the end of an instance that EC2 took.
func (j *verdict) interruption(i awsim.Interruption) {
	if i.TakenAt.IsZero() || j.helpless(i) {
		return
	}
	for _, name := range i.Killed {
		for _, p := range j.podsByName[name] {
			// What the end of the machine does to its pods looks like a SIGTERM, and comes later than that.
			before := !p.Told.IsZero() && p.Told.Before(i.TakenAt.Add(j.late(i.TakenAt)))
			if instanceOf(p.Node) != i.InstanceID || before || j.stray(p) {
				continue
			}
			j.breaks(told, "pod %s of %s, since %s: warned %s, taken %s, told %s, gone %s", name, i.InstanceID,
				clock(p.Bound), clock(i.WarnedAt), clock(i.TakenAt), clock(p.Told), clock(i.GoneAt))
		}
	}
}

// stray tells whether a scheduler with an old picture has put the pod on a node that had been marked for
// longer than drains wait for such pods.
func (j *verdict) stray(p pod) bool {
	marks := j.nodes[instanceOf(p.Node)].Marks
	return len(marks) > 0 && p.Bound.After(marks[0].Seen.Add(settle+j.late(p.Bound)))
}

// helpless tells whether there was nobody, be it for a moment, who could tell the pods just before EC2 took
// their instance.
func (f facts) helpless(i awsim.Interruption) bool {
	return span{i.TakenAt.Add(-presence), i.TakenAt}.covered(0, f.absences()) > 0
}

func (j *verdict) fatesOf(instanceID string) (all []string) {
	for _, f := range j.Fates {
		if f.InstanceID == instanceID {
			all = append(all, fmt.Sprintf("%s from %s to %s", f.Kind, clock(f.From), clock(f.To)))
		}
	}
	return all
}

func describe(a awsim.Action) string {
	beats := make([]string, len(a.Heartbeats))
	for i, at := range a.Heartbeats {
		beats[i] = clock(at)
	}
	return fmt.Sprintf("%s/%s of %s, begun %s, closed %s by %q with %q, pods %q %s, killed %q; heartbeats %s",
		a.Group, a.Hook, a.InstanceID, clock(a.StartedAt), clock(a.ClosedAt), a.ClosedBy, a.Result,
		a.PodsAtClose, a.PodsError, a.Killed, strings.Join(beats, " "))
}

// clock is a time of this run as logs have it.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("15:04:05.000")
}
