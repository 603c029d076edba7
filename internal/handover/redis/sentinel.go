package redis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// releaseFromSentinel releases a member of a group that sentinels watch. A failover by Sentinel alone loses writes: it
// leaves the old leader a master, which accepts writes, for about ten seconds. So the leader stops first, and follows
// the replica that Sentinel is then asked to promote. Writes are paused meanwhile. After a crash between any two steps
// the pause ends by itself, and the next call continues: it finds either the leader as it was, or a leader that is a
// replica already, for which only a failover is missing.
func (c *call) releaseFromSentinel(ctx context.Context) (handover.Answer, error) {
	w, g, err := askWatched(ctx, c)
	if err != nil {
		return handover.Answer{}, err
	}
	leader, err := w.leader(g)
	if err != nil {
		return handover.Answer{}, err
	}
	switch {
	case leader == g.self:
		leader, err = c.failOverBySentinel(ctx, g, w)
		if isNoReplica(err) && len(g.self.replicas) == 0 {
			err = addReplica(ctx, c, err, func(ctx context.Context, added *member) error {
				return joinReplication(ctx, g.self, added)
			})
		}
	case g.self.master:
		err = g.yield(ctx, leader, w)
	}
	if err != nil {
		return handover.Answer{}, err
	}
	return c.released(ctx, g, leader)
}

// failOverBySentinel has another member lead, and returns it.
func (c *call) failOverBySentinel(ctx context.Context, g *group, w *sentinels) (*member, error) {
	promoted := g.promoted()
	if promoted == nil {
		if err := c.startFailover(ctx, g, w); err != nil {
			return nil, err
		}
		var err error
		if promoted, err = g.waitPromoted(ctx); err != nil {
			return nil, err
		}
	}
	c.moved = promoted.Name
	if err := g.self.yieldTo(ctx, promoted); err != nil {
		return nil, err
	}
	return promoted, w.waitLeader(ctx, g, promoted)
}

// startFailover has Sentinel promote a replica of the pod, which does not accept writes any longer then. A pod that is
// a replica already has stopped in an earlier call. While a sentinel fails over, no other is asked: two of them might
// promote two replicas in the same epoch, and then the sentinels would not agree for half a minute.
func (c *call) startFailover(ctx context.Context, g *group, w *sentinels) (err error) {
	var targets []*member
	if g.self.master {
		if targets, err = g.targetsOfSentinel(c.request.Last); err != nil {
			return err
		}
	}
	var s *sentinel
	if !w.isFailingOver(g.self) {
		if s, err = w.withQuorum(ctx, g.self, targets); err != nil {
			return w.repairQuorum(ctx, g, err)
		}
	}
	if g.self.master {
		if err := g.stopWrites(ctx, targets); err != nil {
			return err
		}
	}
	if s == nil {
		return nil
	}
	return w.failOver(ctx, g, s)
}

// stopWrites pauses the writes of the leader, waits until the targets have all of them, and makes it a replica of one.
// When that fails, it leads as before.
func (g *group) stopWrites(ctx context.Context, targets []*member) error {
	paused := time.Now()
	if _, err := g.self.server.do(ctx, "CLIENT", "PAUSE", "5000", "WRITE"); err != nil {
		return err
	}
	err := poll(ctx, catchUpTimeout, func() error { return g.checkCaughtUp(ctx, targets) })
	if err == nil && time.Since(paused) > pauseLeft {
		err = behind("%s did not get the last writes in time", targets[0].Name)
	}
	if err == nil {
		err = g.self.follow(ctx, targets[0])
	}
	if err != nil {
		return errors.Join(err, g.self.unpause(ctx))
	}
	return nil
}

