package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// The promises of docs/testing.md.
const (
	emptyNode       = "no hook is completed before its deadline while pods are on the node"
	budgets         = "pods are evicted; they are deleted only when the deadline is near"
	completed       = "every hook of ours is completed by the agents, with CONTINUE, in time"
	others          = "hooks of others are left alone"
	onlyTerminating = "no pod is evicted from a node whose instance is not terminating"
	cleanedUp       = "no mark is left on a node in service"
	emptyQueue      = "the queue is empty at the end"
	warned          = "every pod of an instance that EC2 takes back gets its SIGTERM first"
	running         = "no agent exits by itself"
)

// violation is a promise that was not kept.
type violation struct {
	Promise string
	How     string
}

const (
	// lag is how late the watches may show a change.
	lag = 2 * time.Second
	// cancelGrace is how long a drain may continue after its event was canceled: the message takes time.
	cancelGrace = 15 * time.Second
	// handoverTime is the longest time until an agent leads and has its watches after an outage.
	handoverTime = 10 * time.Second
	// unreadAfter is for how long Auto Scaling may fail before an agent holds an action that may be another cluster's.
	unreadAfter = 5 * time.Second
	// unreadPause is how late an agent asks again after a failure.
	unreadPause = 15 * time.Second
	// noticeCover is how long before EC2 takes an instance an agent must have been able to evict: it deletes the
	// last pods when the deadline is near, and may have to be elected first.
	noticeCover = handoverTime + 5*time.Second
)

// judge returns the promises that were broken. It is a pure function of the facts.
func judge(f facts) []violation {
	j := &verdict{history: history{facts: f, podsByName: map[string][]pod{}, nodes: map[string]node{}}}
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
	for _, c := range f.ForeignCalls {
		j.foreignCall(c)
	}
	j.each(cleanedUp, f.Leftovers)
	j.each(emptyQueue, f.Left)
	for _, l := range f.Processes {
		if l.Ended != killed && l.Ended != stopped {
			j.violated(running, "%s: %s at %s; its last lines:\n%s",
				l.Name, l.Ended, clock(l.To), strings.Join(l.LastLines, "\n"))
		}
	}
	return j.all
}

// verdict collects the violations.
type verdict struct {
	history
	all []violation
}

// history is the facts by pod and by instance.
type history struct {
	facts
	podsByName map[string][]pod
	nodes      map[string]node // By instance.
}

func (j *verdict) violated(promise, format string, args ...any) {
	j.all = append(j.all, violation{promise, fmt.Sprintf(format, args...)})
}

func (j *verdict) each(promise string, all []string) {
	for _, one := range all {
		j.violated(promise, "%s", one)
	}
}

// action judges a lifecycle action.
func (j *verdict) action(a awsim.Action) {
	switch {
	case a.Group == otherCluster:
		j.foreignInstances(a)
		return
	case a.ClosedAt.IsZero():
		j.violated(completed, "still open: %s", describe(a))
		return
	case a.Hook == otherHook, j.excused(a):
		return
	case a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE":
		j.violated(completed, "%s", describe(a))
		return
	}
	if a.Transition == awsim.Terminating {
		j.checkPods(a)
	}
}

// excused reports whether no agent could complete the action: EC2 took the machine while the hook was
// pending, or no agent could send heartbeats.
func (j *verdict) excused(a awsim.Action) bool {
	return a.ClosedBy == awsim.ByInterruption && j.taken(a.InstanceID) || j.excusedByOutage(a)
}

// excusedByOutage reports whether the action has timed out, and no agent could lead for more than half of the
// timeout. A heartbeat is due within the first half.
func (f facts) excusedByOutage(a awsim.Action) bool {
	if a.ClosedBy != awsim.ByHeartbeatTimeout {
		return false
	}
	since := a.StartedAt
	if n := len(a.Heartbeats); n > 0 {
		since = a.Heartbeats[n-1]
	}
	return span{since, a.ClosedAt}.covered(handoverTime, f.noAgentOrServer()) > heartbeatTimeout/2
}

// foreignInstances judges the lifecycle action of an instance of another cluster.
func (j *verdict) foreignInstances(a awsim.Action) {
	if !a.ClosedAt.IsZero() {
		j.violated(others, "the action of another cluster: %s", describe(a))
	}
}

// foreignCall judges a call about a hook of others. A heartbeat keeps the action of another cluster open if no agent
// could read whose the action is.
func (j *verdict) foreignCall(c foreignCall) {
	unread := func(a awsim.Action) bool {
		return a.InstanceID == c.InstanceID && a.Group == c.Group &&
			span{a.StartedAt, c.At}.covered(unreadPause, j.Failures) >= unreadAfter
	}
	if c.Group != otherCluster || c.Action != heartbeat || !slices.ContainsFunc(j.Actions, unread) {
		j.violated(others, "%s of %s/%s for %s at %s", c.Action, c.Group, c.Hook, c.InstanceID, clock(c.At))
	}
}

