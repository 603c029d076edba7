package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// greedyVariable makes this program the greedy evictor: its value is the job.
const greedyVariable = "NODE_DRAINER_BENCH_GREEDY"

// job is what the greedy evictor is to do.
type job struct {
	Kubeconfig string
	Namespace  string
	Nodes      []string
}

// What the greedy evictor says and hears.
const (
	sayReady = "ready"
	hearGo   = "go\n"
	sayDone  = "done"
)

// limit is the greedy evictor, as a process of its own so that what it uses can be told.
type limit struct {
	*round
	process *process
	lines   chan string
	cpu     time.Duration
	before  int64
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
	l.lines = make(chan string, 2)
	l.process, err = command{
		name: l.id, dir: l.cluster.Dir(), path: self, env: append(os.Environ(), greedyVariable+"="+string(job)),
		line: func(line string) { l.lines <- line },
	}.start()
	if err != nil {
		return err
	}
	return l.hear(ctx, sayReady)
}

// hear returns when the process has said the word.
func (l *limit) hear(ctx context.Context, word string) error {
	for {
		select {
		case line := <-l.lines:
			if line == word {
				return nil
			}
		case <-l.process.ended:
			return l.process.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for the greedy evictor to say %s: %w", word, context.Cause(ctx))
		}
	}
}

func (l *limit) start(context.Context) error {
	l.cpu, l.before = l.process.cpu(), l.process.readPeak()
	_, err := io.WriteString(l.process.stdin, hearGo)
	return err
}

func (l *limit) wait(ctx context.Context) error { return l.hear(ctx, sayDone) }

func (l *limit) used() usage {
	return usage{CPU: l.process.cpu() - l.cpu, Before: l.before, Peaks: []int64{l.process.readPeak()}}
}

func (l *limit) stop() error {
	if l.process == nil {
		return nil
	}
	_ = l.process.stdin.Close() // It ends with it.
	return l.process.stop()
}
