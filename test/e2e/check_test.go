//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// checked is an installation that agent check looks at: two groups, of which the first has an instance, and what a user
// sets up for them.
type checked struct {
	queue     string // its name
	attrs     map[string]string
	tags      map[string]string
	hooks     map[string][]awsim.Hook // by group
	rules     map[string]string       // patterns by name
	disabled  string                  // the name of a rule
	env       []string
	withdrawn []string // permissions
	role      func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule
}

const (
	senderRole    = "arn:aws:iam::123456789012:role/node-drainer-hooks"
	checkedARN    = "arn:aws:sqs:eu-central-1:123456789012:node-drainer"
	checkedLaunch = "node-drainer-launching"
	checkedHook   = "node-drainer-terminating"
)

// complete is an installation without a mistake, as the Terraform module makes it.
func (f *fixture) complete() checked {
	f.t.Helper()
	values := maps.Clone(deploy.Example())
	values["Senders"] = senderRole
	policy, err := deploy.Fill("iam/queue", values)
	f.must(err)
	hook := awsim.Hook{
		Name: checkedHook, HeartbeatTimeout: hookTimeout, DefaultResult: "CONTINUE", RoleARN: senderRole,
		NotificationTargetARN: checkedARN,
	}
	rules := map[string]string{}
	for name, kind := range map[string]event.Kind{
		"spot": event.SpotInterruption, "state": event.StateChange, "scheduled": event.ScheduledChange,
		"reservation": event.CapacityReservationInterruption, "block": event.CapacityBlockExpiration,
	} {
		rules["node-drainer-"+name], err = deploy.Read("events/" + string(kind))
		f.must(err)
	}
	return checked{
		rules: rules,
		queue: "node-drainer", attrs: map[string]string{"Policy": policy, "MessageRetentionPeriod": "1209600"},
		tags: owned, hooks: map[string][]awsim.Hook{group: {hook}, "spot": {hook}},
	}
}

// check builds the installation in an AWS of its own, and runs agent check there.
func (f *fixture) check(c checked, instance string, args ...string) (code int, stdout string) {
	f.t.Helper()
	aws, err := awsim.New(awsim.Options{})
	f.must(err)
	defer func() { f.must(aws.Close()) }()
	aws.CreateQueue("others", nil)
	url := aws.CreateQueue(c.queue, c.attrs)
	for _, name := range []string{group, "spot"} {
		f.must(aws.CreateGroup(awsim.Group{Name: name, Max: 10, Tags: c.tags}))
		for _, h := range c.hooks[name] {
			f.must(aws.PutHook(name, h))
		}
	}
	for name, pattern := range c.rules {
		f.must(aws.PutRule(name, checkedARN, pattern))
	}
	aws.DisableRule(c.disabled)
	f.must(aws.AddInstance(group, instance, "eu-central-1a"))
	f.must(harness.Limit(aws, harness.Agent, agentKey, checkedARN))
	defer recordUsed(aws, agentKey)
	for _, action := range c.withdrawn {
		aws.Withdraw("", action, 0)
	}
	cmd := exec.CommandContext(waits(f.t), f.program, append([]string{"check"}, args...)...)
	cmd.Env = slices.Concat(harness.Environ(f.t.TempDir(), aws.URL(), agentKey), []string{
		"KUBECONFIG=" + f.kubeconfig, "CLUSTER_NAME=demo", "QUEUE_URL=" + url, "POD_NAMESPACE=" + f.namespace,
		"LEADER_LEASE_NAME=" + f.namespace, "HOOK_NAMES=" + checkedHook + "," + checkedLaunch,
		"NODE_SELECTOR=" + cluster.PoolLabel + "=" + f.namespace,
	}, c.env)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if cmd.ProcessState.ExitCode() > 1 || errs.Len() > 0 {
		f.t.Errorf("agent check ended with %d: %s", cmd.ProcessState.ExitCode(), errs.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// planted is a mistake of an installation, and what agent check must say.
type planted struct {
	name   string
	plant  func(c *checked)
	status string // of the result that names it
	check  string
	found  string // part of it
	fix    string
	also   []string // other checks that the mistake concerns
}

func withoutRight(resource, verb string) func(c *checked) {
	return func(c *checked) {
		c.role = func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
			return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
			})
		}
	}
}

func withdraw(action string) func(c *checked) {
	return func(c *checked) { c.withdrawn = []string{action} }
}

func changeHook(change func(h *awsim.Hook)) func(c *checked) {
	return func(c *checked) { change(&c.hooks[group][0]) }
}

