//go:build e2e

package e2e

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/redispods"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

var (
	redisDrains = flag.Int("redis-drains", 2, "how often the node of the leader under Sentinel is drained")
	redisKills  = flag.Int("redis-kills", 3, "how often each program is killed during a drain under Sentinel")
	killSeed    = flag.Uint64("kill-seed", rand.Uint64(), "seed of the moments at which programs are killed")
)

// killMoments are when programs are killed.
type killMoments struct {
	random  *rand.Rand
	longest time.Duration // what is killed has never taken longer yet
}

func newKillMoments() *killMoments {
	return &killMoments{rand.New(rand.NewPCG(*killSeed, 0)), 1500 * time.Millisecond}
}

// took records how long what is killed takes without that.
func (k *killMoments) took(d time.Duration) { k.longest = max(k.longest, d) }

// next returns a moment, counted from the beginning of what is killed, and logs it.
func (k *killMoments) next(t testing.TB) time.Duration {
	t.Helper()
	after := time.Duration(k.random.Int64N(int64(k.longest)))
	t.Logf("-kill-seed %d: kill %s after the cordon, of %s", *killSeed, after, k.longest)
	return after
}

// redisFixture is a group of Redis servers as pods, each on a node of its own.
type redisFixture struct {
	*fixture
	*redispods.Pods
	instances map[string]string // by node
	agent     *agentProcess
	handover  *handoverProgram
	moments   *killMoments // from the cordon until the hook is completed
}

// newRedisFixture returns a group on as many nodes as it has pods, and one node more.
func newRedisFixture(t *testing.T, mode redisserver.Mode) *redisFixture {
	t.Helper()
	f := &redisFixture{
		fixture: newFixtureWithHook(t), instances: map[string]string{}, moments: newKillMoments(),
	}
	group, err := redisserver.New(f.ctx, mode)
	f.must(err)
	f.addNodes(1 + len(group.Servers) + len(group.Sentinels))
	f.Pods, err = redispods.Start(f.ctx, redispods.Options{
		Cluster: f.cluster, Namespace: f.namespace, HandOver: true,
	}, group)
	t.Cleanup(func() { f.must(f.Close()) })
	f.must(err)
	f.handover = f.startHandover()
	f.restartAgent()
	return f
}

func (f *redisFixture) addNodes(n int) {
	f.t.Helper()
	for range n {
		node, instance := f.node()
		f.instances[node] = instance
	}
}

// restartAgent kills the agent, if one runs, and starts another one.
func (f *redisFixture) restartAgent() {
	f.t.Helper()
	if f.agent != nil {
		f.agent.Kill()
	}
	f.agent = f.startAgent()
}

// drain terminates the instance that the pod of a server is on, and returns its ID.
func (f *redisFixture) drain(s *redisserver.Server) (instance string) {
	f.t.Helper()
	node, err := f.NodeOf(f.ctx, s)
	f.must(err)
	f.terminate(f.instances[node])
	return f.instances[node]
}

// during writes while do works and until all members are back, and expects that no acknowledged write is lost, that
// none takes longer than most, and that two members are never missing.
func (f *redisFixture) during(most time.Duration, do func()) {
	f.t.Helper()
	writers := redisserver.WriteAll(f.ctx, f.Group)
	f.must(writers.WaitAcknowledged(waits(f.t)))
	lowest, missing := f.watchReady(redispods.Members), redisserver.WatchMissing(f.ctx, f.Group)
	do()
	f.must(f.WaitReady(waits(f.t)))
	f.must(f.WaitWhole(waits(f.t)))
	if ready := lowest(); ready < len(f.Servers)-1 {
		f.t.Errorf("%d of %d pods were ready, want all but one", ready, len(f.Servers))
	}
	if n := missing(); n > 1 {
		f.t.Errorf("%d servers were missing at once", n)
	}
	report, err := writers.Stop(waits(f.t))
	f.must(err)
	f.t.Log(report)
	if err := report.Check(most); err != nil {
		f.t.Error(err)
	}
}

// assertHandedOver expects that the agent has handed over the leadership so many times.
func (f *redisFixture) assertHandedOver(want int) {
	f.t.Helper()
	f.agent.logs(want, "hand-over ended", "outcome", string(handover.HandedOver))
}

// drainAll drains the nodes of all members at once: each leadership moves once.
func (f *redisFixture) drainAll() {
	f.t.Helper()
	f.restartAgent()
	leaders := len(f.Leaders(f.ctx))
	f.addNodes(len(f.Servers))
	f.during(redisserver.MaxGap, func() {
		var instances []string
		for _, s := range f.Servers {
			instances = append(instances, f.drain(s))
		}
		for _, instance := range instances {
			f.waitCompleted(instance)
		}
	})
	f.assertHandedOver(leaders)
}

