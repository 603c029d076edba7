//go:build e2e

package awsim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/docs"
)

// What the pages call things.
const (
	shownInstance = "i-0a1b2c3d4e5f60718"
	shownQueue    = "node-drainer"
	shownHook     = "node-drainer-terminating"
	shownLaunch   = "node-drainer-launching"
	shownRule     = "node-drainer-spot"
)

// TestTheAWSCommands: the AWS command-line client runs the commands of the pages for services that are simulated, as a
// shell runs them, and they do what the page says. Commands for IAM, CloudFormation and others are marked on the pages.
func TestTheAWSCommands(t *testing.T) {
	t.Parallel()
	results := map[string]func(p *shownPage){
		"README.md":           (*shownPage).waitsForTheAgent,
		"docs/aws-setup.md":   (*shownPage).isSetUp,
		"docs/install.md":     (*shownPage).hasNoHook,
		"docs/launching.md":   (*shownPage).launches,
		"docs/many-groups.md": (*shownPage).hasAWave,
		"docs/runbook.md":     (*shownPage).isCompleted,
	}
	for page, text := range docs.Pages(t) {
		var scripts []string
		for _, block := range docs.Blocks(text, "sh") {
			if regexp.MustCompile(`(?m)^aws (autoscaling|sqs|events) `).MatchString(block.Text) && block.Mark == "" {
				scripts = append(scripts, block.Text)
			}
		}
		result := results[page]
		if delete(results, page); len(scripts) == 0 && result == nil {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if result == nil || len(scripts) == 0 {
				t.Fatalf("%d blocks call AWS; this test does not know what they do", len(scripts))
			}
			p := newShownPage(t, page)
			for _, script := range scripts {
				p.run(script)
			}
			result(p)
		})
	}
	for page := range results {
		t.Errorf("there is no page %s", page)
	}
}

// shownPage is an account as a page expects it, and a shell with the client.
type shownPage struct {
	*awsim.Server
	t     *testing.T
	queue string // its URL
	dir   string // of the shell
	env   []string
}

func newShownPage(t *testing.T, page string) *shownPage {
	t.Helper()
	s, isSetup := start(t, awsim.Options{}), page == "docs/aws-setup.md"
	for _, name := range []string{groupName, "canary"} {
		must(t, s.CreateGroup(awsim.Group{Name: name, Max: 10}))
	}
	must(t, s.AddInstance(groupName, shownInstance, "eu-central-1a"))
	p := &shownPage{s, t, s.URL() + "/123456789012/" + shownQueue, t.TempDir(), nil}
	if !isSetup {
		s.CreateQueue(shownQueue, nil)
		must(t, s.PutRule(shownRule, s.QueueARN(p.queue), `{"source": ["aws.ec2"]}`))
		must(t, s.PutHook(groupName, awsim.Hook{Name: shownHook}))
	}
	do(t, groupClient(t, s).SuspendProcesses, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: new(groupName), ScalingProcesses: []string{"AZRebalance"},
	})
	if page == "docs/runbook.md" { // A node does not go away.
		p.terminate()
	}
	p.prepareShell()
	return p
}

func (p *shownPage) terminate() {
	p.t.Helper()
	do(p.t, groupClient(p.t, p.Server).TerminateInstanceInAutoScalingGroup, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: new(shownInstance), ShouldDecrementDesiredCapacity: new(false),
	})
	must(p.t, p.WaitState(within(p.t), shownInstance, "Terminating:Wait"))
}

// prepareShell makes the folder deploy there, as in a checkout, and writes the programs: aws is the real one, for this server, and
// records when it fails; the others do nothing.
func (p *shownPage) prepareShell() {
	p.t.Helper()
	aws, env := client(p.t)
	must(p.t, os.Symlink(filepath.Join(docs.Root(p.t), "deploy"), filepath.Join(p.dir, "deploy")))
	write := func(name, text string) {
		must(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o700))
	}
	write("aws", "#!/bin/sh\n"+aws+" --endpoint-url "+p.URL()+` "$@" || echo "aws $*" >> `+p.dir+"/failed\n")
	for _, other := range []string{"kubectl", "helm", "trigger", "logs"} {
		write(other, "#!/bin/sh\n")
	}
	p.env = append(env, "PATH="+p.dir+":"+os.Getenv("PATH"))
}

