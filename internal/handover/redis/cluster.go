package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// releaseFromCluster releases a node of a cluster. A replica takes over by CLUSTER FAILOVER, for which the leader
// pauses writes until the replica has all of them. It is never forced.
func (c *call) releaseFromCluster(ctx context.Context) (handover.Answer, error) {
	v, err := c.clusterView(ctx)
	if err != nil {
		return handover.Answer{}, err
	}
	if !v.myself().leads() {
		return handover.Answer{Go: true, Outcome: handover.NotLeading}, v.checkWhole()
	}
	target, err := v.target(c.request.Last)
	if isNoReplica(err) || err != nil && isSurging(ctx, c) {
		err = addReplica(ctx, c, err, func(ctx context.Context, added *member) error { return joinCluster(ctx, v, added) })
	}
	if err != nil {
		return handover.Answer{}, err
	}
	if err := v.failOver(ctx, target); err != nil {
		return handover.Answer{}, err
	}
	c.moved = target.Name
	redirected := time.Now().Add(redirectTime)
	err = poll(ctx, agreeTimeout, func() error {
		if err := v.refresh(ctx); err != nil || !time.Now().Before(redirected) {
			return err
		}
		return underway("%s redirects its clients to %s", c.request.Pod.Name, target.Name)
	})
	return handover.Answer{
		Go: true, Outcome: handover.HandedOver, Leader: target.Name,
		Message: fmt.Sprintf("%s leads instead of %s", target.Name, c.request.Pod.Name),
	}, err
}

// failOver has a replica take over, and waits until the pod follows it.
func (v *clusterView) failOver(ctx context.Context, target *member) error {
	if err := poll(ctx, agreeTimeout, func() error { return v.checkVoters(ctx, target) }); err != nil {
		return err
	}
	if _, err := target.server.do(ctx, "CLUSTER", "FAILOVER"); err != nil {
		return err
	}
	self := v.group.self
	return poll(ctx, failoverTimeout, func() error {
		if self.ask(ctx, v.group.session) != nil || self.master || !self.inSync {
			return underway("%s takes over from %s", target.Name, self.Name)
		}
		return nil
	})
}

// clusterView is what the pod says of its cluster, and what the pods of the cluster say.
type clusterView struct {
	clusterState
	group *group
}

// clusterState is what a node of a cluster that works says of it.
type clusterState struct {
	epoch int
	nodes []clusterNode
}

// clusterNode is a line of CLUSTER NODES.
type clusterNode struct {
	address
	bus    string // the port of the cluster bus
	id     string
	flags  string    // separated by commas
	leader string    // the ID of its leader
	heard  time.Time // of its last answer
	linked bool      // the asked node is connected to it
	slots  bool      // it serves some
}

func (n clusterNode) is(flag string) bool { return lists(n.flags, flag) }

func (n clusterNode) leads() bool { return n.is("master") && n.slots }

func (n clusterNode) failed() bool {
	return n.is("fail") || n.is("fail?") || n.is("handshake") || n.is("noaddr")
}

// clusterView asks the pod for its cluster, and then all pods of it.
func (c *call) clusterView(ctx context.Context) (*clusterView, error) {
	server, err := c.session.redis(ctx, c.request.Pod)
	if err != nil {
		return nil, err
	}
	state, err := askCluster(ctx, server)
	if err != nil {
		return nil, err
	}
	var known []address
	for _, n := range state.nodes {
		known = append(known, n.address)
	}
	g, err := c.survey(ctx, known...)
	if err != nil {
		return nil, err
	}
	addNewcomers(ctx, g, c.candidates(nil, nil))
	return &clusterView{clusterState: state, group: g}, nil
}

// addNewcomers adds the pods of the same StatefulSet that are not related yet: one that has just started at another
// address does not say for a moment whom it replicates from.
func addNewcomers(ctx context.Context, g *group, candidates []*member) {
	for _, m := range candidates {
		isKnown := slices.ContainsFunc(g.others, func(other *member) bool { return other.UID == m.UID })
		if !isKnown && m.isSibling(g.self) {
			_ = m.ask(ctx, g.session)
			g.others = append(g.others, m)
		}
	}
}

// refresh asks again, and returns an error unless the cluster is whole.
func (v *clusterView) refresh(ctx context.Context) (err error) {
	if v.clusterState, err = askCluster(ctx, v.group.self.server); err != nil {
		return err
	}
	if err := v.group.refresh(ctx); err != nil {
		return err
	}
	return v.checkWhole()
}

