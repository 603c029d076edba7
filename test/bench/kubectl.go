package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
)

// kubectl drains each node with a process of its own, as an operator with a shell does.
type kubectl struct {
	*round
	home      string
	processes []*process
}

// prepare gives all processes one home, so that they share kubectl's cache of the API as they would.
func (k *kubectl) prepare(ctx context.Context) error {
	k.home = filepath.Join(k.cluster.Dir(), k.id+"-home")
	if err := os.Mkdir(k.home, 0o700); err != nil {
		return err
	}
	all := []string{"*"}
	return k.account(ctx, rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all})
}

func (k *kubectl) start(context.Context) error {
	for i, node := range k.draining {
		cmd := exec.Command(filepath.Join(k.binaries, "kubectl"),
			"drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
		cmd.Env = []string{"KUBECONFIG=" + k.kubeconfig, "HOME=" + k.home}
		p, err := k.spawn(fmt.Sprintf("%s-%d", k.id, i), cmd)
		if err != nil {
			return err
		}
		k.processes = append(k.processes, p)
	}
	return nil
}

func (k *kubectl) wait(ctx context.Context) error {
	for _, p := range k.processes {
		if code, err := p.WaitEnd(ctx); err != nil {
			return err
		} else if code != 0 {
			return p.Failure()
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

func (k *kubectl) stop() error {
	var all errgroup.Group
	for _, p := range k.processes {
		all.Go(p.stop)
	}
	return all.Wait()
}
