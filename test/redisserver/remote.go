package redisserver

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/go-redis/v9/logging"
)

// NewRemote returns a group of servers and sentinels that somebody else starts and stops, such as kubelets. It has so
// many shards if it is a cluster. Place says where they are. Nobody must call its Close.
func NewRemote(servers, sentinels []string, shards int) *Group {
	logging.Disable() // As in newGroup.
	g := &Group{shards: shards}
	for _, name := range servers {
		g.Servers = append(g.Servers, &Server{Name: name})
	}
	for _, name := range sentinels {
		g.Sentinels = append(g.Sentinels, &Server{Name: name, Sentinel: true})
	}
	return g
}

// Place says where the servers are, by name. The others are nowhere: their address is one at which nobody listens.
func (g *Group) Place(ips map[string]string) {
	for _, s := range All(g) {
		s.setIP(cmp.Or(ips[s.Name], "127.0.0.1"))
	}
}

// Form makes a group of servers and sentinels that know nothing of each other. The first server, or the first of each
// shard, leads.
func (g *Group) Form(ctx context.Context) error {
	if g.shards > 0 {
		return join(ctx, g)
	}
	leader := g.Servers[0].IP()
	for _, s := range g.Servers[1:] {
		if _, err := s.Do(ctx, "REPLICAOF", leader, fmt.Sprint(Port)); err != nil {
			return err
		}
	}
	for _, s := range g.Sentinels {
		quorum := fmt.Sprint(len(g.Sentinels)/2 + 1)
		if _, err := s.Do(ctx, "SENTINEL", "MONITOR", Master, leader, fmt.Sprint(Port), quorum); err != nil {
			return err
		}
		_, err := s.Do(ctx, "SENTINEL", "SET", Master,
			"down-after-milliseconds", fmt.Sprint(DownAfter.Milliseconds()), "failover-timeout", "60000")
		if err != nil {
			return err
		}
	}
	return g.WaitWatched(ctx)
}
