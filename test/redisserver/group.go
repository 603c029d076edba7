package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
)

// The user that hand-overs log in as, with nothing but the rights that docs/redis.md lists.
const (
	Username = "node-drainer"
	Password = "secret"

	ServerRights = "-@all +info +client|pause +client|unpause +client|kill +replicaof +failover +pubsub|numsub " +
		"+cluster|info +cluster|nodes +cluster|failover"
	SentinelRights = "-@all +sentinel|masters +sentinel|master +sentinel|get-master-addr-by-name +sentinel|replicas " +
		"+sentinel|sentinels +sentinel|ckquorum +sentinel|failover +sentinel|reset"
)

// DownAfter is for how long a member does not answer until the sentinels or the cluster consider it down: without a
// hand-over, writes fail for longer.
const DownAfter = 5 * time.Second

// Master is the name that sentinels know a group by.
const Master = "mymaster"

// Group is servers that replicate the same data, and the sentinels that watch them.
type Group struct {
	Servers   []*Server
	Sentinels []*Server
	Spare     *Server // the one that a surge starts; nil without
	Service   string  // an address at which any of the sentinels answers; empty without one

	shards int // of a cluster; 0 if it is none

	dir  string
	lock net.Listener // on the network, while the group has it
	net  string       // the first three bytes of all addresses
	last int          // the last byte of the latest address
}

// newGroup returns a group without servers, in a temporary folder and a network of its own.
func newGroup(ctx context.Context) (*Group, error) {
	logging.Disable() // It is about connections that fail, which is what the clients are for.
	dir, err := os.MkdirTemp("", "redisserver-")
	if err != nil {
		return nil, err
	}
	for i := range 1 << 12 {
		at := os.Getpid() + i*7919
		network := fmt.Sprintf("127.%d.%d", 16+at%200, 1+at/200%250)
		if lock, err := (&net.ListenConfig{}).Listen(ctx, "tcp", network+".1:6378"); err == nil {
			return &Group{dir: dir, lock: lock, net: network, last: 1}, nil
		}
	}
	return nil, errors.New("no network of the loopback is free")
}

// NewIP returns an address that nobody had.
func (g *Group) NewIP() string {
	g.last++
	return fmt.Sprintf("%s.%d", g.net, g.last)
}

// Close stops all servers, and removes their folders.
func (g *Group) Close() error {
	var problems []error
	for _, s := range All(g) {
		problems = append(problems, s.Stop())
	}
	return errors.Join(append(problems, os.RemoveAll(g.dir), g.lock.Close())...)
}

// ServerConfig is the configuration of all servers. What a server has of the stream survives a restart.
func ServerConfig() string {
	return strings.Join([]string{
		"port 6379", "protected-mode no", "save 3600 1", "appendonly no", "repl-diskless-sync-delay 0",
		"user " + Username + " on >" + Password + " " + ServerRights,
	}, "\n") + "\n"
}

