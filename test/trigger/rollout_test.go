package trigger

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestExitCodes has one case for each exit code of docs/rollouts.md, but 130: see TestTerminalIsRestored.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	by := func(command string) func(*account, *run) {
		return func(a *account, _ *run) {
			a.waitRefresh("InProgress")
			a.trigger(command, "--no-wait").waitExit(0)
			a.releaseLaunches()
		}
	}
	for name, tt := range map[string]struct {
		group  awsim.Group // at $Latest, if empty
		args   []string
		before func(a *account)
		during func(a *account, r *run)
		code   int
		says   []string
	}{
		"done": {code: 0, says: []string{`4 instances replaced`}},
		"nothing is outdated": {
			args: []string{"--launch-template-version", "1"}, code: 0, says: []string{`no instance is outdated`},
		},
		"not waited for": {
			args: []string{"--no-wait"}, before: (*account).holdLaunches, code: 0, says: []string{`continues`, `trigger status`},
		},
		"refused by the preflight": {
			before: func(a *account) { a.deleteHook(terminatingHook) }, code: 1, says: []string{`nothing was changed`, `hook`},
		},
		"a version that does not exist": {
			args: []string{"--launch-template-version", "9"}, code: 1, says: []string{`version 9 does not exist`},
		},
		"no such group": {args: []string{"--asg", "wokers"}, code: 1, says: []string{`wokers`}},
		"one group of two is refused, the other is replaced": {
			args:   []string{"--asg", "batch,workers", "--launch-template-version", "2", "--together", "none"},
			before: withRefusedGroup,
			code:   1, says: []string{`batch.*replaced`, `workers.*hook`},
		},
		"one group of two is refused, and none is replaced": {
			args:   []string{"--asg", "batch,workers", "--launch-template-version", "2"},
			before: withRefusedGroup,
			code:   1, says: []string{`(?s)batch: skipped.*nothing was changed.*workers \(--together none`, `workers.*hook`},
		},
		"a plan of what is outdated": {
			args: []string{"plan", "--detailed-exitcode", "-o", "json"}, code: 2, says: []string{`"outdated": 4`},
		},
		"the refresh fails": {
			before: func(a *account) { a.SetDelays(awsim.Delays{RefreshGiveUp: time.Second}); a.holdLaunches() },
			code:   3, says: []string{`Failed`, `no progress`, `run the same command again`},
		},
		"the refresh is cancelled by another user": {
			before: (*account).holdLaunches,
			during: by("cancel"),
			code:   3, says: []string{`Cancelled`, `run the same command again`},
		},
		"the refresh is rolled back by another user": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, args: []string{"--launch-template-version", "2"},
			before: (*account).holdLaunches,
			during: by("rollback"),
			code:   4, says: []string{`RollbackSuccessful`},
		},
		"no agent completes the terminating hook": {
			before: func(a *account) {
				a.must(a.PutHook(group, awsim.Hook{Name: terminatingHook, HeartbeatTimeout: 2 * time.Second, DefaultResult: "CONTINUE"}))
			},
			code: 7, says: []string{`4 instances replaced; the terminating hooks of 4 instances were not completed`, `agent check`},
		},
		"nothing moves": {
			before: (*account).holdLaunches, args: []string{"--stall-timeout", "2s"},
			code: 5, says: []string{`nothing has changed for 2s`, `continues`, `trigger cancel`},
		},
		"a surge for which the maximum is raised": {
			group: latest(10), args: []string{"--mode", "unhealthy", "--batch", "5", "--surge", "5", "--raise-max"},
			code: 0, says: []string{`maximum size raised from 10 to 15`, `maximum size restored from 15 to 10`},
		},
		"another refresh runs": {
			before: (*account).startOtherRefresh,
			code:   6, says: []string{`under way`, `--on-conflict`},
		},
		"another refresh is waited for": {
			// The other refresh leaves the group at version 2: only a version given is then still wanted.
			args:   []string{"--on-conflict", "wait", "--launch-template-version", "3"},
			before: (*account).startOtherRefresh,
			during: func(a *account, r *run) { r.waitOutput(`waiting for its end`); a.releaseLaunches() },
			code:   0, says: []string{`replaced`},
		},
		"another refresh is cancelled": {
			args:   []string{"--on-conflict", "cancel"},
			before: (*account).startOtherRefresh,
			during: func(a *account, r *run) { r.waitOutput(`it is cancelled`); a.releaseLaunches() },
			code:   0, says: []string{`replaced`},
		},
		"another refresh is cancelled, and its drains are not waited for": {
			args: []string{"--on-conflict", "cancel", "--no-wait"},
			before: func(a *account) {
				a.must(a.PutHook(group, awsim.Hook{Name: "slow", HeartbeatTimeout: time.Hour, DefaultResult: "CONTINUE"}))
				a.startOtherRefresh()
				a.waitTerminating(2)
			},
			code: 0, says: []string{`it is cancelled; drains that have begun continue`, `continues; trigger status`},
		},
		"an alarm that does not exist, and one without data": {
			args: []string{"--alarm", "latency,errors"}, before: func(a *account) { a.SetAlarm("errors", awsim.AlarmInsufficientData) },
			code: 1, says: []string{`alarms: .*latency does not exist, errors is in the state INSUFFICIENT_DATA`},
		},
		"an alarm that has no data, in spite of the preflight": {
			args:   []string{"--alarm", "latency,errors", "--allow", "alarms"},
			before: func(a *account) { a.SetAlarm("errors", awsim.AlarmInsufficientData) },
			code:   1, says: []string{`which needs its alarms in the state OK: latency, errors`, `INSUFFICIENT_DATA`},
		},
		"an alarm fires": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, before: func(a *account) {
				a.SetAlarm("errors", awsim.AlarmOK)
				a.holdLaunches()
			},
			args: []string{"--launch-template-version", "2", "--auto-rollback", "--alarm", "errors"},
			during: func(a *account, _ *run) {
				a.waitRefresh("InProgress")
				a.SetAlarm("errors", awsim.AlarmFires)
				a.releaseLaunches()
			},
			code: 4, says: []string{`RollbackSuccessful`, `alarm errors is in the state ALARM`},
		},
		"an instance in standby is left": {
			before: func(a *account) { a.must(a.SetState(a.Instances(group)[0].ID, "Standby")) },
			code:   7, says: []string{`still outdated`, `(?i)standby`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.group.LaunchTemplateVersion == "" {
				tt.group = latest(4)
			}
			a := newAccount(t, tt.group)
			if tt.before != nil {
				tt.before(a)
			}
			summary := filepath.Join(t.TempDir(), "summary.md")
			r := a.trigger(append(tt.args, "--summary-file", summary)...)
			if tt.during != nil {
				tt.during(a, r)
			}
			r.waitExit(tt.code, tt.says...)
			text, err := os.ReadFile(summary)
			if name != "no such group" && (err != nil || !strings.Contains(string(text), group)) {
				t.Errorf("the summary is %q, %v", text, err)
			}
		})
	}
}