// askCluster asks a node for its cluster, which must work.
func askCluster(ctx context.Context, s *server) (clusterState, error) {
	info, err := s.fields(ctx, "CLUSTER", "INFO")
	if err != nil {
		return clusterState{}, err
	}
	if info["cluster_state"] != "ok" {
		return clusterState{}, behind("%s says that the state of its cluster is %q", s.pod, info["cluster_state"])
	}
	state, err := askNodes(ctx, s)
	state.epoch = number(info["cluster_current_epoch"])
	return state, err
}

// myself returns the node that was asked.
func (s clusterState) myself() clusterNode {
	for _, n := range s.nodes {
		if n.is("myself") {
			return n
		}
	}
	return clusterNode{}
}

// knows reports whether a node that is connected is a replica of another one, by their IDs, and where a member is.
func (s clusterState) knows(id, leader string, m *member) bool {
	return slices.ContainsFunc(s.nodes, func(n clusterNode) bool {
		return n.id == id && n.leader == leader && n.is("slave") && !n.failed() && n.linked && m.isAt(n.address)
	})
}

// of returns the node of a member; the zero clusterNode if the cluster does not know the member.
func (v *clusterView) of(m *member) clusterNode {
	for _, n := range v.nodes {
		if m.isAt(n.address) {
			return n
		}
	}
	return clusterNode{}
}

// target returns the replica of the pod that is to lead. One that was lost a moment ago is waited for.
func (v *clusterView) target(last bool) (*member, error) {
	shard := &group{session: v.group.session, self: v.group.self}
	var unknown *member
	for _, m := range v.group.others {
		switch n := v.of(m); {
		case n.id == "":
			unknown = m
		case n.leader == v.myself().id:
			shard.others = append(shard.others, m)
		case m.err == nil && v.group.self.isAt(m.leader):
			unknown = m
		}
	}
	if len(shard.others) == 0 && unknown != nil {
		return nil, behind("%s is not in the cluster yet", unknown.Name)
	}
	if len(shard.others) == 0 {
		own := v.myself().id
		if err := v.checkLost(func(n clusterNode) bool { return n.leader == own }); err != nil {
			return nil, err
		}
	}
	targets, err := shard.targets(last)
	if err != nil {
		return nil, err
	}
	return targets[0], nil
}

// checkVoters returns an error unless all leaders would vote for a replica of the pod: they know that it is one, and it
// knows of all earlier failovers. A replica that does not get their votes at once does not ask again for four times the
// node timeout, and writes are paused for some of it.
func (v *clusterView) checkVoters(ctx context.Context, target *member) error {
	own, err := askCluster(ctx, target.server)
	if err != nil {
		return err
	}
	for _, m := range v.group.others {
		if m.err != nil || !v.of(m).leads() {
			continue
		}
		voter, err := askCluster(ctx, m.server)
		switch {
		case err != nil:
			return err
		case voter.epoch > own.epoch:
			return underway("%s does not know of an earlier failover yet", target.Name)
		case !voter.knows(own.myself().id, v.myself().id, target):
			return underway("%s does not know %s as a replica of %s yet", m.Name, target.Name, v.group.self.Name)
		}
	}
	return nil
}

// checkWhole returns an error unless the other pods of the cluster are in sync, and none is being deleted.
func (v *clusterView) checkWhole() error {
	for _, m := range v.group.others {
		if err := v.checkMember(m); err != nil {
			return err
		}
	}
	return v.checkLost(func(clusterNode) bool { return true })
}

// checkLost returns an error if one of some nodes was lost a moment ago. A node is considered failed after its node
// timeout only. Until its pod is created again, nothing else shows it.
func (v *clusterView) checkLost(isOne func(clusterNode) bool) error {
	for _, n := range v.nodes {
		isLost := (n.failed() || !n.linked) && v.group.at(n.address) == nil && time.Since(n.heard) < goneTimeout
		if isLost && isOne(n) {
			return behind("the node at %s was lost a moment ago", n.host)
		}
	}
	return nil
}

func (v *clusterView) checkMember(m *member) error {
	n := v.of(m)
	switch {
	case m.Deleting:
		return behind("%s is being deleted", m.Name)
	case m.err != nil:
		return behind("%v", m.err)
	case n.id == "" || n.failed():
		return behind("%s is not in the cluster yet", m.Name)
	case !m.master && !m.inSync:
		return behind("%s is not in sync", m.Name)
	}
	return nil
}
