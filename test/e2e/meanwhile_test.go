//go:build e2e

package e2e

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestRequests: what is asked of AWS is what the flags say, and nothing is left to defaults that are not those of the
// console.
func TestRequests(t *testing.T) {
	const p = "Preferences."
	usual := map[string]string{
		p + "MinHealthyPercentage": "100", p + "MaxHealthyPercentage": "125", p + "SkipMatching": "true",
		p + "ScaleInProtectedInstances": "Ignore", p + "StandbyInstances": "Ignore",
	}
	for name, tt := range map[string]struct {
		args    []string
		changes map[string]string // of what is usual
	}{
		"as usual":            {},
		"a surge of a number": {[]string{"--surge", "2"}, map[string]string{p + "MaxHealthyPercentage": "150"}},
		"a surge of one, of four": {
			[]string{"--surge", "1%"}, map[string]string{p + "MaxHealthyPercentage": "125"},
		},
		"one goes first": {
			[]string{"--surge", "1", "--strategy", "terminate-first"},
			map[string]string{p + "MinHealthyPercentage": "75", p + "MaxHealthyPercentage": "100"},
		},
		"percentages": {
			[]string{"--min-healthy", "50", "--max-healthy", "120"},
			map[string]string{p + "MinHealthyPercentage": "50", p + "MaxHealthyPercentage": "120"},
		},
		"checkpoints": {
			[]string{"--checkpoints", "50,100", "--checkpoint-delay", "1m", "--warmup", "2s", "--bake", "3m"},
			map[string]string{
				p + "CheckpointPercentages.member.1": "50", p + "CheckpointPercentages.member.2": "100",
				p + "CheckpointDelay": "60", p + "InstanceWarmup": "2", p + "BakeTime": "180",
			},
		},
		"all": {[]string{"--all"}, map[string]string{p + "SkipMatching": "false"}},
		"whatever the instances are in": {
			[]string{"--protected", "refresh", "--standby", "terminate"},
			map[string]string{p + "ScaleInProtectedInstances": "Refresh", p + "StandbyInstances": "Terminate"},
		},
		"waiting for them": {
			[]string{"--protected", "wait", "--standby", "wait"},
			map[string]string{p + "ScaleInProtectedInstances": "Wait", p + "StandbyInstances": "Wait"},
		},
		"rolled back by an alarm": {
			[]string{"--auto-rollback", "--alarm", "errors", "--launch-template-version", "2"},
			map[string]string{p + "AutoRollback": "true", p + "AlarmSpecification.Alarms.member.1": "errors"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, awsim.Group{Desired: 4, LaunchTemplateVersion: "1"}, false)
			a.stuck(time.Hour)
			a.trigger(append([]string{"--no-wait", "--launch-template-version", "2"}, tt.args...)...).ends(0)
			want := maps.Clone(usual)
			maps.Copy(want, tt.changes)
			got := preferences(a.Calls("autoscaling", "StartInstanceRefresh")[0].Values)
			if _, said := want[p+"AutoRollback"]; !said {
				delete(got, p+"AutoRollback")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

func preferences(values url.Values) map[string]string {
	all := map[string]string{}
	for key := range values {
		if len(key) > 12 && key[:12] == "Preferences." {
			all[key] = values.Get(key)
		}
	}
	return all
}

// TestLeftAndFoundAgain: a refresh that was not waited for is told of, and the same command follows it to its end. It
// has checkpoints, and bakes.
func TestLeftAndFoundAgain(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, latest(4), false)
	a.stuck(time.Hour)
	args := []string{
		"--surge", "2", "--pin=false", "--checkpoints", "50,100", "--checkpoint-delay", "5s", "--bake", "5s", "--warmup", "1s",
	}
	a.trigger(append(args, "--no-wait")...).ends(0, `continues`)
	a.waitRefresh("InProgress")
	a.trigger("status").ends(0, `InProgress`)
	run := a.trigger(args...)
	run.waitOutput(`it is followed`)
	a.deleteHook(launchHook)
	run.ends(0, `checkpoint of 50 percent`, `Baking`, `replaced`)
	if calls := changing(a.Server); !maps.Equal(calls, map[string]int{"StartInstanceRefresh": 1}) {
		t.Errorf("the triggers called %v", calls)
	}
	out, err := a.groups().DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	a.must(err)
	if version := aws.ToString(out.AutoScalingGroups[0].LaunchTemplate.Version); version != "$Latest" {
		t.Errorf("the group is at %s: the refresh was pinned", version)
	}
}

// TestPausedAndForgotten: a pause looks like a stall, and is told as what it is.
func TestPausedAndForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		process, mode string
	}{
		"by trigger pause":                     {"InstanceRefresh", "refresh"},
		"launches, by somebody":                {"Launch", "refresh"},
		"replacing, and instances were marked": {"ReplaceUnhealthy", "unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, launchingFirst(4), false)
			a.stuck(time.Hour)
			run := a.trigger("--stall-timeout", "10s", "--mode", tt.mode)
			run.waitOutput(`Pending:Wait`)
			_, err := a.groups().SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{
				AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{tt.process, "AlarmNotification"},
			})
			a.must(err)
			run.ends(5, `nothing has changed for 10s.*; suspended: `+tt.process+`,.*trigger resume`)
		})
	}
}

