//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// redisPods runs the servers of a group as the pods of StatefulSets with their names: a server stops when its pod is
// deleted, and starts at another address, with the data that it had, when the pod is there again.
type redisPods struct {
	*fixture
	group *redisserver.Group
	pods  map[string]types.UID // of the server that runs
}

// startRedis serves the pods until the test ends, and creates them.
func (f *fixture) startRedis(group *redisserver.Group) {
	f.t.Helper()
	r := &redisPods{fixture: f, group: group, pods: map[string]types.UID{}}
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.cluster.WaitPods(ctx, f.namespace, "", func(pods []*corev1.Pod) bool {
			for _, p := range pods {
				err := r.sync(ctx, p)
				if isGone := apierrors.IsNotFound(err) || apierrors.IsConflict(err); err != nil && ctx.Err() == nil && !isGone {
					f.t.Errorf("pod %s: %v", p.Name, err)
				}
			}
			return false
		})
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
		f.must(group.Close())
	})
	_, err := f.cluster.Client().CoreV1().Secrets(f.namespace).Create(f.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: redisSecret},
		StringData: map[string]string{"username": redisserver.Username, "password": redisserver.Password},
	}, metav1.CreateOptions{})
	f.must(err)
	for name, servers := range map[string][]*redisserver.Server{"redis": group.Servers, "sentinel": group.Sentinels} {
		f.must(f.cluster.StatefulSet(f.ctx, f.namespace, name, int32(len(servers)), cluster.Pods{
			Pool: f.namespace, Annotations: leaveToKubelet, Change: f.asMember(name),
		}))
		f.waitPodsReady(name, len(servers))
		f.must(f.cluster.MinAvailable(f.ctx, f.namespace, name, fmt.Sprint(len(servers)-1)))
	}
}

// asMember gives the pods of Redis their annotations, and has each on a node of its own. Sentinels too: a client that
// asks a sentinel on the drained node takes seconds to ask another one.
func (f *fixture) asMember(name string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: cluster.AppLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"redis", "sentinel"},
				}}},
			}},
		}}
		if name == "redis" {
			p.Annotations[handover.KindAnnotation] = handover.RedisKind
			p.Annotations[handover.SecretAnnotation] = redisSecret
			p.Annotations[handover.SentinelsAnnotation] = cluster.Selector("sentinel")
		}
	}
}

const redisSecret = "redis"

// sync starts and stops the server of a pod, and reports its state.
func (r *redisPods) sync(ctx context.Context, p *corev1.Pod) error {
	at := slices.IndexFunc(r.servers(), func(s *redisserver.Server) bool { return s.Name == p.Name })
	if at < 0 || p.Spec.NodeName == "" {
		return nil
	}
	server := r.servers()[at]
	switch {
	case p.DeletionTimestamp != nil:
		if r.pods[p.Name] == p.UID {
			if err := server.Stop(); err != nil {
				return err
			}
		}
		return r.cluster.Client().CoreV1().Pods(r.namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID},
		})
	case r.pods[p.Name] == p.UID:
		return nil
	case r.pods[p.Name] != "":
		if err := server.Move(ctx, r.group.NewIP()); err != nil {
			return err
		}
	}
	r.pods[p.Name] = p.UID
	return r.report(ctx, p.Name, server.IP)
}

func (r *redisPods) servers() []*redisserver.Server {
	return slices.Concat(r.group.Servers, r.group.Sentinels)
}