// withRefusedGroup adds the group batch, and has the preflight refuse the other one.
func withRefusedGroup(a *account) {
	a.createGroup(awsim.Group{Name: "batch", Max: 4, Desired: 1, LaunchTemplate: template, LaunchTemplateVersion: "1"})
	a.deleteHook(terminatingHook)
}

// TestKilledAndRunAgain: a trigger that is killed during a rollout is run again and finishes it. Nothing is done twice.
// Package rollouts kills it after any of its calls.
func TestKilledAndRunAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		group awsim.Group
		args  []string
		calls map[string]int
	}{
		"an Instance Refresh": {latest(4), []string{"--surge", "1"}, map[string]int{"StartInstanceRefresh": 1}},
		"batches that are marked unhealthy": {
			launchFirst(4), []string{"--mode", "unhealthy"}, map[string]int{"SetInstanceHealth": 4},
		},
		"batches with a surge": {
			latest(4), []string{"--mode", "unhealthy", "--surge", "1"}, map[string]int{
				"SetInstanceHealth": 3, "SetDesiredCapacity": 1, "TerminateInstanceInAutoScalingGroup": 1,
			},
		},
		"batches with a surge of a half": {
			latest(4), []string{"--mode", "unhealthy", "--surge", "50%"}, map[string]int{
				"SetInstanceHealth": 2, "SetDesiredCapacity": 1, "TerminateInstanceInAutoScalingGroup": 2,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, tt.group)
			r := a.trigger(tt.args...)
			a.waitTerminating(2)
			r.Kill()
			a.trigger(tt.args...).waitExit(0)
			for _, i := range a.waitInService(group, 4) {
				if i.Version != 2 {
					t.Errorf("instance %s of version %d is in service", i.ID, i.Version)
				}
			}
			calls := a.changes()
			maps.DeleteFunc(calls, func(call string, _ int) bool { return strings.HasSuffix(call, "Tags") }) // as often as needed
			if !maps.Equal(calls, tt.calls) {
				t.Errorf("the triggers called %v, want %v", calls, tt.calls)
			}
			if tags := a.tags(); len(tags) > 1 {
				t.Errorf("the group has the tags %v", tags)
			}
		})
	}
}

