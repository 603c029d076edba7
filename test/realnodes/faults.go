package realnodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lack is what the machines of a bad image lack.
type Lack string

// What machines may lack.
const (
	Network Lack = "a network plugin" // Their Nodes register, and never become Ready.
	Pause   Lack = "the pause image"  // Their Nodes become Ready, and no pod starts.
)

// Break has the machines of a version of the launch template lack something.
func (m *Machines) Break(version int, what Lack) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lack[version] = what
}

// SignalKubelet sends a signal to the kubelet of an instance: after SIGSTOP it hangs, until SIGCONT.
func (m *Machines) SignalKubelet(instanceID string, signal syscall.Signal) error {
	n, err := m.machine(instanceID)
	if err != nil {
		return err
	}
	return n.kubelet.Process.Signal(signal)
}

// SignalContainerd sends a signal to the containerd of an instance. What runs in its containers goes on.
func (m *Machines) SignalContainerd(instanceID string, signal syscall.Signal) error {
	n, err := m.machine(instanceID)
	if err != nil {
		return err
	}
	return n.containerd.Process.Signal(signal)
}

func (m *Machines) machine(instanceID string) (*node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.machines[instanceID]
	if n == nil {
		return nil, fmt.Errorf("no machine of %s runs", instanceID)
	}
	return n, nil
}

// KillLeader kills the container of the agent that holds the Lease of the namespace, and returns its pod.
func (c *Cluster) KillLeader(ctx context.Context, namespace string) (pod string, err error) {
	leases, err := c.Client().CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if len(leases.Items) != 1 || leases.Items[0].Spec.HolderIdentity == nil {
		return "", fmt.Errorf("no leader: %d Leases in %s", len(leases.Items), namespace)
	}
	pod, _, _ = strings.Cut(*leases.Items[0].Spec.HolderIdentity, "_")
	pid, err := processOf("/agent", pod)
	if err != nil {
		return pod, err
	}
	return pod, syscall.Kill(pid, syscall.SIGKILL)
}

// processOf returns the process of a program in a container of a pod, which knows its name.
func processOf(program, pod string) (pid int, err error) {
	pids, err := processesWith(program)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && slices.Contains(strings.Split(string(environment), "\x00"), "POD_NAME="+pod) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process of %s runs in %s", program, pod)
}
