package redis

import (
	"context"
	"fmt"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// releaseFromReplication releases a member of a group that nothing watches. A leader executes FAILOVER, which has all
// its writes in the replica before the replica leads, and then follows it; the other replicas are told to follow too.
func (c *call) releaseFromReplication(ctx context.Context) (handover.Answer, error) {
	g, err := c.survey(ctx)
	if err != nil {
		return handover.Answer{}, err
	}
	if err := checkUnwatched(ctx, g.self.server); err != nil {
		return handover.Answer{}, err
	}
	led := g.self.master
	if led {
		if err := withoutSurge(c.request.Pod, g.failOver(ctx, c.request.Last)); err != nil {
			return handover.Answer{}, err
		}
	}
	leader := g.at(g.self.leader)
	if led && leader != nil {
		c.moved = leader.Name // also if it was asked before it began to lead
	}
	if leader == nil || leader.err != nil || !leader.master {
		return handover.Answer{}, behind("%s replicates from %s, which does not lead", c.request.Pod.Name, g.self.leader.host)
	}
	return c.released(ctx, g, leader)
}

// released answers that the pod, which leads nothing, may go once the group is whole without it. After a hand-over that
// takes a moment.
func (c *call) released(ctx context.Context, g *group, leader *member) (handover.Answer, error) {
	if c.moved == "" {
		return handover.Answer{Go: true, Outcome: handover.NotLeading}, g.leave(ctx, leader)
	}
	err := poll(ctx, agreeTimeout, func() error {
		if err := g.refresh(ctx); err != nil {
			return err
		}
		return g.leave(ctx, leader)
	})
	return handover.Answer{
		Go: true, Outcome: handover.HandedOver, Leader: leader.Name,
		Message: fmt.Sprintf("%s leads instead of %s", leader.Name, c.request.Pod.Name),
	}, err
}

// leave has the others follow the leader instead of the pod, and returns an error unless the group is whole.
func (g *group) leave(ctx context.Context, leader *member) error {
	if err := g.followAll(ctx, leader); err != nil {
		return err
	}
	return g.checkWhole(leader)
}

// checkUnwatched returns an error if sentinels watch a server: a FAILOVER that they do not know of would confuse them.
func checkUnwatched(ctx context.Context, s *server) error {
	value, err := s.do(ctx, "PUBSUB", "NUMSUB", "__sentinel__:hello")
	switch {
	case err != nil:
		return err
	case len(value.Elements) == 2 && value.Elements[1].Text != "0":
		return invalid("sentinels watch %s: name their pods in %s", s.pod, workload.SentinelsAnnotation)
	}
	return nil
}

// failOver moves the leadership to the best target, unless a FAILOVER is under way already, and waits for its end.
func (g *group) failOver(ctx context.Context, last bool) error {
	if !g.self.failover {
		targets, err := g.targets(last)
		if err != nil {
			return err
		}
		_, err = g.self.server.do(ctx, "FAILOVER", "TO", g.self.nameOf(targets[0]), targets[0].port, "TIMEOUT", "5000")
		if err != nil {
			return err
		}
	}
	err := poll(ctx, failoverTimeout, func() error {
		if err := g.refresh(ctx); err != nil {
			return err
		}
		switch {
		case g.self.failover:
			return underway("%s executes FAILOVER", g.self.Name)
		case g.self.master:
			return fmt.Errorf("%s has aborted its FAILOVER", g.self.Name)
		case !g.self.inSync:
			return underway("%s connects to its new leader", g.self.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = g.self.server.do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	return err
}

// nameOf returns the host by which a leader knows a replica.
func (m *member) nameOf(replica *member) string {
	for _, c := range m.replicas {
		if replica.isAt(c.address) {
			return c.host
		}
	}
	return replica.IP
}

// followAll has the members that replicate from the pod, which leads no longer, replicate from the leader. Sentinel
// does so for those that it knows: not for one that has just started at another address.
func (g *group) followAll(ctx context.Context, leader *member) error {
	for _, m := range g.others {
		if m == leader || m.err != nil || !g.self.isAt(m.leader) {
			continue
		}
		if err := m.follow(ctx, leader); err != nil {
			return err
		}
		if err := m.ask(ctx, g.session); err != nil {
			return err
		}
	}
	return nil
}

// follow has a member replicate from another one, which must continue its history: whatever else the member has would
// be replaced by the data of the other one.
func (m *member) follow(ctx context.Context, leader *member) error {
	if !leader.continues(m) {
		return underway("%s does not continue the data of %s", leader.Name, m.Name)
	}
	_, err := m.server.do(ctx, "REPLICAOF", leader.IP, leader.port)
	return err
}

// continues reports whether a member has the stream of another one, or was promoted from a replica of it.
func (m *member) continues(other *member) bool {
	id := other.history[0]
	return id != "" && (m.history[0] == id || m.history[1] == id)
}
