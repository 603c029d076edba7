package trigger

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	group           = "workers"
	template        = "node"             // has version 1 with ami-1, and from the start of a test on version 2 with ami-2
	parameter       = "/aws/service/ami" // the image of the template aliased, ami-3
	terminatingHook = "drain"
	launchHook      = "launch"
	triggerKey      = "trigger" // the access key of the trigger
	refusedKey      = "refused" // the access key of a trigger that is expected to lack permissions

	// waitTimeout bounds each wait of a test. It only decides how long a failing test takes.
	waitTimeout = time.Minute
)

// account is an AWS account with a group of instances at version 1 of a launch template that has a version 2.
type account struct {
	*awsim.Server
	t testing.TB
}

// latest returns a group that launches from the latest version of its template.
func latest(size int) awsim.Group {
	return awsim.Group{Desired: size, LaunchTemplateVersion: "$Latest"}
}

// launchFirst returns latest with a maintenance policy by which Auto Scaling launches before it terminates.
func launchFirst(size int) awsim.Group {
	g := latest(size)
	g.MinHealthy, g.MaxHealthy = 100, 150
	return g
}

// newAccount returns an account whose group has a terminating hook, which is completed after a second. Its tests
// start processes, so go test -short skips them.
func newAccount(t testing.TB, g awsim.Group) *account {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	s, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &account{Server: s, t: t}
	t.Cleanup(func() { a.must(s.Close()) })
	s.SetParameter(parameter, "ami-3")
	for name, image := range map[string]string{template: "ami-1", "arm": "ami-arm", "aliased": "resolve:ssm:" + parameter} {
		a.createTemplate(name, image)
	}
	g.Name, g.Max, g.Desired = group, 10, cmp.Or(g.Desired, 4)
	g.LaunchTemplate = cmp.Or(g.LaunchTemplate, template)
	a.createGroup(g)
	a.addVersion(template, "ami-2")
	return a
}

// createTemplate creates a launch template with the role and the tags of a node.
func (a *account) createTemplate(name, image string) {
	a.t.Helper()
	_, err := a.ec2().CreateLaunchTemplate(a.t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId:            &image,
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{
				ResourceType: ec2types.ResourceTypeInstance,
				Tags:         []ec2types.Tag{{Key: aws.String("cluster"), Value: aws.String("demo")}},
			}},
		},
	})
	a.must(err)
}

// createGroup creates a group of the cluster demo, whose instances are in service before it has a hook.
func (a *account) createGroup(g awsim.Group) {
	a.t.Helper()
	g.Tags = map[string]string{"kubernetes.io/cluster/demo": "owned"}
	a.must(a.CreateGroup(g))
	a.waitInService(g.Name, g.Desired)
	a.must(a.PutHook(g.Name, awsim.Hook{Name: terminatingHook, CompletedAfter: time.Second}))
}

func (a *account) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// waits returns a context that bounds one wait.
func waits(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

// waitInService waits until the group has so many instances, all of them in service, and returns them.
func (a *account) waitInService(name string, size int) (all []awsim.Instance) {
	a.t.Helper()
	a.must(a.WaitInstances(waits(a.t), name, func(now []awsim.Instance) bool {
		all = now
		return len(now) == size && !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
	}))
	return all
}

func (a *account) waitRefresh(status string) {
	a.t.Helper()
	_, err := a.WaitRefresh(waits(a.t), group, status)
	a.must(err)
}

// waitTerminating waits until so many instances have been terminated by their group.
func (a *account) waitTerminating(n int) {
	a.t.Helper()
	a.must(a.WaitLedger(waits(a.t), func(all []awsim.Action) bool {
		return len(slices.DeleteFunc(all, func(a awsim.Action) bool { return a.Transition != awsim.Terminating })) >= n
	}))
}

// holdLaunches keeps each new instance out of service until releaseLaunches.
func (a *account) holdLaunches() {
	a.t.Helper()
	a.must(a.PutHook(group, awsim.Hook{Name: launchHook, Transition: awsim.Launching, HeartbeatTimeout: time.Hour}))
}

// releaseLaunches ends holdLaunches. The instances that wait are abandoned, and others are launched.
func (a *account) releaseLaunches() {
	a.t.Helper()
	a.deleteHook(launchHook)
}

// deleteHook deletes a hook of the group. Instances that wait for it go on.
func (a *account) deleteHook(name string) {
	a.t.Helper()
	_, err := a.autoScaling().DeleteLifecycleHook(a.t.Context(), &autoscaling.DeleteLifecycleHookInput{
		AutoScalingGroupName: aws.String(group), LifecycleHookName: aws.String(name),
	})
	a.must(err)
}

// startOtherRefresh starts a refresh to version 2, the one before the latest, that is not the trigger's, and does not
// end before releaseLaunches.
func (a *account) startOtherRefresh() {
	a.t.Helper()
	a.addVersion(template, "ami-3")
	a.holdLaunches()
	_, err := a.StartRefresh(group, awsim.RefreshSpec{Version: "2", MinHealthy: 50})
	a.must(err)
}

func (a *account) addVersion(name, image string) {
	a.t.Helper()
	_, err := a.AddTemplateVersion(name, image)
	a.must(err)
}

// tag tags the group.
func (a *account) tag(key, value string) {
	a.t.Helper()
	_, err := a.autoScaling().CreateOrUpdateTags(a.t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{{
		ResourceId: aws.String(group), ResourceType: aws.String("auto-scaling-group"), Key: &key, Value: &value,
		PropagateAtLaunch: aws.Bool(false),
	}}})
	a.must(err)
}

