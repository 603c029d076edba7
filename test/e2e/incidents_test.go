//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// onCall is a person who runs the commands at the start of docs/runbook.md, one after the other.
type onCall struct {
	*fixture
	agent    *agentProcess
	commands []string
}

// mostCommands is how many of these commands may be needed to see the cause.
const mostCommands = 3

// newOnCall returns a person who has a page of docs/runbook.md that names each of the signs.
func (f *fixture) newOnCall(agent *agentProcess, signs ...string) *onCall {
	f.t.Helper()
	page, err := os.ReadFile("../../docs/runbook.md")
	f.must(err)
	for _, sign := range signs {
		if !strings.Contains(string(page), sign) {
			f.t.Errorf("docs/runbook.md does not say what %q means", sign)
		}
	}
	return &onCall{fixture: f, agent: agent}
}

// sees expects that a command prints what matches, in the end, and logs what it printed.
func (o *onCall) sees(command string, run func() string, pattern string) {
	o.t.Helper()
	if o.commands = append(o.commands, command); len(o.commands) > mostCommands {
		o.t.Errorf("%d commands were needed: %q", len(o.commands), o.commands)
	}
	output := ""
	defer func() { o.t.Logf("$ %s\n%s", command, output) }()
	eventually(o.t, waitTimeout, func() string {
		if output = run(); !regexp.MustCompile(pattern).MatchString(output) {
			return fmt.Sprintf("%s does not print %s", command, pattern)
		}
		return ""
	})
}

// nodes is trigger nodes from the person's own machine.
func (o *onCall) nodes(pattern string) {
	o.t.Helper()
	o.sees("trigger nodes", func() string {
		output, err := o.withoutAWS([]string{"KUBECONFIG=" + o.viewer, "POD_NAMESPACE=" + o.namespace}, "nodes").CombinedOutput()
		o.must(err)
		own := strings.SplitAfter(string(output), "\n")
		return strings.Join(slices.DeleteFunc(own, func(line string) bool { // Tests share the cluster.
			_, instance, isNode := strings.Cut(line, " i-")
			return isNode && !slices.ContainsFunc(o.aws.Ledger(), func(a awsim.Action) bool {
				return strings.HasPrefix("i-"+instance, a.InstanceID)
			})
		}), "")
	}, pattern)
}

// check is agent check in the pod of an agent.
func (o *onCall) check(pattern string) {
	o.t.Helper()
	o.sees("agent check", func() string {
		cmd := exec.CommandContext(waits(o.t), o.program, "check")
		cmd.Env = o.agent.Cmd.Env
		output, _ := cmd.CombinedOutput() // The exit code is 1 where something has failed.
		return string(output)
	}, pattern)
}

// warnings are the lines of the agent's log for each problem.
func (o *onCall) warnings(pattern string) {
	o.t.Helper()
	o.sees(`logs | grep '"level":"warn"'`, func() string {
		lines := strings.SplitAfter(o.agent.Output(), "\n")
		return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, `"level":"warn"`) }), "")
	}, pattern)
}

// TestIncidents: for each incident the first commands of the runbook lead to the cause.
func TestIncidents(t *testing.T) {
	t.Parallel()
	t.Run("a budget that never allows", func(t *testing.T) {
		t.Parallel()
		f := newFixtureWithHook(t)
		old, instance := f.node()
		f.node()
		f.deploy("api", old, 2, cluster.Pods{})
		f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "0"))
		agent := f.startAgent()
		f.terminate(instance)
		o := f.newOnCall(agent, "which never allows a disruption")
		o.nodes(old + ` .* wait for PodDisruptionBudget ` + f.namespace + `/api, which never allows a disruption`)
		f.must(f.cluster.RemoveBudget(f.ctx, f.namespace, "api"))
		f.waitCompleted(instance)
	})
	t.Run("a webhook that denies", func(t *testing.T) {
		t.Parallel()
		f := newFixtureWithHook(t)
		f.mayKill = true
		old, instance := f.node()
		f.node()
		f.deploy("api", old, 1, cluster.Pods{Stop: time.Second, GracePeriod: 2 * time.Second})
		f.admissionWebhook(admissionregistrationv1.Fail, func(context.Context) *metav1.Status {
			return &metav1.Status{Status: metav1.StatusFailure, Code: 403, Message: "not on a Sunday"}
		})
		agent := f.startAgent("DRAIN_TIMEOUT=40s")
		f.terminate(instance)
		o := f.newOnCall(agent, "wait for admission webhook NAME")
		o.nodes(old + ` .* wait for admission webhook ` + webhookName)
		o.warnings(`denied the request: not on a Sunday`)
		f.waitCompleted(instance)
	})
	t.Run("a lost permission", func(t *testing.T) {
		t.Parallel()
		f := newFixtureWithHook(t)
		old, instance := f.node()
		f.node()
		f.deploy("api", old, 1, cluster.Pods{})
		agent := f.startAgent()
		restore := f.aws.Withdraw("", "autoscaling:CompleteLifecycleAction", 0)
		f.terminate(instance)
		o := f.newOnCall(agent, "its instance has not terminated yet", "call failed, retrying")
		o.nodes(old + ` .* The only pod has left the node; its instance has not terminated yet`)
		o.warnings(`complete workers/drain for \S+ .*AccessDenied.*"call failed, retrying"`)
		o.check(`denies autoscaling:CompleteLifecycleAction on group ` + group)
		restore()
		f.waitCompleted(instance)
	})
	t.Run("an agent that is down", func(t *testing.T) {
		t.Parallel()
		f := newFixtureWithHook(t)
		old, instance := f.node()
		f.node()
		f.deploy("api", old, 2, cluster.Pods{})
		f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "0"))
		agent := f.replica("one")
		agent.waitLog("started leading")
		f.terminate(instance)
		agent.waitLog("eviction blocked")
		agent.Kill()
		o := f.newOnCall(agent, "No agent works")
		o.nodes(`^No agent works: none renews the Lease ` + f.namespace + `/`)
		f.must(f.cluster.RemoveBudget(f.ctx, f.namespace, "api"))
		f.replica("two")
		f.waitCompleted(instance)
	})
	t.Run("a bad image", func(t *testing.T) {
		t.Parallel()
		f := newFixtureThatLaunches(t, shared(t), hookTimeout, cluster.Node{Unready: true})
		agent := f.startAgent("LAUNCH_TIMEOUT=20s")
		node, a := f.launch()
		o := f.newOnCall(agent, "node not ready in time")
		o.warnings(`"message":"node not ready in time"`)
		if closed := f.waitClosed(a.InstanceID); closed.Result != "ABANDON" || closed.ClosedBy != awsim.ByCompletion {
			t.Errorf("the launch of node %s was closed by %q with %q", node, closed.ClosedBy, closed.Result)
		}
	})
}
