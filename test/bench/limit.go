package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"

	rbacv1 "k8s.io/api/rbac/v1"
)

// greedyVariable makes this program the greedy evictor: its value is the job.
const greedyVariable = "NODE_DRAINER_BENCH_GREEDY"

// job is the task of the greedy evictor.
type job struct {
	Kubeconfig string
	Namespace  string
	Nodes      []string
}

// What the greedy evictor reads and writes.
const (
	readyLine = "ready"
	startLine = "start\n"
	doneLine  = "done"
)

// limit is the greedy evictor, a process of its own so that its use can be measured.
type limit struct {
	*round
	measured
	stdin io.WriteCloser
}

func (l *limit) prepare(ctx context.Context) error {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	err := l.account(ctx, rule("", "nodes", "patch"), rule("", "pods", "list", "watch"),
		rule("", "pods/eviction", "create"))
	if err != nil {
		return err
	}
	job, err := json.Marshal(job{Kubeconfig: l.kubeconfig, Namespace: l.namespace, Nodes: l.draining})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), greedyVariable+"="+string(job))
	if l.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if l.process, err = l.spawn(l.id, cmd); err != nil {
		return err
	}
	return l.waitFor(ctx, readyLine)
}

// waitFor returns when the process has written the line.
func (l *limit) waitFor(ctx context.Context, line string) error {
	if err := l.process.WaitOutput(ctx, regexp.MustCompile(`(?m)^`+line+`$`)); err != nil {
		return fmt.Errorf("greedy evictor: %w; it wrote %q", err, l.process.Output())
	}
	return nil
}

func (l *limit) start(context.Context) error {
	l.begin()
	_, err := io.WriteString(l.stdin, startLine)
	return err
}

func (l *limit) wait(ctx context.Context) error { return l.waitFor(ctx, doneLine) }

func (l *limit) stop() error {
	if l.process == nil {
		return nil
	}
	_ = l.stdin.Close() // It exits then.
	return l.process.stop()
}
