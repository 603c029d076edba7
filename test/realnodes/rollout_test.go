//go:build e2e

package realnodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
	"github.com/node-drainer/node-drainer/test/realnodes/account"
)

var recordRuns = flag.Bool("record", false,
	"TestRollout writes account/rollouts.json, of which go generate ./test/realnodes/account draws the picture")

// rate is less where the machine has other work: requests fail to a client, or a kube-proxy, that cannot run.
var rate = flag.Int("rate", 500, "requests a second to the server that follows docs/zero-downtime.md; a tenth to each other")

// server is a Deployment that answers requests, of which docs/zero-downtime.md tells.
type server struct {
	name     string
	replicas int32
	flags    []string
	budget   string // minAvailable; none if empty
	together bool   // on one node at first
	change   func(*corev1.PodTemplateSpec)
	fails    bool // requests fail, also while the agent replaces nodes
}

// servers are one that follows the page, and for each of its rows one that does all but that.
var servers = []server{
	{name: "web", replicas: 8, flags: []string{"-ready-after=2s", "-go-on=10s", "-work=10ms"}, budget: "75%"},
	{name: "no-delay", flags: []string{"-ready-after=2s", "-work=10ms"}, budget: "75%", fails: true},
	{name: "no-sigterm", flags: []string{"-ready-after=2s", "-abrupt", "-work=200ms"}, budget: "75%", fails: true},
	{
		name: "no-readiness", flags: []string{"-listen-after=3s", "-go-on=10s", "-work=10ms"}, budget: "75%",
		change: func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].ReadinessProbe = nil }, fails: true,
	},
	{
		name: "no-budget", replicas: 2, together: true, // Both are evicted when their node is drained.
		flags: []string{"-ready-after=4s", "-go-on=1s", "-work=10ms"}, fails: true,
	},
	{name: "no-spread", flags: []string{"-ready-after=2s", "-go-on=10s", "-work=10ms"}, budget: "75%", together: true},
}

// deployServer runs the server, and returns the URL that answers as soon as all its pods are ready.
func (f *fixture) deployServer(s server) (url string) {
	f.t.Helper()
	if s.replicas == 0 {
		s.replicas = 4
	}
	prefer := ""
	if s.together {
		prefer = cluster.NodeName(f.aws.Instances(group)[0].ID)
	}
	serve := realnodes.Serve(s.flags...)
	f.deploy(s.name, s.replicas, cluster.Pods{Prefer: prefer, Change: func(t *corev1.PodTemplateSpec) {
		serve(t)
		if s.change != nil {
			s.change(t)
		}
	}})
	if s.budget != "" {
		f.budget(s.name, s.budget)
	}
	url = f.service(s.name)
	f.ready(s.name, int(s.replicas))
	f.must(realnodes.WaitAnswer(f.waits(), url))
	return url
}

