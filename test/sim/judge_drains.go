package sim

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// drainJudge judges whether drains are explained, and what they cost.
type drainJudge struct{ *judge }

// heartbeatsKept: an install that holds an action sends each heartbeat before half of the hook's timeout has passed,
// so that one that fails can be repeated in time. A quarter of the timeout is left for that.
func (j drainJudge) heartbeatsKept(c *cluster, h Hook, a awsim.Action) {
	if len(a.Heartbeats) == 0 || a.ClosedBy != awsim.ByCompletion {
		return
	}
	out, last, limit := j.outages(h.Install, c), a.Heartbeats[0], h.Heartbeat*3/4
	if slices.ContainsFunc(j.spec.Faults, func(f Fault) bool { return f.Do == "aws-fail" }) {
		limit = h.Heartbeat // for more of those that fail
	}
	for _, at := range append(a.Heartbeats[1:], a.ClosedAt) {
		if at.Sub(last) > limit && overlap(out, last.Add(-time.Minute), at) == 0 {
			j.violate("heartbeats kept", at, "no heartbeat of hook %s of %s for %v, timeout %v", a.Hook, a.InstanceID,
				at.Sub(last), h.Heartbeat)
		}
		last = at
	}
}

const (
	// callsPerEvent is more than what one event costs besides its heartbeats: its owner, the polls of its confirmation,
	// which back off, the hook's timeouts, and the completion.
	callsPerEvent = 60
	// callsPerResync is more than what a resync costs besides the nodes that it asks about: it describes the groups of
	// a cluster by four filters.
	callsPerResync = 8
)

// callsBounded: what an install asks of Auto Scaling and EC2 is bounded by the resyncs and the events that there were,
// each at a constant cost, and by the heartbeats of what it holds. While calls fail, they are repeated, so worlds in
// which AWS fails are left out.
func (j drainJudge) callsBounded() {
	if slices.ContainsFunc(j.spec.Faults, func(f Fault) bool { return strings.HasPrefix(f.Do, "aws-") }) ||
		slices.ContainsFunc(j.spec.Steps, func(s Step) bool { return s.Do == "flood" }) {
		return
	}
	for _, c := range j.clusters {
		for _, i := range c.Installs {
			calls := 0
			for action, n := range j.aws.RequestsBy(i.Name) {
				if !strings.HasPrefix(action, "sqs.") {
					calls += n
				}
			}
			if most := j.mostCalls(c, i.Name); calls > most {
				j.violate("calls bounded", time.Now(), "%s made %d calls of AWS, at most %d follow from what happened",
					i.Name, calls, most)
			}
		}
	}
}

// mostCalls returns how many calls of AWS an install makes at most.
func (j drainJudge) mostCalls(c *cluster, install string) int {
	cfg := j.configs[install]
	crashes := 0
	for _, a := range j.agentsOf(install) {
		crashes += 1 + len(a.down)
	}
	resyncs := crashes + int(time.Since(j.log.began)/cfg.ResyncInterval) + 1
	nodes, events, beats := 0, 0, 0
	for id, m := range j.machines.instances {
		if m.cluster == c {
			nodes++
			events += 2 + len(j.facts.truthsAt(id, time.Now(), longest))
		}
	}
	for _, a := range j.actions {
		if of, _, _ := j.clusterOf(a.Group); of == c && j.hookOf(a).Name != "" { // EKS has hooks of its own.
			events++
			closed := a.ClosedAt
			if closed.IsZero() {
				closed = time.Now()
			}
			interval := cmp.Or(cfg.Hook.HeartbeatInterval, j.hookOf(a).Heartbeat/2)
			beats += 2 * int(closed.Sub(a.StartedAt)/(interval*8/10)+1)
		}
	}
	return resyncs*(callsPerResync+3*nodes) + crashes*events*callsPerEvent + beats
}

// drainsExplained: the Node of a drain that has waited for two minutes says how many pods are left. The condition is
// written every ten seconds at most.
func (j drainJudge) drainsExplained() {
	for _, c := range j.clusters {
		for _, m := range j.markings[c.Name] {
			end := m.until
			if m.until.IsZero() {
				end = time.Now()
			}
			for at := m.from.Add(2 * time.Minute); at.Before(end) && at.Before(m.from.Add(slack)); at = at.Add(time.Minute) {
				if j.mustExplain(c, m.node, at) && !j.isExplained(c, m.node, at) {
					j.violate("drains explained", at, "the condition of node %s does not say that its drain waits", m.node)
					break
				}
			}
		}
	}
}

