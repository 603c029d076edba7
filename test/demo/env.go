package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/agentrules"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

const (
	region         = "eu-central-1"
	group          = "workers"
	hook           = "drain"
	shop           = "shop" // The namespace of the workloads, and the Deployment in it.
	agentNamespace = "node-drainer"
	agentKey       = "agent" // The agent's AWS access key, by which awsim counts its calls.
	replicas       = 12
	minAvailable   = 10
	instances      = 4

	heartbeatTimeout  = 2 * time.Minute // The least that the check of the installation asks for.
	heartbeatInterval = 3 * time.Second // Shorter than the drain, so that heartbeats are seen.
	stopTime          = 2500 * time.Millisecond
	startTime         = 2 * time.Second
	goOn              = 5 * time.Second         // How long a real process serves after SIGTERM.
	rate              = 200                     // Requests a second.
	shutdown          = 1500 * time.Millisecond // Of the machine, after its hook was completed.

	// setupTimeout bounds each step of the setup except the build.
	setupTimeout = 2 * time.Minute
)

// env is the control plane, the simulated AWS and the agent of the demo.
type env struct {
	screen   *screen
	cleanup  *cleanups
	binaries string
	real     bool // the nodes' containers run

	cluster  *cluster.Cluster
	machines awsim.Machines
	load     *realnodes.Load
	aws      *awsim.Server
	queue    string
	instance string // The instance that is terminated.
	binary   string // The agent's; built if empty.
	agent    *harness.Process
}

// setUp prepares everything step by step, and prints one line for each.
func (e *env) setUp(ctx context.Context) error {
	build := e.buildAgent
	if e.binary != "" {
		build = nil
	}
	steps := []struct {
		name  string
		limit time.Duration
		do    func(context.Context) (string, error)
	}{
		{"start the control plane", setupTimeout, e.startCluster},
		{"launch the instances", setupTimeout, e.startAWS},
		{"start the workloads", setupTimeout, e.startWorkloads},
		{"build the agent (a minute or two the first time)", time.Hour, build},
		{"start the agent", setupTimeout, e.startAgent},
	}
	for _, step := range steps {
		if step.do == nil {
			continue
		}
		e.screen.status("  " + e.screen.faint(step.name+" ..."))
		start := time.Now()
		ctx, cancel := context.WithTimeout(ctx, step.limit)
		result, err := step.do(ctx)
		cancel()
		e.screen.status("")
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		e.screen.line("  %-88s %s", result, e.screen.faint(fmt.Sprintf("%7s", seconds(time.Since(start)))))
	}
	return nil
}

func (e *env) startCluster(ctx context.Context) (string, error) {
	c, err := e.startNodes(ctx)
	if err != nil {
		return "", err
	}
	version, err := c.Client().Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return "control plane   Kubernetes " + version.GitVersion, nil
}

// startNodes starts the control plane, and says what the nodes of instances are.
func (e *env) startNodes(ctx context.Context) (*cluster.Cluster, error) {
	if e.real {
		c, err := realnodes.Start(ctx, io.Discard)
		if err != nil {
			return nil, err
		}
		e.cluster, e.machines = c.Cluster, c.Machines
		e.cleanup.add(c.Close)
		e.cleanup.add(c.KillAll)
		return c.Cluster, nil
	}
	c, err := cluster.Start(ctx, cluster.Options{Name: "demo", Log: io.Discard})
	if err != nil {
		return nil, err
	}
	e.cluster, e.machines = c, c.Machines(cluster.Node{})
	e.cleanup.add(c.Close)
	return c, nil
}

