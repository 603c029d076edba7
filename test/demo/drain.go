package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	// drainTimeout bounds the termination, which takes some 20 s.
	drainTimeout = 75 * time.Second
	// refreshInterval is how often the bar is drawn, and how long facts are collected that share a line.
	refreshInterval = 500 * time.Millisecond
)

// Who does what a line of the output reports.
const (
	byYou   = "you"
	byAWS   = "AWS"
	byAgent = "agent"
	byPods  = "pods"
)

// drainOne scales in by one instance and prints what happens until the instance is gone.
func (e *env) drainOne(ctx context.Context) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout,
		fmt.Errorf("the instance is not gone %v after the scale-in", drainTimeout))
	defer cancel()
	p, err := watchPods(ctx, e.cluster, e.node())
	if err != nil {
		return result{}, err
	}
	d := &drain{
		env: e, pods: p, startedAt: time.Now(), blocked: map[string]map[string]bool{}, reported: map[string]bool{},
	}
	e.screen.line("")
	if err := e.scaleIn(ctx); err != nil {
		return result{}, fmt.Errorf("scale in: %w", err)
	}
	d.print(time.Now(), byYou, "scale in: TerminateInstanceInAutoScalingGroup %s", e.screen.bold(e.instance))
	d.print(time.Now(), byAWS, "desired capacity %d -> %d; the hook holds the instance, the queue has a message",
		instances, instances-1)
	return d.follow(ctx)
}

// scaleIn terminates the instance as a user would, with an access key of its own.
func (e *env) scaleIn(ctx context.Context) error {
	client := autoscaling.NewFromConfig(harness.AWSConfig(e.aws.URL(), byYou))
	in := autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(e.instance), ShouldDecrementDesiredCapacity: aws.Bool(true),
	}
	_, err := client.TerminateInstanceInAutoScalingGroup(ctx, &in)
	return err
}

// drain is the drain of one node, as the agent's log, the watch of the pods and the simulated AWS report it.
type drain struct {
	*env
	pods      *pods
	startedAt time.Time

	heartbeats int
	gone       int                        // Pods, in the last line about them.
	blocked    map[string]map[string]bool // Pods by PodDisruptionBudget.
	reported   map[string]bool            // PodDisruptionBudgets.
	taintedAt  time.Time
	drainedAt  time.Time
	forced     int
	stayed     bool // The DaemonSet's pod, until the end of the drain.
	closed     *awsim.Action
	completed  bool // The line about the completion of the hook was printed.
}

// print writes one line of output.
func (d *drain) print(at time.Time, who, format string, args ...any) {
	d.screen.line("%s", d.format(at, who, fmt.Sprintf(format, args...)))
}

func (d *drain) format(at time.Time, who, text string) string {
	since := fmt.Sprintf("%+6.1f s", max(at.Sub(d.startedAt), 0).Seconds())
	colors := map[string]string{byYou: "35", byAWS: "33", byAgent: "36", byPods: "32"}
	return d.screen.faint(since) + "  " + d.screen.paint(colors[who], fmt.Sprintf("%-5s", who)) + "  " + text
}

// final is one of the last steps in Auto Scaling and SQS.
type final struct {
	step   finalStep
	at     time.Time
	err    error
	action awsim.Action
}

type finalStep int

const (
	actionClosed finalStep = iota
	messageDeleted
	instanceTerminated
)

// finalSteps reports the last steps as the simulated AWS, not the agent, knows them.
func (d *drain) finalSteps(ctx context.Context) <-chan final {
	out := make(chan final, instanceTerminated+1)
	go func() {
		defer close(out)
		a, err := d.aws.WaitClosed(ctx, d.instance)
		out <- final{actionClosed, a.ClosedAt, err, a}
		if err == nil {
			err = d.aws.WaitDrained(ctx, d.queue)
			out <- final{messageDeleted, time.Now(), err, a}
		}
		if err == nil {
			err = d.aws.WaitState(ctx, d.instance, "Terminated")
			out <- final{instanceTerminated, time.Now(), err, a}
		}
	}()
	return out
}

