package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// kill ends an agent, which is restarted after a pause.
func (x faults) kill(ctx context.Context, a step) error {
	how := killed
	if a.What == termAgent {
		how = stopped
	}
	did, err := x.fleet.agents[a.Pick%uint64(len(x.fleet.agents))].restart(ctx, how, a.For)
	if did {
		x.count(a.What)
	}
	return err
}

// killAll kills all agents at the same moment.
func (x faults) killAll(ctx context.Context, a step) error {
	x.count(a.What)
	var all errgroup.Group
	for _, agent := range x.fleet.agents {
		all.Go(func() error {
			_, err := agent.restart(ctx, killed, a.For)
			return err
		})
	}
	return all.Wait()
}

// stopAPI kills the API server, and starts it again some time later.
func (x faults) stopAPI(ctx context.Context, a step) error {
	x.apiServer.Lock()
	defer x.apiServer.Unlock()
	x.count(a.What)
	x.mu.Lock()
	x.outages = append(x.outages, span{From: time.Now()})
	this := len(x.outages) - 1
	x.mu.Unlock()
	if err := x.cluster.Stop(ctx); err != nil {
		return err
	}
	retry.Sleep(ctx, a.For)
	err := x.cluster.StartAgain(ctx)
	x.mu.Lock()
	x.outages[this].To = time.Now()
	x.mu.Unlock()
	// Their leader election would have ended the controllers, and a kubelet would have restarted them.
	return errors.Join(err, x.cluster.Restart(ctx, controllers))
}

// fault makes AWS fail for some time, in one of many ways.
func (x faults) fault(ctx context.Context, a step) error {
	x.count(a.What)
	all := []awsim.Fault{
		{Service: "autoscaling", Code: "Throttling", Message: "Rate exceeded", Times: 12},
		{Service: "autoscaling", Code: "InternalFailure", Status: http.StatusInternalServerError, Times: 6},
		{Action: "CompleteLifecycleAction", Drop: true, AfterApply: true, Times: 3},
		{Action: "CompleteLifecycleAction", Code: "InternalFailure", Status: 500, AfterApply: true, Times: 3},
		{Action: "CompleteLifecycleAction", Code: "Throttling", Message: "Rate exceeded", Times: 6},
		{Action: "RecordLifecycleActionHeartbeat", Code: "ServiceUnavailable", Status: 503, Times: 8},
		{Action: "RecordLifecycleActionHeartbeat", Drop: true, Times: 4},
		{Action: "DescribeAutoScalingInstances", Code: "Throttling", Message: "Rate exceeded", Times: 10},
		{Action: "DescribeAutoScalingGroups", Drop: true, Times: 4},
		{Action: "DescribeLifecycleHooks", Code: "Throttling", Times: 6},
		{Service: "autoscaling", Latency: 1500 * time.Millisecond, Times: 10},
		{Service: "sqs", Code: "InternalFailure", Status: 500, Times: 8},
		{Service: "sqs", Latency: 2 * time.Second, Times: 6},
		{Action: "ReceiveMessage", Drop: true, AfterApply: true, Times: 3},
		{Action: "DeleteMessageBatch", Drop: true, AfterApply: true, Times: 2},
		{Action: "DeleteMessageBatch", Code: "InternalFailure", Status: 500, Times: 4},
		{Action: "ChangeMessageVisibilityBatch", Drop: true, Times: 2},
		{Service: "ec2", Code: "RequestLimitExceeded", Status: 503, Times: 2},
		{Service: "ec2", Latency: time.Second, Times: 4},
		{Service: "ec2", Drop: true, Times: 1},
	}
	f := all[a.Pick%uint64(len(all))]
	f.Match = func(url.Values, []byte) bool { // It is evaluated last, so it counts hits.
		x.hits.Add(1)
		return true
	}
	remove := x.aws.Inject(f)
	defer remove()
	from := time.Now()
	retry.Sleep(ctx, a.For)
	if f.Service == "autoscaling" || strings.HasPrefix(f.Action, "Describe") {
		x.mu.Lock()
		x.failures = append(x.failures, span{from, time.Now()})
		x.mu.Unlock()
	}
	return nil
}

// queueFault makes the queue duplicate, reorder or delay messages, as a standard queue may.
func (x faults) queueFault(ctx context.Context, a step) error {
	x.count(a.What)
	switch a.What {
	case duplicate:
		n := int(3 + a.Pick%12)
		x.aws.Duplicate(x.queue, n)
		x.mu.Lock()
		x.copies += n
		x.mu.Unlock()
	case reorder:
		x.aws.Reorder(x.queue, true)
		retry.Sleep(ctx, a.For)
		x.aws.Reorder(x.queue, false)
	case delay:
		x.aws.Delay(x.queue, time.Duration(500+a.Pick%2500)*time.Millisecond)
		retry.Sleep(ctx, a.For)
		x.aws.Delay(x.queue, 0)
	}
	return nil
}
