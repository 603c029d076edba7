//go:build e2e

package e2e

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/etcdserver"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// The names of the StatefulSet, and of the Service and the ServiceAccount of the example.
const (
	etcdMembers = "etcd"
	etcdService = "etcd-hand-over"
)

// etcdPods are the members of a real etcd as pods, each on a node of its own. One goroutine starts and stops them: until
// it has ended, the maps belong to it.
type etcdPods struct {
	*etcdserver.Cluster
	nodes map[*etcdserver.Member]string // of their pods
	ledBy map[string]*etcdserver.Member // who led when a pod was deleted, by the name of the pod
	ledOn map[string]string             // on which node that was
}

// startEtcd runs the members as pods that the Service of the example is asked about. The pods are no longer served when
// stop has returned.
func (f *fixture) startEtcd(members int) (etcd *etcdPods, stop func()) {
	f.t.Helper()
	started, err := etcdserver.Start(f.ctx, members)
	f.must(err)
	f.t.Cleanup(func() { f.must(started.Close()) })
	etcd = &etcdPods{started, map[*etcdserver.Member]string{}, map[string]*etcdserver.Member{}, map[string]string{}}
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := cluster.PodServer{
			Workloads: f.cluster.Workloads, Namespace: f.namespace, Selector: cluster.Selector(etcdMembers),
			Start: etcd.startPod, Stop: etcd.stopPod,
		}.Run(ctx)
		if err != nil {
			f.t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	f.t.Cleanup(stop)
	pods := member(handover.HTTPKind, handover.ServiceAnnotation, etcdService)
	pods.Pool, pods.Start, pods.Run, pods.Stop = f.namespace, cluster.Never, cluster.Never, cluster.Never
	pods.Change = onDifferentNodes(etcdMembers)
	f.must(f.cluster.StatefulSet(f.ctx, f.namespace, etcdMembers, int32(members), pods))
	f.waitPodsReady(etcdMembers, members)
	return etcd, stop
}

func (e *etcdPods) member(pod *corev1.Pod) *etcdserver.Member {
	return e.Members[slices.IndexFunc(e.Members, func(m *etcdserver.Member) bool { return m.Name == pod.Name })]
}

// startPod starts a member again. At first all members run already.
func (e *etcdPods) startPod(ctx context.Context, pod *corev1.Pod) (ip string, err error) {
	m := e.member(pod)
	if e.nodes[m] != "" {
		err = m.Start(ctx)
	}
	e.nodes[m] = pod.Spec.NodeName
	return m.IP, err
}

// stopPod stops a member, and looks before who leads.
func (e *etcdPods) stopPod(ctx context.Context, pod *corev1.Pod) error {
	leader, err := e.Leader(ctx)
	if err != nil {
		return err
	}
	e.ledBy[pod.Name], e.ledOn[pod.Name] = leader, e.nodes[leader]
	return e.member(pod).Stop()
}

// startEtcdExample starts the example with the only right that it needs.
func (f *fixture) startEtcdExample() {
	f.t.Helper()
	kubeconfig, err := f.cluster.ServiceAccount(f.ctx, f.namespace, etcdService, nil, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	})
	f.must(err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	f.must(err)
	api, err := url.Parse(config.Host)
	f.must(err)
	account, binary := f.t.TempDir(), filepath.Join(f.t.TempDir(), etcdService)
	for name, text := range map[string]string{
		"token": config.BearerToken, "ca.crt": string(config.CAData), "namespace": f.namespace,
	} {
		f.must(os.WriteFile(filepath.Join(account, name), []byte(text), 0o600))
	}
	build := exec.CommandContext(f.ctx, "go", "build", "-race", "-o", binary, "../../examples/etcd")
	if output, err := build.CombinedOutput(); err != nil {
		f.t.Fatalf("build the example: %v\n%s", err, output)
	}
	address, err := f.cluster.Expose(f.ctx, f.namespace, etcdService)
	f.must(err)
	cmd := exec.Command(binary, "-listen", address, "-account", account)
	cmd.Env = []string{
		"KUBERNETES_SERVICE_HOST=" + api.Hostname(), "KUBERNETES_SERVICE_PORT=" + api.Port(), "GORACE=halt_on_error=1",
	}
	process := harness.NewProcess(cmd)
	f.must(process.Start())
	endWithTest(f.t, process)
	eventually(f.t, waitTimeout, func() string {
		conn, err := new(net.Dialer).DialContext(f.ctx, "tcp", address)
		if err != nil {
			return err.Error()
		}
		f.must(conn.Close())
		return ""
	})
}

// TestEtcdExample drains the nodes of a leader and of another member at once. Before the pod of the leader is evicted,
// the leadership moves to a node that stays, once. No acknowledged write is lost.
func TestEtcdExample(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	instances := map[string]string{}
	for range 5 {
		node, instance := f.node()
		instances[node] = instance
	}
	etcd, stop := f.startEtcd(3)
	f.startEtcdExample()
	agent := f.startAgent()
	writer := redisserver.Write(f.ctx, func() redisserver.Client { return etcd.Client() }, "key:")
	f.must(writer.WaitAcknowledged(waits(t)))
	leader, err := etcd.Leader(f.ctx)
	f.must(err)
	before := etcd.term(f, leader)
	other := etcd.Members[0]
	if other == leader {
		other = etcd.Members[1]
	}
	var draining []string
	for _, m := range []*etcdserver.Member{leader, other} {
		pod, err := f.cluster.Client().CoreV1().Pods(f.namespace).Get(f.ctx, m.Name, metav1.GetOptions{})
		f.must(err)
		draining = append(draining, pod.Spec.NodeName)
	}
	for _, node := range draining {
		f.terminate(instances[node])
	}
	for _, node := range draining {
		f.waitCompleted(instances[node])
	}
	f.waitPodsReady(etcdMembers, 3)
	stop()

	agent.logs(1, "hand-over ended", "kind", "http", "outcome", string(handover.HandedOver))
	agent.logs(1, "hand-over ended", "kind", "http", "outcome", string(handover.NotLeading))
	f.assertEvictedOnce([]string{leader.Name, other.Name})
	if by, on := etcd.ledBy[leader.Name], etcd.ledOn[leader.Name]; by == leader || slices.Contains(draining, on) {
		t.Errorf("when %s was evicted, %s led, on %s; %q were drained", leader.Name, by.Name, on, draining)
	}
	if after := etcd.term(f, leader); after != before+1 {
		t.Errorf("%d elections, want one", after-before)
	}
	report, err := writer.Stop(waits(t))
	f.must(err)
	t.Log(report)
	if report.Acknowledged == 0 || report.Lost > 0 {
		t.Errorf("got %s, want none lost", report)
	}
}

// term returns how many elections there were.
func (e *etcdPods) term(f *fixture, m *etcdserver.Member) int {
	f.t.Helper()
	s, err := m.Status(f.ctx)
	f.must(err)
	n, err := strconv.Atoi(s.Term)
	f.must(err)
	return n
}
