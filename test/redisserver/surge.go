package redisserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SurgeRights are the ones that a surge in a cluster needs too.
const SurgeRights = "+cluster|meet +cluster|replicate +cluster|forget +cluster|reset"

// NewShards starts a cluster of shards without replicas. Its Spare is another server, which is not started.
func NewShards(ctx context.Context, shards int) (*Group, error) {
	g, err := newGroup(ctx)
	if err != nil {
		return nil, err
	}
	g.shards = shards
	for i := range shards + 1 {
		s, err := newServer(g.dir, fmt.Sprintf("redis-%d", i), g.NewIP(), func() string {
			return strings.Replace(ServerConfig(), ServerRights, ServerRights+" "+SurgeRights, 1) + ClusterConfig()
		})
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		s.args = func(ip string) []string { return []string{"--cluster-announce-ip", ip} }
		if i == shards {
			g.Spare = s
			break
		}
		g.Servers = append(g.Servers, s)
		if err := s.Start(ctx); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if err := join(ctx, g); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// NewLoneLeader starts a leader without replicas, and sentinels. Its Spare is another server, which is not started.
func NewLoneLeader(ctx context.Context, sentinels int) (*Group, error) {
	g, err := NewReplication(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := addSentinels(ctx, g, sentinels); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if g.Spare, err = newServer(g.dir, "redis-1", g.NewIP(), ServerConfig); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	g.Spare.args = g.Servers[0].args
	return g, nil
}

// StartAlone has a server follow nobody when it starts.
func StartAlone(s *Server) {
	s.args = func(ip string) []string { return []string{"--replica-announce-ip", ip} }
}

// everyone returns the servers and the spare one.
func everyone(g *Group) []*Server {
	if g.Spare == nil {
		return g.Servers
	}
	return append(slices.Clip(g.Servers), g.Spare)
}

// All returns all servers and sentinels, also those that do not run.
func All(g *Group) []*Server { return slices.Concat(everyone(g), g.Sentinels) }

// running returns all servers and sentinels that run.
func running(g *Group) []*Server {
	return slices.DeleteFunc(All(g), func(s *Server) bool { return s.running() == nil })
}

// WaitAlone waits until the servers and sentinels know each other, and nobody else.
func WaitAlone(ctx context.Context, g *Group) error {
	if g.shards == 0 {
		return g.WaitWatched(ctx)
	}
	if err := g.WaitCluster(ctx); err != nil {
		return err
	}
	return wait(ctx, func() error {
		for _, s := range g.Servers {
			nodes, err := s.Do(ctx, "CLUSTER", "NODES")
			if n := strings.Count(nodes.Text, "\n"); err != nil || n != len(g.Servers) {
				return errors.Join(err, fmt.Errorf("%s knows %d nodes:\n%s", s.Name, n, nodes.Text))
			}
		}
		return nil
	})
}