// TestRollout: while all nodes are replaced, no request fails to a server that follows docs/zero-downtime.md. To
// servers that do all of it but one thing requests fail, and to all of them without the agent.
func TestRollout(t *testing.T) {
	var runs []account.Run
	t.Run("agent", func(t *testing.T) {
		f := newFixture(t)
		failed := f.replaceAll(func() {
			if code, output := f.trigger("--asg", group); code != 0 {
				t.Fatalf("the trigger exited with %d:\n%s", code, output)
			}
		}, f.addHook, func() { f.install() })
		for _, s := range servers {
			if n := len(failed[s.name].Failures); (n > 0) != s.fails {
				t.Errorf("%s: %d requests failed: %v", s.name, n, failed[s.name].Failures[:min(5, n)])
			}
		}
		if t.Failed() {
			f.explain()
		}
		runs = append(runs, f.run("The agent", failed["web"]))
	})
	t.Run("kubectl drain", func(t *testing.T) {
		f := newFixture(t)
		runs = append(runs, f.run("kubectl drain", f.replaceAll(f.refresh, f.addHook, f.drainByKubectl)["web"]))
	})
	t.Run("no drain", func(t *testing.T) {
		f := newFixture(t)
		runs = append(runs, f.run("No drain", f.replaceAll(f.refresh)["web"]))
	})
	if !*recordRuns || t.Failed() {
		return
	}
	text, err := json.Marshal(runs)
	if err := errors.Join(err, os.WriteFile("account/rollouts.json", append(text, '\n'), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// run returns the account of a replacement of all nodes, for its picture.
func (f *fixture) run(title string, a realnodes.Account) account.Run {
	r := account.Run{Title: title, Sent: a.Each, Failed: make([]int, len(a.Each))}
	for _, one := range a.Failures {
		r.Failed[int(one.Sent.Sub(a.Began)/time.Second)]++
	}
	for _, at := range f.cluster.Ends() {
		if at.After(a.Began) {
			r.Left = append(r.Left, at.Sub(a.Began).Round(100*time.Millisecond).Seconds())
		}
	}
	return r
}

// replaceAll has all nodes replaced under load, and returns what became of the requests to each server. prepare is
// called when the servers are ready.
func (f *fixture) replaceAll(replace func(), prepare ...func()) map[string]realnodes.Account {
	f.t.Helper()
	const nodes = 8
	f.launch(nodes)
	urls := map[string]string{}
	for _, s := range servers {
		urls[s.name] = f.deployServer(s)
	}
	for _, p := range prepare {
		p()
	}
	began := time.Now()
	loads := map[string]*realnodes.Load{}
	for _, s := range servers {
		perSecond := *rate / 10
		if s.name == "web" {
			perSecond = *rate
		}
		loads[s.name] = realnodes.StartLoad(urls[s.name], perSecond)
	}
	replace()
	accounts := map[string]realnodes.Account{}
	for name, l := range loads {
		accounts[name] = l.Stop()
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	for _, s := range servers {
		a := accounts[s.name]
		f.t.Logf("%-13s %6d requests %5d failed, slowest %v, all nodes replaced after %v", s.name, a.Sent,
			len(a.Failures), a.Slowest.Round(time.Millisecond), took)
	}
	return accounts
}

// refresh replaces all instances by an instance refresh, and waits until those that were there have been terminated.
func (f *fixture) refresh() {
	f.t.Helper()
	old := f.inService()
	_, err := f.aws.StartRefresh(group, awsim.RefreshSpec{MinHealthy: 100})
	f.must(err)
	f.must(f.aws.WaitInstances(f.waits(), group, func(now []awsim.Instance) bool {
		return !slices.ContainsFunc(now, func(i awsim.Instance) bool { return slices.Contains(old, i.ID) })
	}))
}

// drainByKubectl drains each node whose instance waits for its hook, and completes the hook.
func (f *fixture) drainByKubectl() {
	ctx, stop := context.WithCancel(f.t.Context())
	var work sync.WaitGroup
	f.t.Cleanup(func() { stop(); work.Wait() })
	client := autoscaling.NewFromConfig(harness.AWSConfig(f.aws.URL(), "other"))
	drain := func(a awsim.Action) {
		_, err := f.cluster.Kubectl(ctx, "drain", cluster.NodeName(a.InstanceID), "--ignore-daemonsets",
			"--delete-emptydir-data", "--force", "--timeout=110s")
		if err != nil {
			f.t.Logf("kubectl drain: %v", err)
		}
		_, err = client.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
			AutoScalingGroupName: aws.String(a.Group), LifecycleHookName: aws.String(a.Hook),
			LifecycleActionToken: aws.String(a.Token), LifecycleActionResult: aws.String("CONTINUE"),
		})
		if err != nil {
			f.t.Logf("complete the hook: %v", err)
		}
	}
	work.Go(func() {
		begun := map[string]bool{}
		_ = f.aws.WaitLedger(ctx, func(all []awsim.Action) bool {
			for _, a := range all {
				if a.Transition == awsim.Terminating && !begun[a.Token] {
					begun[a.Token] = true
					work.Go(func() { drain(a) })
				}
			}
			return false
		})
	})
}