// SentinelConfig is the configuration of all sentinels.
func SentinelConfig(leader string, quorum int) string {
	return strings.Join([]string{
		"port 26379", "protected-mode no",
		"user " + Username + " on >" + Password + " " + SentinelRights,
		fmt.Sprintf("sentinel monitor %s %s 6379 %d", Master, leader, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", Master, DownAfter.Milliseconds()),
		"sentinel failover-timeout " + Master + " 60000",
	}, "\n") + "\n"
}

// NewReplication starts a leader with some replicas, which nothing watches.
func NewReplication(ctx context.Context, count int) (*Group, error) {
	g, err := newGroup(ctx)
	if err != nil {
		return nil, err
	}
	return g, g.addServers(ctx, count)
}

// addServers starts servers that follow whoever leads; the first one leads.
func (g *Group) addServers(ctx context.Context, count int) error {
	for i := range count {
		s, err := newServer(g.dir, fmt.Sprintf("redis-%d", i), g.NewIP(), ServerConfig)
		if err != nil {
			return err
		}
		s.args = func(ip string) []string {
			args := []string{"--replica-announce-ip", ip}
			if leader := g.Leader(ctx); leader != nil {
				args = append(args, "--replicaof", leader.IP()+" 6379")
			}
			return args
		}
		if err := s.Start(ctx); err != nil {
			return errors.Join(err, g.Close())
		}
		g.Servers = append(g.Servers, s)
	}
	return nil
}

// NewSentinel starts a leader with replicas and as many sentinels, which notice after DownAfter that it is down.
func NewSentinel(ctx context.Context, count int) (*Group, error) {
	g, err := NewReplication(ctx, count)
	if err != nil {
		return nil, err
	}
	if err := addSentinels(ctx, g, count); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// addSentinels starts sentinels that watch the leader.
func addSentinels(ctx context.Context, g *Group, count int) error {
	for i := range count {
		s, err := newServer(g.dir, fmt.Sprintf("sentinel-%d", i), g.NewIP(), func() string {
			return SentinelConfig(g.Leader(ctx).IP(), count/2+1)
		})
		if err != nil {
			return err
		}
		s.Sentinel = true
		s.args = func(ip string) []string { return []string{"--sentinel", "announce-ip", ip} }
		g.Sentinels = append(g.Sentinels, s)
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return g.WaitWatched(ctx)
}

// Leader returns the server that is a master and has the most replicas, or nil.
func (g *Group) Leader(ctx context.Context) (leader *Server) {
	most := "-1"
	for _, s := range everyone(g) {
		info, err := s.Info(ctx, "replication")
		if err == nil && info["role"] == "master" && (leader == nil || info["connected_slaves"] > most) {
			leader, most = s, info["connected_slaves"]
		}
	}
	return leader
}

// WaitInSync waits until all servers but the leader replicate from it.
func (g *Group) WaitInSync(ctx context.Context) error {
	return wait(ctx, func() error {
		leader := g.Leader(ctx)
		if leader == nil {
			return errors.New("no leader")
		}
		for _, s := range g.Servers {
			info, err := s.Info(ctx, "replication")
			switch {
			case err != nil:
				return err
			case s != leader && (info["master_host"] != leader.IP() || info["master_link_status"] != "up"):
				return fmt.Errorf("%s does not replicate from %s", s.Name, leader.Name)
			}
		}
		return nil
	})
}

// WaitWatched waits until each sentinel names the leader, and lists all others and nobody else.
func (g *Group) WaitWatched(ctx context.Context) error {
	if err := g.WaitInSync(ctx); err != nil {
		return err
	}
	return wait(ctx, func() error { return g.CheckWatched(ctx) })
}

// CheckWatched returns what a sentinel says that is wrong.
func (g *Group) CheckWatched(ctx context.Context) error {
	leader := g.Leader(ctx)
	if leader == nil {
		return errors.New("no leader")
	}
	for _, s := range g.Sentinels {
		named, err := s.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", Master)
		if err != nil {
			return err
		}
		if len(named.Elements) != 2 || named.Elements[0].Text != leader.IP() {
			return fmt.Errorf("%s names %v, not %s", s.Name, named.Elements, leader.IP())
		}
		if err := s.checkList(ctx, "REPLICAS", g.Servers, leader); err != nil {
			return err
		}
		if err := s.checkList(ctx, "SENTINELS", g.Sentinels, s); err != nil {
			return err
		}
	}
	return nil
}

// checkList compares a list of a sentinel with the servers without one of them.
func (s *Server) checkList(ctx context.Context, what string, servers []*Server, without *Server) error {
	listed, err := s.list(ctx, what)
	if err != nil {
		return err
	}
	for _, other := range servers {
		if other != without && listed[other.IP()] == nil {
			return fmt.Errorf("%s does not list %s", s.Name, other.Name)
		}
	}
	if len(listed) != len(servers)-1 {
		return fmt.Errorf("%s lists %d of %s, not %d", s.Name, len(listed), what, len(servers)-1)
	}
	return nil
}

// list returns the fields of what a sentinel lists, by IP.
func (s *Server) list(ctx context.Context, what string) (map[string]map[string]string, error) {
	reply, err := s.Do(ctx, "SENTINEL", what, Master)
	listed := map[string]map[string]string{}
	for _, v := range reply.Elements {
		fields := map[string]string{}
		for i := 0; i+1 < len(v.Elements); i += 2 {
			fields[v.Elements[i].Text] = v.Elements[i+1].Text
		}
		listed[fields["ip"]] = fields
	}
	return listed, err
}

// WaitListed waits until all sentinels have the state of all replicas, maybe beside those at former addresses. No
// hand-over begins before one has.
func (g *Group) WaitListed(ctx context.Context) error {
	return wait(ctx, func() error {
		leader := g.Leader(ctx)
		for _, s := range g.Sentinels {
			listed, err := s.list(ctx, "REPLICAS")
			if err != nil {
				return err
			}
			for _, other := range g.Servers {
				if refreshed := listed[other.IP()]["info-refresh"]; other != leader && number(refreshed) == 0 {
					return fmt.Errorf("%s does not have the state of %s", s.Name, other.Name)
				}
			}
		}
		return nil
	})
}

// Do sends a command as the user that may do everything.
func (s *Server) Do(ctx context.Context, args ...string) (resp.Value, error) {
	conn, err := (&net.Dialer{Timeout: 2 * dialTimeout}).DialContext(ctx, "tcp", s.Address())
	if err != nil {
		return resp.Value{}, err
	}
	defer conn.Close()
	return exchange(conn, resp.NewReader(conn), args...)
}

// Info returns the fields of a section of INFO.
func (s *Server) Info(ctx context.Context, section string) (map[string]string, error) {
	value, err := s.Do(ctx, "INFO", section)
	fields := map[string]string{}
	for line := range strings.Lines(value.Text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields, err
}
