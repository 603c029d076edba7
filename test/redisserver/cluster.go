package redisserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// slots are the ones of a cluster, of which each shard has as many as the others, but for the last.
const slots = 16384

// NewCluster starts a cluster of shards with one replica each, which notices after DownAfter that a node is down.
// The servers 0 to shards-1 lead.
func NewCluster(ctx context.Context, shards int) (*Group, error) {
	g, err := newGroup(ctx)
	if err != nil {
		return nil, err
	}
	g.shards = shards
	for i := range 2 * shards {
		s, err := newServer(g.dir, fmt.Sprintf("redis-%d", i), g.NewIP(), func() string {
			return ServerConfig() + ClusterConfig()
		})
		if err != nil {
			return nil, err
		}
		s.args = func(ip string) []string { return []string{"--cluster-announce-ip", ip} }
		if err := s.Start(ctx); err != nil {
			return nil, errors.Join(err, g.Close())
		}
		g.Servers = append(g.Servers, s)
	}
	if err := join(ctx, g); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// ClusterConfig is what the configuration of the nodes of a cluster has besides.
func ClusterConfig() string {
	return fmt.Sprintf("cluster-enabled yes\ncluster-node-timeout %d\n", DownAfter.Milliseconds())
}

// join makes a cluster of the servers.
func join(ctx context.Context, g *Group) error {
	shards := g.shards
	for i, s := range g.Servers {
		if _, err := s.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1)); err != nil {
			return err
		}
		if _, err := s.Do(ctx, "CLUSTER", "MEET", g.Servers[0].IP(), "6379"); err != nil {
			return err
		}
		if i >= shards {
			continue
		}
		first, last := i*slots/shards, (i+1)*slots/shards-1
		if _, err := s.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(first), fmt.Sprint(last)); err != nil {
			return err
		}
	}
	for i, s := range g.Servers[shards:] {
		leader, err := g.Servers[i].Do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		err = wait(ctx, func() error {
			_, err := s.Do(ctx, "CLUSTER", "REPLICATE", leader.Text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return g.WaitCluster(ctx)
}

// Serving returns what finds the server that serves a key.
func (g *Group) Serving(key string) func(context.Context) *Server {
	return func(ctx context.Context) *Server {
		for _, s := range everyone(g) {
			if _, err := s.Do(ctx, "SET", key, ""); err == nil {
				return s
			}
		}
		return nil
	}
}

// WaitCluster waits until all servers know all of them where they are, and the replicas are in sync.
func (g *Group) WaitCluster(ctx context.Context) error {
	return wait(ctx, func() error {
		for _, s := range g.Servers {
			if err := s.checkNode(ctx, g.Servers); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Server) checkNode(ctx context.Context, all []*Server) error {
	state, err := s.Do(ctx, "CLUSTER", "INFO")
	if err != nil || !strings.Contains(state.Text, "cluster_state:ok") {
		return errors.Join(err, fmt.Errorf("%s: the cluster is not ok", s.Name))
	}
	info, err := s.Info(ctx, "replication")
	if err != nil || info["role"] == "slave" && info["master_link_status"] != "up" {
		return errors.Join(err, fmt.Errorf("%s is not in sync", s.Name))
	}
	return s.checkNodes(ctx, all)
}

// checkNodes returns an error unless a server knows all servers where they are.
func (s *Server) checkNodes(ctx context.Context, all []*Server) error {
	nodes, err := s.Do(ctx, "CLUSTER", "NODES")
	if err != nil || strings.Contains(nodes.Text, "fail") || strings.Contains(nodes.Text, "handshake") {
		return errors.Join(err, fmt.Errorf("%s: a node is not well:\n%s", s.Name, nodes.Text))
	}
	for _, other := range all {
		if !strings.Contains(nodes.Text, other.Address()+"@") {
			return fmt.Errorf("%s does not know where %s is", s.Name, other.Name)
		}
	}
	return nil
}
