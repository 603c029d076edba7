package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// The components of the control plane, which are also the names of their programs.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwok              = "kwok"
)

// The ports of the components in their block.
const (
	etcdPort = iota + 1
	etcdPeerPort
	apiServerPort
	controllerManagerPort
	schedulerPort
	kwokPort
)

// components are the processes of a control plane. Its methods may be called from several goroutines.
type components struct {
	binaries string
	folder   *folder
	flags    map[string][]string
	names    []string // In the order of their start.

	mu      sync.Mutex
	running map[string]*process // What has been started, even if it has exited.
	ended   bool
}

// process is a component that has been started.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

func newComponents(binaries string, f *folder, p *ports, k *Kubelets) *components {
	c := &components{
		binaries: binaries, folder: f, flags: componentFlags(f, p), running: map[string]*process{},
		names: []string{etcd, apiServer, controllerManager, scheduler},
	}
	if k == nil {
		c.names = append(c.names, kwok)
	} else {
		k.change(c.flags)
	}
	return c
}

// change changes the flags of components for kubelets. The times by which a node without a kubelet is given up are
// those of Kubernetes; of flags that are given twice the last counts.
func (k *Kubelets) change(flags map[string][]string) {
	flags[apiServer] = append(flags[apiServer], "--bind-address=0.0.0.0", "--advertise-address="+k.Address,
		"--service-cluster-ip-range="+k.Services, "--kubelet-preferred-address-types=InternalIP")
	flags[controllerManager] = append(flags[controllerManager],
		"--node-monitor-period=5s", "--node-monitor-grace-period=50s")
}

// firstService returns the cluster IP of the API server.
func (k *Kubelets) firstService() net.IP {
	ip, _, err := net.ParseCIDR(k.Services)
	if err != nil {
		return nil
	}
	first := ip.To4()
	first[3]++
	return first
}

// componentFlags returns the flags of each component.
func componentFlags(f *folder, p *ports) map[string][]string {
	client, peer := "http://"+address(p.Port(etcdPort)), "http://"+address(p.Port(etcdPeerPort))
	kubeconfig, certificate, key := f.path(kubeconfigFile), f.path(certificateFile), f.path(keyFile)
	// Stock limits allow 20 requests a second, too few for a test of a hundred nodes. With leader election, both would
	// exit when the API server is stopped for longer than a lease.
	controller := func(port int) []string {
		return []string{
			"--kubeconfig=" + kubeconfig, "--bind-address=" + loopback, fmt.Sprintf("--secure-port=%d", p.Port(port)),
			"--kube-api-qps=1000", "--kube-api-burst=2000", "--leader-elect=false",
		}
	}
	return map[string][]string{
		// The data lives as long as the process does, so it need not survive a power failure.
		etcd: {
			"--name=node0", "--data-dir=" + f.path("data"), "--unsafe-no-fsync=true",
			"--auto-compaction-retention=1", "--quota-backend-bytes=8589934592",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=node0=" + peer,
		},
		apiServer: {
			"--etcd-servers=" + client, "--allow-privileged=true", "--authorization-mode=Node,RBAC",
			"--bind-address=" + loopback, fmt.Sprintf("--secure-port=%d", p.Port(apiServerPort)),
			"--tls-cert-file=" + certificate, "--tls-private-key-file=" + key,
			"--client-ca-file=" + f.path(authorityFile),
			"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--audit-policy-file=" + f.path("audit-policy.yaml"), "--audit-log-path=" + f.path(logsDir, auditLog),
			"--audit-log-maxsize=16384", // In one file, because the requests are counted in it.
			// A process of a test can listen on the cluster IP of a Service, which no kube-proxy forwards.
			"--service-cluster-ip-range=127.16.0.0/12",
		},
		controllerManager: append(controller(controllerManagerPort),
			"--root-ca-file="+f.path(authorityFile), "--service-account-private-key-file="+key,
			"--node-monitor-period=25s", "--node-monitor-grace-period=3m20s"),
		scheduler: controller(schedulerPort),
		kwok: {
			"--kubeconfig=" + kubeconfig, "--config=" + f.path("kwok.yaml"), "--manage-all-nodes=true",
			"--tls-cert-file=" + certificate, "--tls-private-key-file=" + key,
			"--node-ip=", "--node-name=localhost", fmt.Sprintf("--node-port=%d", p.Port(kwokPort)),
			"--server-address=" + address(p.Port(kwokPort)), "--node-lease-duration-seconds=200",
		},
	}
}

// start starts the components that do not run. Their output is in the folder.
func (c *components) start(names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.startMissing(names)
	return err
}

// startExited starts all components that do not run, and reports whether there were any.
func (c *components) startExited() (started bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startMissing(c.names)
}

func (c *components) startMissing(names []string) (started bool, err error) {
	if c.ended {
		return false, errors.New("the control plane has been closed")
	}
	for _, name := range names {
		if p := c.running[name]; p != nil && !p.hasExited() {
			continue
		}
		p, err := c.spawn(name)
		if err != nil {
			return started, fmt.Errorf("start %s: %w", name, err)
		}
		c.running[name], started = p, true
	}
	return started, nil
}

// spawn starts a component in the process group that the folder's reaper kills. When that group has been killed, it
// does not exist any more, and nothing can start in it.
func (c *components) spawn(name string) (*process, error) {
	log, err := os.OpenFile(c.folder.path(logsDir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(filepath.Join(c.binaries, name), c.flags[name]...), exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = c.folder.dir, environment(c.folder.dir)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: c.folder.anchor.Process.Pid}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // Whoever needs it finds the reason in the log.
		close(p.exited)
	}()
	return p, nil
}

// kill kills a component, and returns when it has exited.
func (c *components) kill(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running[name]
	if p == nil {
		return fmt.Errorf("kill %s: it has not been started", name)
	}
	return p.kill()
}

// end kills all components, and returns when they have exited. Nothing can be started afterwards.
func (c *components) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	var errs []error
	for _, p := range c.running {
		errs = append(errs, p.kill())
	}
	return errors.Join(errs...)
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// environment returns the environment of the components and kubectl, whose home is dir: without the user's settings
// for other clusters.
func environment(dir string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "KWOK_") && !strings.HasPrefix(e, "KUBECONFIG=") {
			env = append(env, e)
		}
	}
	return append(env, "HOME="+dir)
}
