package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/node-drainer/node-drainer/test/agentrules"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	agentNamespace = "node-drainer" // The namespace of the agents.
	shop           = "shop"         // The namespace of the pods.

	ourHook   = "drain"
	readyHook = "ready"  // Ours, for launches.
	otherHook = "backup" // Of another team.
	agentKey  = "agent"  // The access key of the agents.
	topic     = "arn:aws:sns:eu-central-1:123456789012:terminations"

	// beat is that of our hooks. A heartbeat is sent before half of it has passed. The other half is the
	// longest time without a leader that does not time out: an outage of the API server and then a new lease.
	heartbeatTimeout = time.Minute
	// margin is the agents' EVENT_MARGIN, and settle their DRAIN_SETTLE, which is the default: on a busy machine the
	// scheduler binds pods to a node seconds after its taint.
	margin, settle = 3 * time.Second, 5 * time.Second
	// shutdown is how long a machine takes to shut down. It must be longer than lag, so that judge can
	// distinguish what ended its pods.
	shutdown = 3 * time.Second
)

// The groups.
const (
	direct       = "direct"   // The hook sends to the queue.
	sns          = "sns"      // It sends to a topic.
	bus          = "bus"      // It has no target; EventBridge sends the event.
	two          = "two"      // Another team has a hook too.
	spotHooked   = "spots"    // Spot Instances, with a hook.
	spotBare     = "bare"     // Spot Instances without a hook.
	reserved     = "reserved" // In an interruptible Capacity Reservation, with a hook.
	otherCluster = "abroad"   // Of another cluster; its hook sends to our queue.
)

// sizes are the groups' shares of the nodes, in percent.
func sizes() map[string]int {
	return map[string]int{direct: 20, sns: 13, bus: 13, two: 14, spotHooked: 18, spotBare: 8, reserved: 14}
}

// fixture is the control plane, the simulated AWS, the nodes and the pods of a run.
type fixture struct {
	cluster    *cluster.Cluster
	aws        *awsim.Server
	queue      string
	kubeconfig string
	guarded    map[string]bool
}

// newFixture creates a fixture with this number of nodes. The caller closes it even after an error.
func newFixture(ctx context.Context, seed uint64, nodes int, dir string, log io.Writer) (*fixture, error) {
	w := &fixture{guarded: map[string]bool{}}
	var err error
	w.cluster, err = cluster.Start(ctx, cluster.Options{
		Name: fmt.Sprintf("chaos-%d", seed), Dir: filepath.Join(dir, "cluster"), Log: log,
	})
	if err != nil {
		return w, err
	}
	w.aws, err = awsim.New(awsim.Options{Machines: w.cluster.Machines(cluster.Node{}), Seed: seed})
	if err != nil {
		return w, err
	}
	if err := w.account(ctx); err != nil {
		return w, err
	}
	if err := w.groups(nodes); err != nil { //nolint:contextcheck // What it starts lives until Close.
		return w, err
	}
	if err := w.inService(ctx, nodes); err != nil {
		return w, err
	}
	if err := w.addLaunchHooks(); err != nil {
		return w, err
	}
	return w, w.deploy(ctx, nodes)
}

// addLaunchHooks gives some groups a launch hook, after their first instances were launched without an agent.
func (w *fixture) addLaunchHooks() error {
	var errs []error
	for _, group := range []string{direct, spotHooked} {
		errs = append(errs, w.aws.PutHook(group, awsim.Hook{
			Name: readyHook, Transition: awsim.Launching, HeartbeatTimeout: heartbeatTimeout,
			NotificationTargetARN: w.aws.QueueARN(w.queue),
		}))
	}
	return errors.Join(errs...)
}

func (w *fixture) close() error {
	var err error
	if w.aws != nil {
		err = w.aws.Close()
	}
	return errors.Join(err, w.cluster.Close())
}

// account creates the namespaces and the ServiceAccount of the agents.
func (w *fixture) account(ctx context.Context) error {
	for _, name := range []string{agentNamespace, shop} {
		if err := harness.CreateNamespace(ctx, w.cluster.Client(), name); err != nil {
			return err
		}
	}
	var err error
	w.kubeconfig, err = w.cluster.ServiceAccount(ctx, agentNamespace, "agent",
		agentrules.All(), agentrules.Own())
	return err
}

// groups creates the Auto Scaling groups with their hooks, and routes their messages to the queue.
func (w *fixture) groups(nodes int) error {
	w.queue = w.aws.CreateQueue("node-drainer", nil)
	others := w.aws.CreateQueue("other-team", nil)
	arn := w.aws.QueueARN(w.queue)
	w.aws.SubscribeTopic(topic, arn, false)
	w.aws.AddRule(arn, awsim.TerminateAction, awsim.LaunchAction, awsim.SpotWarning, awsim.StateChanged,
		awsim.ReservationWarning, awsim.LaunchSuccessful, awsim.TerminateSuccessful)
	w.aws.AddRule(topic, awsim.RebalanceAdvice, awsim.HealthChanged)
	w.aws.SetDelays(awsim.Delays{Launch: 300 * time.Millisecond, Terminate: shutdown, Visible: time.Second})
	var errs []error
	for name, share := range sizes() {
		g := awsim.Group{
			Name: name, Max: 1000, Desired: max(1, nodes*share/100),
			Tags: map[string]string{"kubernetes.io/cluster/chaos": "owned"},
		}
		switch name {
		case spotHooked, spotBare:
			g.Market = awsim.Spot
		case reserved:
			g.Market = awsim.Interruptible
		}
		errs = append(errs, w.aws.CreateGroup(g))
	}
	errs = append(errs, w.aws.CreateGroup(awsim.Group{
		Name: otherCluster, Max: 1000, Tags: map[string]string{"kubernetes.io/cluster/other": "owned"},
	}))
	hook := func(group, name, target string, timeout time.Duration) {
		errs = append(errs, w.aws.PutHook(group, awsim.Hook{
			Name: name, HeartbeatTimeout: timeout, NotificationTargetARN: target,
		}))
	}
	for _, group := range []string{direct, two, spotHooked, reserved} {
		hook(group, ourHook, arn, heartbeatTimeout)
	}
	hook(sns, ourHook, topic, heartbeatTimeout)
	hook(bus, ourHook, "", heartbeatTimeout)
	hook(two, otherHook, w.aws.QueueARN(others), time.Hour)
	hook(otherCluster, ourHook, arn, time.Hour)
	return errors.Join(errs...)
}

// inService waits until the groups have all their instances.
func (w *fixture) inService(ctx context.Context, nodes int) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) {
			for name, share := range sizes() {
				if len(w.inServiceInstances(name)) < max(1, nodes*share/100) {
					return false, nil
				}
			}
			return true, nil
		})
	if err != nil {
		return fmt.Errorf("wait for the instances: %w", err)
	}
	return nil
}

// inServiceInstances returns the instances of a group that are in service.
func (w *fixture) inServiceInstances(group string) []awsim.Instance {
	var all []awsim.Instance
	for _, i := range w.aws.Instances(group) {
		if i.State == "InService" {
			all = append(all, i)
		}
	}
	return all
}
