package trigger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

func (a *account) resize(n int) {
	a.t.Helper()
	_, err := a.autoScaling().SetDesiredCapacity(a.t.Context(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(int32(n)),
	})
	a.must(err)
}

// TestGroupIsScaledDuringARollout: the rollout follows a group that another user scales. No launch ends before that, so
// that the rollout cannot.
func TestGroupIsScaledDuringARollout(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 2, 6} {
		for _, mode := range []string{"refresh", "unhealthy"} {
			t.Run(fmt.Sprintf("from 4 to %d, %s", size, mode), func(t *testing.T) {
				t.Parallel()
				a := newAccount(t, launchFirst(4))
				a.holdLaunches()
				r := a.trigger("--mode", mode)
				r.waitOutput(`Pending:Wait`)
				a.resize(size)
				a.releaseLaunches()
				r.waitExit(0, `replaced|outdated`)
				for _, i := range a.waitInService(group, size) {
					if i.Version != 2 {
						t.Errorf("instance %s of version %d is in service", i.ID, i.Version)
					}
				}
			})
		}
	}
}

// TestAWSFails: calls that fail are repeated, and a refresh is started once. What cannot be repeated is reported.
func TestAWSFails(t *testing.T) {
	t.Parallel()
	start := func(f awsim.Fault) awsim.Fault {
		f.Action, f.Times = "StartInstanceRefresh", 1
		return f
	}
	for name, tt := range map[string]struct {
		fault  awsim.Fault
		code   int
		says   []string
		starts int
	}{
		"calls are throttled": {
			fault: awsim.Fault{Service: "autoscaling", Code: "Throttling", Times: 3}, says: []string{`4 instances replaced`}, starts: 1,
		},
		"the credentials have expired": {
			fault: awsim.Fault{Code: "ExpiredToken", Message: "The security token is expired", Status: 403}, code: 1, says: []string{`ExpiredToken`},
		},
		"the start is not answered": {
			fault: start(awsim.Fault{Drop: true}), says: []string{`4 instances replaced`}, starts: 2,
		},
		"the start succeeds, and is not answered": {
			fault: start(awsim.Fault{Drop: true, AfterApply: true}), says: []string{`4 instances replaced`}, starts: 2,
		},
		"the start succeeds, and is answered with an error": {
			fault: start(awsim.Fault{Code: "InternalFailure", Status: 500, AfterApply: true}),
			says:  []string{`4 instances replaced`}, starts: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, latest(4))
			a.holdLaunches() // so that the refresh is in progress when a call is repeated
			a.Inject(tt.fault)
			r := a.trigger("--surge", "2")
			if tt.code == 0 {
				r.waitOutput(`InProgress`)
				a.releaseLaunches()
			}
			r.waitExit(tt.code, tt.says...)
			if n := a.RequestsBy(triggerKey)["autoscaling.StartInstanceRefresh"]; n != tt.starts {
				t.Errorf("StartInstanceRefresh was called %d times, want %d", n, tt.starts)
			}
			if tt.code == 0 {
				a.assertOneRefresh()
			}
		})
	}
}

func (a *account) assertOneRefresh() {
	a.t.Helper()
	out, err := a.autoScaling().DescribeInstanceRefreshes(a.t.Context(), &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: aws.String(group),
	})
	a.must(err)
	if n := len(out.InstanceRefreshes); n != 1 {
		a.t.Errorf("%d refreshes were started, want 1", n)
	}
}

// TestPolicies: what docs/iam.md gives the trigger for a feature is enough for it, without the other features.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		group     awsim.Group
		documents []string
		args      []string
		says      string
	}{
		"plan":    {latest(2), nil, []string{"plan"}, `outdated`},
		"refresh": {latest(2), []string{"iam/trigger-refresh", "iam/trigger-launch"}, nil, `2 instances replaced`},
		"refresh, suspend": {
			latest(2), []string{"iam/trigger-refresh", "iam/trigger-launch", "iam/trigger-suspend"}, []string{"--suspend", "AZRebalance"}, `resumed`,
		},
		"unhealthy":                 {launchFirst(2), []string{"iam/trigger-unhealthy"}, []string{"--mode", "unhealthy"}, `2 instances replaced`},
		"unhealthy, by the account": {latest(2), []string{"iam/trigger-unhealthy"}, []string{"--mode", "unhealthy"}, `2 instances replaced`},
		"unhealthy, surge": {
			latest(2),
			[]string{"iam/trigger-unhealthy", "iam/trigger-surge"},
			[]string{"--mode", "unhealthy", "--surge", "1"},
			`2 instances replaced`,
		},
		"a failure is released": {latest(2), []string{"iam/trigger-suspend", "iam/trigger-watch"}, []string{"resume"}, `may try the target again`},
		"pause":                 {latest(2), []string{"iam/trigger-suspend"}, []string{"pause"}, `InstanceRefresh`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, tt.group)
			if strings.HasSuffix(name, "by the account") {
				a.SetAccountSetting(awsim.AccountSetting{Name: refresh.LaunchBeforeTerminate, Value: "enabled"})
			}
			granted, err := harness.FillPolicies("", append([]string{"iam/trigger-plan"}, tt.documents...)...)
			a.must(err)
			a.must(a.Allow("limited", granted...))
			if slices.Contains(tt.documents, "iam/trigger-watch") {
				a.tag(refresh.FailedTag, "lt-1/2")
			}
			a.triggerWith([]string{"AWS_ACCESS_KEY_ID=limited"}, tt.args...).waitExit(0, tt.says)
		})
	}
}

// TestMayNotLaunch: AWS refuses a refresh to a caller that may not launch from the template, and does not say what is
// missing. The trigger does.
func TestMayNotLaunch(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	granted, err := harness.FillPolicies("", "iam/trigger-plan", "iam/trigger-refresh")
	a.must(err)
	a.must(a.Allow(refusedKey, granted...))
	a.triggerWith([]string{"AWS_ACCESS_KEY_ID=" + refusedKey}).waitExit(1, `You are not authorized to use launch template: lt-`,
		`the caller needs ec2:RunInstances .* iam:PassRole, .*docs/iam.md`)
}
