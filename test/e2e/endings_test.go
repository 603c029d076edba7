//go:build e2e

package e2e

import (
	"bufio"
	"cmp"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// amazon is an AWS without a cluster, with a group of four outdated instances.
type amazon struct {
	*awsim.Server
	t testing.TB
}

// newAmazon has a terminating hook that nobody answers if holding is true: an instance that goes is then held by it.
func newAmazon(t testing.TB, g awsim.Group, holding bool) *amazon {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &amazon{Server: s, t: t}
	t.Cleanup(func() { a.must(s.Close()) })
	_, err = s.CreateLaunchTemplate(launchTemplate, "ami-1")
	a.must(err)
	_, err = s.CreateLaunchTemplate("arm", "ami-arm")
	a.must(err)
	s.SetParameter("/ami", "ami-3")
	_, err = s.CreateLaunchTemplate("aliased", "resolve:ssm:/ami")
	a.must(err)
	g.Name, g.Max, g.Tags = group, 10, map[string]string{"kubernetes.io/cluster/demo": "owned"}
	g.LaunchTemplate = cmp.Or(g.LaunchTemplate, launchTemplate)
	if g.Desired == 0 {
		g.Desired = 4
	}
	a.must(s.CreateGroup(g))
	inService(t, s, group, g.Desired)
	timeout := time.Hour
	if !holding {
		timeout = time.Second
	}
	a.must(s.PutHook(group, awsim.Hook{Name: hook, HeartbeatTimeout: timeout, DefaultResult: "CONTINUE"}))
	_, err = s.AddTemplateVersion(launchTemplate, "ami-2")
	a.must(err)
	return a
}

func (a *amazon) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// inService waits until the group of that name has so many instances, all of them in service, and returns them.
func inService(t testing.TB, aws *awsim.Server, name string, size int) (all []awsim.Instance) {
	t.Helper()
	err := aws.WaitInstances(patient(t), name, func(now []awsim.Instance) bool {
		all = now
		return len(now) == size && !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// trigger runs the trigger for the group, without a cluster.
func (a *amazon) trigger(args ...string) *triggering {
	a.t.Helper()
	return runTrigger(a.t, a.Server, []string{
		"TRIGGER_POLL_INTERVAL=200ms", "TRIGGER_NO_KUBERNETES=true",
		"TRIGGER_ALLOW=hook-timeout", "TRIGGER_ASG=" + group,
	}, args...)
}

func (a *amazon) waitRefresh(statuses ...string) awsim.Refresh {
	a.t.Helper()
	f, err := a.WaitRefresh(patient(a.t), group, statuses...)
	a.must(err)
	return f
}

// stuck has new instances wait in a launch hook that nobody answers.
func (a *amazon) stuck(timeout time.Duration) {
	a.t.Helper()
	a.must(a.PutHook(group, awsim.Hook{Name: launchHook, Transition: awsim.Launching, HeartbeatTimeout: timeout}))
}

// groups is a client of somebody who is not the trigger.
func (a *amazon) groups() *autoscaling.Client {
	return autoscaling.New(autoscaling.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient), Region: "eu-central-1", BaseEndpoint: aws.String(a.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// templates is another one, for launch templates.
func (a *amazon) templates() *ec2.Client {
	return ec2.New(ec2.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient), Region: "eu-central-1", BaseEndpoint: aws.String(a.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// deleteHook deletes a hook of the group, which lets the instances go on that wait for it.
func (a *amazon) deleteHook(name string) {
	a.t.Helper()
	_, err := a.groups().DeleteLifecycleHook(a.t.Context(), &autoscaling.DeleteLifecycleHookInput{
		AutoScalingGroupName: aws.String(group), LifecycleHookName: aws.String(name),
	})
	a.must(err)
}

// TestEndings: each way in which a rollout can end has its exit code, and says what to do.
func TestEndings(t *testing.T) {
	old := awsim.Group{Desired: 4, LaunchTemplateVersion: "1"}
	for name, tt := range map[string]struct {
		group   awsim.Group // at $Latest, if it is not said
		holding bool
		args    []string
		before  func(a *amazon)
		during  func(a *amazon, run *triggering)
		code    int
		says    []string
	}{
		"done": {code: 0, says: []string{`4 instances replaced`}},
		"nothing to do": {
			args: []string{"--launch-template-version", "1"}, code: 0, says: []string{`no instance is outdated`},
		},
		"left alone": {
			holding: true, args: []string{"--no-wait"}, code: 0, says: []string{`continues`, `trigger status`},
			during: func(a *amazon, _ *triggering) { a.waitRefresh("InProgress", "Successful") },
		},
		"the refresh fails": {
			before: func(a *amazon) { a.SetDelays(awsim.Delays{RefreshGiveUp: time.Second}); a.stuck(time.Hour) },
			code:   3, says: []string{`Failed`, `no progress`, `run the same command again`},
		},
		"somebody cancels it": {
			before: func(a *amazon) { a.stuck(time.Hour) },
			during: func(a *amazon, _ *triggering) {
				a.waitRefresh("InProgress")
				a.trigger("cancel", "--no-wait").ends(0)
				a.deleteHook(launchHook)
			},
			code: 3, says: []string{`Cancelled`, `run the same command again`},
		},
		"somebody rolls it back": {
			group: old, args: []string{"--launch-template-version", "2"},
			before: func(a *amazon) { a.stuck(2 * time.Second) },
			during: func(a *amazon, _ *triggering) {
				a.waitRefresh("InProgress")
				a.trigger("rollback", "--no-wait").ends(0)
			},
			code: 4, says: []string{`RollbackSuccessful`},
		},
		"it stalls": {
			before: func(a *amazon) { a.stuck(time.Hour) }, args: []string{"--stall-timeout", "2s"},
			code: 5, says: []string{`nothing has changed for 2s`, `continues`, `trigger cancel`},
		},
		"a drain stalls": {
			holding: true, args: []string{"--stall-timeout", "2s", "--surge", "100%"},
			code: 5, says: []string{`nothing has changed for 2s`, `Terminating:Wait|i-`},
		},
		"it takes too long": {
			before: func(a *amazon) { a.stuck(time.Hour) }, args: []string{"--timeout", "15s"},
			code: 5, says: []string{`--timeout`, `continues`},
		},
		"another refresh with another aim": {
			before: func(a *amazon) { a.other() }, code: 6, says: []string{`under way`, `--on-conflict`},
		},
		"another refresh, and it was to fail on any": {
			args: []string{"--on-conflict", "fail"}, before: func(a *amazon) { a.same() }, code: 6, says: []string{`--on-conflict`},
		},
		"another refresh with the same aim": {
			before: func(a *amazon) { a.same() },
			during: func(a *amazon, run *triggering) {
				run.waitOutput(`it is followed`)
				a.deleteHook(launchHook)
			},
			code: 0, says: []string{`[234] instances replaced`}, // Some may have been on their way already.
		},
		"another refresh is waited for": {
			args: []string{"--on-conflict", "wait", "--launch-template-version", "$Latest"}, before: func(a *amazon) { a.other() },
			during: func(a *amazon, run *triggering) {
				run.waitOutput(`waiting for its end`)
				a.deleteHook(launchHook)
			},
			code: 0, says: []string{`replaced`},
		},
		"another refresh is cancelled": {
			args: []string{"--on-conflict", "cancel"}, before: func(a *amazon) { a.other() },
			during: func(a *amazon, run *triggering) {
				run.waitOutput(`it is cancelled`)
				a.deleteHook(launchHook)
			},
			code: 0, says: []string{`replaced`},
		},
		"an instance in standby stays": {
			before: func(a *amazon) { a.must(a.SetState(a.Instances("workers")[0].ID, "Standby")) },
			code:   7, says: []string{`still outdated`, `(?i)standby`},
		},
		"no hook, so no node would be drained": {
			before: func(a *amazon) { a.deleteHook(hook) },
			code:   1, says: []string{`nothing was changed`, `hook`},
		},
		"batches without a policy that launches first": {
			args: []string{"--mode", "unhealthy"}, code: 1, says: []string{`nothing was changed`, `(?i)maintenance policy`},
		},
		"no such group": {
			args: []string{"--asg", "wokers"}, code: 1, says: []string{`wokers`},
		},
		"calls that are throttled": {
			before: func(a *amazon) {
				a.Inject(awsim.Fault{Service: "autoscaling", Code: "Throttling", Status: 400, Times: 6})
			},
			code: 0, says: []string{`4 instances replaced`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.group.Desired == 0 {
				tt.group = latest(4)
			}
			a := newAmazon(t, tt.group, tt.holding)
			if tt.before != nil {
				tt.before(a)
			}
			summary := filepath.Join(t.TempDir(), "summary.md")
			run := a.trigger(append(tt.args, "--summary-file", summary)...)
			if tt.during != nil {
				tt.during(a, run)
			}
			run.ends(tt.code, tt.says...)
			if name == "no such group" {
				return
			}
			text, err := os.ReadFile(summary)
			if err != nil || !strings.Contains(string(text), "workers") {
				t.Errorf("the summary is %q, %v", text, err)
			}
		})
	}
}

// TestInterrupts: what becomes of the refresh is as asked for, and the trigger says it.
func TestInterrupts(t *testing.T) {
	for _, tt := range []struct {
		how, status, says string
	}{
		{"detach", "InProgress", `continues; run the same command again`},
		{"cancel", "Cancelling", `is cancelled`},
		{"rollback", "RollbackSuccessful", `is rolled back`},
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, awsim.Group{Desired: 4, LaunchTemplateVersion: "1"}, false)
			a.stuck(time.Hour)
			run := a.trigger("--on-interrupt", tt.how, "--launch-template-version", "2")
			a.waitRefresh("InProgress")
			run.waitOutput(`started`)
			run.interrupt()
			run.ends(130, tt.says)
			if f := a.waitRefresh("InProgress", "Cancelling", "RollbackInProgress", "RollbackSuccessful"); f.Status != tt.status {
				t.Errorf("the refresh is %s, want %s", f.Status, tt.status)
			}
		})
	}
}

// TestSuspendedMeanwhile: what a trigger has suspended that was killed, the next one resumes.
func TestSuspendedMeanwhile(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, latest(4), false)
	a.stuck(time.Hour)
	run := a.trigger("--suspend", "AZRebalance,ScheduledActions")
	run.waitOutput(`suspended for the rollout: AZRebalance, ScheduledActions`)
	a.waitRefresh("InProgress")
	run.kill()
	run = a.trigger()
	run.waitOutput(`it is followed`)
	a.deleteHook(launchHook)
	run.ends(0, `resumed: AZRebalance, ScheduledActions`)
	want := map[string]int{
		"StartInstanceRefresh": 1, "SuspendProcesses": 1, "ResumeProcesses": 1, "CreateOrUpdateTags": 1, "DeleteTags": 1,
	}
	if calls := changing(a.Server); !maps.Equal(calls, want) {
		t.Errorf("the triggers called %v, want %v", calls, want)
	}
}

// TestOutputThatNobodyReads: who reads the output goes away amid a rollout, as head does. The rollout goes on to its end, and
// the trigger says what it could not.
func TestOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, latest(2), false)
	summary := filepath.Join(t.TempDir(), "summary.md")
	run := newTriggering(t, a.Server, []string{
		"TRIGGER_POLL_INTERVAL=200ms", "TRIGGER_NO_KUBERNETES=true", "TRIGGER_ALLOW=hook-timeout",
	}, "--asg", group, "--mode", "unhealthy", "--surge", "1", "--summary-file", summary)
	read, write, err := os.Pipe()
	a.must(err)
	run.cmd.Stdout, run.cmd.Stderr = write, run
	a.must(run.cmd.Start())
	run.await(func() {})
	a.must(write.Close())
	for lines := bufio.NewScanner(read); lines.Scan() && !strings.Contains(lines.Text(), "desired capacity raised"); {
	}
	a.must(read.Close())
	run.ends(1, `(?m)^trigger: write the output: .*broken pipe$`)
	text, err := os.ReadFile(summary)
	if err != nil || !strings.Contains(string(text), "2 instances replaced") {
		t.Errorf("the summary is %q, %v", text, err)
	}
	gone := func(i awsim.Instance) bool { return i.State != "InService" }
	if left := slices.DeleteFunc(a.Instances(group), gone); len(left) != 2 {
		t.Errorf("%d instances are in service: the surge is left", len(left))
	}
}

// TestMachineOutput: each line is an object, and the last tells the outcome.
func TestMachineOutput(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, latest(4), false)
	run := a.trigger("-o", "ndjson")
	run.ends(0)
	lines := run.lines()
	if last := lines[len(lines)-1]; last.text("type") != "end" || last.text("outcome") != "done" || last["exitCode"] != 0.0 {
		t.Errorf("the last line is %v", last)
	}
}

// TestAnnotations: in GitHub Actions what is wrong is shown where it is looked for.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, latest(4), false)
	a.deleteHook(hook)
	summary := filepath.Join(t.TempDir(), "step")
	run := runTrigger(t, a.Server, []string{"GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY=" + summary},
		"--asg", group, "--no-kubernetes")
	run.ends(1, `(?m)^::error.*hook`)
	if text, err := os.ReadFile(summary); err != nil || !strings.Contains(string(text), group) {
		t.Errorf("the step's summary is %q, %v", text, err)
	}
}

