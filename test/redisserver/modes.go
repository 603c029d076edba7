package redisserver

import (
	"context"
	"errors"
	"fmt"
)

// Mode is how the servers of a group replicate.
type Mode string

// The modes.
const (
	Sentinel Mode = "sentinel" // a leader with two replicas, and three sentinels
	Cluster  Mode = "cluster"  // three shards of a leader and a replica
	Plain    Mode = "plain"    // a leader with two replicas, which nothing watches
)

// New starts a group of a mode. What watches its leaders notices after DownAfter that one is down.
func New(ctx context.Context, mode Mode) (*Group, error) {
	const size = 3
	switch mode {
	case Sentinel:
		return NewSentinel(ctx, size)
	case Cluster:
		return NewCluster(ctx, size)
	}
	return NewReplication(ctx, size)
}

// Leaders returns the servers that lead.
func (g *Group) Leaders(ctx context.Context) (leaders []*Server) {
	if g.shards == 0 {
		if leader := g.Leader(ctx); leader != nil {
			leaders = append(leaders, leader)
		}
		return leaders
	}
	for _, s := range g.Servers {
		if info, err := s.Info(ctx, "replication"); err == nil && info["role"] == "master" {
			leaders = append(leaders, s)
		}
	}
	return leaders
}

// WaitWhole waits until all servers lead or are in sync.
func (g *Group) WaitWhole(ctx context.Context) error {
	if g.shards > 0 {
		return g.WaitCluster(ctx)
	}
	return g.WaitInSync(ctx)
}

// Writers are the applications of a group.
type Writers []*Writer

// WriteAll starts to write to all shards of a group, as a library does that follows its leaders, if there is one, and
// as a client that keeps its connection.
func WriteAll(ctx context.Context, g *Group) (all Writers) {
	switch {
	case g.shards > 0:
		for _, tag := range []string{"{a}", "{b}", "{c}"} { // Their slots are 15495, 3300 and 7365: one of each third.
			all = append(all, Write(ctx, g.ClusterClient, tag+"following:"),
				Write(ctx, StickyClient(g.Serving(tag)), tag+"sticky:"))
		}
		return all
	case len(g.Sentinels) > 0:
		return Writers{
			Write(ctx, g.FollowingClient, "following:"), Write(ctx, StickyClient(g.Named), "sticky:"),
		}
	}
	return Writers{Write(ctx, StickyClient(g.Leader), "sticky:")}
}

// WaitAcknowledged is that of all writers.
func (w Writers) WaitAcknowledged(ctx context.Context) error {
	for _, one := range w {
		if err := one.WaitAcknowledged(ctx); err != nil {
			return fmt.Errorf("%s %w", one.prefix, err)
		}
	}
	return nil
}

// Stop is that of all writers. The report sums up what they have written, and has the longest gap of all.
func (w Writers) Stop(ctx context.Context) (Report, error) {
	var all Report
	var problems []error
	for _, one := range w {
		r, err := one.Stop(ctx)
		all.Acknowledged, all.Lost, all.Gap = all.Acknowledged+r.Acknowledged, all.Lost+r.Lost, max(all.Gap, r.Gap)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %w", one.prefix, err))
		}
	}
	return all, errors.Join(problems...)
}
