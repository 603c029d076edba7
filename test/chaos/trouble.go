package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// kill ends an agent, which comes back after a pause.
func (p *play) kill(ctx context.Context, a act) error {
	how := killed
	if a.What == termAgent {
		how = stopped
	}
	did, err := p.fleet.agents[a.Pick%uint64(len(p.fleet.agents))].end(ctx, how, a.For)
	if did {
		p.count(a.What)
	}
	return err
}

// killAll ends all agents at the same moment.
func (p *play) killAll(ctx context.Context, a act) error {
	p.count(a.What)
	errs := make(chan error, len(p.fleet.agents))
	for _, agent := range p.fleet.agents {
		go func() {
			_, err := agent.end(ctx, killed, a.For)
			errs <- err
		}()
	}
	var err error
	for range p.fleet.agents {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}

// stopAPI kills the API server, and starts it again after a while.
func (p *play) stopAPI(ctx context.Context, a act) error {
	p.apiServer.Lock()
	defer p.apiServer.Unlock()
	p.count(a.What)
	p.mu.Lock()
	p.outages = append(p.outages, span{From: time.Now()})
	this := len(p.outages) - 1
	p.mu.Unlock()
	if err := p.cluster.Stop(ctx); err != nil {
		return err
	}
	pause(ctx, a.For)
	err := p.cluster.StartAgain(ctx)
	p.mu.Lock()
	p.outages[this].To = time.Now()
	p.mu.Unlock()
	// The controllers' own leader election would have ended them, and a kubelet have started them again.
	return errors.Join(err, p.cluster.Restart(ctx, controllers))
}

// fault has AWS fail for a while, each time in another way.
func (p *play) fault(ctx context.Context, a act) error {
	p.count(a.What)
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
	f.Match = func(url.Values, []byte) bool { // It is asked last, so it counts hits.
		p.hits.Add(1)
		return true
	}
	remove := p.aws.Inject(f)
	defer remove()
	pause(ctx, a.For)
	return nil
}

// trouble has the queue behave as badly as a standard queue may.
func (p *play) trouble(ctx context.Context, a act) error {
	p.count(a.What)
	switch a.What {
	case duplicate:
		n := int(3 + a.Pick%12)
		p.aws.Duplicate(p.queue, n)
		p.mu.Lock()
		p.copies += n
		p.mu.Unlock()
	case reorder:
		p.aws.Reorder(p.queue, true)
		pause(ctx, a.For)
		p.aws.Reorder(p.queue, false)
	case delay:
		p.aws.Delay(p.queue, time.Duration(500+a.Pick%2500)*time.Millisecond)
		pause(ctx, a.For)
		p.aws.Delay(p.queue, 0)
	}
	return nil
}
