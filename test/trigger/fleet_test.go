package trigger

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	groups "github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cluster"
	instances "github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// fleet is several groups, and the nodes of their instances, that triggers change in virtual time.
type fleet struct {
	*testing.T
	aws  *awsim.Server
	slow string // A group whose nodes take a minute to be tainted, and five to be Ready.

	mu      sync.Mutex
	events  events
	tainted map[string]bool      // the nodes
	kept    map[string]string    // the nodes whose scale-down is disabled, and for which group
	since   map[string]time.Time // when an instance was first seen in service
}

// event is a change that a trigger has made: taint, raise, mark, terminate or start.
type event struct{ what, group string }

// events are what was done, in its order.
type events []event

// first and last are when something was done to one of the groups, counted from 0. They are -1 if it was not done.
func (e events) first(what []string, groups ...string) int {
	return slices.IndexFunc(e, func(e event) bool { return e.isOf(what, groups) })
}

func (e events) last(what []string, groups ...string) int {
	for n, one := range slices.Backward(e) {
		if one.isOf(what, groups) {
			return n
		}
	}
	return -1
}

func (e event) isOf(what, groups []string) bool {
	return slices.Contains(what, e.what) && slices.Contains(groups, e.group)
}

// expectPhases checks that each of the phases that are done together is done in all groups before what comes after it,
// and that the rest is done in one group after the other.
func (e events) expectPhases(t testing.TB, groups []string, together, rest []string) {
	t.Helper()
	after := rest
	for _, phase := range slices.Backward(together) {
		for _, group := range groups {
			if last := e.last([]string{phase}, group); last < 0 || last > e.first(after, groups...) {
				t.Errorf("%s of %s is no. %d of %v", phase, group, last, e)
			}
		}
		after = append([]string{phase}, after...)
	}
	e.expectOrder(t, rest, groups...)
}

// expectOrder checks that something is done in one group after the other.
func (e events) expectOrder(t testing.TB, what []string, groups ...string) {
	t.Helper()
	for n := range len(groups) - 1 {
		if last := e.last(what, groups[n]); last < 0 || last > e.first(what, groups[n+1]) {
			t.Errorf("%s: %s is not before %s: %v", what, groups[n], groups[n+1], e)
		}
	}
}

// inFleet runs a test in virtual time, with groups of two instances at version 1 of a launch template that has a
// version 2. The tags of each group are added to that of the cluster.
func inFleet(t *testing.T, name string, tags map[string]map[string]string, test func(f *fleet)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fleet{T: t, aws: awsim.NewUnconnected(awsim.Options{}), tainted: map[string]bool{}, kept: map[string]string{}, since: map[string]time.Time{}}
			_, err := f.aws.CreateLaunchTemplate(template, "ami-1")
			f.must(err)
			for name, others := range tags {
				f.createGroup(name, others)
			}
			_, err = f.aws.AddTemplateVersion(template, "ami-2")
			f.must(err)
			test(f)
			f.must(f.aws.Close())
		})
	})
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) createGroup(name string, tags map[string]string) {
	all := map[string]string{"kubernetes.io/cluster/demo": "owned"}
	maps.Copy(all, tags)
	f.must(f.aws.CreateGroup(awsim.Group{
		Name: name, Max: 10, Desired: 2, LaunchTemplate: template, LaunchTemplateVersion: "$Latest", Tags: all,
	}))
	f.must(f.aws.WaitInstances(f.Context(), name, func(now []awsim.Instance) bool {
		return len(now) == 2 && !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
	}))
	f.must(f.aws.PutHook(name, awsim.Hook{Name: terminatingHook, CompletedAfter: 30 * time.Second}))
}

// client is a trigger. It can be killed: then its calls fail.
type client struct {
	*fleet
	mu     sync.Mutex
	left   int // changes until it is killed; negative is never
	cancel context.CancelFunc
}

// change counts a change. It returns an error if the trigger is killed.
func (c *client) change() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		c.cancel()
		return errKilled
	}
	c.left--
	return nil
}

// RoundTrip serves a call by the simulated AWS.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=trigger/sim")
	if !strings.HasPrefix(form.Get("Action"), "Describe") {
		if err := c.change(); err != nil {
			return nil, err
		}
		what := map[string]string{
			"SetDesiredCapacity": "raise", "SetInstanceHealth": "mark", "TerminateInstanceInAutoScalingGroup": "terminate",
			"StartInstanceRefresh": "start",
		}[form.Get("Action")]
		c.record(what, form.Get("AutoScalingGroupName"), form.Get("InstanceId"))
	}
	return c.aws.RoundTrip(r)
}

// record records what was done to a group, or to one of its instances.
func (f *fleet) record(what, group, instance string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if group == "" {
		group = f.groupOf(instance)
	}
	if what != "" {
		f.events = append(f.events, event{what, group})
	}
}

func (f *fleet) groupOf(instance string) string {
	for _, name := range []string{"a", "b", "c"} {
		if slices.ContainsFunc(f.aws.Instances(name), func(i awsim.Instance) bool { return i.ID == instance }) {
			return name
		}
	}
	return ""
}

// Node is Ready if its instance is in service.
func (f *fleet) Node(id string) (cluster.Node, bool) {
	name := f.groupOf(id)
	for _, i := range f.aws.Instances(name) {
		if i.ID == id && i.State == "InService" {
			f.mu.Lock()
			defer f.mu.Unlock()
			if _, seen := f.since[id]; !seen {
				f.since[id] = time.Now()
			}
			ready := i.Version == 1 || name != f.slow || time.Since(f.since[id]) > 5*time.Minute
			return cluster.Node{Name: id, Ready: ready, Tainted: f.tainted[id], ScaleDownGroup: f.kept[id]}, true
		}
	}
	return cluster.Node{}, false
}

