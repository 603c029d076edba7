package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// groupKind is the value of the annotation of the members of groups.
const groupKind = "group"

// group models a replicated group. A member whose pod ends is missed after a while, and another one that is in sync is
// elected. A member follows the leader, and hands over to another one when it is asked.
type group struct {
	cluster *cluster
	spec    Workload

	mu      sync.Mutex
	leader  types.UID // empty while there is none
	leaders []leadership
}

// leadership is that of a member, from a time until the next one begins.
type leadership struct {
	from   time.Time
	member types.UID // empty: the group has no leader
	node   string
	moved  bool // by a hand-over to a node that stays
}

// observe is called for each change of an object.
func (c *cluster) observe(change kube.Change) {
	c.add(change)
	c.world.rollouts.observe(change)
	pod, ok := change.New.(*corev1.Pod)
	if !ok {
		pod, ok = change.Old.(*corev1.Pod)
	}
	if !ok || c.members[pod.Labels["app"]] == nil {
		return
	}
	g := c.members[pod.Labels["app"]]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader == pod.UID && (change.New == nil || isFinished(pod)) {
		g.lead(leadership{})
	}
	if g.leader == "" {
		time.AfterFunc(g.spec.Group.Elects, g.elect)
		time.AfterFunc(g.spec.Group.Elects+g.spec.Group.Sync, g.elect)
	}
}

// lead records who leads from now on. The lock is held.
func (g *group) lead(l leadership) {
	l.from = time.Now()
	g.leader, g.leaders = l.member, append(g.leaders, l)
}

// elect makes a member the leader that is in sync, or the first if there never was a leader.
func (g *group) elect() {
	members := g.running()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader != "" {
		return
	}
	i := slices.IndexFunc(members, g.isInSync)
	if i < 0 && len(g.leaders) > 0 {
		return
	}
	if i = max(i, 0); i < len(members) {
		g.lead(leadership{member: members[i].UID, node: members[i].Spec.NodeName})
		g.cluster.log.add("group", "leader elected", "pod", members[i].Name, "node", members[i].Spec.NodeName)
	}
}

// running returns the members that run.
func (g *group) running() []*corev1.Pod {
	return slices.DeleteFunc(kube.List[*corev1.Pod](g.cluster.server), func(p *corev1.Pod) bool {
		return p.Labels["app"] != g.spec.Name || p.Status.Phase != corev1.PodRunning
	})
}

// isInSync reports whether a member has the data of the leader.
func (g *group) isInSync(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue &&
			time.Since(c.LastTransitionTime.Time) >= g.spec.Group.Sync
	})
}

// releaser asks the members of the groups of a cluster, for one process of an agent.
type releaser struct {
	cluster *cluster
	process *process
}

// Release answers by the pods that the API server has, and by what the group knows of its members.
func (r releaser) Release(ctx context.Context, request handover.Request) (handover.Answer, error) {
	g := r.cluster.members[request.Pod.Labels["app"]]
	if g.spec.Group.Deaf {
		<-ctx.Done()
	}
	if !retry.Sleep(ctx, g.spec.Group.Answers) || r.process.hasCrashed() {
		return handover.Answer{}, errors.Join(errCrashed, ctx.Err())
	}
	return g.release(request), nil
}

func (g *group) release(request handover.Request) handover.Answer {
	others := slices.DeleteFunc(kube.List[*corev1.Pod](g.cluster.server), func(p *corev1.Pod) bool {
		return p.Labels["app"] != g.spec.Name || string(p.UID) == request.Pod.UID
	})
	good := slices.DeleteFunc(slices.Clone(others), func(p *corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || !g.isInSync(p)
	})
	isWhole := len(others) == g.spec.Replicas-1 && len(good) == len(others)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case string(g.leader) == request.Pod.UID && g.spec.Replicas == 1:
		return handover.Answer{Go: true, Outcome: handover.NoReplica}
	case !isWhole && !request.Last, g.leader == "":
		return handover.Answer{Outcome: handover.GroupBehind, Message: "a member is missing or not in sync"}
	case string(g.leader) != request.Pod.UID:
		return handover.Answer{Go: true, Outcome: handover.NotLeading}
	}
	return g.move(request, good)
}

// move moves the leadership to one of the members. The lock is held.
func (g *group) move(request handover.Request, members []*corev1.Pod) handover.Answer {
	i := slices.IndexFunc(members, func(p *corev1.Pod) bool {
		return request.Last || !slices.Contains(request.Leaving, p.Spec.NodeName)
	})
	if i < 0 {
		return handover.Answer{Outcome: handover.GroupBehind, Message: "no member stays"}
	}
	to := members[i]
	g.lead(leadership{member: to.UID, node: to.Spec.NodeName, moved: !request.Last})
	g.cluster.log.add("group", "leader moved", "from", request.Pod.Name, "to", to.Name, "node", to.Spec.NodeName)
	return handover.Answer{Go: true, Outcome: handover.HandedOver, Leader: to.Name}
}

