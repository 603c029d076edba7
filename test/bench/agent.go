package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/node-drainer/node-drainer/test/agentrules"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/redispods"
)

const (
	group = "workers"
	// defaultHeartbeat is as short as operators set the timeout of a hook: heartbeats are part of the cost.
	defaultHeartbeat = 5 * time.Minute
)

// agent is the product. The messages of a lifecycle hook report to it that all instances are being
// terminated.
type agent struct {
	*round
	measured
	aws      *awsim.Server
	handover *process // nil in scenarios without Redis
	queue    string
	calls    calls // to Auto Scaling
}

func (a *agent) prepare(ctx context.Context) error {
	if err := a.account(ctx, agentrules.All()...); err != nil {
		return err
	}
	if a.redis != nil {
		if err := a.startHandover(ctx); err != nil {
			return err
		}
	}
	if err := a.startAWS(); err != nil { //nolint:contextcheck // What it starts lives until Close.
		return err
	}
	cmd := exec.Command(a.agentBinary) // With its default settings, except those that must be set.
	cmd.Env = append(harness.Environ(a.cluster.Dir(), a.aws.URL(), "agent"), "QUEUE_URL="+a.queue,
		"CLUSTER_NAME=bench", "LISTEN_ADDRESS=127.0.0.1:0", "LEADER_ELECTION=false", "KUBECONFIG="+a.kubeconfig)
	var err error
	if a.process, err = a.spawn(a.id, cmd); err != nil {
		return err
	}
	if err := a.process.WaitReady(ctx); err != nil {
		return err
	}
	// The test notification of the hook has been deleted then.
	return a.aws.WaitDrained(ctx, a.queue)
}

// startHandover starts the program that has the pods of the round hand over.
func (a *agent) startHandover(ctx context.Context) error {
	kubeconfig, err := a.cluster.ServiceAccount(ctx, a.namespace, a.id, nil, agentrules.Handover(redispods.Secret))
	if err != nil {
		return err
	}
	address, err := a.cluster.Expose(ctx, a.namespace, redispods.Service)
	if err != nil {
		return err
	}
	a.handover, err = a.spawn(a.id+"-handover", redispods.Handover{
		Program: a.handoverBinary, Kubeconfig: kubeconfig, Namespace: a.namespace, Address: address,
	}.Command())
	if err != nil {
		return err
	}
	_, err = a.handover.WaitLine(ctx, 1, "handover started")
	return err
}

// startAWS creates a group of which every node that is to be drained is an instance.
func (a *agent) startAWS() error {
	var err error
	a.aws, err = awsim.New(awsim.Options{Machines: a.cluster.Machines(cluster.Node{})})
	if err != nil {
		return err
	}
	a.queue = a.aws.CreateQueue("node-drainer", nil)
	err = a.aws.CreateGroup(awsim.Group{
		Name: group, Tags: map[string]string{"kubernetes.io/cluster/bench": "owned"},
	})
	for _, node := range a.draining {
		err = errors.Join(err, a.aws.AddInstance(group, harness.InstanceOf(node), "eu-central-1a"))
	}
	return errors.Join(err, a.aws.PutHook(group, awsim.Hook{
		Name: "drain", HeartbeatTimeout: cmp.Or(a.scenario.Heartbeat, defaultHeartbeat),
		NotificationTargetARN: a.aws.QueueARN(a.queue),
	}))
}

func (a *agent) start(context.Context) error {
	a.begin()
	a.calls.begin(a.aws)
	var err error
	for _, node := range a.draining {
		//nolint:contextcheck // What it starts lives until Close.
		err = errors.Join(err, a.aws.Terminate(harness.InstanceOf(node), true))
	}
	return err
}

// wait returns when every hook has been completed and every message deleted.
func (a *agent) wait(ctx context.Context) error {
	ctx, stop := a.process.WhileRunning(ctx)
	defer stop()
	for _, node := range a.draining {
		action, err := a.aws.WaitClosed(ctx, harness.InstanceOf(node))
		if err != nil {
			return err
		}
		if action.ClosedBy != awsim.ByCompletion || len(action.PodsAtClose) > 0 || action.PodsError != "" {
			return fmt.Errorf("the hook of %s was closed by %q with %d pods on the node (%s)",
				node, action.ClosedBy, len(action.PodsAtClose), action.PodsError)
		}
	}
	return a.aws.WaitDrained(ctx, a.queue)
}

func (a *agent) used() usage {
	u := a.measured.used()
	u.Calls, u.CallsPerSecond = a.calls.end()
	return u
}

func (a *agent) stop() error {
	a.calls.end()
	err := errors.Join(a.process.stop(), a.handover.stop())
	if a.aws != nil {
		err = errors.Join(err, a.aws.Close())
	}
	return err
}
