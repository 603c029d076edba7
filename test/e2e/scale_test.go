//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	manyGroups    = 200
	manyTemplates = 20
	manyEach      = 25 // instances of each group
)

// newAccount is an AWS with a cluster of 5,000 instances in 200 groups of 20 launch templates; so many of the groups
// are outdated.
func newAccount(t testing.TB, outdated int) *amazon {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &amazon{Server: s, t: t}
	t.Cleanup(func() { a.must(s.Close()) })
	for n := range manyTemplates {
		name := fmt.Sprintf("template-%d", n)
		_, err := s.CreateLaunchTemplate(name, "ami-1")
		a.must(err)
		_, err = s.AddTemplateVersion(name, "ami-2")
		a.must(err)
	}
	for n := range manyGroups {
		version := "2"
		if n < outdated {
			version = "1"
		}
		a.must(s.CreateServing(awsim.Group{
			Name: fmt.Sprintf("group-%03d", n), Max: 100, Desired: manyEach,
			LaunchTemplate: fmt.Sprintf("template-%d", n%manyTemplates), LaunchTemplateVersion: "$Latest",
			Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
		}, version))
	}
	return a
}

// TestPlanOfManyGroups: a plan asks for each hundred groups and for each template once, whatever there is; what it asks
// of each group, it asks only of those that are outdated. What is throttled is asked again.
func TestPlanOfManyGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		outdated int
		throttle map[string]string // actions by the service, each refused once
	}{
		"none outdated": {},
		"one outdated":  {outdated: 1},
		"all outdated":  {outdated: manyGroups},
		"throttled": {outdated: 3, throttle: map[string]string{
			"DescribeAutoScalingGroups": "autoscaling", "DescribeLifecycleHooks": "autoscaling",
			"DescribeInstanceRefreshes": "autoscaling", "DescribeLaunchTemplateVersions": "ec2",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, tt.outdated)
			const refused = 1
			for action, service := range tt.throttle {
				code := "Throttling"
				if service == "ec2" {
					code = "RequestLimitExceeded"
				}
				a.Inject(awsim.Fault{Service: service, Action: action, Code: code, Times: refused})
			}
			began := time.Now()
			run := runTrigger(t, a.Server, nil, "plan", "--cluster", "demo", "--no-kubernetes", "--detailed-exitcode", "-o", "json")
			code := 2
			if tt.outdated == 0 {
				code = 0
			}
			run.ends(code)
			t.Logf("the plan took %v", time.Since(began).Round(time.Millisecond))
			a.assertPlan(run.output(), tt.outdated)
			for action, want := range map[string]int{
				"autoscaling.DescribeAutoScalingGroups": manyGroups / 100, "ec2.DescribeLaunchTemplateVersions": manyTemplates,
				"autoscaling.DescribeLifecycleHooks": tt.outdated, "autoscaling.DescribeInstanceRefreshes": tt.outdated,
				"ec2.DescribeInstances": 0, // no age and no AMI was asked about
			} {
				_, name, _ := strings.Cut(action, ".")
				if tt.throttle[name] != "" {
					want += refused
				}
				if n := a.Requests()[action]; n != want {
					t.Errorf("%d calls of %s, want %d", n, action, want)
				}
			}
			if calls := changing(a.Server); len(calls) > 0 {
				t.Errorf("a plan called %v", calls)
			}
		})
	}
}

// assertPlan holds if the plan in JSON is of all groups, of which so many are outdated.
func (a *amazon) assertPlan(output string, outdated int) {
	a.t.Helper()
	var plans []struct {
		Outdated  int
		Instances []any
	}
	if err := json.Unmarshal([]byte(output), &plans); err != nil {
		a.t.Fatalf("no JSON: %v", err)
	}
	groups, instances := 0, 0
	for _, g := range plans {
		instances += len(g.Instances)
		if g.Outdated == manyEach {
			groups++
		}
	}
	if len(plans) != manyGroups || instances != manyGroups*manyEach || groups != outdated {
		a.t.Errorf("the plan has %d groups, %d instances, and %d groups are outdated as a whole; want %d, %d and %d",
			len(plans), instances, groups, manyGroups, manyGroups*manyEach, outdated)
	}
}