// run runs a block of a page in a shell.
func (p *shownPage) run(script string) {
	p.t.Helper()
	script = strings.NewReplacer("https://sqs.eu-central-1.amazonaws.com", p.URL(), "--queue-url URL", "--queue-url "+p.queue,
		"--rule RULE", "--rule "+shownRule).Replace(script)
	cmd := exec.CommandContext(p.t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = p.dir, p.env
	output, _ := cmd.CombinedOutput() // grep finds nothing in a log that is empty
	failures := filepath.Join(p.dir, "failed")
	if failed, err := os.ReadFile(failures); err == nil {
		p.t.Errorf("failed: %s\n%s", failed, output)
		must(p.t, os.Remove(failures))
	}
}

func (p *shownPage) hooks() map[string]types.LifecycleHook {
	p.t.Helper()
	hooks := map[string]types.LifecycleHook{}
	for _, h := range do(p.t, groupClient(p.t, p.Server).DescribeLifecycleHooks, &autoscaling.DescribeLifecycleHooksInput{
		AutoScalingGroupName: new(groupName),
	}).LifecycleHooks {
		hooks[*h.LifecycleHookName] = h
	}
	return hooks
}

func (p *shownPage) group(name string) types.AutoScalingGroup {
	p.t.Helper()
	return do(p.t, groupClient(p.t, p.Server).DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{name},
	}).AutoScalingGroups[0]
}

// waitsForTheAgent: the instance waits, and the group launches another one.
func (p *shownPage) waitsForTheAgent() {
	must(p.t, p.WaitState(within(p.t), shownInstance, "Terminating:Wait"))
	must(p.t, p.WaitInstances(within(p.t), groupName, func(now []awsim.Instance) bool { return len(now) == 2 }))
}

// isSetUp: the queue, the hooks and the rule are as the page says, and send to the queue.
func (p *shownPage) isSetUp() {
	arn := p.QueueARN(p.queue)
	for name, transition := range map[string]string{
		shownHook: "autoscaling:EC2_INSTANCE_TERMINATING", shownLaunch: "autoscaling:EC2_INSTANCE_LAUNCHING",
	} {
		h := p.hooks()[name]
		if h.LifecycleTransition == nil || *h.LifecycleTransition != transition || *h.NotificationTargetARN != arn ||
			*h.HeartbeatTimeout != 300 || *h.GlobalTimeout != 30000 || *h.DefaultResult != "CONTINUE" {
			p.t.Errorf("the hook %s is %+v", name, h)
		}
	}
	attributes, err := awscli(p.t, p.URL(), "sqs", "get-queue-attributes", "--queue-url", p.queue, "--attribute-names", "All")
	must(p.t, err)
	for _, part := range []string{
		`"MessageRetentionPeriod": "1209600"`, `"MaximumMessageSize": "262144"`, `OnlyServicesAndTheseSend`,
		`\"maxReceiveCount\": 100`, `node-drainer-dead`,
	} {
		if !strings.Contains(attributes, part) {
			p.t.Errorf("no %s in %s", part, attributes)
		}
	}
	before := p.Queue(p.queue)
	if all := before.Visible + before.InFlight; all != 2 {
		p.t.Errorf("%d messages in the queue, want a test message of each hook", all)
	}
	if n := p.Publish(awsim.SpotInterruption(p.Envelope(), shownInstance, "eu-central-1a", "terminate")); n != 1 {
		p.t.Errorf("a Spot warning is sent to %d queues", n)
	}
}

func (p *shownPage) hasNoHook() {
	if left := p.hooks(); len(left) > 0 {
		p.t.Errorf("hooks are left: %v", left)
	}
}

// launches: the group's processes are resumed.
func (p *shownPage) launches() {
	if suspended := p.group(groupName).SuspendedProcesses; len(suspended) > 0 {
		p.t.Errorf("processes are suspended: %v", suspended)
	}
}

func (p *shownPage) isCompleted() { must(p.t, p.WaitState(within(p.t), shownInstance, "Terminated")) }

func (p *shownPage) hasAWave() {
	tags := p.group("canary").Tags
	if len(tags) != 1 || *tags[0].Key != "node-drainer.io/wave" || *tags[0].Value != "1" {
		p.t.Errorf("the tags are %+v", tags)
	}
}
