package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/agentrules"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	region    = "eu-central-1"
	group     = "workers"
	hook      = "drain"
	shop      = "shop" // The namespace of the workloads, and the Deployment in it.
	home      = "node-drainer"
	replicas  = 12
	least     = 10 // minAvailable of the Deployment's budget.
	instances = 4

	// heartbeatTimeout is so short that the drain does not end within it: the heartbeats must be seen at work.
	heartbeatTimeout  = 10 * time.Second
	heartbeatInterval = 3 * time.Second
	stopTime          = 2500 * time.Millisecond
	startTime         = 2 * time.Second
	shutdown          = 1500 * time.Millisecond // Of the machine, when its hook has let it go.

	// setupTimeout bounds each step before the story but the builds, which take what they take, and in the story
	// the wait for our own watch.
	setupTimeout = 2 * time.Minute
)

// world is what the story plays in.
type world struct {
	screen   *screen
	ends     *cleanups
	binaries string

	cluster    *cluster.Cluster
	aws        *awsim.Server
	queue      string
	kubeconfig string // The agent's own.
	instance   string // The one that is scaled in.
	agent      *agent
}

// build sets the stage, step by step.
func (w *world) build(ctx context.Context) error {
	steps := []struct {
		doing string
		limit time.Duration
		do    func(context.Context) (string, error)
	}{
		{"start the control plane", setupTimeout, w.startCluster},
		{"launch the instances", setupTimeout, w.startAWS},
		{"start the workloads", setupTimeout, w.startWorkloads},
		{"build the agent (a minute or two the first time)", time.Hour, w.buildAgent},
		{"start the agent", setupTimeout, w.startAgent},
	}
	for _, step := range steps {
		w.screen.status("  " + w.screen.faint(step.doing+" ..."))
		start := time.Now()
		ctx, cancel := context.WithTimeout(ctx, step.limit)
		what, err := step.do(ctx)
		cancel()
		w.screen.status("")
		if err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
		w.screen.line("  %-88s %s", what, w.screen.faint(fmt.Sprintf("%7s", seconds(time.Since(start)))))
	}
	return nil
}

func (w *world) startCluster(ctx context.Context) (string, error) {
	c, err := cluster.Start(ctx, cluster.Options{Name: "demo", Log: io.Discard})
	if err != nil {
		return "", err
	}
	w.cluster = c
	w.ends.add(c.Close)
	version, err := c.Client().Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return "control plane   Kubernetes " + version.GitVersion, nil
}

func (w *world) startAWS(ctx context.Context) (string, error) {
	aws, err := awsim.New(awsim.Options{Region: region, Machines: w.cluster.Machines(cluster.Node{})})
	if err != nil {
		return "", err
	}
	w.aws = aws
	w.ends.add(aws.Close)
	aws.SetDelays(awsim.Delays{Terminate: shutdown})
	w.queue = aws.CreateQueue("node-drainer", nil)
	err = errors.Join(
		aws.CreateGroup(awsim.Group{ //nolint:contextcheck // What it starts lives until Close.
			Name: group, Max: 2 * instances, Desired: instances,
			Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
		}),
		aws.PutHook(group, awsim.Hook{
			Name: hook, HeartbeatTimeout: heartbeatTimeout, NotificationTargetARN: aws.QueueARN(w.queue),
		}))
	if err != nil {
		return "", err
	}
	members := aws.Instances(group)
	if len(members) != instances {
		return "", fmt.Errorf("group %s has %d instances, not %d", group, len(members), instances)
	}
	for _, i := range members {
		if err := aws.WaitState(ctx, i.ID, "InService"); err != nil {
			return "", fmt.Errorf("wait for instance %s: %w", i.ID, err)
		}
	}
	w.instance = members[0].ID
	return fmt.Sprintf("AWS             group %s of %d instances, all nodes; hook %s, HeartbeatTimeout %v",
		group, instances, hook, heartbeatTimeout), nil
}

// startWorkloads puts all the Deployment's pods on the node that will go, so that there is
// something to see.
func (w *world) startWorkloads(ctx context.Context) (string, error) {
	client := w.cluster.Client().CoreV1().Namespaces()
	for _, name := range []string{shop, home} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return "", err
		}
	}
	err := errors.Join(
		w.cluster.DaemonSet(ctx, shop, daemon, cluster.Pods{
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}),
		w.cluster.Deploy(ctx, cluster.Deployment{
			Namespace: shop, Name: shop, Replicas: replicas,
			Pods: cluster.Pods{Start: startTime, Stop: stopTime, Prefer: w.node()},
		}))
	if err != nil {
		return "", err
	}
	err = errors.Join(
		w.cluster.WaitReady(ctx, shop, cluster.Selector(shop), replicas),
		w.cluster.WaitReady(ctx, shop, cluster.Selector(daemon), instances),
		w.cluster.MinAvailable(ctx, shop, shop, fmt.Sprint(least)))
	return fmt.Sprintf("workloads       Deployment %s of %d pods on one node, minAvailable %d; a DaemonSet",
		shop, replicas, least), err
}

func (w *world) node() string { return cluster.NodeName(w.instance) }

func (w *world) buildAgent(ctx context.Context) (string, error) {
	binary, err := buildAgent(ctx, w.cluster.Dir())
	if err != nil {
		return "", err
	}
	w.agent = &agent{binary: binary}
	return "agent           built from ./cmd/agent", nil
}

// startAgent returns when the agent serves, and has taken the notification with which Auto Scaling
// tests a new hook's target out of the queue.
func (w *world) startAgent(ctx context.Context) (string, error) {
	var err error
	w.kubeconfig, err = w.cluster.ServiceAccount(ctx, home, "agent", agentrules.All(), agentrules.Own())
	if err != nil {
		return "", err
	}
	if err := w.agent.start(w.cluster.Dir(), w.environment()); err != nil {
		return "", err
	}
	w.ends.add(w.agent.stop)
	if err := w.agent.ready(ctx); err != nil {
		return "", err
	}
	if err := w.aws.WaitDrained(ctx, w.queue); err != nil {
		return "", fmt.Errorf("wait for the agent to read the queue: %w", err)
	}
	return "agent           ready, under a ServiceAccount of its own", nil
}

// environment is what a user would set, and the addresses of this world.
func (w *world) environment() []string {
	return []string{
		"QUEUE_URL=" + w.queue, "CLUSTER_NAME=demo", "LISTEN_ADDRESS=127.0.0.1:0", "LOG_LEVEL=debug",
		"LEADER_ELECTION=false",  // nobody else is there
		"DRAIN_BLOCKED_AFTER=1s", // the demo has no minute to wait for it
		"HOOK_HEARTBEAT_INTERVAL=" + heartbeatInterval.String(),
		"KUBECONFIG=" + w.kubeconfig, "HOME=" + w.cluster.Dir(),
		"AWS_REGION=" + region, "AWS_ENDPOINT_URL=" + w.aws.URL(),
		"AWS_ACCESS_KEY_ID=" + agentKey, "AWS_SECRET_ACCESS_KEY=demo",
	}
}
