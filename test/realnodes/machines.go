package realnodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// The images that the nodes have.
const (
	pauseImage    = "node-drainer.test/pause:1"
	workloadImage = "node-drainer.test/workload:1"
	redisImage    = "node-drainer.test/redis:1"
	// Registry, Repository and Tag name the image of the product.
	Registry   = "node-drainer.test"
	Repository = "node-drainer/node-drainer"
	Tag        = "1"
)

// Cluster is a control plane with machines whose containers run.
type Cluster struct {
	*cluster.Cluster
	*Machines
}

// Machines starts and kills machines, for a simulated cloud that launches and terminates instances. Its methods may be
// called from several goroutines.
type Machines struct {
	nodes      cluster.Nodes
	kubeconfig string
	programs   string
	dir        string

	mu       sync.Mutex
	started  int
	machines map[string]*node // By instance.
	lack     map[int]Lack     // By version of the launch template.
	ends     []time.Time      // when machines were killed

	shutdownGrace time.Duration // See GraceAtShutdown.
}

// Start starts a control plane whose Services work, without nodes, in the namespaces of Main.
func Start(ctx context.Context, log io.Writer) (*Cluster, error) {
	programs, err := cluster.Binaries(ctx, log, programNames()...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(connectMachines(), makeFolders(), importImages(ctx)); err != nil {
		return nil, err
	}
	control, err := cluster.Start(ctx, cluster.Options{
		Log: log, Kubelets: &cluster.Kubelets{Address: hostAddress, Services: serviceRange},
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Cluster: control, Machines: &Machines{
		nodes: control.Nodes, kubeconfig: control.Kubeconfig(), programs: programs, dir: Isolated(),
		machines: map[string]*node{}, lack: map[int]Lack{},
	}}
	return c, c.startProxy(ctx)
}

// programNames are the programs that Binaries does not return for a control plane alone.
func programNames() []string { return []string{cluster.Kubectl, "kubelet", "kube-proxy"} }

// startProxy starts the kube-proxy of all machines, which share one network.
func (c *Cluster) startProxy(ctx context.Context) error {
	remove, err := c.addProxyNode(ctx)
	if err != nil {
		return err
	}
	defer remove()
	log, err := os.Create(filepath.Join(Isolated(), "kube-proxy.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	// Pods of one node answer each other without the host, which would otherwise not see the answers.
	proxy := exec.Command(filepath.Join(c.programs, "kube-proxy"), "--proxy-mode=nftables", "--masquerade-all",
		"--kubeconfig="+c.Kubeconfig(), "--hostname-override="+proxyNode, "--bind-address="+hostAddress,
		"--healthz-bind-address="+proxyHealth,
		// What belongs to the kernel and not to these namespaces stays as it is.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		"--v=2")
	proxy.Stdout, proxy.Stderr = log, log
	if err := proxy.Start(); err != nil {
		return err
	}
	return harness.Eventually(ctx, func() string {
		status, body, err := harness.Page(ctx, proxyHealth, "/healthz")
		if err != nil || status != http.StatusOK {
			return fmt.Sprintf("kube-proxy is not healthy: %d %s %v", status, body, err)
		}
		return ""
	})
}

const (
	proxyNode   = "outside"
	proxyHealth = hostAddress + ":10256"
)

// addProxyNode adds a Node for the machine of the test, which kube-proxy waits for, and no longer needs once it works.
func (c *Cluster) addProxyNode(ctx context.Context) (remove func(), err error) {
	nodes := c.Client().CoreV1().Nodes()
	_, err = nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: proxyNode}, Spec: corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostAddress}}},
	}, metav1.CreateOptions{})
	return func() { _ = nodes.Delete(ctx, proxyNode, metav1.DeleteOptions{}) }, err
}

// Launch starts the machine of an instance and returns when its Node is Ready.
func (m *Machines) Launch(ctx context.Context, instanceID, zone string) error {
	return m.LaunchVersion(ctx, instanceID, zone, 0)
}

// LaunchVersion is Launch for one version of the launch template; see Break. It does not wait for a node that never
// becomes Ready.
func (m *Machines) LaunchVersion(ctx context.Context, instanceID, zone string, version int) error {
	m.mu.Lock()
	m.started++
	n := &node{
		name: cluster.NodeName(instanceID), zone: zone, instance: instanceID, number: m.started,
		dir: filepath.Join(m.dir, fmt.Sprintf("m%d", m.started)), cgroup: cgroupOf(m.dir) + "/" + instanceID,
	}
	n.lacks, n.shutdownGrace = m.lack[version], m.shutdownGrace
	m.machines[instanceID] = n
	m.mu.Unlock()
	if err := n.boot(ctx, m.kubeconfig, m.programs); err != nil {
		return fmt.Errorf("start the machine of %s: %w", instanceID, err)
	}
	if n.lacks == Network {
		return nil
	}
	return m.nodes.WaitSchedulable(ctx, n.name)
}

// Terminate kills the machine of an instance with everything on it, and removes its Node as the cloud controller
// manager does. It returns the pods that this killed.
func (m *Machines) Terminate(ctx context.Context, instanceID string) (killed []string, err error) {
	m.mu.Lock()
	n := m.machines[instanceID]
	delete(m.machines, instanceID)
	m.mu.Unlock()
	if n == nil {
		return nil, nil
	}
	killed, err = m.Pods(ctx, instanceID)
	m.mu.Lock()
	m.ends = append(m.ends, time.Now())
	m.mu.Unlock()
	err = errors.Join(err, n.kill())
	_, removed := m.nodes.RemoveNode(ctx, n.name)
	if apierrors.IsNotFound(removed) { // Its kubelet has not registered it yet.
		removed = nil
	}
	return killed, errors.Join(err, removed)
}

// Ends returns when machines have been killed.
func (m *Machines) Ends() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ends)
}

// Pods returns the pods on the instance's node that a drain would still have to evict.
func (m *Machines) Pods(ctx context.Context, instanceID string) ([]string, error) {
	return m.nodes.DrainablePods(ctx, cluster.NodeName(instanceID))
}

// KillAll kills all machines that are left, as Terminate does.
func (m *Machines) KillAll() (err error) {
	m.mu.Lock()
	left := slices.Collect(maps.Keys(m.machines))
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, instance := range left {
		_, e := m.Terminate(ctx, instance)
		err = errors.Join(err, e)
	}
	return err
}
