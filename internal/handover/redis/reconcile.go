package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
)

// forgetStaleAddresses has one sentinel forget what has no pod anymore. Sentinel never does so by itself: it tries to
// reach the old addresses forever, and counts lost sentinels when it needs a majority. A sentinel that forgets knows
// nothing for some seconds, so the next one forgets when all know everything again.
func (c *call) forgetStaleAddresses(ctx context.Context) error {
	w, g, err := askWatched(ctx, c)
	if err != nil {
		return err
	}
	if err := w.checkComplete(g); err != nil {
		return err
	}
	return w.forget(ctx, g)
}

// askWatched asks the sentinels, and all members that they know.
func askWatched(ctx context.Context, c *call) (*sentinels, *group, error) {
	w, err := c.sentinels(ctx)
	if err != nil {
		return nil, nil, err
	}
	g, err := c.survey(ctx, w.known()...)
	return w, g, err
}

// repairQuorum has a sentinel forget others that have no pod anymore, if that is why there is no quorum.
func (w *sentinels) repairQuorum(ctx context.Context, g *group, problem error) error {
	if refused := resp.Error(""); !errors.As(problem, &refused) || !strings.HasPrefix(string(refused), "NOQUORUM") {
		return problem
	}
	if err := w.checkComplete(g); err != nil {
		return errors.Join(behind("%v", problem), err)
	}
	return errors.Join(behind("%v", problem), w.forget(ctx, g))
}

// checkComplete returns an error unless all sentinels agree on a leader and know all members and each other.
func (w *sentinels) checkComplete(g *group) error {
	leader, err := w.leader(g)
	if err != nil {
		return err
	}
	for _, s := range w.all {
		switch {
		case s.err != nil:
			return behind("%v", s.err)
		case !leader.isAt(s.leader):
			return underway("%s does not name %s yet", s.Name, leader.Name)
		}
		if unknown := w.unknownTo(s, g, leader); unknown != "" {
			return underway("%s does not know %s yet", s.Name, unknown)
		}
	}
	return nil
}

// unknownTo returns the name of a replica or a sentinel that a sentinel does not know or reach.
func (w *sentinels) unknownTo(s *sentinel, g *group, leader *member) string {
	for _, m := range append([]*member{g.self}, g.others...) {
		if m != leader && m.err == nil && !m.Deleting && !knows(s.replicas, m.isAt) {
			return m.Name
		}
	}
	for _, other := range w.all {
		if other != s && !knows(s.others, other.isAt) {
			return other.Name
		}
	}
	return ""
}

func (s *sentinel) isAt(a address) bool { return isHost(a.host, s.Pod) }

// knows reports whether something is among what a sentinel watches, and reachable.
func knows(all []watched, isAt func(address) bool) bool {
	return slices.ContainsFunc(all, func(one watched) bool { return isAt(one.address) && !one.down })
}

// forget resets the first sentinel that lists something without a pod, and answers that others may follow.
func (w *sentinels) forget(ctx context.Context, g *group) error {
	for _, s := range w.all {
		gone, leaving := w.strays(g, s)
		switch {
		case gone != "":
			if _, err := s.server.do(ctx, "SENTINEL", "RESET", w.name); err != nil {
				return err
			}
			return underway("%s forgets %s, which has no pod", s.Name, gone)
		case leaving != "":
			return underway("%s lists %s, which is stopping", s.Name, leaving)
		}
	}
	return nil
}

// strays returns an address that a sentinel lists as down and that no pod has, and one of which it is not known yet.
func (w *sentinels) strays(g *group, s *sentinel) (gone, leaving string) {
	check := func(all []watched, hasPod func(address) bool) {
		for _, one := range all {
			switch {
			case hasPod(one.address):
			case one.down:
				gone = one.host
			default:
				leaving = one.host
			}
		}
	}
	check(s.replicas, func(a address) bool { m := g.at(a); return m != nil && !m.Deleting })
	check(s.others, func(a address) bool {
		return slices.ContainsFunc(w.all, func(o *sentinel) bool { return o.isAt(a) && !o.Deleting })
	})
	return gone, leaving
}
