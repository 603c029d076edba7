//go:build e2e

package realnodes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
	"github.com/node-drainer/node-drainer/test/redispods"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

const (
	redisNodes   = 6
	redisCluster = "cluster"
)

// TestRedis: the nodes of the leaders of a group under Sentinel, and of a Redis Cluster, are replaced, two at a time. No
// acknowledged write is lost, and no client waits until the sentinels or the cluster notice that a leader is gone.
func TestRedis(t *testing.T) {
	if _, err := redisserver.Find(); err != nil {
		t.Skip(err)
	}
	f := newFixture(t)
	begin := time.Now()
	step := func(what string) { f.t.Logf("%v: %s", time.Since(begin).Round(time.Second), what) }
	f.launch(redisNodes)
	step("nodes")
	f.addHook()
	f.install()
	step("agent")
	f.installHandover()
	step("handover")
	groups := map[string]*redisserver.Group{
		"sentinel": redisserver.NewRemote(
			[]string{"redis-0", "redis-1", "redis-2"}, []string{"sentinel-0", "sentinel-1", "sentinel-2"}, 0),
		"cluster": redisserver.NewRemote(
			[]string{"cluster-0", "cluster-1", "cluster-2", "cluster-3", "cluster-4", "cluster-5"}, nil, 3),
	}
	defer f.explainRedis(groups)
	groups["sentinel"].Service = f.deploySentinel()
	f.deployRedis(redisCluster, redisNodes, "5", realnodes.RedisCluster)
	f.readyRedis()
	step("pods")
	f.follow(groups)
	writers := map[string]redisserver.Writers{}
	var leaders []*corev1.Pod
	for name, g := range groups {
		f.must(g.Form(f.waits()))
		for _, s := range g.Leaders(t.Context()) {
			pod, err := f.cluster.Client().CoreV1().Pods(f.namespace).Get(t.Context(), s.Name, metav1.GetOptions{})
			f.must(err)
			leaders = append(leaders, pod)
		}
		writers[name] = redisserver.WriteAll(t.Context(), g)
		f.must(writers[name].WaitAcknowledged(f.waits()))
	}
	step("formed")
	for ids := range slices.Chunk(instancesOf(leaders), 2) {
		f.replaceRedis(ids, groups)
		step("replaced")
	}
	for name, w := range writers {
		for i := range w {
			report, err := w[i : i+1].Stop(f.waits())
			f.must(err)
			t.Logf("%s: %v", name, report)
			if err := report.Check(redisserver.DownAfter); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	f.checkHandedOver(leaders)
}

// explainRedis logs what the servers and the sentinels know, if the test has failed.
func (f *fixture) explainRedis(groups map[string]*redisserver.Group) {
	if !f.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, g := range groups {
		for _, s := range g.Servers {
			info, err := s.Info(ctx, "replication")
			f.t.Logf("%s at %s: %v %v", s.Name, s.IP(), info, err)
		}
		for _, s := range g.Sentinels {
			for _, list := range []string{"MASTER", "REPLICAS", "SENTINELS"} {
				all, err := s.Do(ctx, "SENTINEL", list, redisserver.Master)
				f.t.Logf("%s at %s: %s: %v %v", s.Name, s.IP(), list, all, err)
			}
		}
	}
	f.explain()
}

// instancesOf returns the instances whose nodes have the pods.
func instancesOf(pods []*corev1.Pod) (ids []string) {
	for _, p := range pods {
		if id := harness.InstanceOf(p.Spec.NodeName); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// installHandover installs the chart of the program that has the pods of the namespace hand over.
func (f *fixture) installHandover() {
	f.t.Helper()
	objects, err := chart.RenderHandover(f.t.Context(), redispods.Service, f.namespace,
		"--set", "secrets={"+redispods.Secret+"},passwordsInClear=true,agent.namespace="+system,
		"--set-string", "image.registry="+realnodes.Registry+",image.tag="+realnodes.Tag)
	f.must(err)
	f.must(f.cluster.Create(f.waits(), objects...))
	_, err = f.cluster.Client().CoreV1().Secrets(f.namespace).Create(f.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: redispods.Secret},
		StringData: map[string]string{"username": redisserver.Username, "password": redisserver.Password},
	}, metav1.CreateOptions{})
	f.must(err)
	f.must(f.cluster.WaitReady(f.waits(), f.namespace, "app.kubernetes.io/name=node-drainer-handover", 1))
}

// deploySentinel runs three sentinels, and three members, which wait for an answer of theirs, each on a node of its own.
// It returns the address of the sentinels.
func (f *fixture) deploySentinel() (service string) {
	f.t.Helper()
	const size = 3
	sentinels, err := realnodes.SentinelService(f.t.Context(), f.cluster.Cluster, f.namespace, redispods.Watchers)
	f.must(err)
	f.must(f.cluster.StatefulSet(f.t.Context(), f.namespace, redispods.Watchers, size, cluster.Pods{
		Change: func(t *corev1.PodTemplateSpec) {
			realnodes.RedisSentinel(sentinels, size)(t)
			t.Spec.Affinity = cluster.Apart(redispods.Members, redispods.Watchers)
		},
	}))
	f.budget(redispods.Watchers, "2")
	f.deployRedis(redispods.Members, size, "2", realnodes.RedisMember(sentinels))
	return sentinels
}

// deployRedis runs servers that hand over when they leave, each on a node of its own.
func (f *fixture) deployRedis(name string, n int32, budget string, change func(*corev1.PodTemplateSpec)) {
	f.t.Helper()
	f.must(f.cluster.StatefulSet(f.t.Context(), f.namespace, name, n, cluster.Pods{
		Annotations: map[string]string{
			handover.KindAnnotation: handover.HTTPKind, handover.ServiceAnnotation: redispods.Service,
			workload.SecretAnnotation: redispods.Secret,
		},
		Change: func(t *corev1.PodTemplateSpec) {
			change(t)
			t.Spec.Affinity = cluster.Apart(name)
			if name == redispods.Members {
				t.Annotations[workload.SentinelsAnnotation] = cluster.Selector(redispods.Watchers)
				t.Spec.Affinity = cluster.Apart(redispods.Members, redispods.Watchers)
			}
		},
	}))
	f.budget(name, budget)
}

// readyRedis waits until all pods are ready.
func (f *fixture) readyRedis() {
	f.t.Helper()
	f.ready(redispods.Watchers, 3)
	f.ready(redispods.Members, 3)
	f.ready(redisCluster, redisNodes)
}

// follow keeps where the servers of the groups are, until the end of the test. It returns when all are somewhere.
func (f *fixture) follow(groups map[string]*redisserver.Group) {
	f.t.Helper()
	known := make(chan struct{})
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	f.t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		_ = f.cluster.WaitPods(ctx, f.namespace, cluster.AppLabel, func(pods []*corev1.Pod) bool {
			ips := map[string]string{}
			for _, p := range pods {
				ips[p.Name] = p.Status.PodIP
			}
			for _, g := range groups {
				g.Place(ips)
			}
			if known != nil {
				close(known)
				known = nil
			}
			return false
		})
	}()
	select {
	case <-known:
	case <-f.waits().Done():
		f.t.Fatal("the pods cannot be listed")
	}
}

// replaceRedis has the group replace instances, and waits until all servers are where they are to be and in sync.
func (f *fixture) replaceRedis(ids []string, groups map[string]*redisserver.Group) {
	f.t.Helper()
	for _, id := range ids {
		f.must(f.aws.Terminate(id, false))
	}
	for _, id := range ids {
		a := f.checkCompleted(id)
		f.t.Logf("%s: the hook was completed after %v", id, a.ClosedAt.Sub(a.StartedAt))
	}
	f.waitInService(redisNodes)
	f.readyRedis()
	for _, g := range groups {
		f.must(g.WaitWhole(f.waits()))
	}
}

// checkHandedOver checks that each of the pods has handed over its leadership.
func (f *fixture) checkHandedOver(leaders []*corev1.Pod) {
	f.t.Helper()
	events, err := f.cluster.Client().CoreV1().Events(f.namespace).List(f.t.Context(), metav1.ListOptions{
		FieldSelector: "reason=HandedOver",
	})
	f.must(err)
	for _, p := range leaders {
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID == p.UID }) {
			f.t.Errorf("%s, which led, has not handed over: %v", p.Name, events.Items)
		}
	}
}