func (f *fleet) Loads(context.Context, []string) (map[string]cluster.Load, error) { return nil, nil }

func (*fleet) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) {
	return nil, nil
}

func (f *fleet) Stale() error { return nil }

func (*fleet) Agents(context.Context) ([]lead.Agent, error) { return nil, errLeases }

// Taint taints the node of an instance, which has its name.
func (c *client) Taint(_ context.Context, n cluster.Node, _ cluster.Effect) error {
	if err := c.change(); err != nil {
		return err
	}
	if c.slow != "" && c.groupOf(n.Name) == c.slow {
		<-time.After(time.Minute)
	}
	c.record("taint", "", n.Name)
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	c.tainted[n.Name] = true
	return nil
}

func (c *client) Untaint(_ context.Context, n cluster.Node) error {
	if err := c.change(); err != nil {
		return err
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	delete(c.tainted, n.Name)
	return nil
}

// DisableScaleDown and EnableScaleDown change the node of an instance.
func (c *client) DisableScaleDown(_ context.Context, n cluster.Node, group string) (bool, error) {
	return c.setKept(n, group)
}

func (c *client) EnableScaleDown(_ context.Context, n cluster.Node) error {
	_, err := c.setKept(n, "")
	return err
}

func (c *client) setKept(n cluster.Node, group string) (changed bool, err error) {
	if err := c.change(); err != nil {
		return false, err
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	before := c.kept[n.Name]
	if c.kept[n.Name] = group; group == "" {
		delete(c.kept, n.Name)
	}
	return before != group, nil
}

// inBatches is a rollout of all groups of the cluster that starts all new instances first.
func inBatches() rollout.Config {
	return rollout.Config{
		Selection: refresh.Selection{Cluster: "demo"}, Mode: refresh.ModeUnhealthy, Pin: refresh.PinAuto,
		Preferences: refresh.Preferences{SkipMatching: true, Protected: "Ignore", Standby: "Ignore"},
		Pace: refresh.Pace{
			Batch: refresh.Amount{N: 1}, Order: refresh.ByAge, Surge: refresh.Amount{N: 100, Percent: true},
		},
		Suspend: []string{"AZRebalance"}, Taint: cluster.HardTaint, Allow: []string{"hook-timeout"}, Wait: true,
		Until: rollout.Drained, StallTimeout: time.Hour, Timeout: 24 * time.Hour, PollInterval: 5 * time.Second,
		OnInterrupt: rollout.Detach, Together: refresh.PhaseCheck, Parallel: 1, Holder: "ci-1/1",
	}
}

// trigger returns a trigger that is killed after so many changes, unless that is negative. It runs in the context.
func (f *fleet) trigger(cfg rollout.Config, changes int) (context.Context, *rollout.Trigger) {
	ctx, cancel := context.WithCancel(f.Context())
	f.Cleanup(cancel)
	c := &client{fleet: f, left: changes, cancel: cancel}
	config := aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(f.aws.URL()), Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: c}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
	api := autoscaling.NewFromConfig(config)
	return ctx, rollout.New(cfg, readerOf(config), struct {
		*groups.Writer
		*instances.Machines
		drainRequester
		*client
	}{Writer: groups.NewWriter(api), client: c}, f, nil)
}

// drainRequester is what a fleet has none of: no mode that it is replaced in requests drains.
type drainRequester interface {
	RequestDrain(ctx context.Context, n cluster.Node) error
	WithdrawDrain(ctx context.Context, n cluster.Node) error
}

// run returns how the groups ended.
func (f *fleet) run(cfg rollout.Config) map[string]report.Outcome {
	f.Helper()
	ctx, trigger := f.trigger(cfg, -1)
	end, err := trigger.Run(ctx)
	f.must(err)
	outcomes := map[string]report.Outcome{}
	for _, g := range end.Groups {
		outcomes[g.Name] = g.Outcome
	}
	return outcomes
}

// describe describes the groups.
func (f *fleet) describe() []types.AutoScalingGroup {
	client := autoscaling.NewFromConfig(aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(f.aws.URL()), Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: &client{fleet: f, left: -1}},
	})
	out, err := client.DescribeAutoScalingGroups(f.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	f.must(err)
	return out.AutoScalingGroups
}

// expectNothingLeft checks that the groups are as large as before, and have nothing of a trigger. Each has its own tag
// of the cluster, and so many others.
func (f *fleet) expectNothingLeft(tags int) {
	f.Helper()
	for _, g := range f.describe() {
		if *g.DesiredCapacity != 2 || len(g.Tags) != 1+tags || len(g.SuspendedProcesses) > 0 {
			f.Errorf("%s: %d desired, tags %v, suspended %v", *g.AutoScalingGroupName, *g.DesiredCapacity, g.Tags, g.SuspendedProcesses)
		}
	}
}

// expectReplaced checks that every instance of the groups is new, and that no node of them is tainted.
func (f *fleet) expectReplaced(groups ...string) {
	f.Helper()
	for _, name := range groups {
		for _, i := range f.aws.Instances(name) {
			if node, _ := f.Node(i.ID); i.Version != 2 || node.Tainted {
				f.Errorf("%s of %s has version %d, and is tainted: %v", i.ID, name, i.Version, node.Tainted)
			}
		}
	}
}