// checkPods judges whether the node was empty when the action was completed. If the API server was down at
// that moment, it judges by the pods that the termination of the machine killed.
func (j *verdict) checkPods(a awsim.Action) {
	pods := a.PodsAtClose
	switch {
	case a.PodsError == "":
	case !j.outage(a.ClosedAt):
		j.violated(emptyNode, "the API server was up, but the pods are unknown: %s", describe(a))
		return
	case !j.taken(a.InstanceID):
		pods = a.Killed
	}
	gone := j.nodes[a.InstanceID].Gone
	if len(pods) == 0 || !gone.IsZero() && gone.Before(a.ClosedAt) {
		return // There is no Node any more, though a scheduler that lags behind may bind pods to it.
	}
	deadline := j.due(a.InstanceID, a.ClosedAt).Deadline
	if deadline.IsZero() || a.ClosedAt.Before(deadline) {
		j.violated(emptyNode, "deadline %s: %s", clock(deadline), describe(a))
	}
}

// taken reports whether the instance's machine did not wait for any hook.
func (j *history) taken(instanceID string) bool {
	return slices.ContainsFunc(j.Removals, func(f removal) bool {
		return f.InstanceID == instanceID &&
			slices.Contains([]string{spot, spotDuringDrain, reservation, console}, f.Kind)
	})
}

// outage reports whether the API server was down at a time, or had just been started.
func (j *history) outage(at time.Time) bool {
	return slices.ContainsFunc(j.unavailable(), func(s span) bool { return s.has(at, lag) })
}

// late returns how late the watches may show what happened at a time.
func (j *history) late(at time.Time) time.Duration {
	late := lag
	for _, s := range j.Stalls {
		if s.has(at, lag) {
			late += s.To.Sub(s.From)
		}
	}
	return late
}

// mark returns the tightest mark that the instance's node had at a time.
func (j *history) mark(instanceID string, at time.Time) (m mark) {
	for _, one := range j.nodes[instanceID].Marks {
		early := m.Deadline.IsZero() || one.Deadline.Before(m.Deadline)
		if one.Seen.Before(at.Add(j.late(at))) && !one.Deadline.IsZero() && early {
			m = one
		}
	}
	return m
}

// due returns the mark that the drain of the instance's node follows at a time. A node that could not be
// marked because the API server was down is drained without: from its event on, until the earliest deadline.
func (j *history) due(instanceID string, at time.Time) mark {
	m := j.mark(instanceID, at)
	unmarked := func(f removal) bool {
		until := at
		for _, one := range j.nodes[instanceID].Marks {
			if one.Seen.After(f.From) && one.Seen.Before(until) {
				until = one.Seen
			}
		}
		return f.InstanceID == instanceID && span{f.From, until}.covered(0, j.unavailable()) > 0
	}
	if i := slices.IndexFunc(j.Removals, unmarked); i >= 0 {
		return mark{Since: j.Removals[i].From, Deadline: j.end(instanceID)}
	}
	return m
}