// TestResumeAfterKill: resume takes back what a trigger has changed that was killed.
func TestResumeAfterKill(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(4))
	a.holdLaunches()
	r := a.trigger("--mode", "unhealthy", "--surge", "1", "--suspend", "AZRebalance")
	r.waitOutput(`desired capacity raised from 4 to 5`)
	r.Kill()
	a.trigger("resume").waitExit(0, `was killed`, `resumed: AZRebalance`, `desired capacity lowered from 5 to 4`)
	if tags := a.tags(); len(tags) > 1 {
		t.Errorf("the group has the tags %v", tags)
	}
}

// TestRunningRefreshIsFollowed: a refresh that was not waited for is followed to its end by the same command. It has a
// checkpoint and bakes.
func TestRunningRefreshIsFollowed(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(4))
	a.holdLaunches()
	args := []string{
		"--surge", "2", "--pin=false", "--checkpoints", "50,100", "--checkpoint-delay", "5s", "--bake", "5s", "--warmup", "1s",
	}
	a.trigger(append(args, "--no-wait")...).waitExit(0, `continues`)
	a.waitRefresh("InProgress")
	a.trigger("status").waitExit(0, `InProgress`)
	a.trigger("status", "--watch", "--timeout", "1s").waitExit(5, `InProgress`, `--timeout, 1s, has passed`)
	status := a.trigger("status", "--watch")
	status.waitOutput(`InProgress`)
	r := a.trigger(args...)
	r.waitOutput(`it is followed`)
	a.releaseLaunches()
	r.waitExit(0, `checkpoint of 50 percent`, `Baking`, `replaced`)
	status.waitExit(0, `Baking`, `Successful`)
	if calls := a.changes(); !maps.Equal(calls, map[string]int{"StartInstanceRefresh": 1}) {
		t.Errorf("the triggers called %v", calls)
	}
	if strings.Contains(r.Output(), "other preferences") {
		t.Error("the preferences of the same command differ")
	}
	if version := a.launchVersion(); version != "$Latest" {
		t.Errorf("the group is at %s: the refresh was pinned", version)
	}
}

// TestLatestIsFollowed: a group that uses $Latest still does after a rollout, so that the same command replaces its
// instances again for each new version of the template.
func TestLatestIsFollowed(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(1))
	for version := 2; version <= 11; version++ {
		a.trigger().waitExit(0, `1 instance replaced`)
		if i := a.waitInService(group, 1)[0]; i.Version != version || a.launchVersion() != "$Latest" {
			t.Fatalf("the group is at %s, with an instance of version %d, want %d", a.launchVersion(), i.Version, version)
		}
		a.addVersion(template, fmt.Sprintf("ami-%d", version+1))
	}
}

// TestPinned: a pinned group does not follow the template, and the trigger says so.
func TestPinned(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(1))
	a.trigger("--pin").waitExit(0, `1 instance replaced`)
	a.addVersion(template, "ami-3")
	const says = `launch template node .* has version 3: .*--launch-template-version 3`
	a.trigger("--pin").waitExit(0, `no instance is outdated; `+says)
	a.trigger("plan").waitExit(0, `0 of 1 instances are outdated; `+says)
}

// TestPauseAndResume: a paused refresh terminates nothing until it is resumed.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(3))
	a.holdLaunches()
	r := a.trigger("--surge", "1")
	r.waitOutput(`Pending:Wait`)
	a.trigger("pause").waitExit(0)
	a.completeLaunch()
	a.waitInService(group, 4)
	a.trigger("status").waitExit(0, `InProgress`)
	if n := len(a.Ledger()); n > 1 {
		t.Errorf("there were %d lifecycle actions while the refresh was paused, want the first launch alone", n)
	}
	a.releaseLaunches()
	a.trigger("resume").waitExit(0)
	r.waitExit(0, `3 instances replaced`)
}

