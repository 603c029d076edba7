//go:build e2e

package realnodes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

const (
	group    = "workers"
	hook     = "drain"
	template = "node"
	system   = "node-drainer" // the namespace of the agent
	// waitTimeout bounds each wait of a test. It only decides how long a failing test takes.
	waitTimeout = 5 * time.Minute
)

// control starts the control plane that all tests of the package share.
var control = sync.OnceValues(func() (*realnodes.Cluster, error) {
	return realnodes.Start(context.Background(), os.Stderr)
})

// fixture is what a test has for itself: an AWS account with a group of machines, and a namespace.
type fixture struct {
	t         testing.TB
	cluster   *realnodes.Cluster
	aws       *awsim.Server
	queue     string
	namespace string
}

// newFixture returns a fixture whose group has no instances.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	c, err := control()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, cluster: c, namespace: c.Namespace(t)}
	f.aws, err = awsim.New(awsim.Options{Machines: c.Machines, Listen: realnodes.Listen(80)})
	f.must(err)
	t.Cleanup(func() {
		f.must(f.aws.Close())
		f.must(c.KillAll())
	})
	f.aws.SetDelays(awsim.Delays{Terminate: time.Second})
	f.queue = f.aws.CreateQueue("node-drainer", nil)
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// waits returns a context for one wait.
func (f *fixture) waits() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), waitTimeout)
	f.t.Cleanup(cancel)
	return ctx
}

// launch makes the group, whose instances have version 1 of a launch template that also has a version 2, and waits until
// all nodes are Ready.
func (f *fixture) launch(n int) {
	f.t.Helper()
	_, err := f.aws.CreateLaunchTemplate(template, "ami-1")
	f.must(err)
	f.must(f.aws.CreateGroup(awsim.Group{
		Name: group, Max: 2 * n, Desired: n, LaunchTemplate: template, LaunchTemplateVersion: "$Latest",
		Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
	}))
	f.waitInService(n)
	_, err = f.aws.AddTemplateVersion(template, "ami-2")
	f.must(err)
}

// addHook gives the group a terminating hook that sends to the queue.
func (f *fixture) addHook() {
	f.t.Helper()
	f.must(f.aws.PutHook(group, awsim.Hook{
		Name: hook, HeartbeatTimeout: 2 * time.Minute, DefaultResult: "CONTINUE",
		NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
}

// install installs the chart, with more values if there are any, and waits until both replicas of the agent are ready.
func (f *fixture) install(more ...string) {
	f.t.Helper()
	f.must(harness.CreateNamespace(f.t.Context(), f.cluster.Client(), system))
	values := []string{
		"config.clusterName=demo", "config.queue.url=" + f.queue,
		"image.registry=" + realnodes.Registry, "image.tag=" + realnodes.Tag,
	}
	for i, v := range [][2]string{
		{"AWS_ENDPOINT_URL", f.aws.URL()},
		{"AWS_REGION", "eu-central-1"},
		{"AWS_ACCESS_KEY_ID", "agent"},
		{"AWS_SECRET_ACCESS_KEY", "test"},
	} {
		values = append(values, fmt.Sprintf("extraEnv[%d].name=%s", i, v[0]), fmt.Sprintf("extraEnv[%d].value=%s", i, v[1]))
	}
	args := []string{}
	for _, v := range values {
		args = append(args, "--set-string", v)
	}
	for _, v := range more {
		args = append(args, "--set", v)
	}
	objects, err := chart.Render(f.t.Context(), "node-drainer", system, args...)
	f.must(err)
	f.must(f.cluster.Create(f.waits(), objects...))
	f.t.Cleanup(func() {
		_, err := f.cluster.Kubectl(context.Background(), "delete", "namespace", system, "--wait=true", "--timeout=60s")
		f.must(err)
		for _, o := range objects {
			if o.GetNamespace() == "" {
				_, _ = f.cluster.Kubectl(context.Background(), "delete", o.GetKind(), o.GetName(), "--ignore-not-found")
			}
		}
	})
	f.must(f.cluster.WaitReady(f.waits(), system, "app.kubernetes.io/name=node-drainer", 2))
}

// budget makes a budget for a workload.
func (f *fixture) budget(name, minAvailable string) {
	f.t.Helper()
	f.must(f.cluster.MinAvailable(f.waits(), f.namespace, name, minAvailable))
}

// trigger runs the trigger, and returns its exit code and what it printed.
func (f *fixture) trigger(args ...string) (code int, output string) {
	f.t.Helper()
	cmd := exec.Command(realnodes.Binary(harness.Trigger), args...)
	cmd.Env = append(harness.Environ(f.t.TempDir(), f.aws.URL(), "trigger"),
		"KUBECONFIG="+f.cluster.Kubeconfig(), "TRIGGER_POLL_INTERVAL=1s")
	p := harness.NewProcess(cmd)
	f.must(p.Start())
	f.t.Cleanup(p.Kill)
	code, err := p.WaitEnd(f.waits())
	f.must(err)
	return code, p.Output()
}

// explain logs what is in the cluster.
func (f *fixture) explain() {
	for _, args := range [][]string{
		{"get", "nodes", "-o", "wide"},
		{"get", "pods", "--all-namespaces", "-o", "wide"},
		{"logs", "--namespace", system, "--selector", "app.kubernetes.io/name=node-drainer", "--tail", "100"},
		{"get", "events", "--all-namespaces", "--sort-by", ".metadata.creationTimestamp"},
	} {
		out, err := f.cluster.Kubectl(context.Background(), args...)
		f.t.Logf("%v: %v\n%s", args, err, out)
	}
	logs, _ := filepath.Glob(filepath.Join(realnodes.Isolated(), "*", "logs", "*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		f.t.Logf("%s\n%s", log, text[max(0, len(text)-1500):])
	}
}