// TestSeveralGroupsEnd: the exit code is that of the group which went worst; with --fail-fast the others are not begun.
func TestSeveralGroupsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"one after the other": {nil, `batch.*replaced`},
		"fail fast":           {[]string{"--fail-fast"}, `workers.*not started|not started.*`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, latest(1), false)
			for _, other := range []string{"batch", "zone"} {
				a.must(a.CreateGroup(awsim.Group{
					Name: other, Max: 4, Desired: 1, LaunchTemplate: launchTemplate, LaunchTemplateVersion: "1",
					Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
				}))
				inService(t, a.Server, other, 1)
				a.must(a.PutHook(other, awsim.Hook{Name: hook, HeartbeatTimeout: time.Second, DefaultResult: "CONTINUE"}))
			}
			a.deleteHook(hook) // and so the preflight refuses it
			args := append([]string{"--asg", "batch,workers,zone", "--launch-template-version", "2"}, tt.args...)
			a.trigger(args...).ends(1, tt.says)
		})
	}
}

// same and other begin a refresh of somebody else's, which does not end by itself.
func (a *amazon) same() {
	a.t.Helper()
	a.stuck(time.Hour)
	_, err := a.StartRefresh(group, awsim.RefreshSpec{Version: "2", MinHealthy: 50})
	a.must(err)
}

func (a *amazon) other() {
	a.t.Helper()
	_, err := a.AddTemplateVersion(launchTemplate, "ami-3")
	a.must(err)
	a.stuck(time.Hour)
	_, err = a.StartRefresh(group, awsim.RefreshSpec{Version: "2", MinHealthy: 50})
	a.must(err)
}
