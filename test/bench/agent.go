package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/node-drainer/node-drainer/test/agentrules"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	agentPackage = "github.com/node-drainer/node-drainer/cmd/agent"
	group        = "workers"
	// heartbeatTimeout is as short as operators set it: its heartbeats are part of the cost.
	heartbeatTimeout = 5 * time.Minute
)

// buildAgent builds the agent as it is shipped.
func buildAgent(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "agent")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, agentPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // So that it removes its work folder.
	cmd.WaitDelay = stopTimeout
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, output)
	}
	return binary, nil
}

// agent is the product, told by the messages of a lifecycle hook that all instances are being terminated.
type agent struct {
	*round
	aws     *awsim.Server
	queue   string
	process *process
	address chan string   // Where it serves, once.
	cpu     time.Duration // That it had used when the messages were sent.
	before  int64
}

func (a *agent) prepare(ctx context.Context) error {
	if err := a.account(ctx, agentrules.All()...); err != nil {
		return err
	}
	if err := a.startAWS(); err != nil { //nolint:contextcheck // What it starts lives until Close.
		return err
	}
	a.address = make(chan string, 1)
	var err error
	a.process, err = command{
		name: a.id, dir: a.cluster.Dir(), path: a.agentBinary, env: a.environment(), line: a.listen,
	}.start()
	if err != nil {
		return err
	}
	if err := a.ready(ctx); err != nil {
		return fmt.Errorf("wait for the agent to be ready: %w", err)
	}
	// The notification with which Auto Scaling tests a new hook has been read then.
	return a.aws.WaitDrained(ctx, a.queue)
}

// startAWS makes a group of which every node that is to be drained is an instance.
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
		err = errors.Join(err, a.aws.AddInstance(group, instanceOf(node), "eu-central-1a"))
	}
	return errors.Join(err, a.aws.PutHook(group, awsim.Hook{
		Name: "drain", HeartbeatTimeout: heartbeatTimeout, NotificationTargetARN: a.aws.QueueARN(a.queue),
	}))
}

func instanceOf(node string) string { return strings.TrimPrefix(node, cluster.NodeName("")) }

// environment is what must be set: the rest is the default.
func (a *agent) environment() []string {
	return []string{
		"QUEUE_URL=" + a.queue, "CLUSTER_NAME=bench", "LISTEN_ADDRESS=127.0.0.1:0", "LEADER_ELECTION=false",
		"KUBECONFIG=" + a.kubeconfig, "HOME=" + a.cluster.Dir(),
		"AWS_REGION=eu-central-1", "AWS_ENDPOINT_URL=" + a.aws.URL(),
		"AWS_ACCESS_KEY_ID=agent", "AWS_SECRET_ACCESS_KEY=bench",
	}
}

// listen picks the agent's address from its log.
func (a *agent) listen(line string) {
	var l struct{ Message, Listen string }
	if json.Unmarshal([]byte(line), &l) == nil && l.Message == "agent started" {
		select {
		case a.address <- l.Listen:
		default:
		}
	}
}

func (a *agent) ready(ctx context.Context) error {
	var url string
	select {
	case address := <-a.address:
		url = "http://" + address + "/readyz"
	case <-a.process.ended:
		return a.process.failure()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-a.process.ended:
			return false, a.process.failure()
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // It may not listen yet.
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

func (a *agent) start(context.Context) error {
	a.cpu, a.before = a.process.cpu(), a.process.readPeak()
	var err error
	for _, node := range a.draining {
		//nolint:contextcheck // What it starts lives until Close.
		err = errors.Join(err, a.aws.Terminate(instanceOf(node), true))
	}
	return err
}

// wait returns when every hook has been completed and every message deleted.
func (a *agent) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-a.process.ended:
			cancel(a.process.failure())
		case <-ctx.Done():
		}
	}()
	for _, node := range a.draining {
		action, err := a.aws.WaitClosed(ctx, instanceOf(node))
		if err != nil {
			return err
		}
		if action.ClosedBy != awsim.ByCompletion || len(action.PodsAtClose) > 0 || action.PodsError != "" {
			return fmt.Errorf("the hook of %s was closed by %q with %d pods on the node (%s): the agent must not",
				node, action.ClosedBy, len(action.PodsAtClose), action.PodsError)
		}
	}
	return a.aws.WaitDrained(ctx, a.queue)
}

func (a *agent) used() usage {
	return usage{CPU: a.process.cpu() - a.cpu, Before: a.before, Peaks: []int64{a.process.readPeak()}}
}

func (a *agent) stop() error {
	var err error
	if a.process != nil {
		err = a.process.stop()
	}
	if a.aws != nil {
		err = errors.Join(err, a.aws.Close())
	}
	return err
}
