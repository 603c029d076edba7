package realnodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// pluginsDir has the CNI plugins of the Debian package.
const pluginsDir = "/usr/lib/cni"

const (
	// startTimeout bounds how long a node takes to be Ready.
	startTimeout = 3 * time.Minute
	kubeletPort  = 10250
)

// node is a machine: a kubelet, a containerd and a bridge, with all that runs in its containers.
type node struct {
	name, zone, instance string
	dir                  string
	number               int // of its addresses
	cgroup               string
	lacks                Lack
	containerd, kubelet  *exec.Cmd
	shutdownGrace        time.Duration
	logind               *logind // nil without shutdownGrace
}

// address returns the address of the node in the network of the machines.
func (n *node) address() string { return machineAddress(n.number) }

func (n *node) path(parts ...string) string {
	return filepath.Join(append([]string{n.dir}, parts...)...)
}

func (n *node) socket() string { return n.path("containerd.sock") }

// bridge returns the name of the node's bridge.
func (n *node) bridge() string { return fmt.Sprintf("nd-%d", n.number) }

// boot starts the machine. It does not wait for the Node.
func (n *node) boot(ctx context.Context, kubeconfig string, programs string) error {
	for _, dir := range []string{"cni", "state", "kubelet", "pki", "logs"} {
		if err := os.MkdirAll(n.path(dir), 0o755); err != nil {
			return err
		}
	}
	err := errors.Join(
		makeCgroup(n.cgroup),
		copyImages(n.path("containerd")),
		ip("address", "add", n.address()+"/32", "dev", machinesDevice),
		n.writeContainerdConfig(n.path("containerd")), n.writeNetwork(), n.writeKubeletConfig())
	if err != nil {
		return err
	}
	if n.containerd, err = n.spawn("containerd", nil, "--config", n.path("containerd.toml")); err != nil {
		return err
	}
	var env []string
	if n.shutdownGrace > 0 {
		if err := n.startLogind(ctx, n.shutdownGrace); err != nil {
			return err
		}
		env = []string{"DBUS_SYSTEM_BUS_ADDRESS=" + n.logind.address}
	}
	n.kubelet, err = n.spawn(filepath.Join(programs, "kubelet"), env, "--config="+n.path("kubelet.yaml"),
		"--kubeconfig="+kubeconfig, "--hostname-override="+n.name, "--root-dir="+n.path("kubelet"),
		"--cert-dir="+n.path("pki"), "--node-ip="+n.address(),
		"--node-labels="+corev1.LabelTopologyZone+"="+n.zone+","+corev1.LabelTopologyRegion+"="+n.zone[:len(n.zone)-1])
	return err
}

// spawn starts a program of the node, with further variables. Its output is in the node's folder.
func (n *node) spawn(program string, env []string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(n.path("logs", filepath.Base(program)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd, nil
}

func (n *node) writeContainerdConfig(root string) error {
	pause := pauseImage
	if n.lacks == Pause {
		pause = "node-drainer.test/missing:1"
	}
	return os.WriteFile(n.path("containerd.toml"), fmt.Appendf(nil, `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  stream_server_port = "0"
  # A container may not have a lower score than containerd, which has none that is negative here.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`, root, n.path("state"), n.socket(), pause, pluginsDir, n.path("cni")), 0o600)
}

// writeNetwork writes the CNI configuration, unless the machine lacks it: a bridge, whose pods the other nodes and the
// host reach by their addresses.
func (n *node) writeNetwork() error {
	if n.lacks == Network {
		return nil
	}
	config, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": n.name,
		"plugins": []map[string]any{{
			"type": "bridge", "bridge": n.bridge(), "isGateway": true, "hairpinMode": true, "ipMasq": false,
			"ipam": map[string]any{
				"type": "host-local", "dataDir": n.path("addresses"),
				"ranges": [][]map[string]string{{{"subnet": podSubnet(n.number)}}},
				"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
			},
		}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(n.path("cni", "10-bridge.conflist"), config, 0o600)
}

func (n *node) writeKubeletConfig() error {
	seconds := func(n int) string { return strconv.Itoa(n) + "s" }
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": n.address(), "port": kubeletPort, "healthzPort": 0, "readOnlyPort": 0,
		"providerID":               "aws:///" + n.zone + "/" + n.instance,
		"containerRuntimeEndpoint": "unix://" + n.socket(),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false},
		},
		"authorization": map[string]any{"mode": "AlwaysAllow"},
		"cgroupDriver":  "cgroupfs", "cgroupRoot": "/" + n.cgroup, "cgroupsPerQOS": true, "failCgroupV1": false,
		"enforceNodeAllocatable": []string{}, "failSwapOn": false, "localStorageCapacityIsolation": false,
		"evictionHard": map[string]string{
			"memory.available": "1Mi", "nodefs.available": "0.1%", "imagefs.available": "0.1%",
		},
		"imageGCHighThresholdPercent": 100, "clusterDomain": "cluster.local", "resolvConf": "",
		"podLogsDir": n.path("logs", "pods"), "serializeImagePulls": false,
		"nodeStatusUpdateFrequency": seconds(10), "syncFrequency": seconds(10), "runtimeRequestTimeout": seconds(30),
		"volumePluginDir": n.path("volumeplugins"), "maxPods": 110,
		"shutdownGracePeriod": n.shutdownGrace.String(), "shutdownGracePeriodCriticalPods": "0s",
	})
	if err != nil {
		return err
	}
	return os.WriteFile(n.path("kubelet.yaml"), config, 0o600)
}

// kill ends the machine as EC2 does when the time of an instance is over: everything that runs on it at once, without a
// signal that a process could handle. Its mounts and its bridge go, too.
func (n *node) kill() error {
	machine := []*exec.Cmd{n.kubelet, n.containerd}
	if n.logind != nil {
		machine = append(machine, n.logind.bus)
	}
	for _, cmd := range machine {
		if cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	shims, err := processesWith(n.socket())
	if err != nil {
		return err
	}
	containers, err := filepath.Glob(n.path("state", "io.containerd.runtime.v2.task", "k8s.io", "*", "init.pid"))
	if err != nil {
		return err
	}
	for _, file := range containers {
		text, err := os.ReadFile(file)
		if pid, e := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && e == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, pid := range shims {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return errors.Join(unmountBelow(n.dir), n.removeBridge(),
		ip("address", "delete", n.address()+"/32", "dev", machinesDevice))
}

// removeBridge removes the node's bridge, which the first pod has made.
func (n *node) removeBridge() error {
	if _, err := os.Stat("/sys/class/net/" + n.bridge()); err != nil {
		return nil
	}
	return ip("link", "delete", n.bridge())
}

// processesWith returns the processes that have an argument.
func processesWith(argument string) (pids []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // It has exited.
		}
		if slices.Contains(strings.Split(string(text), "\x00"), argument) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