// follow prints everything until the instance is gone.
func (d *drain) follow(ctx context.Context) (result, error) {
	lines, finals := d.agent.Stream(ctx), d.finalSteps(ctx)
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	defer d.screen.status("")
	for {
		err := error(nil)
		done := false
		select {
		case <-ctx.Done():
			return result{}, context.Cause(ctx)
		case l, ok := <-lines:
			if !ok {
				return result{}, d.agent.Failure()
			}
			err = d.logLine(ctx, time.Now(), l)
		case <-d.pods.changed:
			d.draw()
		case <-ticker.C:
			d.printCollected()
		case f := <-d.ready(finals):
			done, err = d.final(f)
		}
		if err != nil {
			return result{}, err
		}
		if done {
			return d.result(ctx)
		}
	}
}

// ready holds back the steps after the end of the action until the line about that was printed.
func (d *drain) ready(finals <-chan final) <-chan final {
	if d.closed != nil && !d.completed {
		return nil
	}
	return finals
}

// logLine prints what a line of the agent's log reports about the drain.
func (d *drain) logLine(ctx context.Context, at time.Time, l harness.Line) error {
	switch l.Text("message") {
	case "event received":
		if l.Text("instance") == d.instance {
			d.print(at, byAgent, "event received from the queue: %s", l.Text("event"))
		}
	case "node cordoned":
		d.taintedAt = at
		return d.printMarks(ctx, at, l)
	case "heartbeat sent":
		d.heartbeats++
		d.print(at, byAgent, "heartbeat %d: the hook waits for another %v", d.heartbeats, heartbeatTimeout)
	case "eviction blocked":
		d.recordBlocked(l)
	case "node drained":
		forced, _ := l["forced"].(float64)
		d.finishPods(ctx, at, int(forced))
		d.print(at, byAgent, "%s a new list shows no pod left to evict", d.screen.bold("node drained:"))
		d.printCompletion()
	default:
		if level := l.Text("level"); level == "warn" || level == "error" {
			d.print(at, byAgent, "%s (%s: %s)", d.screen.red(l.Text("message")),
				cmp.Or(l.Text("operation"), l.Text("check")), cmp.Or(l.Text("error"), l.Text("found")))
		}
	}
	return nil
}

// recordBlocked records the pod of a blocked eviction under each PodDisruptionBudget that blocks it.
func (d *drain) recordBlocked(l harness.Line) {
	budgets, _ := l["budgets"].([]any)
	for _, b := range budgets {
		budget := fmt.Sprint(b)
		if d.blocked[budget] == nil {
			d.blocked[budget] = map[string]bool{}
		}
		d.blocked[budget][l.Text("pod")] = true
	}
}

// finishPods ends the bar: on a terminal its last state becomes a line. The agent has read the
// pods from the API server, so the watch here may lag behind.
func (d *drain) finishPods(ctx context.Context, at time.Time, forced int) {
	for v, waiting := d.pods.view(), true; waiting && v.Gone < v.Total; v = d.pods.view() {
		select {
		case <-d.pods.changed:
		case <-ctx.Done():
			waiting = false
		}
	}
	d.printCollected()
	d.drainedAt, d.forced, d.stayed = at, forced, d.pods.view().Stays
	d.screen.status("")
	if d.screen.terminal {
		d.print(at, byPods, "%s", d.progress(d.pods.view()))
	}
}

// printCollected prints what was collected since the last call.
func (d *drain) printCollected() {
	v := d.pods.view()
	for budget, pods := range d.blocked {
		if !d.reported[budget] {
			d.reported[budget] = true
			d.print(time.Now(), byAgent, "%s %d pods wait for PodDisruptionBudget %s: %d of %d must be ready",
				d.screen.yellow("blocked:"), len(pods), budget, minAvailable, replicas)
		}
	}
	if !d.screen.terminal && v.Gone != d.gone {
		d.print(time.Now(), byPods, "%s", d.progress(v))
	}
	d.draw()
	d.gone = v.Gone
}