// end returns the earliest deadline that the instance's node ever had, or should have had, or else when it
// was deleted.
func (j *history) end(instanceID string) time.Time {
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

// request judges a successful request of an agent about a pod.
func (j *verdict) request(r cluster.Request) {
	deletes := isDeletion(r)
	if !deletes && !isEviction(r) {
		return
	}
	p, ok := j.podAt(r)
	if !ok || p.Node == "" {
		if slices.ContainsFunc(j.Gaps, func(gap span) bool { return gap.has(r.At, 0) }) {
			return
		}
		j.violated(onlyTerminating, "%s of %s/%s at %s: the watch has never shown such a pod on a node",
			r.Verb, r.Namespace, r.Name, clock(r.At))
		return
	}
	what := fmt.Sprintf("pod %s/%s of node %s, at %s", p.Namespace, p.Name, p.Node, clock(r.At))
	if !j.terminating(harness.InstanceOf(p.Node), r.At) {
		j.violated(onlyTerminating, "%s %s: its instance was not terminating %v",
			r.Verb, what, j.removalsOf(harness.InstanceOf(p.Node)))
	}
	if deletes {
		j.deletion(p, r.At, what)
	}
}

// isEviction reports whether the request was an eviction that was accepted.
func isEviction(r cluster.Request) bool {
	return r.Verb == "create" && r.Subresource == "eviction" && r.Code == http.StatusCreated
}

// isDeletion reports whether the request deleted a pod, bypassing its budget.
func isDeletion(r cluster.Request) bool {
	return r.Verb == "delete" && r.Resource == "pods" && r.Code == http.StatusOK
}

// deletion judges the deletion of a pod: it must not be sent before half of the drain's time has passed. A
// pod without a budget must not be deleted before its grace period has to begin, if that is later.
func (j *verdict) deletion(p pod, at time.Time, what string) {
	m := j.due(harness.InstanceOf(p.Node), at)
	half := m.Deadline.Sub(m.Since) / 2
	early := half
	if !p.Guarded {
		early = min(half, max(p.Grace, time.Second))
	}
	if m.Deadline.IsZero() || at.Before(m.Deadline.Add(-early-lag)) {
		j.violated(budgets, "deleted: %s, guarded %v, grace %v, marked %s, deadline %s",
			what, p.Guarded, p.Grace, clock(m.Since), clock(m.Deadline))
	}
}

// podAt returns the pod that had the name at the time of the request: the last that the watch had shown by
// then, or else the first, which it showed late.
func (j *history) podAt(r cluster.Request) (found pod, ok bool) {
	for _, p := range j.podsByName[r.Namespace+"/"+r.Name] { // The oldest first.
		if p.Seen.has(r.At, j.late(r.At)) && (!ok || !p.Seen.From.After(r.At)) {
			found, ok = p, true
		}
	}
	return found, ok
}

// terminating reports whether an instance was terminating at a time. A canceled event counts until the
// agents know. An instance whose launch was abandoned terminates too.
func (j *history) terminating(instanceID string, at time.Time) bool {
	removed := func(f removal) bool {
		silence := span{f.To, at}.covered(0, j.unavailable())
		return f.InstanceID == instanceID && !at.Before(f.From.Add(-lag)) &&
			(f.To.IsZero() || at.Before(f.To.Add(cancelGrace+silence)))
	}
	abandoned := func(a awsim.Action) bool {
		return a.InstanceID == instanceID && a.Transition == awsim.Launching && a.Result == "ABANDON" &&
			!at.Before(a.ClosedAt.Add(-lag))
	}
	return slices.ContainsFunc(j.Removals, removed) || slices.ContainsFunc(j.Actions, abandoned)
}

// interruption judges whether the pods of an instance that EC2 took got their SIGTERM before.
func (j *verdict) interruption(i awsim.Interruption) {
	if i.TakenAt.IsZero() || j.excusedNotice(i) {
		return
	}
	for _, name := range i.Killed {
		for _, p := range j.podsByName[name] {
			// The termination of the machine sets the deletion timestamp too, but later.
			before := !p.SignaledAt.IsZero() && p.SignaledAt.Before(i.TakenAt.Add(j.late(i.TakenAt)))
			if harness.InstanceOf(p.Node) != i.InstanceID || before || j.boundLate(p, i.TakenAt) {
				continue
			}
			j.violated(warned, "pod %s of %s, since %s: warned %s, taken %s, SIGTERM %s, gone %s", name, i.InstanceID,
				clock(p.Bound), clock(i.WarnedAt), clock(i.TakenAt), clock(p.SignaledAt), clock(i.GoneAt))
		}
	}
}

// boundLate reports whether a scheduler that lags behind has put the pod on a marked node too late for any agent:
// after EC2 took the instance, or later than drains wait for such pods.
func (j *history) boundLate(p pod, taken time.Time) bool {
	marks := j.nodes[harness.InstanceOf(p.Node)].Marks
	if len(marks) == 0 {
		return false
	}
	marked := marks[0].Seen
	return p.Bound.After(latest(marked, taken)) || p.Bound.After(marked.Add(settle+j.late(p.Bound)))
}

// excusedNotice reports whether at any moment shortly before EC2 took the instance no agent could evict its
// pods, or, since several leaders ended, for longer than one election takes.
func (f facts) excusedNotice(i awsim.Interruption) bool {
	notice := span{i.TakenAt.Add(-noticeCover), i.TakenAt}
	var elections []span
	for _, p := range f.Processes {
		if p.Led {
			elections = append(elections, span{p.To, p.To})
		}
	}
	return notice.covered(handoverTime, elections) > handoverTime || notice.covered(0, f.noAgentOrServer()) > 0
}

func (j *history) removalsOf(instanceID string) (all []string) {
	for _, f := range j.Removals {
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
	return fmt.Sprintf("%s/%s of %s, started %s, closed %s by %q with %q, pods %q %s, killed %q; heartbeats %s",
		a.Group, a.Hook, a.InstanceID, clock(a.StartedAt), clock(a.ClosedAt), a.ClosedBy, a.Result,
		a.PodsAtClose, a.PodsError, a.Killed, strings.Join(beats, " "))
}

// clock formats a time as the logs do.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("15:04:05.000")
}