// TestRedis drains the nodes of groups of real servers. The groups work at the same time, and no other test does: the
// tests measure gaps, and a sentinel that gets no processor for two seconds stops working for thirty.
func TestRedis(t *testing.T) {
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		f := newRedisFixture(t, redisserver.Sentinel)
		for i := range *redisDrains {
			f.drainLeader()
			f.assertHandedOver(i + 1)
		}
		f.killEach(*redisKills)
		f.drainAll()
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		f := newRedisFixture(t, redisserver.Cluster)
		f.during(redisserver.MaxGap, func() {
			for _, s := range f.Servers {
				f.waitHandled(f.drain(s))
				f.addNodes(1)
				f.must(f.WaitReady(waits(f.t)))
				f.must(f.WaitWhole(waits(f.t)))
			}
		})
		f.drainAll()
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		f := newRedisFixture(t, redisserver.Plain)
		f.during(redisserver.MaxGap, func() { f.waitHandled(f.drain(f.Leader(f.ctx))) })
		f.assertHandedOver(1)
		f.drainWithHandover()
	})
}

// drainWithHandover drains the node of the leader, on which the program that has it hand over runs, too: it leaves last.
func (f *redisFixture) drainWithHandover() {
	f.t.Helper()
	const name = "node-drainer-handover-0"
	f.addNodes(1)
	leader := f.Leader(f.ctx)
	node, err := f.NodeOf(f.ctx, leader)
	f.must(err)
	own := redisMember()
	own.Stop = time.Second
	f.pod(name, node, own)
	f.handover.program.Env = append(f.handover.program.Env, "POD_NAME="+name)
	f.handover.restart()
	f.during(redisserver.MaxGap, func() {
		instance := f.drain(leader)
		f.agent.waitLog("pod evicted", "pod", f.namespace+"/"+name)
		if n := f.agent.Count("pod evicted", "pod", f.namespace+"/"+leader.Name, "node", node); n != 1 {
			f.t.Errorf("%s was evicted %d times before the program that has it hand over", leader.Name, n)
		}
		f.waitHandled(instance)
	})
	f.assertHandedOver(2)
}

// drainLeader drains the node of the leader under Sentinel: members that stay are not copied again, and the sentinels
// forget the old address.
func (f *redisFixture) drainLeader() {
	f.t.Helper()
	leader := f.Leader(f.ctx)
	stay := slices.DeleteFunc(slices.Clone(f.Servers), func(s *redisserver.Server) bool { return s == leader })
	copies := 0
	for _, s := range stay {
		copies -= s.FullSyncs()
	}
	f.during(redisserver.MaxGap, func() {
		instance := f.drain(leader)
		f.agent.waitLog("node cordoned", "instance", instance)
		cordoned := time.Now()
		f.waitHandled(instance)
		f.moments.took(time.Since(cordoned))
	})
	for _, s := range stay {
		copies += s.FullSyncs()
	}
	if copies != 0 {
		f.t.Errorf("members that stayed copied all data %d times", copies)
	}
	f.awaitAgreement()
	f.addNodes(1)
}

// awaitAgreement waits until the sentinels agree, and list all members and nobody else.
func (f *redisFixture) awaitAgreement() {
	f.t.Helper()
	start := time.Now()
	f.must(f.WaitWatched(waits(f.t)))
	f.t.Logf("agreed after %s", time.Since(start).Round(time.Second))
}

// killEach kills the agent and the program that has pods hand over, each so often, and each time during another drain.
func (f *redisFixture) killEach(times int) {
	f.t.Helper()
	for _, program := range []struct {
		name    string
		restart func()
	}{{"agent", f.restartAgent}, {"handover", f.handover.restart}} {
		early := 0
		for range times {
			kill := killed{}
			for !kill.inDrain {
				kill = f.kill(program.restart)
			}
			if !kill.afterHandOver {
				early++
			}
		}
		f.t.Logf("%s: killed during %d drains, before the leader had handed over in %d", program.name, times, early)
	}
}

// killed says when a program was killed.
type killed struct {
	inDrain       bool // It was killed before the drain had ended.
	afterHandOver bool // The agent had the answer that the pod of the leader may go.
}

// kill kills a program at some moment of the drain of the leader's node: the next one ends it. It kills nothing if the drain
// has ended before that moment. The sentinels permit the hand-over when the drain begins: it is what the drain waits for.
func (f *redisFixture) kill(restart func()) (k killed) {
	f.t.Helper()
	f.must(f.WaitListed(waits(f.t)))
	leader := f.Leader(f.ctx)
	f.during(redisserver.MaxGapAfterKill, func() {
		instance := f.drain(leader)
		f.agent.waitLog("node cordoned", "instance", instance)
		ctx, cancel := context.WithTimeout(f.ctx, f.moments.next(f.t))
		defer cancel()
		if _, err := f.aws.WaitClosed(ctx, instance); err != nil {
			k.inDrain, k.afterHandOver = true, f.agent.Count("hand-over ended", "node", cluster.NodeName(instance)) > 0
			restart()
		}
		f.t.Logf("killed: %+v", k)
		f.waitHandled(instance)
	})
	if f.Leader(f.ctx) == leader {
		f.t.Errorf("%s leads, as before", leader.Name)
	}
	f.addNodes(1)
	return k
}
