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

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// settleTimeout bounds how long all may take to come to its end when nothing happens any more.
const settleTimeout = 150 * time.Second

// errBroken: a promise was broken; what and how has been told.
var errBroken = errors.New("promises were broken")

// chaos is a whole run.
func chaos(ctx context.Context, o options, out io.Writer) (err error) {
	_, _ = fmt.Fprintf(out, "seed %d: %d terminations, %d agents, election %v\n",
		o.seed, o.terminations, o.agents, o.elect)
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "node-drainer-chaos-"); err != nil {
			return err
		}
		defer func() {
			if err != nil && ctx.Err() == nil {
				_, _ = fmt.Fprintln(out, "The logs of the agents and of the control plane are in", dir)
				return
			}
			err = errors.Join(err, remove(ctx, dir))
		}()
	}
	if o.agent == "" {
		if o.agent, err = buildAgent(ctx, dir, o.race); err != nil {
			return err
		}
	}
	w, err := newWorld(ctx, o.seed, min(max(o.terminations/4, 40), 72), dir, out)
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return err
	}
	return w.chaos(ctx, o, dir, out)
}

// remove removes the folder. It is tried for some seconds: what was killed amid the start of a part of the
// control plane may still leave a file there.
func remove(ctx context.Context, dir string) error {
	var err error
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			err = os.RemoveAll(dir)
			return err == nil, nil
		})
	return err
}

// chaos plays the plan in the world, and judges.
func (w *world) chaos(ctx context.Context, o options, dir string, out io.Writer) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	r, err := record(watching, w.cluster.Client(), w.guarded)
	if err != nil {
		return err
	}
	f := &fleet{binary: o.agent, logs: dir, pids: w.cluster.Dir(), env: w.environment(o)}
	defer f.stop()
	if err := f.start(o.agents); err != nil {
		return err
	}
	p := newPlay(w, f)
	go p.clock(watching)
	go p.otherTeam(watching)
	go p.mend(watching, r)
	go p.tell(watching, o, out)
	if err := p.run(ctx, newPlan(o.seed, o.terminations, o.each)); err != nil {
		return err
	}
	settled := p.settle(ctx, r)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.stop()
	all, err := p.gather(ctx, r)
	if err != nil {
		return err
	}
	faults := judge(all)
	p.summary(out, o, all, faults, dir, settled)
	if len(faults) > 0 {
		return errBroken
	}
	return nil
}

// environment is what an agent is told: short times, so that much happens.
func (w *world) environment(o options) func(number int) []string {
	return func(number int) []string {
		return []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + w.cluster.Dir(), "GORACE=halt_on_error=1",
			"AWS_REGION=eu-central-1", "AWS_ACCESS_KEY_ID=" + ourKey, "AWS_SECRET_ACCESS_KEY=chaos",
			"AWS_ENDPOINT_URL=" + w.aws.URL(), "KUBECONFIG=" + w.kubeconfig,
			"CLUSTER_NAME=chaos", "QUEUE_URL=" + w.queue, "LISTEN_ADDRESS=127.0.0.1:0", "LOG_LEVEL=debug",
			"POD_NAMESPACE=" + home, "POD_NAME=agent-" + strconv.Itoa(number),
			"LEADER_ELECTION=" + strconv.FormatBool(o.elect),
			"LEADER_LEASE_DURATION=6s", "LEADER_RENEW_DEADLINE=4s", "LEADER_RETRY_PERIOD=1s",
			"QUEUE_VISIBILITY_TIMEOUT=5s", "HOOK_CONFIRM_TIMEOUT=5s", "HOOK_NAMES=" + ourHook + "," + readyHook,
			"RESYNC_INTERVAL=5s", "NODE_REGISTRATION_TIMEOUT=10s",
			"EVENT_REBALANCE_RECOMMENDATION=drain", "EVENT_MARGIN=" + margin.String(),
			"DRAIN_SETTLE=" + settle.String(),
			"DRAIN_TIMEOUT=" + o.drain.String(), "DRAIN_FORCE_SPACING=2s", "DRAIN_BLOCKED_AFTER=5s",
		}
	}
}

// settle waits until nothing is left to do, and tells how long that took, and what is missing if it takes too
// long.
func (p *play) settle(ctx context.Context, r *recorder) string {
	const looks = 4 // In a row: what ends may begin something else.
	start := time.Now()
	missing, quiet := "", 0
	for time.Since(start) < settleTimeout {
		quiet++
		if missing = p.missing(r); missing != "" {
			quiet = 0
		}
		if quiet == looks {
			return "settled after " + time.Since(start).Round(100*time.Millisecond).String()
		}
		if !pause(ctx, 500*time.Millisecond) || p.fleet.revive() != nil {
			break
		}
	}
	return "not settled after " + time.Since(start).Round(time.Second).String() + ": " + missing
}

// missing tells what there still is to do; "" if there is nothing.
func (p *play) missing(r *recorder) string {
	_, open := p.progress()
	restless := 0
	for group := range sizes() {
		restless += len(p.aws.Instances(group)) - len(p.serving(group))
	}
	taken := p.aws.Interruptions()
	taken = slices.DeleteFunc(taken, func(i awsim.Interruption) bool { return !i.GoneAt.IsZero() })
	switch left, remains := p.left(), r.remains(p.going); {
	case open > 0:
		return fmt.Sprintf("%d hooks are open", open)
	case len(taken) > 0:
		return fmt.Sprintf("%d interrupted instances are not gone", len(taken))
	case restless > 0:
		return fmt.Sprintf("%d instances come or go", restless)
	case len(left) > 0:
		return fmt.Sprintf("%d messages are in the queue", len(left))
	case len(remains) > 0:
		return fmt.Sprintf("marks are on nodes that live on: %q", remains)
	}
	return ""
}

// left are the messages in the queue, save those of another cluster.
func (p *play) left() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, body := range p.aws.Held(p.queue) {
		isForeign := false
		for id := range p.foreign {
			isForeign = isForeign || strings.Contains(body, id)
		}
		if !isForeign {
			all = append(all, body)
		}
	}
	return all
}

// gather brings together all that the judge has to know.
func (p *play) gather(ctx context.Context, r *recorder) (facts, error) {
	f := facts{
		Actions: p.aws.Ledger(), Interruptions: p.aws.Interruptions(),
		Left: p.left(), Remains: r.remains(p.going), Meddling: p.meddling(),
	}
	f.Pods, f.Nodes = r.seen()
	p.mu.Lock()
	f.Fates, f.Outages, f.Stalls = p.fates, p.outages, p.stalls
	p.mu.Unlock()
	p.fleet.mu.Lock()
	f.Lives = p.fleet.lives
	p.fleet.mu.Unlock()
	var err error
	f.Requests, err = p.cluster.Requests(ctx, cluster.UserName(home, "agent"))
	return f, err
}

// meddling are the calls of the agents that concern hooks of others.
func (p *play) meddling() []string {
	var all []string
	for _, action := range []string{"CompleteLifecycleAction", "RecordLifecycleActionHeartbeat"} {
		for _, c := range p.aws.Calls("autoscaling", action) {
			hook, group := c.Values.Get("LifecycleHookName"), c.Values.Get("AutoScalingGroupName")
			if c.Key == ourKey && (hook == otherHook || group == abroad) {
				all = append(all, fmt.Sprintf("%s of %s/%s for %s at %s",
					action, group, hook, c.Values.Get("InstanceId"), c.At.Format(time.StampMilli)))
			}
		}
	}
	return all
}