// report writes that a pod is ready.
func (r *redisPods) report(ctx context.Context, name, ip string) error {
	pods := r.cluster.Client().CoreV1().Pods(r.namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status := running(true)
		status.PodIP, status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		status.ContainerStatuses[0].Name = now.Spec.Containers[0].Name
		now.Status = status
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// redisFixture is a group of Redis with sentinels, each on a node of its own, with some nodes to move to. Its tests are
// not parallel: they measure gaps, and a sentinel that gets no processor for two seconds stops working for thirty.
type redisFixture struct {
	*fixture
	*redisserver.Group
	instances map[string]string // by node
}

func newRedisFixture(t *testing.T) *redisFixture {
	t.Helper()
	f := &redisFixture{fixture: newFixtureWithHook(t), instances: map[string]string{}}
	f.addNodes(7)
	var err error
	f.Group, err = redisserver.NewSentinel(f.ctx, 3)
	f.must(err)
	f.startRedis(f.Group)
	return f
}

func (f *redisFixture) addNodes(n int) {
	f.t.Helper()
	for range n {
		node, instance := f.node()
		f.instances[node] = instance
	}
}

func (f *redisFixture) startAgent(env ...string) *agentProcess {
	f.t.Helper()
	return f.fixture.startAgent(append(env, "DRAIN_HAND_OVER_NETWORKS=127.0.0.0/8")...)
}

// instanceOf returns the instance of the node that the pod of a server is on.
func (f *redisFixture) instanceOf(s *redisserver.Server) string {
	f.t.Helper()
	pod, err := f.cluster.Client().CoreV1().Pods(f.namespace).Get(f.ctx, s.Name, metav1.GetOptions{})
	f.must(err)
	return f.instances[pod.Spec.NodeName]
}

// during writes while do works and until all members are back, and expects that nothing is lost.
func (f *redisFixture) during(most time.Duration, do func()) {
	f.t.Helper()
	writers := []*redisserver.Writer{
		redisserver.Write(f.ctx, f.FollowingClient, "following:"),
		redisserver.Write(f.ctx, redisserver.StickyClient(f.Named), "sticky:"),
	}
	for _, w := range writers {
		f.must(w.WaitAcknowledged(f.ctx))
	}
	do()
	f.waitPodsReady("redis", 3)
	f.must(f.WaitInSync(f.ctx))
	for _, w := range writers {
		report, err := w.Stop(f.ctx)
		f.must(err)
		f.t.Log(report)
		if report.Acknowledged == 0 || report.Lost > 0 || report.Gap > most {
			f.t.Errorf("%s; want none lost, and a gap of %s at most", report, most)
		}
	}
}

// TestRedisHandsOver drains the node of the leader again and again: no acknowledged write is lost, and the sentinels
// forget the old address.
func TestRedisHandsOver(t *testing.T) {
	f := newRedisFixture(t)
	agent := f.startAgent()
	for i := range 2 {
		f.during(2*time.Second, func() {
			instance := f.instanceOf(f.Leader(f.ctx))
			f.terminate(instance)
			f.waitHandled(instance)
		})
		agent.waitCount(i+1, "hand-over ended", "outcome", string(handover.HandedOver))
		settling, cancel := context.WithTimeout(f.ctx, time.Minute)
		f.must(f.WaitWatched(settling))
		cancel()
		f.addNodes(1)
	}
}

// TestRedisLeavesAllItsNodes drains the nodes of all members at once: the leadership moves once.
func TestRedisLeavesAllItsNodes(t *testing.T) {
	f := newRedisFixture(t)
	agent := f.startAgent()
	f.addNodes(2)
	f.during(2*time.Second, func() {
		var instances []string
		for _, s := range f.Servers {
			instances = append(instances, f.instanceOf(s))
		}
		for _, instance := range instances {
			f.terminate(instance)
		}
		for _, instance := range instances {
			f.waitCompleted(instance)
		}
	})
	agent.waitCount(1, "hand-over ended", "outcome", string(handover.HandedOver))
	if n := agent.Count("hand-over ended", "outcome", string(handover.HandedOver)); n != 1 {
		t.Errorf("the leadership moved %d times, want once", n)
	}
}

// TestRedisAgentIsKilled kills the agent at some moment of a hand-over: the next one ends it, and nothing is lost.
func TestRedisAgentIsKilled(t *testing.T) {
	f := newRedisFixture(t)
	agent := f.startAgent()
	for range 3 {
		f.during(5*time.Second, func() {
			leader := f.Leader(f.ctx)
			instance := f.instanceOf(leader)
			f.terminate(instance)
			agent.waitLog("node cordoned", "instance", instance)
			time.Sleep(rand.N(1500 * time.Millisecond))
			agent.Kill()
			agent = f.startAgent()
			f.waitHandled(instance)
			if f.Leader(f.ctx) == leader {
				t.Errorf("%s leads, as before", leader.Name)
			}
		})
		f.addNodes(1)
	}
}