// TestOthersChangeTheGroup: what somebody else does to the group meanwhile is taken as it is.
func TestOthersChangeTheGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		args   []string
		change func(a *amazon)
		code   int
		says   string
		size   int // 0 if the group is gone
	}{
		"scaled in":             {nil, func(a *amazon) { a.resize(2) }, 0, `replaced`, 2},
		"scaled out":            {nil, func(a *amazon) { a.resize(6) }, 0, `replaced`, 6},
		"scaled in, in batches": {[]string{"--mode", "unhealthy"}, func(a *amazon) { a.resize(2) }, 0, `replaced`, 2},
		"scaled out, in batches": {
			[]string{"--mode", "unhealthy"}, func(a *amazon) { a.resize(6) }, 0, `replaced`, 6,
		},
		"scaled in to none": {nil, func(a *amazon) { a.resize(0) }, 0, `replaced`, 0},
		"deleted":           {nil, func(a *amazon) { a.delete() }, 1, `workers`, 0},
		"deleted, in batches": {
			[]string{"--mode", "unhealthy"}, func(a *amazon) { a.delete() }, 1, `workers`, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Old instances of a group that is to be deleted wait until then, so that the rollout does not end before.
			a := newAmazon(t, launchingFirst(4), strings.HasPrefix(name, "deleted"))
			run := a.trigger(tt.args...)
			if slices.Contains(tt.args, "unhealthy") {
				run.waitOutput(`marked unhealthy`)
			} else {
				a.waitRefresh("InProgress", "Successful")
			}
			tt.change(a)
			run.ends(tt.code, tt.says)
			for _, i := range a.serving(tt.size) {
				if i.Version != 2 {
					t.Errorf("instance %s of version %d is in service", i.ID, i.Version)
				}
			}
		})
	}
}

func (a *amazon) resize(n int32) {
	a.t.Helper()
	_, err := a.groups().SetDesiredCapacity(a.t.Context(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(n),
	})
	a.must(err)
}

func (a *amazon) delete() {
	a.t.Helper()
	_, err := a.groups().DeleteAutoScalingGroup(a.t.Context(), &autoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(group), ForceDelete: aws.Bool(true),
	})
	a.must(err)
}

// TestAWSRefuses: credentials that end, and answers that do not come. Nothing is begun twice, and what was begun is
// told.
func TestAWSRefuses(t *testing.T) {
	expired := awsim.Fault{Code: "ExpiredToken", Message: "The security token included in the request is expired", Status: 403}
	start := func(f awsim.Fault) func(a *amazon) {
		return func(a *amazon) { f.Action, f.Times = "StartInstanceRefresh", 1; a.Inject(f) }
	}
	goOn := func(a *amazon) { a.deleteHook(launchHook) }
	for name, tt := range map[string]struct {
		before, during func(a *amazon)
		code           int
		says           []string
		starts         int
	}{
		"expired from the start": {
			before: func(a *amazon) { a.Inject(expired) }, code: 1, says: []string{`ExpiredToken`},
		},
		"expired amid the refresh": {
			during: func(a *amazon) { a.Inject(expired) },
			code:   1, says: []string{`ExpiredToken`, `continues`, `run the same command again`}, starts: 1,
		},
		"the start is not answered": {
			before: start(awsim.Fault{Drop: true}), during: goOn,
			says: []string{`4 instances replaced`}, starts: 2,
		},
		"the start is done, and not answered": {
			before: start(awsim.Fault{Drop: true, AfterApply: true}), during: goOn,
			says: []string{`4 instances replaced`}, starts: 2,
		},
		"the start is done, and called a failure": {
			before: start(awsim.Fault{Code: "InternalFailure", Status: 500, AfterApply: true}), during: goOn,
			says: []string{`4 instances replaced`}, starts: 2,
		},
		"the start is forbidden": {
			before: start(awsim.Fault{Code: "AccessDenied", Message: "is not authorized to perform", Status: 403}),
			code:   1, says: []string{`not authorized`}, starts: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, latest(4), false)
			a.stuck(time.Hour) // so that the refresh outlasts a call that is tried again
			if tt.before != nil {
				tt.before(a)
			}
			run := a.trigger("--surge", "2")
			if tt.during != nil {
				run.waitOutput(`InProgress`)
				tt.during(a)
			}
			run.ends(tt.code, tt.says...)
			if n := a.Requests()["autoscaling.StartInstanceRefresh"]; n != tt.starts {
				t.Errorf("StartInstanceRefresh was called %d times, want %d", n, tt.starts)
			}
			if tt.code != 0 {
				return
			}
			out, err := a.groups().DescribeInstanceRefreshes(t.Context(), &autoscaling.DescribeInstanceRefreshesInput{
				AutoScalingGroupName: aws.String(group),
			})
			a.must(err)
			if n := len(out.InstanceRefreshes); n != 1 {
				t.Errorf("%d refreshes were begun", n)
			}
		})
	}
}