// mustExplain reports whether a drain of the node has been waiting for pods for two minutes, and nothing keeps its
// install from saying so. Without the annotation that asked for it there is no drain, although the node stays cordoned
// while its instance is in Standby.
func (j drainJudge) mustExplain(c *cluster, id string, at time.Time) bool {
	began := at.Add(-2 * time.Minute)
	m, marked := markAt(j.markings[c.Name], id, began)
	machine := j.machines.find(id)
	if !marked || machine == nil || !m.mark.Deadline.After(at.Add(time.Minute)) || j.wasDead(id, at) || j.denied(c) {
		return false
	}
	n := nodeAt(&c.changes, id, at)
	if n != nil && m.mark.Reason == string(event.DrainRequested) && !node.IsDrainRequested(n) {
		return false
	}
	waits := slices.ContainsFunc(j.podsOn(c, id, at), func(p *podLife) bool { return p.bound.Before(m.from) })
	return waits && !slices.ContainsFunc(c.Installs, func(i Install) bool {
		return overlap(j.outages(i.Name, c), began.Add(-time.Minute), at) > 0
	})
}

// denied reports whether the API server of a cluster denies anything at any time.
func (j drainJudge) denied(c *cluster) bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool { return f.Do == "kube-deny" && f.On == c.Name })
}

// isExplained reports whether the Node says that pods are left, or is gone.
func (j drainJudge) isExplained(c *cluster, id string, at time.Time) bool {
	n := nodeAt(&c.changes, id, at)
	if n == nil {
		return true
	}
	one := drainCondition(n)
	return one.Status == corev1.ConditionFalse && strings.Contains(one.Message, " left")
}

// recordWindow is within which time after the end of a drain its record is written: five seconds, and a call.
const recordWindow = time.Minute

// drainsRecorded: in the end each drain whose end its Node shows is among the records, unless that was less than a
// minute ago, or the install could not work within a minute of that.
func (j drainJudge) drainsRecorded() {
	if len(j.spec.Versions) > 0 { // An older commit may keep no records.
		return
	}
	for _, c := range j.clusters {
		records := map[string][]recordedDrain{}
		for _, i := range c.Installs {
			if kept := c.server.ConfigMap(agentNamespace, i.records()); kept != nil {
				records[i.Name] = readRecords(kept)
			}
		}
		for _, change := range c.of("nodes") {
			n, began, ended := endedDrain(change)
			of, isAgent := records[change.Actor]
			if !ended || !isAgent || len(of) >= mostRecords || time.Since(change.At) < recordWindow {
				continue
			}
			out := j.outages(change.Actor, c)
			if !isRecorded(of, n, began) && overlap(out, change.At.Add(-recordWindow), change.At.Add(recordWindow)) == 0 {
				j.violate("drains recorded", change.At, "the drain of node %s has ended, and there is no record of it", n.Name)
			}
		}
	}
}

// mostRecords is how many records are kept.
const mostRecords = 200

// recordedDrain is what a record says of whose it is.
type recordedDrain struct {
	UID   string    `json:"uid"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
}

// isRecorded reports whether the drain of the Node that began then is among the records. One that goes on for another
// cause has a mark of that one's time.
func isRecorded(records []recordedDrain, n *corev1.Node, began time.Time) bool {
	return slices.ContainsFunc(records, func(d recordedDrain) bool {
		return d.UID == string(n.UID) && !d.Began.After(began) && !d.Ended.Before(began)
	})
}

func readRecords(kept *corev1.ConfigMap) (records []recordedDrain) {
	for line := range strings.Lines(kept.Data["drains"]) {
		var d recordedDrain
		if json.Unmarshal([]byte(line), &d) == nil {
			records = append(records, d)
		}
	}
	return records
}

// endedDrain reports whether a change of a Node shows that a drain has ended, and when that had begun, to the second.
func endedDrain(change kube.Change) (n *corev1.Node, began time.Time, ended bool) {
	n, isThere := change.New.(*corev1.Node)
	if !isThere || isEnded(change.Old) || !isEnded(n) {
		return nil, time.Time{}, false
	}
	var mark node.Mark
	_ = json.Unmarshal([]byte(n.Annotations[node.Annotation]), &mark)
	return n, mark.Since.Truncate(time.Second), !mark.Since.IsZero()
}

// isEnded reports whether the condition of a Node shows that its drain has ended.
func isEnded(o kube.Object) bool {
	n, ok := o.(*corev1.Node)
	return ok && slices.Contains([]string{"Drained", node.ReasonLeftBehind, "NodeLost"}, drainCondition(n).Reason)
}

// drainCondition returns the condition of a Node that shows its drain; zero if it has none.
func drainCondition(n *corev1.Node) corev1.NodeCondition {
	if _, c := nodeutil.GetNodeCondition(&n.Status, node.ConditionType); c != nil {
		return *c
	}
	return corev1.NodeCondition{}
}