// completeLaunch lets the only instance that is being launched go into service.
func (a *account) completeLaunch() {
	a.t.Helper()
	action := a.Ledger()[0]
	_, err := a.autoScaling().CompleteLifecycleAction(a.t.Context(), &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: aws.String(group), LifecycleHookName: aws.String(launchHook),
		InstanceId: aws.String(action.InstanceID), LifecycleActionResult: aws.String("CONTINUE"),
	})
	a.must(err)
}

// launchVersion returns the version of the launch template that the group launches from.
// tags returns the keys of the tags of the group.
func (a *account) tags() (keys []string) {
	a.t.Helper()
	out, err := a.autoScaling().DescribeAutoScalingGroups(a.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	a.must(err)
	for _, tag := range out.AutoScalingGroups[0].Tags {
		keys = append(keys, aws.ToString(tag.Key))
	}
	return keys
}

func (a *account) launchVersion() string {
	a.t.Helper()
	out, err := a.autoScaling().DescribeAutoScalingGroups(a.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	a.must(err)
	return aws.ToString(out.AutoScalingGroups[0].LaunchTemplate.Version)
}

// TestReaderOfTheOutputExits: the rollout goes on to its end, and the trigger reports that it could not write.
func TestReaderOfTheOutputExits(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	summary := filepath.Join(t.TempDir(), "summary.md")
	r := a.newRun(nil, "--mode", "unhealthy", "--surge", "1", "--summary-file", summary)
	read, write, err := os.Pipe()
	a.must(err)
	r.Cmd.Stdout = write
	a.must(r.Start())
	r.killAtEnd()
	a.must(write.Close())
	for lines := bufio.NewScanner(read); lines.Scan() && !strings.Contains(lines.Text(), "desired capacity raised"); {
	}
	a.must(read.Close())
	r.waitExit(1, `(?m)^trigger: write the output: .*broken pipe$`)
	text, err := os.ReadFile(summary)
	if err != nil || !strings.Contains(string(text), "2 instances replaced") {
		t.Errorf("the summary is %q, %v", text, err)
	}
	inService := slices.DeleteFunc(a.Instances(group), func(i awsim.Instance) bool { return i.State != "InService" })
	if len(inService) != 2 {
		t.Errorf("%d instances are in service: the surge is left", len(inService))
	}
}

// TestMachineOutput: with -o ndjson each line is an object, and the last one has the outcome.
func TestMachineOutput(t *testing.T) {
	t.Parallel()
	r := newAccount(t, latest(2)).trigger("-o", "ndjson")
	r.waitExit(0)
	lines := r.Lines()
	last := lines[len(lines)-1]
	if last.Text("type") != "end" || last.Text("outcome") != "done" || last["exitCode"] != 0.0 || r.Count("not JSON") > 0 {
		t.Errorf("the last of %v is %v", lines, last)
	}
}

// TestWithoutKubernetes: an API server that does not answer is reported once, and the rollout goes on.
func TestWithoutKubernetes(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	r := a.triggerWith([]string{"KUBECONFIG=" + kubeconfig(t, "http://127.0.0.1:1")})
	r.waitExit(0, `continuing without Kubernetes: .*connection refused`, `2 instances replaced`)
	if n := strings.Count(r.Output(), "without Kubernetes"); n != 1 {
		t.Errorf("it was reported %d times", n)
	}
}

// TestGroupThatLaunchesOutdatedInstances: a rollout of a group that launches what it had at first replaces one instance,
// or one batch, and no more when it is run again, or by a watch.
func TestGroupThatLaunchesOutdatedInstances(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"unhealthy": {"--mode", "unhealthy"},
		"surge":     {"--mode", "unhealthy", "--surge", "1"},
		"by zone":   {"--mode", "unhealthy", "--order", "zone"},
		"standby":   {"--mode", "standby"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := launchFirst(4)
			spec.LaunchesFirst, spec.Max = true, 8
			a := newAccount(t, spec)
			before := a.waitInService(group, 4)
			for range 2 {
				a.trigger(args...).waitExit(8, `ineffective: instance i-\S+ was launched after the rollout began`)
			}
			a.trigger("resume").waitExit(0)
			left := map[string]bool{}
			for _, i := range a.waitInService(group, 4) {
				left[i.ID] = true
			}
			for _, i := range before {
				delete(left, i.ID)
			}
			if n := len(left); n != 1 {
				t.Errorf("%d instances were replaced", n)
			}
		})
	}
}
