package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// settleTimeout bounds how long everything that was started may take to finish.
const settleTimeout = 150 * time.Second

// errViolation is the error of a run whose report lists broken promises.
var errViolation = errors.New("promises were broken")

// chaos is a whole run.
func chaos(ctx context.Context, o options, out io.Writer) (err error) {
	_, _ = fmt.Fprintf(out, "seed %d: %d terminations, %d agents, election %v\n",
		o.seed, o.terminations, o.agents, o.elect)
	dir, err := os.MkdirTemp("", "node-drainer-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintln(out, "The logs of the agents and of the control plane are in", dir)
			return
		}
		err = errors.Join(err, remove(ctx, dir))
	}()
	agent, err := harness.Build(ctx, dir, harness.Agent, harness.Options{Race: o.race})
	if err != nil {
		return err
	}
	w, err := newFixture(ctx, o.seed, min(max(o.terminations/4, 40), 72), dir, out)
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return err
	}
	return w.run(ctx, o, &fleet{binary: agent, logs: dir, pids: w.cluster.Dir(), env: w.environment(o)}, out)
}

// remove removes the folder. It retries for some seconds: a part of the control plane that was killed while
// it started may still write a file.
func remove(ctx context.Context, dir string) error {
	var err error
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			err = os.RemoveAll(dir)
			return err == nil, nil
		})
	return err
}

// run executes the plan, and judges the outcome.
func (w *fixture) run(ctx context.Context, o options, f *fleet, out io.Writer) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	r, err := record(watching, w.cluster.Client(), w.guarded)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := f.start(o.agents); err != nil {
		return err
	}
	x := newExecution(w, f)
	go x.recordStalls(watching)
	go x.completeForOtherTeam(watching)
	go x.restartParts(watching, r)
	go report{x}.printProgress(watching, o, out)
	if err := x.run(ctx, newPlan(o.seed, o.terminations, o.each)); err != nil {
		return err
	}
	settled := x.settle(ctx, r)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.stop()
	all, err := x.collect(ctx, r)
	if err != nil {
		return err
	}
	violations := judge(all)
	report{x}.summary(out, o, all, violations, settled)
	if len(violations) > 0 {
		return errViolation
	}
	return nil
}

// environment returns the configuration of an agent, with short times so that much happens.
func (w *fixture) environment(o options) func(number int) []string {
	return func(number int) []string {
		return append(harness.Environ(w.cluster.Dir(), w.aws.URL(), agentKey),
			"KUBECONFIG="+w.kubeconfig, "CLUSTER_NAME=chaos", "QUEUE_URL="+w.queue,
			"LISTEN_ADDRESS=127.0.0.1:0", "LOG_LEVEL=debug",
			"POD_NAMESPACE="+agentNamespace, "POD_NAME=agent-"+strconv.Itoa(number),
			"LEADER_ELECTION="+strconv.FormatBool(o.elect),
			"LEADER_LEASE_DURATION=6s", "LEADER_RENEW_DEADLINE=4s", "LEADER_RETRY_PERIOD=1s",
			"QUEUE_VISIBILITY_TIMEOUT=5s", "HOOK_CONFIRM_TIMEOUT=5s", "HOOK_NAMES="+ourHook+","+readyHook,
			"RESYNC_INTERVAL=5s", "NODE_REGISTRATION_TIMEOUT=30s",
			"EVENT_REBALANCE_RECOMMENDATION=drain", "DRAIN_MAX_CONCURRENT=3", "EVENT_MARGIN="+margin.String(),
			"DRAIN_SETTLE="+settle.String(),
			"DRAIN_TIMEOUT="+o.drain.String(), "DRAIN_FORCE_SPACING=2s", "DRAIN_BLOCKED_AFTER=5s")
	}
}

// settle waits until nothing is left to do. It returns how long that took, and what is missing after
// settleTimeout.
func (x *execution) settle(ctx context.Context, r *recorder) string {
	const enough = 4 // Checks in a row, because what ends may start something else.
	start := time.Now()
	missing, quiet := "", 0
	for time.Since(start) < settleTimeout {
		quiet++
		if missing = x.missing(r); missing != "" {
			quiet = 0
		}
		if quiet == enough {
			return "settled after " + time.Since(start).Round(100*time.Millisecond).String()
		}
		if !retry.Sleep(ctx, 500*time.Millisecond) || x.fleet.restartExited() != nil {
			break
		}
	}
	return "not settled after " + time.Since(start).Round(time.Second).String() + ": " + missing
}

// missing returns what is left to do, or "".
func (x *execution) missing(r *recorder) string {
	_, open := report{x}.hooks()
	changing := 0
	for group := range sizes() {
		changing += len(x.aws.Instances(group)) - len(x.inServiceInstances(group))
	}
	taken := x.aws.Interruptions()
	taken = slices.DeleteFunc(taken, func(i awsim.Interruption) bool { return !i.GoneAt.IsZero() })
	switch left, leftovers := x.left(), r.leftovers(x.terminating); {
	case open > 0:
		return fmt.Sprintf("%d lifecycle actions are open", open)
	case len(taken) > 0:
		return fmt.Sprintf("%d interrupted instances are not terminated", len(taken))
	case changing > 0:
		return fmt.Sprintf("%d instances are launching or terminating", changing)
	case len(left) > 0:
		return fmt.Sprintf("%d messages are in the queue", len(left))
	case len(leftovers) > 0:
		return fmt.Sprintf("nodes in service are marked: %q", leftovers)
	}
	return ""
}

// left returns the messages in the queue, except those of another cluster.
func (x *execution) left() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(x.aws.Held(x.queue), func(body string) bool {
		for id := range x.foreignInstances {
			if strings.Contains(body, id) {
				return true
			}
		}
		return false
	})
}

// collect returns everything that judge needs.
func (x *execution) collect(ctx context.Context, r *recorder) (facts, error) {
	f := facts{
		Actions: x.aws.Ledger(), Interruptions: x.aws.Interruptions(),
		Left: x.left(), Leftovers: r.leftovers(x.terminating), ForeignCalls: x.foreignCalls(),
	}
	f.Pods, f.Nodes, f.Gaps = r.seen()
	x.mu.Lock()
	f.Removals, f.Outages, f.Stalls, f.Failures = x.removals, x.outages, x.stalls, x.failures
	x.mu.Unlock()
	x.fleet.mu.Lock()
	f.Processes = x.fleet.records
	x.fleet.mu.Unlock()
	var err error
	f.Requests, err = x.cluster.Requests(ctx, cluster.UserName(agentNamespace, "agent"))
	return f, err
}

// The calls about lifecycle actions.
const completion, heartbeat = "CompleteLifecycleAction", "RecordLifecycleActionHeartbeat"

// foreignCalls returns the calls of the agents about hooks of another team or cluster.
func (x *execution) foreignCalls() []foreignCall {
	var all []foreignCall
	for _, action := range []string{completion, heartbeat} {
		for _, c := range x.aws.Calls("autoscaling", action) {
			hook, group := c.Values.Get("LifecycleHookName"), c.Values.Get("AutoScalingGroupName")
			if c.Key == agentKey && (hook == otherHook || group == otherCluster) {
				all = append(all, foreignCall{action, group, hook, c.Values.Get("InstanceId"), c.At})
			}
		}
	}
	return all
}
