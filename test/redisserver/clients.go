package redisserver

import (
	"context"
	"errors"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
)

// dialTimeout is how long clients try to connect. In a network of pods the address of one that is gone refuses no
// connection: with the defaults of the library, 5 s and five attempts, a client of a cluster waited for 50 s.
const dialTimeout = time.Second / 2

// FollowingClient returns a client that asks the sentinels who leads, and follows when they say that it has changed.
func (g *Group) FollowingClient() Client {
	sentinels := addresses(g.Sentinels)
	if g.Service != "" {
		sentinels = []string{g.Service}
	}
	return &libraryClient{goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: Master, SentinelAddrs: sentinels, DialTimeout: dialTimeout, DialerRetries: 1,
	})}
}

// ClusterClient returns a client of a cluster. By default the library asks only once a minute who leads, as long as
// nobody redirects it: that would be the gap without a hand-over.
func (g *Group) ClusterClient() Client {
	return &libraryClient{goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addresses(g.Servers), ClusterStateReloadInterval: time.Second, DialTimeout: dialTimeout, DialerRetries: 1,
	})}
}

func addresses(servers []*Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Address())
	}
	return all
}

// libraryClient is a client of go-redis.
type libraryClient struct {
	goredis.UniversalClient
}

// Set is that of Client.
func (c *libraryClient) Set(ctx context.Context, key string) error {
	return c.UniversalClient.Set(ctx, key, "", 0).Err()
}

// Count is that of Client.
func (c *libraryClient) Count(ctx context.Context, keys []string) (int, error) {
	n, err := c.Exists(ctx, keys...).Result()
	return int(n), err
}

// StickyClient returns what connects a client that keeps its connection as long as its writes succeed. When one fails,
// it connects to whoever find returns.
func StickyClient(find func(context.Context) *Server) func() Client {
	return func() Client { return &stickyClient{find: find} }
}

type stickyClient struct {
	find func(context.Context) *Server
	conn net.Conn
	from *resp.Reader
}

func (c *stickyClient) do(ctx context.Context, args ...string) (resp.Value, error) {
	if c.conn == nil {
		leader := c.find(ctx)
		if leader == nil {
			return resp.Value{}, errors.New("no leader")
		}
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", leader.Address())
		if err != nil {
			return resp.Value{}, err
		}
		c.conn, c.from = conn, resp.NewReader(conn)
	}
	value, err := exchange(c.conn, c.from, args...)
	if err != nil {
		err = errors.Join(err, c.Close())
	}
	return value, err
}

// Set is that of Client.
func (c *stickyClient) Set(ctx context.Context, key string) error {
	_, err := c.do(ctx, "SET", key, "")
	return err
}

// Count looks at who leads now.
func (c *stickyClient) Count(ctx context.Context, keys []string) (int, error) {
	err := c.Close()
	if err != nil {
		return 0, err
	}
	value, err := c.do(ctx, append([]string{"EXISTS"}, keys...)...)
	return number(value.Text), err
}

// Close closes the connection, if there is one.
func (c *stickyClient) Close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	return conn.Close()
}

// Named returns the server that most sentinels name, as an application without a library would ask; or nil.
func (g *Group) Named(ctx context.Context) *Server {
	votes := map[string]int{}
	for _, s := range g.Sentinels {
		if v, err := s.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", Master); err == nil && len(v.Elements) == 2 {
			votes[v.Elements[0].Text]++
		}
	}
	for _, s := range everyone(g) {
		if votes[s.IP()] > len(g.Sentinels)/2 {
			return s
		}
	}
	return nil
}
