//go:build e2e

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// killer makes connections that end, all at once and for ever, around one of the commands that change something: as
// seen from outside, the process that sent them was killed.
type killer struct {
	step   int  // counted from 1
	before bool // The command itself is not sent.
	scales bool // Only steps that are no commands count.

	mu   sync.Mutex
	seen int
	dead bool
}

var errKilled = errors.New("killed")

func (k *killer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if k.isDead() {
		return nil, errKilled
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &killedConn{Conn: conn, killer: k}, err
}

func (k *killer) isDead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

// isLast reports whether a command is the one around which all ends.
func (k *killer) isLast(command []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := string(command)
	for _, name := range []string{"PAUSE", "UNPAUSE", "REPLICAOF", "FAILOVER", "KILL", "MEET", "REPLICATE", "FORGET", "RESET"} {
		if strings.Contains(text, "\r\n"+name+"\r\n") {
			if k.scales {
				return false
			}
			k.seen++
			k.dead = k.dead || k.seen == k.step
			return k.seen == k.step
		}
	}
	return false
}

// around does something that is not a command, as if it were one.
func (k *killer) around(do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	k.seen++
	k.dead = k.seen == k.step
	if k.dead && k.before {
		return errKilled
	}
	err := do()
	if k.dead {
		err = errKilled
	}
	return err
}

type killedConn struct {
	net.Conn
	killer *killer
}

func (c *killedConn) Write(b []byte) (int, error) {
	switch {
	case c.killer.isDead():
		return 0, errKilled
	case c.killer.isLast(b):
		if !c.killer.before {
			if _, err := c.Conn.Write(b); err == nil {
				_, _ = resp.NewReader(c.Conn).Read()
			}
		}
		return 0, errKilled
	}
	return c.Conn.Write(b)
}

// killEach kills hand-overs before and after each of their steps, in groups of their own, and expects that the next calls
// end it. leaderOf returns what finds the leader for a key.
func killEach(
	t *testing.T, mode redisserver.Mode, leaderOf func(*redisserver.Group, string) func(context.Context) *redisserver.Server,
) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before: %t", before), func(t *testing.T) {
			t.Parallel()
			group, err := redisserver.New(t.Context(), mode)
			f := newFixture(t, group, err)
			// The shards of a cluster have their turns: its other leaders do not vote for a replica of the same leader
			// within ten seconds.
			keys := []string{"{a}", "{b}", "{c}"}
			for step := 1; ; step++ {
				key := keys[step%len(keys)]
				if !f.killStep(key, leaderOf(group, key), &killer{step: step, before: before}) {
					return
				}
			}
		})
	}
}

// killStep kills a hand-over once, and expects that the next calls end it. It returns false if there are fewer steps.
func (f *fixture) killStep(key string, find func(context.Context) *redisserver.Server, k *killer) bool {
	f.t.Helper()
	f.t.Logf("step %d", k.step)
	w := redisserver.Write(f.ctx, redisserver.StickyClient(find), key)
	f.check(w.WaitAcknowledged(f.ctx))
	leader := find(f.ctx)
	for killed := newReleaser(redisserver.Password, k.dial); !k.isDead(); time.Sleep(200 * time.Millisecond) {
		answer, err := killed.Release(f.ctx, f.Request(leader))
		f.check(err)
		if answer.Go {
			break
		}
	}
	answer := f.release(leader)
	if !answer.Go || answer.Outcome != handover.HandedOver && answer.Outcome != handover.NotLeading {
		f.t.Errorf("step %d: got %+v", k.step, answer)
	}
	if now := find(f.ctx); now == nil || now == leader {
		f.t.Errorf("step %d: %s leads, as before", k.step, leader.Name)
	}
	f.check(f.WaitWhole(f.ctx))
	f.stop("sticky", w, redisserver.MaxGapAfterKill)
	return k.isDead()
}

func TestSentinelAfterKill(t *testing.T) {
	t.Parallel()
	killEach(t, redisserver.Sentinel, func(g *redisserver.Group, _ string) func(context.Context) *redisserver.Server {
		return g.Named
	})
}

func TestClusterAfterKill(t *testing.T) {
	t.Parallel()
	killEach(t, redisserver.Cluster, (*redisserver.Group).Serving)
}

func TestReplicationAfterKill(t *testing.T) {
	t.Parallel()
	killEach(t, redisserver.Plain, func(g *redisserver.Group, _ string) func(context.Context) *redisserver.Server {
		return g.Leader
	})
}