// autoScaling returns a client of another user.
func (a *account) autoScaling() *autoscaling.Client {
	return autoscaling.New(autoscaling.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient), Region: "eu-central-1", BaseEndpoint: aws.String(a.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("other", "test", ""),
	})
}

// ec2 returns a client of another user.
func (a *account) ec2() *ec2.Client {
	return ec2.New(ec2.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient), Region: "eu-central-1", BaseEndpoint: aws.String(a.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("other", "test", ""),
	})
}

// changes returns the calls by which the trigger has changed something, by their actions.
func (a *account) changes() map[string]int {
	calls := map[string]int{}
	for call, n := range a.RequestsBy(triggerKey) {
		if _, action, _ := strings.Cut(call, "."); !strings.HasPrefix(action, "Describe") {
			calls[action] += n
		}
	}
	return calls
}

func ids(instances []awsim.Instance) (all []string) {
	for _, i := range instances {
		all = append(all, i.ID)
	}
	return all
}

// called are the actions that the trigger has called in all tests.
var called = struct {
	sync.Mutex
	actions map[string]bool
}{actions: map[string]bool{}}

func calledActions() map[string]bool {
	called.Lock()
	defer called.Unlock()
	return maps.Clone(called.actions)
}

// run is a run of the trigger.
type run struct {
	*harness.Process
	t testing.TB
}

// newRun returns a run for the group that has not started. The test fails if it calls what deploy/iam does not allow.
func (a *account) newRun(env []string, args ...string) *run {
	a.t.Helper()
	a.must(harness.Limit(a.Server, harness.Trigger, triggerKey, ""))
	executable, err := os.Executable()
	a.must(err)
	cmd := exec.Command(executable, args...)
	cmd.Env = append(harness.Environ(a.t.TempDir(), a.URL(), triggerKey), asTrigger+"=yes",
		"GOCOVERDIR="+cmp.Or(os.Getenv("GOCOVERDIR"), a.t.TempDir()), // go test -cover would have it warn without one
		"TRIGGER_POLL_INTERVAL=200ms", "TRIGGER_ALLOW=hook-timeout", "TRIGGER_ASG="+group)
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "KUBECONFIG=") }) {
		cmd.Env = append(cmd.Env, "TRIGGER_NO_KUBERNETES=true")
	}
	cmd.Env = append(cmd.Env, env...)
	r := &run{Process: harness.NewProcess(cmd), t: a.t}
	judgeCalls(a.t, a.Server)
	return r
}

// judgeCalls has a test fail in the end if a trigger has called what deploy/iam does not allow, and records what it has
// called.
func judgeCalls(t testing.TB, s *awsim.Server) {
	t.Helper()
	t.Cleanup(func() {
		for _, call := range s.Unauthorized() {
			if !strings.HasPrefix(call, refusedKey+" ") {
				t.Errorf("not allowed by deploy/iam: %s", call)
			}
		}
		called.Lock()
		defer called.Unlock()
		for _, action := range s.Used(triggerKey) {
			called.actions[action] = true
		}
	})
}

// killAtEnd kills a run that has started when the test ends.
func (r *run) killAtEnd() {
	r.t.Cleanup(func() {
		r.Kill()
		if err := r.Race(); err != nil {
			r.t.Error(err)
		}
		if r.t.Failed() {
			r.t.Logf("trigger %q:\n%s", r.Cmd.Args[1:], r.Output())
		}
	})
}

// trigger starts the trigger for the group.
func (a *account) trigger(args ...string) *run {
	a.t.Helper()
	return a.triggerWith(nil, args...)
}

// triggerWith is trigger with further variables.
func (a *account) triggerWith(env []string, args ...string) *run {
	a.t.Helper()
	r := a.newRun(env, args...)
	a.must(r.Start())
	r.killAtEnd()
	return r
}

func (r *run) waitOutput(pattern string) {
	r.t.Helper()
	if err := r.WaitOutput(waits(r.t), regexp.MustCompile(pattern)); err != nil {
		r.t.Fatal(err)
	}
}

// waitExit waits for the exit code, and expects output that matches.
func (r *run) waitExit(code int, patterns ...string) {
	r.t.Helper()
	got, err := r.WaitEnd(waits(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	if got != code {
		r.t.Errorf("the exit code is %d, want %d", got, code)
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(r.Output()) {
			r.t.Errorf("the output does not match %s", pattern)
		}
	}
}