func mistakes() []planted {
	const failed, warning = "failed", "warning"
	return []planted{
		{"no tag", func(c *checked) { c.tags = nil }, failed, "groups", "group workers, which has no tag of the cluster demo", "ResourceId=workers,", nil},
		{"name of another cluster", func(c *checked) { c.env = []string{"CLUSTER_NAME=prod"} }, failed, "groups", "name the cluster demo, and CLUSTER_NAME is prod", "config.clusterName=demo", nil},
		{"no hook", func(c *checked) { c.hooks[group] = nil }, failed, "hooks", "group workers has no terminating lifecycle hook", "put-lifecycle-hook --region eu-central-1 --auto-scaling-group-name workers --lifecycle-hook-name " + checkedHook, nil},
		{"hook of another name", changeHook(func(h *awsim.Hook) { h.Name = "drain" }), failed, "hooks", "the hook drain of group workers sends to the queue, and HOOK_NAMES", "config.hook.names={" + checkedHook + "," + checkedLaunch + ",drain}", nil},
		{"hook of another queue", changeHook(func(h *awsim.Hook) {
			h.NotificationTargetARN = strings.Replace(checkedARN, "node-drainer", "others", 1)
		}), failed, "hooks", "sends to arn:aws:sqs:eu-central-1:123456789012:others", "--notification-target-arn " + checkedARN, nil},
		{"short heartbeat timeout", changeHook(func(h *awsim.Hook) { h.HeartbeatTimeout = 30 * time.Second }), warning, "hooks", "for 30s without an agent", "--heartbeat-timeout 120", nil},
		{"launching hook of one group only", func(c *checked) {
			launch := c.hooks["spot"][0]
			launch.Name, launch.Transition = checkedLaunch, awsim.Launching
			c.hooks["spot"] = append(slices.Clone(c.hooks["spot"]), launch)
		}, warning, "hooks", "group workers has no launching hook", "autoscaling:EC2_INSTANCE_LAUNCHING", nil},
		{"no queue", func(c *checked) {
			c.env = []string{"QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/none"}
		}, failed, "queue", "does not exist", "aws sqs get-queue-url", []string{"hooks"}},
		{"QUEUE_URL of another Region", func(c *checked) {
			c.env = []string{"AWS_REGION=eu-west-1", "QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"}
		}, failed, "queue", "QUEUE_URL is of the Region eu-central-1", "aws.region=eu-central-1", []string{"nodes"}},
		{"queue policy without EventBridge", func(c *checked) { delete(c.attrs, "Policy") }, warning, "queue policy", "does not let EventBridge (events.amazonaws.com) send", "set-queue-attributes", nil},
		{"key that EventBridge cannot use", func(c *checked) { c.attrs["KmsMasterKeyId"] = "alias/aws/sqs" }, warning, "encryption", "EventBridge cannot use", "SqsManagedSseEnabled", nil},
		{"no rule for Spot interruptions", func(c *checked) { delete(c.rules, "node-drainer-spot") }, warning, "rules", "no EventBridge rule sends Spot interruptions to the queue", `aws events put-rule --region eu-central-1 --name node-drainer-spot --event-pattern '{"source":["aws.ec2"],"detail-type":["EC2 Spot`, nil},
		{"disabled rule", func(c *checked) { c.disabled = "node-drainer-scheduled" }, warning, "rules", "the rule node-drainer-scheduled is disabled, and no other sends maintenance", "aws events enable-rule --region eu-central-1 --name node-drainer-scheduled", nil},
		{"short retention", func(c *checked) { c.attrs["MessageRetentionPeriod"] = "600" }, warning, "queue", "deletes messages after 10m0s", "MessageRetentionPeriod=1209600", nil},
		{"may not complete", withdraw("autoscaling:CompleteLifecycleAction"), failed, "permissions", "denies autoscaling:CompleteLifecycleAction on group spot", "put-role-policy --role-name agent", nil},
		{"may not describe groups", withdraw("autoscaling:DescribeAutoScalingGroups"), failed, "groups", "denies autoscaling:DescribeAutoScalingGroups", "put-role-policy", nil},
		{"may not receive", withdraw("sqs:ReceiveMessage"), failed, "permissions", "denies sqs:ReceiveMessage", "put-role-policy", nil},
		{"may not describe instances", withdraw("ec2:DescribeInstances"), failed, "nodes", "denies ec2:DescribeInstances", "put-role-policy", nil},
		{"no credentials", func(c *checked) { c.env = []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="} }, failed, "credentials", "no AWS credentials", "create-pod-identity-association", nil},
		{"NODE_SELECTOR selects nothing", func(c *checked) { c.env = []string{"NODE_SELECTOR=pool=none"} }, failed, "nodes", "NODE_SELECTOR (pool=none) selects none", "config.node.selector=", nil},
		{"no evictions", withoutRight("pods/eviction", "create"), failed, "rbac", "may not create pods/eviction", "kubectl create clusterrole node-drainer-create-pods-eviction", nil},
		{"no cordon", withoutRight("nodes", "patch"), failed, "rbac", "may not patch nodes", "--verb=patch --resource=nodes", nil},
	}
}

// result is one of agent check.
type result struct{ Check, Status, Found, Fix string }

// results are those of the check that are warnings or failed.
func (f *fixture) results(c checked, instance string) (code int, wrong []result) {
	f.t.Helper()
	code, text := f.check(c, instance, "--output", "json")
	var report struct{ Checks []result }
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		f.t.Fatalf("%v: %s", err, text)
	}
	return code, slices.DeleteFunc(report.Checks, func(r result) bool { return r.Status != "failed" && r.Status != "warning" })
}

// TestAgentCheck: agent check finds nothing wrong with an installation as it should be, and names each of 22 mistakes in
// it, with the command that fixes it, and nothing else.
func TestAgentCheck(t *testing.T) {
	t.Parallel()
	f := newFixtureWithoutGroup(t, shared(t), cluster.Node{})
	instance := cluster.NewInstanceID()
	f.nodes[f.cluster.Node(t, cluster.Node{InstanceID: instance, Pool: f.namespace})] = true
	eventually(t, waitTimeout, func() string { // RBAC applies what was installed a little later.
		if code, wrong := f.results(f.complete(), instance); code != 0 || len(wrong) > 0 {
			return "a complete installation is not ok: " + toJSON(wrong)
		}
		return ""
	})
	f.showsAsDocumented(instance)
	for _, m := range mistakes() {
		c := f.complete()
		m.plant(&c)
		restore := f.changeRole(c.role)
		eventually(t, waitTimeout, func() string { return f.misses(m, c, instance) })
		restore()
	}
}

// misses returns what agent check does not say of the mistake, or says in addition; or "".
func (f *fixture) misses(m planted, c checked, instance string) string {
	f.t.Helper()
	code, wrong := f.results(c, instance)
	named := slices.ContainsFunc(wrong, func(r result) bool {
		return r.Check == m.check && r.Status == m.status && strings.Contains(r.Found, m.found) && strings.Contains(r.Fix, m.fix)
	})
	others := slices.DeleteFunc(slices.Clone(wrong), func(r result) bool {
		return r.Check == m.check || slices.Contains(m.also, r.Check)
	})
	if !named || len(others) > 0 || (code == 1) != (m.status == "failed") {
		return fmt.Sprintf("%s: exit code %d, and wrong is %s", m.name, code, toJSON(wrong))
	}
	return ""
}

func toJSON(results []result) string {
	text, _ := json.Marshal(results)
	return string(text)
}

// changeRole changes the rules of the agent's ClusterRole.
func (f *fixture) changeRole(change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) (restore func()) {
	f.t.Helper()
	if change == nil {
		return func() {}
	}
	roles := f.cluster.Client().RbacV1().ClusterRoles()
	all, err := roles.List(f.ctx, metav1.ListOptions{})
	f.must(err)
	for _, r := range all.Items {
		rules := change(slices.Clone(r.Rules))
		if !strings.HasSuffix(r.Name, ":"+f.namespace) || len(rules) == len(r.Rules) {
			continue
		}
		before := r.Rules
		r.Rules = rules
		changed, err := roles.Update(f.ctx, &r, metav1.UpdateOptions{})
		f.must(err)
		return func() {
			changed.Rules = before
			_, err := roles.Update(f.ctx, changed, metav1.UpdateOptions{})
			f.must(err)
		}
	}
	f.t.Fatal("no ClusterRole has the rule")
	return nil
}

// showsAsDocumented expects the output for a group without a hook in docs/install.md, with the names that are there.
func (f *fixture) showsAsDocumented(instance string) {
	f.t.Helper()
	c := f.complete()
	c.hooks[group] = nil
	_, text := f.check(c, instance)
	text = strings.NewReplacer(
		f.namespace+":"+agentAccount, "kube-system:node-drainer", "cluster demo", "cluster prod",
		"EnvConfigCredentials", "CredentialsEndpointProvider", "/agent/session", "/node-drainer-prod/session",
	).Replace(text)
	page, err := os.ReadFile("../../docs/install.md")
	f.must(err)
	if !strings.Contains(string(page), "```\n"+text+"```\n") {
		f.t.Errorf("docs/install.md does not have this output:\n%s", text)
	}
}
