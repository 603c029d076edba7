package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
)

// kubectl drains each node with a process of its own, as an operator with a shell does.
type kubectl struct {
	*round
	home      string
	processes []*process
}

// prepare gives all processes one home, so that they share what kubectl keeps of the API, as they would.
func (k *kubectl) prepare(ctx context.Context) error {
	k.home = k.file("home")
	if err := os.Mkdir(k.home, 0o700); err != nil {
		return err
	}
	all := []string{"*"}
	return k.account(ctx, rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all})
}

func (k *kubectl) start(context.Context) error {
	for i, node := range k.draining {
		p, err := command{
			name: fmt.Sprintf("%s-%d", k.id, i), dir: k.cluster.Dir(), path: filepath.Join(k.binaries, "kubectl"),
			args: []string{"drain", node, "--ignore-daemonsets", "--delete-emptydir-data"},
			env:  []string{"KUBECONFIG=" + k.kubeconfig, "HOME=" + k.home},
		}.start()
		if err != nil {
			return err
		}
		k.processes = append(k.processes, p)
	}
	return nil
}

func (k *kubectl) wait(ctx context.Context) error {
	for _, p := range k.processes {
		select {
		case <-p.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !p.cmd.ProcessState.Success() {
			return p.failure()
		}
	}
	return nil
}

func (k *kubectl) used() usage {
	var u usage
	for _, p := range k.processes {
		u.CPU += p.cpu()
		u.Peaks = append(u.Peaks, p.peak.Load())
	}
	return u
}

func (k *kubectl) stop() error { return stopAll(k.processes) }