func (e *env) startAWS(ctx context.Context) (string, error) {
	aws, err := awsim.New(awsim.Options{Region: region, Machines: e.machines})
	if err != nil {
		return "", err
	}
	e.aws = aws
	e.cleanup.add(aws.Close)
	aws.SetDelays(awsim.Delays{Terminate: shutdown})
	policy, err := deploy.Fill("iam/queue", deploy.Example())
	if err != nil {
		return "", err
	}
	e.queue = aws.CreateQueue("node-drainer", map[string]string{"Policy": policy})
	err = errors.Join(
		aws.CreateGroup(awsim.Group{ //nolint:contextcheck // What it starts lives until Close.
			Name: group, Max: 2 * instances, Desired: instances,
			Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
		}),
		aws.PutHook(group, awsim.Hook{
			Name: hook, HeartbeatTimeout: heartbeatTimeout, NotificationTargetARN: aws.QueueARN(e.queue),
			RoleARN: deploy.Example()["Senders"],
		}))
	if err = errors.Join(err, e.putRules()); err != nil {
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
	e.instance = members[0].ID
	return fmt.Sprintf("AWS             group %s of %d instances; hook %s, HeartbeatTimeout %v",
		group, instances, hook, heartbeatTimeout), nil
}

// putRules sends events to the queue, as the Terraform module does, but no state changes: each termination of the demo
// would send several, which change nothing.
func (e *env) putRules() (err error) {
	for name, kind := range map[string]event.Kind{
		"spot": event.SpotInterruption, "scheduled": event.ScheduledChange,
		"reservation": event.CapacityReservationInterruption, "block": event.CapacityBlockExpiration,
	} {
		pattern, unknown := deploy.Read("events/" + string(kind))
		err = errors.Join(err, unknown, e.aws.PutRule("node-drainer-"+name, e.aws.QueueARN(e.queue), pattern))
	}
	return err
}

// startWorkloads puts all the Deployment's pods on the node that will be drained.
func (e *env) startWorkloads(ctx context.Context) (string, error) {
	for _, name := range []string{shop, agentNamespace} {
		if err := harness.CreateNamespace(ctx, e.cluster.Client(), name); err != nil {
			return "", err
		}
	}
	err := errors.Join(
		e.cluster.DaemonSet(ctx, shop, daemonSet, cluster.Pods{
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Change: e.running(),
		}),
		e.cluster.Deploy(ctx, cluster.Deployment{
			Namespace: shop, Name: shop, Replicas: replicas,
			Pods: cluster.Pods{
				Start: startTime, Stop: stopTime, Prefer: e.node(),
				Change: e.running("-ready-after="+startTime.String(), "-go-on="+goOn.String()),
			},
		}))
	if err != nil {
		return "", err
	}
	err = errors.Join(
		e.cluster.WaitReady(ctx, shop, cluster.Selector(shop), replicas),
		e.cluster.WaitReady(ctx, shop, cluster.Selector(daemonSet), instances),
		e.cluster.MinAvailable(ctx, shop, shop, fmt.Sprint(minAvailable)))
	if err == nil {
		err = e.startLoad(ctx)
	}
	return fmt.Sprintf("workloads       Deployment %s of %d pods on one node, minAvailable %d; a DaemonSet",
		shop, replicas, minAvailable), err
}

// running has the containers of pods serve requests, if they run.
func (e *env) running(flags ...string) func(*corev1.PodTemplateSpec) {
	if !e.real {
		return nil
	}
	return realnodes.Serve(flags...)
}

// startLoad sends requests to the Deployment from now on, if its containers run.
func (e *env) startLoad(ctx context.Context) error {
	if !e.real {
		return nil
	}
	url, err := realnodes.Service(ctx, e.cluster, shop, shop)
	if err != nil {
		return err
	}
	if err := realnodes.WaitAnswer(ctx, url); err != nil {
		return err
	}
	e.load = realnodes.StartLoad(url, rate) //nolint:contextcheck // It goes on until Stop.
	e.cleanup.add(func() error { e.load.Stop(); return nil })
	return nil
}

func (e *env) node() string { return cluster.NodeName(e.instance) }

func (e *env) buildAgent(ctx context.Context) (_ string, err error) {
	e.binary, err = harness.Build(ctx, e.cluster.Dir(), harness.Agent, harness.Options{})
	return "agent           built from ./cmd/agent", err
}

// startAgent returns when the agent is ready and has deleted the test notification of the hook from the
// queue.
func (e *env) startAgent(ctx context.Context) (string, error) {
	kubeconfig, err := e.cluster.ServiceAccount(ctx, agentNamespace, "agent", agentrules.All(), agentrules.Own())
	if err != nil {
		return "", err
	}
	dir, cmd := e.cluster.Dir(), exec.Command(e.binary)
	cmd.Env = append(harness.Environ(dir, e.aws.URL(), agentKey),
		"QUEUE_URL="+e.queue, "CLUSTER_NAME=demo", "LISTEN_ADDRESS=127.0.0.1:0",
		"LOG_LEVEL=debug", "KUBECONFIG="+kubeconfig,
		"EVENT_STATE_CHANGE=ignore",
		"LEADER_ELECTION=false",  // There is one agent.
		"DRAIN_BLOCKED_AFTER=1s", // The default is a minute.
		"HOOK_HEARTBEAT_INTERVAL="+heartbeatInterval.String())
	if e.agent, err = harness.Spawn(cmd, e.agentLog(), filepath.Join(dir, "agent.pid")); err != nil {
		return "", err
	}
	e.cleanup.add(e.stopAgent)
	if err := e.agent.WaitReady(ctx); err != nil {
		return "", err
	}
	if err := e.aws.WaitDrained(ctx, e.queue); err != nil {
		return "", fmt.Errorf("wait for the agent to read the queue: %w", err)
	}
	return "agent           ready, under a ServiceAccount of its own", nil
}

func (e *env) agentLog() string { return filepath.Join(e.cluster.Dir(), "agent.log") }

// stopAgent returns an error if the agent does not exit with 0 after SIGTERM. One that exited before has
// failed a step.
func (e *env) stopAgent() error {
	select {
	case <-e.agent.Ended():
		return nil
	default:
	}
	err := e.agent.Terminate()
	if err == nil && !e.agent.Cmd.ProcessState.Success() {
		err = e.agent.Failure()
	}
	return err
}

// keep leaves everything running until the user ends it, and prints how to look at it.
func (e *env) keep(ctx context.Context) error {
	next := ""
	for _, i := range e.aws.Instances(group) {
		if i.State == "InService" {
			next = i.ID
			break
		}
	}
	line := e.screen.line
	line("\n%s", e.screen.bold("Everything is still running. Look at it from another terminal:"))
	line("  export KUBECONFIG=%s", e.cluster.Kubeconfig())
	if kubectl := filepath.Join(e.binaries, cluster.Kubectl); fileExists(kubectl) {
		line("  alias kubectl=%s", kubectl)
	}
	for _, command := range []string{
		"get nodes --show-labels", "get events --sort-by=.lastTimestamp  # the agent's Events about the node",
		"-n " + shop + " get pods,pdb -o wide",
		"-n " + shop + " get pods -o wide --watch --field-selector spec.nodeName=" + cluster.NodeName(next),
	} {
		line("  kubectl %s", command)
	}
	line("Drain one more (any AWS client works; awsim does not check signatures):")
	line("  curl --aws-sigv4 aws:amz:%s:autoscaling -u me:me %s \\", region, e.aws.URL())
	line("    -d Action=TerminateInstanceInAutoScalingGroup -d Version=2011-01-01 \\")
	line("    -d InstanceId=%s -d ShouldDecrementDesiredCapacity=true", next)
	started, err := e.agent.WaitLine(ctx, 1, "agent started")
	if err != nil {
		return err
	}
	line("Agent:  http://%s/metrics, log %s", started.Text("listen"), e.agentLog())
	line("AWS:    AWS_ENDPOINT_URL=%s, lifecycle actions: curl %[1]s/_awsim/ledger", e.aws.URL())
	line("%s", e.screen.bold("Ctrl-C stops it, and leaves nothing behind."))
	select {
	case <-ctx.Done():
		return errKept
	case <-e.agent.Ended():
		return e.agent.Failure()
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
