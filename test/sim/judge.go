package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// slack is by how much something may happen later than it should.
const slack = 5 * time.Minute

// judge compares what happened in a world with what must hold in each.
type judge struct {
	*world
	actions    []awsim.Action
	configs    map[string]config.Agent           // by install
	lives      map[string]map[types.UID]*podLife // by cluster
	markings   map[string][]marking              // by cluster
	violations []Violation
	late       int // pods that were bound too late for the drain
}

func newJudge(w *world) *judge {
	j := &judge{
		world: w, actions: w.aws.Ledger(), configs: map[string]config.Agent{}, lives: map[string]map[types.UID]*podLife{},
		markings: map[string][]marking{},
	}
	for _, c := range w.clusters {
		j.lives[c.Name], j.markings[c.Name] = lives(&c.changes), markings(&c.changes)
		for _, a := range c.agents {
			cfg, err := config.ReadAgent(a.environ())
			if err != nil {
				j.violate("valid configuration", w.began, "%v", err)
			}
			j.configs[a.Name] = cfg
		}
	}
	return j
}

func (j *judge) violate(invariant string, at time.Time, format string, args ...any) {
	j.violations = append(j.violations, Violation{invariant, j.since(at), fmt.Sprintf(format, args...)})
}

// all returns everything that violates an invariant, in order of time.
func (j *judge) all() []Violation {
	hooks, pods, drains := hookJudge{j}, podJudge{j}, drainJudge{j}
	if j.rollouts.isCutShort() {
		return j.rollouts.violations
	}
	if j.facts.hasStorm() { // The world was cut short.
		boundJudge{pods}.all()
		return j.violations
	}
	for _, a := range j.actions {
		hooks.judgeAction(a)
	}
	hooks.onlyOwnHooks()
	pods.rightNode()
	pods.holdsKept()
	boundJudge{pods}.all()
	pods.budgetsKept()
	pods.podsTold()
	groupJudge{pods}.all()
	requestJudge{pods}.all()
	drains.callsBounded()
	drains.drainsExplained()
	drains.drainsRecorded()
	j.noMarksLeft()
	j.cordonsKept()
	for _, r := range j.facts.unguarded {
		j.violate("right object", r.At, "%s sent %s %s of %s without its UID or resource version", r.Client, r.Verb,
			r.Resource, r.Name)
	}
	j.evictionsAnswered()
	j.noMessageLeft()
	j.nothingRepeated()
	if most := j.machines.mostLaunched(); most >= j.mostLaunches() {
		j.violate("launches succeed", time.Now(), "a group has launched %d instances", most)
	}
	j.deadNodes()
	j.violations = append(j.violations, j.rollouts.violations...)
	slices.SortStableFunc(j.violations, func(a, b Violation) int { return int(a.At - b.At) })
	return j.violations
}

// evictionsAnswered: an agent that is told to stop waits for the answers to its evictions. One of an older commit does
// not.
func (j *judge) evictionsAnswered() {
	for _, r := range j.facts.canceled {
		if len(j.spec.Versions) == 0 {
			j.violate("evictions answered", r.At, "%s was told to stop, and canceled the eviction of pod %s", r.Client, r.Name)
		}
	}
}

// podsOn returns the pods that must leave a node and were on it, by name.
func (j *judge) podsOn(c *cluster, id string, at time.Time) (out []*podLife) {
	if j.facts.isReplaced(id, at) {
		return nil // They are on the node of another instance.
	}
	for _, p := range j.lives[c.Name] {
		if p.Spec.NodeName == id && !isOfDaemonSet(p.Pod) && p.isOn(at) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *podLife) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// wasDead reports whether no kubelet ran on the node of an instance at a time.
func (j *judge) wasDead(id string, at time.Time) bool {
	return slices.ContainsFunc(j.facts.truthsAt(id, at, 0), func(t truth) bool {
		return t.kind == "killed" || t.kind == "stopped" || t.kind == "ended"
	})
}

// cordonsKept: no agent uncordons a node that an administrator cordoned.
func (j *judge) cordonsKept() {
	for _, c := range j.clusters {
		for _, change := range c.of("nodes") {
			before, was := change.Old.(*corev1.Node)
			after, is := change.New.(*corev1.Node)
			if !was || !is || !before.Spec.Unschedulable || after.Spec.Unschedulable {
				continue
			}
			if at, ok := j.facts.cordons[before.Name]; ok && !change.At.Before(at) {
				j.violate("cordons kept", change.At, "%s uncordoned node %s, which an administrator has cordoned", change.Actor,
					before.Name)
			}
		}
	}
}

// cannotAsk reports whether the agents may still not ask Auto Scaling for the states of instances. They do not believe
// then that an instance stays, and so do not uncordon it.
func (j *judge) cannotAsk() bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool {
		return isDescription(f) && j.began.Add(f.From+f.For).After(time.Now())
	})
}

// isUndated reports whether a message is about an event without a deadline, or one whose node may have outlived it when
// the message arrives: it is repeated until EC2 says whether the instance runs.
func isUndated(body string) bool {
	return slices.ContainsFunc([]string{awsim.AlarmChanged, awsim.RebalanceAdvice, awsim.StateChanged},
		func(kind string) bool { return strings.Contains(body, kind) })
}

// noMessageLeft: no queue has a message in the end.
func (j *judge) noMessageLeft() {
	for _, c := range j.clusters {
		for _, i := range c.Installs {
			left := j.messages(i)
			if j.cannotAsk() {
				left = slices.DeleteFunc(left, func(body string) bool { return !strings.Contains(body, "LifecycleHookName") })
			}
			if j.cannotVerify() {
				left = slices.DeleteFunc(left, isUndated)
			}
			if len(left) > 0 {
				j.violate("no message left", time.Now(), "queue %s holds %d messages: %.200s", i.Name, len(left), left[0])
			}
		}
	}
}
