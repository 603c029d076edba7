//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/redispods"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// brokenRedis is a group without sentinels, whose leader is on a node that is to be drained.
type brokenRedis struct {
	*fixture
	*redisserver.Group
	node, instance string // of the leader
	ip             string // of the pod of the leader
	password       string // in the Secret
}

func newBrokenRedis(f *fixture, servers int) *brokenRedis {
	f.t.Helper()
	group, err := redisserver.NewReplication(f.ctx, servers)
	f.must(err)
	f.t.Cleanup(func() { f.must(group.Close()) })
	f.must(group.WaitInSync(f.ctx))
	r := &brokenRedis{fixture: f, Group: group, ip: group.Servers[0].IP(), password: redisserver.Password}
	r.node, r.instance = f.node()
	return r
}

// start creates the pods of the servers, as they are now, and the agent.
func (r *brokenRedis) start(env ...string) *agentProcess {
	r.t.Helper()
	secret, err := r.cluster.Client().CoreV1().Secrets(r.namespace).Create(r.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: redispods.Secret},
		StringData: map[string]string{"username": redisserver.Username, "password": r.password},
	}, metav1.CreateOptions{})
	r.must(err)
	other, _ := r.fixture.node()
	for i, s := range r.Servers {
		node, ip := other, s.IP()
		if i == 0 {
			node, ip = r.node, r.ip
		}
		pods := redisMember(workload.SecretAnnotation, redispods.Secret)
		// One controller, by which a member is known that its leader has given up: any object that does nothing to them.
		pods.Change = func(p *corev1.PodTemplateSpec) {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(secret, corev1.SchemeGroupVersion.WithKind("Secret"))}
		}
		pods.GracePeriod = 2 * time.Second
		r.pod(s.Name, node, pods)
		r.setAddress(s.Name, ip)
	}
	r.startHandover()
	return r.startAgent(env...)
}

// stall puts a relay between the leader and its replica that passes nothing more to the replica. The replica stays
// connected and answers, and falls behind.
func (r *brokenRedis) stall() {
	r.t.Helper()
	leader, replica := r.Servers[0], r.Servers[1]
	r.ip = r.NewIP()
	stall := r.relay(leader.Address(), replica.IP())
	_, err := replica.Do(r.ctx, "REPLICAOF", r.ip, fmt.Sprint(redisserver.Port))
	r.must(err)
	eventually(r.t, waitTimeout, func() string {
		info, err := replica.Info(r.ctx, "replication")
		if err != nil || info["master_host"] != r.ip || info["master_link_status"] != "up" {
			return fmt.Sprintf("the replica does not use the relay: %v, %v", info, err)
		}
		return ""
	})
	stall()
	_, err = leader.Do(r.ctx, "SET", "large", strings.Repeat("x", 2<<20))
	r.must(err)
}

// relay passes the connections to the pod of the leader on to a server. After a call of stall it passes nothing more to
// an IP address.
func (r *brokenRedis) relay(to, stalledIP string) (stall func()) {
	r.t.Helper()
	l, err := new(net.ListenConfig).Listen(r.ctx, "tcp", fmt.Sprintf("%s:%d", r.ip, redisserver.Port))
	r.must(err)
	stalled, all := make(chan struct{}), sync.WaitGroup{}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			from := &stallable{Conn: conn, ended: r.ctx.Done()}
			if ip, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); ip == stalledIP {
				from.stalled = stalled
			}
			all.Go(func() { pass(r.ctx, from, to) })
		}
	})
	r.t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return func() { close(stalled) }
}

// pass relays one connection until one of its ends closes it, or ctx ends.
func pass(ctx context.Context, from net.Conn, to string) {
	defer from.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	passing, end := context.WithCancel(ctx)
	defer end()
	for _, copies := range [][2]net.Conn{{from, server}, {server, from}} {
		go func() {
			defer end()
			_, _ = io.Copy(struct{ io.Writer }{copies[0]}, copies[1])
		}()
	}
	<-passing.Done()
}

// stallable is a connection whose writes wait for the end of the test once it is stalled.
type stallable struct {
	net.Conn
	stalled, ended <-chan struct{}
}

func (s *stallable) Write(b []byte) (int, error) {
	select {
	case <-s.stalled:
		<-s.ended
		return 0, io.ErrClosedPipe
	default:
		return s.Conn.Write(b)
	}
}

// TestRedisFaults: whatever is wrong with a Redis, the hook of its node is completed in time, and an Event names the
// cause.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		servers int
		breaks  func(*brokenRedis)
		want    string // in the Event
	}{
		"frozen":              {2, func(r *brokenRedis) { r.Servers[0].Freeze() }, "redis-0: no answer within 2s"},
		"frozen replica":      {2, func(r *brokenRedis) { r.Servers[1].Freeze() }, "redis-1: no answer within 2s"},
		"wrong password":      {2, func(r *brokenRedis) { r.password = "wrong" }, "AUTH of redis-0: WRONGPASS"},
		"no replica":          {1, func(*brokenRedis) {}, "no replica"},
		"lag that never ends": {2, (*brokenRedis).stall, "redis-1 is 20"}, // bytes behind: 2,097,152 and some more
		"connection refused":  {2, func(r *brokenRedis) { r.must(r.Servers[0].Stop()) }, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBrokenRedis(newFixtureWithHook(t), tt.servers)
			tt.breaks(r)
			r.start("DRAIN_TIMEOUT=30s", "DRAIN_HAND_OVER_TIMEOUT=5s")
			r.terminate(r.instance)
			action := r.waitHandled(r.instance)
			if d := action.ClosedAt.Sub(action.StartedAt); d > 30*time.Second {
				t.Errorf("the hook was held for %s, want 30 s at most", d)
			}
			r.assertEvictedOnce([]string{"redis-0"})
			r.waitEventText("HandOverFailed", tt.want)
		})
	}
}

// TestRedisFaultsOfSpot: the same within the two minutes of a Spot interruption, with the default settings.
func TestRedisFaultsOfSpot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		frozen int
		want   string // in the Event
	}{
		"frozen": {0, "redis-0: no answer within 2s"}, "frozen replica": {1, "redis-1: no answer within 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithRule(t)
			f.addHook(hookTimeout)
			r := newBrokenRedis(f, 2)
			f.must(f.aws.SetMarket(r.instance, awsim.Spot, ""))
			r.Servers[tt.frozen].Freeze()
			agent := r.start()
			f.waitQueueEmpty()
			const notice = 2 * time.Minute
			warned := time.Now()
			f.must(f.aws.Interrupt(r.instance, notice))
			agent.waitLog("node cordoned", "event", "spot-interruption")
			f.terminate(r.instance)
			action := f.waitHandled(r.instance)
			if d := action.ClosedAt.Sub(warned); d > notice {
				t.Errorf("the hook was completed %s after the warning", d)
			}
			f.assertEvictedOnce([]string{"redis-0"})
			f.waitEventText("HandOverFailed", tt.want)
		})
	}
}