// draw redraws the bar, from the taint to the end of the drain.
func (d *drain) draw() {
	if !d.taintedAt.IsZero() && d.drainedAt.IsZero() {
		d.screen.status(d.format(time.Now(), byPods, d.progress(d.pods.view())))
	}
}

// progress shows the pods as a bar and in numbers, in a line that fits the screen.
func (d *drain) progress(v view) string {
	const before, numbers = 18, 44
	width := max(min(d.screen.width()-before-numbers, 30), 5)
	bar := d.screen.bar(v.Gone, v.Stopping, v.Total, width)
	return fmt.Sprintf("%s %2d/%d moved, %d stopping, %d waiting; %d ready",
		bar, v.Gone, v.Total, v.Stopping, v.Total-v.Gone-v.Stopping, v.Ready)
}

// final prints one of the last steps, and returns whether it was the very last.
func (d *drain) final(f final) (done bool, err error) {
	if f.err != nil {
		return false, f.err
	}
	switch f.step {
	case actionClosed:
		d.closed = &f.action
		if f.action.ClosedBy != awsim.ByCompletion {
			return false, fmt.Errorf("the hook was not completed: it ended by %s", f.action.ClosedBy)
		}
		d.printCompletion()
	case messageDeleted:
		d.print(f.at, byAgent, "message deleted from the queue, last of all")
	case instanceTerminated:
		d.print(f.at, byAWS, "instance terminated, its node is gone")
		return true, nil
	}
	return false, nil
}

// printCompletion prints that the hook was completed, once the line "node drained" has been read too.
func (d *drain) printCompletion() {
	if d.closed == nil || d.drainedAt.IsZero() || d.completed {
		return
	}
	d.completed = true
	d.print(d.closed.ClosedAt, byAgent, "hook completed with %s; pods left to evict on the node: %d",
		d.screen.bold(d.closed.Result), len(d.closed.PodsAtClose))
}

// errUnmarked is the error of a cordoned node that new pods could still be scheduled to.
var errUnmarked = errors.New("the agent logged that the node is cordoned, but")

// printMarks prints what the agent has set on the node, as the API server has it.
func (d *drain) printMarks(ctx context.Context, at time.Time, l harness.Line) error {
	n, err := d.cluster.Client().CoreV1().Nodes().Get(ctx, d.node(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if d.aws.RequestsBy(agentKey)["autoscaling.DescribeAutoScalingInstances"] == 0 {
		return fmt.Errorf("%w it never asked Auto Scaling to confirm the termination", errUnmarked)
	}
	deadline, err := time.Parse(time.RFC3339, l.Text("deadline"))
	if err != nil {
		return fmt.Errorf("read the deadline: %w", err)
	}
	d.print(at, byAgent, "Auto Scaling confirms it: %s, deadline %s",
		d.screen.bold("node cordoned"), deadline.Local().Format(time.TimeOnly))
	const margin = "                    "
	for _, mark := range []struct{ name, text string }{
		{"taint", taint(n)}, {"cordon", cordon(n)}, {"label", label(n)},
	} {
		if mark.text == "" {
			return fmt.Errorf("%w it has no %s", errUnmarked, mark.name)
		}
		d.screen.line("%s%-7s %s", margin, mark.name, d.screen.yellow(mark.text))
	}
	return nil
}

func taint(n *corev1.Node) string {
	for _, t := range n.Spec.Taints {
		if strings.HasPrefix(t.Key, "node-drainer.io/") {
			return t.ToString()
		}
	}
	return ""
}

func cordon(n *corev1.Node) string {
	if n.Spec.Unschedulable {
		return "spec.unschedulable=true"
	}
	return ""
}

func label(n *corev1.Node) string {
	if value, ok := n.Labels[corev1.LabelNodeExcludeBalancers]; ok {
		return corev1.LabelNodeExcludeBalancers + "=" + value
	}
	return ""
}