// ledSince returns since when a member leads at a time; zero if it does not.
func (g *group) ledSince(member types.UID, at time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range slices.Backward(g.leaders) {
		switch {
		case l.from.After(at):
		case l.member == member:
			return l.from
		default:
			return time.Time{}
		}
	}
	return time.Time{}
}

// groupJudge judges what happened to the members of groups.
type groupJudge struct{ podJudge }

func (j groupJudge) all() {
	for i, r := range j.facts.removals {
		g := r.cluster.members[r.pod.Labels["app"]]
		if g == nil || !r.OK() || r.pod.DeletionTimestamp != nil || j.isNew(g, r) {
			continue // It is no member, or none any more, or none yet.
		}
		if m, marked := markAt(j.markings[r.cluster.Name], r.pod.Spec.NodeName, r.At); marked {
			j.judgeRemoval(g, r, m, j.facts.removals[:i])
		}
	}
	for _, c := range j.clusters {
		for _, g := range c.members {
			j.judgeMoves(g)
		}
	}
}

// isNew reports whether a watch may not have shown yet that a pod runs, which the scheduler may have bound late.
func (j groupJudge) isNew(g *group, r removal) bool {
	bound := r.pod.CreationTimestamp.Time
	if p := j.lives[r.cluster.Name][r.pod.UID]; p != nil {
		bound = p.bound
	}
	shown := bound.Add(g.spec.Start + r.cluster.Timing.Watch + 2*time.Second)
	return r.pod.Status.Phase != corev1.PodRunning || r.At.Before(shown)
}

// judgeRemoval: no leader is evicted before it has handed over, and no member while another one is missing, unless the
// time for that is up, or its machine is dead: a pod that is not Ready is deleted if the configuration says so.
func (j groupJudge) judgeRemoval(g *group, r removal, m marking, before []removal) {
	if !r.At.Before(j.timeIsUp(g, r, m)) || g.spec.Replicas == 1 || j.wasDead(r.pod.Spec.NodeName, r.At) {
		return
	}
	since := g.ledSince(r.pod.UID, r.At)
	if !since.IsZero() && since.Before(r.At.Add(-seen)) {
		j.violate("leader handed over", r.At, "%s removed pod %s, which has led since %v", r.Client, r.pod.Name,
			j.since(since))
	}
	if there := j.membersAt(g, r, before); j.isOrderly(g, r.cluster) && there < g.spec.Replicas {
		j.violate("members kept", r.At, "%s removed pod %s of a group with %d of %d members", r.Client, r.pod.Name, there,
			g.spec.Replicas)
	}
}

// isOrderly reports whether nothing keeps the agent of a cluster from waiting for its groups until half of the drain.
func (j groupJudge) isOrderly(g *group, c *cluster) bool {
	return !g.spec.Group.Deaf && len(j.spec.Faults) == 0 && len(c.Installs) == 1
}

// timeIsUp returns when a member may be removed whatever its group says: at half of the drain, when its annotation does
// not count any more, or, if the agent gets no answer, when it gives up.
func (j groupJudge) timeIsUp(g *group, r removal, m marking) time.Time {
	since := j.drainBegan(r, m)
	cfg := j.configs[r.Client].Drain
	timeout := cfg.HandOverTimeout
	half := min(j.deadlineOf(r, m).Sub(since)/2, cfg.AnnotationTimeout) - 12*time.Second
	if cfg.AnnotationNamespaces != "" { // none of theirs
		return since
	}
	if timeout > 0 && j.isOrderly(g, r.cluster) {
		return since.Add(half)
	}
	return since.Add(min(timeout, half))
}

// seen is when an agent must have noticed what others do to a group.
const seen = 10 * time.Second

// membersAt returns how many members there were when one of them was removed, without those that an agent had removed,
// or somebody else a while before.
func (j groupJudge) membersAt(g *group, r removal, before []removal) (n int) {
	for _, p := range j.lives[g.cluster.Name] {
		at := r.At.Add(-seen)
		removed := func(e removal) bool { return e.cluster == r.cluster && e.pod.UID == p.UID && e.OK() }
		if slices.ContainsFunc(before, removed) {
			at = r.At
		}
		isThere := !p.bound.After(r.At) && isAfter(p.ended, at) && isAfter(p.deleted, at)
		if p.Labels["app"] == g.spec.Name && isThere {
			n++
		}
	}
	return n
}

// isAfter reports whether something that may never have happened, which is zero, had not happened at a time.
func isAfter(t, at time.Time) bool { return t.IsZero() || t.After(at) }

// judgeMoves: the leadership moves to a node that is not being drained, so that it moves once when several are.
func (j groupJudge) judgeMoves(g *group) {
	for _, l := range g.leaders {
		known := l.from.Add(-g.cluster.Timing.Watch - 5*time.Second)
		if m, marked := markAt(j.markings[g.cluster.Name], l.node, l.from); l.moved && marked && m.from.Before(known) &&
			len(j.spec.Faults) == 0 {
			j.violate("leader to a node that stays", l.from, "the leadership of %s moved to %s, which was marked %v before",
				g.spec.Name, l.node, l.from.Sub(m.from))
		}
	}
}
