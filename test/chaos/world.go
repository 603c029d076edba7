package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/node-drainer/node-drainer/test/agentrules"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	home = "node-drainer" // The namespace of the agents.
	shop = "shop"         // The namespace of the pods.

	ourHook   = "drain"
	readyHook = "ready"  // Ours, for launches.
	otherHook = "backup" // Of another team, which completes it.
	ourKey    = "agent"  // The access key of the agents.
	topic     = "arn:aws:sns:eu-central-1:123456789012:terminations"

	// beat is the HeartbeatTimeout of our hooks. A heartbeat is sent before half of it has passed, so the other
	// half is the longest time without a leader that they bear: the API server away, and then a new lease.
	beat = time.Minute
	// margin is the agents' EVENT_MARGIN, and settle their DRAIN_SETTLE.
	margin, settle = 3 * time.Second, time.Second
	// shutdown is how long a machine takes to end. It must be longer than lag, for the judge to tell who
	// ended its pods.
	shutdown = 3 * time.Second
)

// The groups, by what is special about them.
const (
	direct   = "direct"   // The hook sends to the queue.
	sns      = "sns"      // It sends to a topic.
	bus      = "bus"      // It has no target; EventBridge tells of it.
	two      = "two"      // There is a hook of another team beside it.
	spots    = "spots"    // Spot Instances, with a hook.
	bare     = "bare"     // Spot Instances without one.
	reserved = "reserved" // In an interruptible Capacity Reservation, with a hook.
	abroad   = "abroad"   // Of another cluster; its hook sends to our queue.
)

// sizes are the groups' shares of the nodes, in percent.
func sizes() map[string]int {
	return map[string]int{direct: 24, sns: 14, bus: 14, two: 14, spots: 18, bare: 8, reserved: 8}
}

// world is what the run plays in: a control plane, an AWS, nodes and pods.
type world struct {
	cluster    *cluster.Cluster
	aws        *awsim.Server
	queue      string
	kubeconfig string
	guarded    map[string]bool
}

// newWorld makes a world with so many nodes. Whatever it returns must be closed.
func newWorld(ctx context.Context, seed uint64, nodes int, dir string, log io.Writer) (*world, error) {
	w := &world{guarded: map[string]bool{}}
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
	if err := w.launches(); err != nil {
		return w, err
	}
	return w, w.deploy(ctx, nodes)
}

// launches gives some groups a launch hook, when their first instances have come without the help of an
// agent.
func (w *world) launches() error {
	var errs []error
	for _, group := range []string{direct, spots} {
		errs = append(errs, w.aws.PutHook(group, awsim.Hook{
			Name: readyHook, Transition: awsim.Launching, HeartbeatTimeout: beat,
			NotificationTargetARN: w.aws.QueueARN(w.queue),
		}))
	}
	return errors.Join(errs...)
}

func (w *world) close() error {
	var err error
	if w.aws != nil {
		err = w.aws.Close()
	}
	return errors.Join(err, w.cluster.Close())
}

// account makes the namespaces and the ServiceAccount of the agents.
func (w *world) account(ctx context.Context) error {
	for _, name := range []string{home, shop} {
		_, err := w.cluster.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := w.cluster.Client().CoreV1().ServiceAccounts(shop).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil //nolint:nilerr // It is made in its own time.
	})
	if err != nil {
		return err
	}
	w.kubeconfig, err = w.cluster.ServiceAccount(ctx, home, "agent", agentrules.All(), agentrules.Own())
	return err
}

// groups makes the Auto Scaling groups with their hooks, and the ways by which messages come to the queue.
func (w *world) groups(nodes int) error {
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
		case spots, bare:
			g.Market = awsim.Spot
		case reserved:
			g.Market = awsim.Interruptible
		}
		errs = append(errs, w.aws.CreateGroup(g))
	}
	errs = append(errs, w.aws.CreateGroup(awsim.Group{
		Name: abroad, Max: 1000, Tags: map[string]string{"kubernetes.io/cluster/other": "owned"},
	}))
	hook := func(group, name, target string, timeout time.Duration) {
		errs = append(errs, w.aws.PutHook(group, awsim.Hook{
			Name: name, HeartbeatTimeout: timeout, NotificationTargetARN: target,
		}))
	}
	for _, group := range []string{direct, two, spots, reserved} {
		hook(group, ourHook, arn, beat)
	}
	hook(sns, ourHook, topic, beat)
	hook(bus, ourHook, "", beat)
	hook(two, otherHook, w.aws.QueueARN(others), time.Hour)
	hook(abroad, ourHook, arn, time.Hour)
	return errors.Join(errs...)
}

// inService waits until the groups have all their instances.
func (w *world) inService(ctx context.Context, nodes int) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) {
			for name, share := range sizes() {
				if len(w.serving(name)) < max(1, nodes*share/100) {
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

// serving are the instances of a group that are in service.
func (w *world) serving(group string) []awsim.Instance {
	var all []awsim.Instance
	for _, i := range w.aws.Instances(group) {
		if i.State == "InService" {
			all = append(all, i)
		}
	}
	return all
}

func instanceOf(node string) string { return strings.TrimPrefix(node, cluster.NodeName("")) }