// targetsOfSentinel returns the members that Sentinel may choose: those with the lowest priority above 0. All of them
// must be usable; in a last call, one.
func (g *group) targetsOfSentinel(last bool) ([]*member, error) {
	if _, err := g.targets(last); err != nil {
		return nil, err
	}
	lowest := lowestPriority(g.others)
	if lowest == 0 {
		return nil, noReplica("no replica may lead: replica-priority is 0")
	}
	eligible := slices.DeleteFunc(slices.Clone(g.others), func(m *member) bool {
		return m.err == nil && m.priority != lowest && (!last || m.priority == 0)
	})
	targets, problem := g.usable(eligible, last)
	if problem == nil || last && len(targets) > 0 {
		return targets, nil
	}
	return nil, problem
}

// lowestPriority returns the lowest priority above 0; 0 if no member that answers has one.
func lowestPriority(members []*member) (lowest int) {
	for _, m := range members {
		if m.err == nil && m.priority > 0 && (lowest == 0 || m.priority < lowest) {
			lowest = m.priority
		}
	}
	return lowest
}

// checkCaughtUp returns an error unless the targets have all that the leader has written.
func (g *group) checkCaughtUp(ctx context.Context, targets []*member) error {
	if err := g.self.ask(ctx, g.session); err != nil {
		return err
	}
	askAll(ctx, g.session, targets)
	for _, m := range targets {
		if m.err != nil {
			return m.err
		}
		if m.offset < g.self.offset {
			return behind("%s is %d bytes behind while writes are paused", m.Name, g.self.offset-m.offset)
		}
	}
	return nil
}

// unpause ends the pause of writes, also when ctx has ended meanwhile: otherwise writes would wait for the whole pause.
func (m *member) unpause(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	_, err := m.server.do(ctx, "CLIENT", "UNPAUSE")
	return err
}

// failOver asks a sentinel for the failover, and others if it does not answer. When the failover is refused, the leader
// leads again.
func (w *sentinels) failOver(ctx context.Context, g *group, first *sentinel) error {
	var err error
	for _, s := range append([]*sentinel{first}, w.all...) {
		if !s.isWatching(g.self) {
			continue
		}
		_, err = s.server.do(ctx, "SENTINEL", "FAILOVER", w.name)
		refused := resp.Error("")
		switch {
		case err == nil || errors.As(err, &refused) && strings.HasPrefix(string(refused), "INPROG"):
			return nil
		case refused != "":
			_, undo := g.self.server.do(ctx, "REPLICAOF", "NO", "ONE")
			return errors.Join(behind("%v", err), undo, g.self.unpause(ctx))
		}
	}
	return err
}

// promoted returns a member that leads already and continues the data of the pod, or nil. A member without these data
// has just started, and waits for a sentinel to tell it what to replicate.
func (g *group) promoted() *member {
	for _, m := range g.others {
		if m.err == nil && m.master && m.continues(g.self) {
			return m
		}
	}
	return nil
}

// waitPromoted waits until another member leads, and returns it.
func (g *group) waitPromoted(ctx context.Context) (promoted *member, err error) {
	return promoted, poll(ctx, failoverTimeout, func() error {
		askAll(ctx, g.session, g.others)
		if promoted = g.promoted(); promoted == nil {
			return underway("Sentinel has not promoted a replica of %s yet", g.self.Name)
		}
		return nil
	})
}

// yieldTo has a member follow the new leader, and its clients connect again: they would keep on writing to it.
func (m *member) yieldTo(ctx context.Context, leader *member) error {
	if !leader.isAt(m.leader) {
		if err := m.follow(ctx, leader); err != nil {
			return err
		}
	}
	if _, err := m.server.do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		return err
	}
	return m.unpause(ctx)
}

// yield ends what a failover by someone else has left: the pod is a master, and a majority of the sentinels names
// another one. While one sentinel names the pod, it is being promoted.
func (g *group) yield(ctx context.Context, leader *member, w *sentinels) error {
	for _, s := range w.all {
		if s.err == nil && g.self.isAt(s.leader) {
			return underway("the sentinels do not agree about the master %s", w.name)
		}
	}
	if leader.err != nil || !leader.master {
		return underway("%s does not lead yet", leader.Name)
	}
	return g.self.yieldTo(ctx, leader)
}
