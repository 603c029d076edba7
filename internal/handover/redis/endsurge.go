package redis

import (
	"context"
	"fmt"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// Surges is that of workload.Surger.
func (r *Releaser) Surges(ctx context.Context) ([]workload.Surge, error) {
	if r.options.Scaler == nil {
		return nil, nil
	}
	return r.options.Scaler.Surges(ctx)
}

// EndSurge is that of workload.Surger. The pod that left gets the leadership back as soon as it has moved. Then the
// additional pod leaves the group, and the StatefulSet has as many replicas as before. Every step is one that a crash
// may follow: the next call begins with the actual state.
func (r *Releaser) EndSurge(
	ctx context.Context, s workload.Surge, pods []workload.Pod,
) (handover.Answer, error) {
	scaler := r.options.Scaler
	phase, err := scaler.Phase(ctx, s)
	if err != nil {
		return handover.Answer{}, err
	}
	if phase == workload.SurgeOver {
		return handover.Answer{Go: true}, scaler.Forget(ctx, s, "the StatefulSet or its number of replicas was changed")
	}
	e := &ending{Surge: s, phase: phase}
	request := e.request(pods)
	if request.Pod.Name == "" {
		return handover.Answer{Outcome: handover.GroupBehind, Message: s.For + " has not moved yet"}, nil
	}
	answer, err := r.answer(ctx, request, func(c *call, ctx context.Context) (handover.Answer, error) {
		return handover.Answer{Go: true}, endSurge(ctx, c, e)
	})
	answer.Go = answer.Go && answer.Outcome == ""
	return answer, err
}

// ending is a surge that ends.
type ending struct {
	workload.Surge
	phase workload.SurgePhase
	added *workload.Pod // the additional pod; nil if there is none
}

// request returns a request with the pod that has moved; without one if it has not moved yet.
func (e *ending) request(pods []workload.Pod) (r workload.Request) {
	isOwn := func(p workload.Pod, name string) bool {
		return p.Name == name && p.ControllerUID == e.UID
	}
	for _, pod := range pods {
		if isOwn(pod, e.Pod) {
			e.added = &pod
		}
		if isOwn(pod, e.For) && pod.Stays && !pod.Deleting && pod.IP != "" {
			r.Pod, e.ForUID = pod, pod.UID
			continue
		}
		r.Peers = append(r.Peers, pod)
	}
	return r
}

// endSurge takes the next steps. It returns nil when nothing is left to do.
func endSurge(ctx context.Context, c *call, e *ending) error {
	scaler, mode, err := c.session.options.Scaler, "", error(nil)
	if mode, err = c.mode(ctx); err != nil {
		return err
	}
	leave := map[string]func(context.Context, *call, *ending) error{
		clusterMode: leaveCluster, sentinelMode: leaveSentinel,
	}
	if do := leave[mode]; do != nil {
		err = do(ctx, c, e)
	}
	switch {
	case err != nil:
		return err
	case e.phase == workload.SurgePresent && !c.request.Pod.Ready:
		return behind("%s is not Ready", c.request.Pod.Name)
	case e.phase == workload.SurgePresent:
		if err := scaler.Shrink(ctx, e.Surge); err != nil {
			return err
		}
		return underway("%s is to stop", e.Pod)
	case e.added != nil:
		return behind("%s has not stopped yet", e.Pod)
	}
	return scaler.Forget(ctx, e.Surge, fmt.Sprintf("%s has moved, and %s has gone", e.For, e.Pod))
}

// handBack has the additional pod hand the leadership over to the pod that has moved, as before an eviction.
func handBack(ctx context.Context, c *call, leader workload.Pod) error {
	if !c.request.Pod.Ready {
		return behind("%s is not Ready", c.request.Pod.Name)
	}
	answer, err := releaseOther(ctx, c, leader)
	if err == nil {
		err = underway("%s hands over to %s: %s", leader.Name, c.request.Pod.Name, answer.Message)
	}
	return err
}

// leaveSentinel has the additional pod lead nothing, and when it has gone the sentinels forget it.
func leaveSentinel(ctx context.Context, c *call, e *ending) error {
	switch {
	case e.phase == workload.SurgePresent:
		return leadBySentinel(ctx, c, e)
	case e.added != nil:
		return nil
	}
	return c.forgetStaleAddresses(ctx)
}

// leadBySentinel has the pod that has moved lead again, if the additional pod leads.
func leadBySentinel(ctx context.Context, c *call, e *ending) error {
	w, g, err := askWatched(ctx, c)
	if err != nil {
		return err
	}
	leader, err := w.leader(g)
	switch {
	case err != nil:
		return err
	case leader.err != nil:
		return behind("%v", leader.err)
	case e.added == nil || leader.UID != e.added.UID:
		return nil
	case !leader.isAt(g.self.leader) || !g.self.inSync:
		return behind("%s is not in sync with %s", g.self.Name, leader.Name)
	}
	return handBack(ctx, c, leader.Pod)
}

// leaveCluster has the pod that has moved lead again, and then the cluster and the additional pod forget each other.
func leaveCluster(ctx context.Context, c *call, e *ending) error {
	returned, err := askJoiner(ctx, c, c.request.Pod)
	if err != nil {
		return err
	}
	added := additional(ctx, c, e)
	if added == nil || !added.myself().leads() {
		return forgetNodes(ctx, c, &shard{returned: returned, added: added, leaves: e.added})
	}
	if returned.myself().is("master") && !returned.myself().slots {
		return returned.join(ctx, added)
	}
	if err := forgetNodes(ctx, c, &shard{returned: returned, added: added}); err != nil {
		return err
	}
	return handBack(ctx, c, added.Pod)
}

// additional asks the additional pod for its cluster; nil if it does not answer. Nothing is lost then: what the others
// say of it decides.
func additional(ctx context.Context, c *call, e *ending) *joiner {
	if e.added == nil || e.added.Deleting {
		return nil
	}
	added, err := askJoiner(ctx, c, *e.added)
	if err != nil {
		return nil
	}
	return added
}

// shard is the pod that has moved and the additional one.
type shard struct {
	returned, added *joiner         // added is nil if it does not answer
	leaves          *workload.Pod   // the additional pod if it leaves the cluster
	members         map[string]bool // by ID, without the one that leaves
	foreign         map[string]bool // IDs of replicas of other members
}

// forgetNodes has all members of a cluster forget the additional pod if it leaves, and former nodes of the shard that
// have failed and are no pod's any longer. Then the additional pod forgets the cluster.
func forgetNodes(ctx context.Context, c *call, s *shard) error {
	members, err := clusterMembers(ctx, c, s)
	if err != nil {
		return err
	}
	s.sort(members)
	for _, m := range members {
		for _, n := range m.nodes {
			if err := s.forget(ctx, m, n); err != nil {
				return err
			}
		}
	}
	if s.leaves == nil || s.added == nil || len(s.added.nodes) < 2 {
		return nil
	}
	return s.added.reset(ctx)
}

// clusterMembers asks all members of the cluster but one that leaves. All of them must answer: one that remembers a
// node tells the others of it after a minute.
func clusterMembers(ctx context.Context, c *call, s *shard) (members []*joiner, err error) {
	v, err := c.clusterView(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range append([]*member{v.group.self}, v.group.others...) {
		switch {
		case s.leaves != nil && m.UID == s.leaves.UID:
			continue
		case m.Deleting:
			return nil, behind("%s is being deleted", m.Name)
		}
		j, err := askJoiner(ctx, c, m.Pod)
		if err != nil {
			return nil, err
		}
		members = append(members, j)
	}
	return members, nil
}

// sort finds out which nodes are not to be forgotten: the members, and replicas of other shards, which may be those of
// pods that move now. A node that another one has told of has no known leader.
func (s *shard) sort(members []*joiner) {
	s.members, s.foreign = map[string]bool{}, map[string]bool{}
	others := map[string]bool{}
	for _, m := range members {
		s.members[m.id()] = true
		others[m.id()] = m.id() != s.returned.id() && (s.added == nil || m.id() != s.added.id())
	}
	for _, m := range members {
		for _, n := range m.nodes {
			s.foreign[n.id] = s.foreign[n.id] || others[n.leader]
		}
	}
}

// forget has a member forget a node, if that is to be forgotten.
func (s *shard) forget(ctx context.Context, m *joiner, n clusterNode) error {
	leaves := s.leaves != nil && s.added != nil && n.id == s.added.id()
	switch {
	case s.members[n.id], n.is("handshake"), s.foreign[n.id] && !leaves:
		return nil
	case n.slots:
		return behind("the node at %s serves slots, says %s", n.host, m.Name)
	case !leaves && !n.is("fail") && !n.is("noaddr"):
		return behind("the node at %s has no pod, and has not failed yet, says %s", n.host, m.Name)
	}
	_, err := m.server.do(ctx, "CLUSTER", "FORGET", n.id)
	return err
}
