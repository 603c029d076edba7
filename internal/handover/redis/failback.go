package redis

import (
	"context"
	"slices"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// failBack has a preferred member lead again that can. It is the hand-over of the leader, as before an eviction: the
// preferred member is the first target.
func failBack(ctx context.Context, c *call, mode string) (handover.Answer, error) {
	leader, err := outranked(ctx, c, mode)
	if err != nil || leader == nil {
		return handover.Answer{Go: true, Outcome: handover.NotLeading}, err
	}
	answer, err := releaseOther(ctx, c, leader.Pod)
	answer.Go = false
	return answer, err
}

// releaseOther releases another pod of the group than that of the request.
func releaseOther(ctx context.Context, c *call, leader workload.Pod) (handover.Answer, error) {
	other := &call{request: workload.Request{Pod: leader, Deadline: c.request.Deadline}, session: c.session}
	for _, pod := range append([]workload.Pod{c.request.Pod}, c.request.Peers...) {
		if pod.UID != leader.UID {
			other.request.Peers = append(other.request.Peers, pod)
		}
	}
	answer, err := other.release(ctx)
	c.moved = other.moved
	return answer, err
}

// outranked returns a leader that is not preferred while one of its replicas is; or nil. It returns an error if that
// replica cannot lead yet.
func outranked(ctx context.Context, c *call, mode string) (*member, error) {
	if mode == clusterMode {
		v, err := c.clusterView(ctx)
		if err != nil {
			return nil, err
		}
		return outrankedIn(c.session, append([]*member{v.group.self}, v.group.others...))
	}
	g, err := c.survey(ctx)
	if err != nil {
		return nil, err
	}
	members := append([]*member{g.self}, g.others...)
	leader, err := outrankedIn(c.session, members)
	if leader != nil && mode == sentinelMode && !isSentinelsChoice(members, leader) {
		return nil, nil
	}
	return leader, err
}

// outrankedIn returns the first such leader.
func outrankedIn(s *session, members []*member) (*member, error) {
	for _, m := range members {
		switch {
		case !m.prefers() || m.master:
			continue
		case m.err != nil:
			return nil, behind("%v", m.err)
		}
		for _, leader := range members {
			if leader.err == nil && leader.master && !leader.prefers() && leader.isAt(m.leader) {
				return leader, (&group{session: s, self: leader, others: members}).target(m, false)
			}
		}
	}
	return nil, nil
}

// isSentinelsChoice reports whether Sentinel would promote a preferred member: one with the lowest priority above 0.
func isSentinelsChoice(members []*member, leader *member) bool {
	replicas := slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m == leader })
	lowest := lowestPriority(replicas)
	return !slices.ContainsFunc(replicas, func(m *member) bool { return m.priority == lowest && !m.prefers() })
}
