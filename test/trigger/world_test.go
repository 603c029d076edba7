package trigger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/rollouts"
)

// world is an account in virtual time, with groups at version 1 of a launch template, which they follow, and the nodes
// of their instances. What is generated, or killed, is tested in package rollouts.
type world struct {
	*testing.T
	*awsim.Server
	size   int          // of the groups
	slow   string       // a group whose nodes take a minute to be tainted, and five to be Ready
	output lockedBuffer // of watches

	mu        sync.Mutex
	events    events
	nodes     map[string]*cluster.Node // of the instances that were in service, by these
	since     map[string]time.Time     // when one was first seen
	requested map[string]time.Time     // when its drain was requested
}

// drainTakes is how long the agent needs to drain a node.
const drainTakes = 50 * time.Second

// lockedBuffer is written by a Watcher while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// inWorld runs a test in virtual time, with groups of so many instances. They have these tags beside that of their
// cluster.
func inWorld(t *testing.T, name string, size int, groups map[string]map[string]string, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.size = size
			for name, tags := range groups {
				w.createGroup(name, tags)
			}
			test(w)
			w.must(w.Close())
			if t.Failed() {
				t.Log(w.output.String())
			}
		})
	})
}

// newWorld returns a world without groups. The test fails if a trigger calls what deploy/iam does not allow.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		T: t, Server: awsim.NewUnconnected(awsim.Options{Seed: 1}), nodes: map[string]*cluster.Node{},
		since: map[string]time.Time{}, requested: map[string]time.Time{},
	}
	_, err := w.CreateLaunchTemplate(template, "ami-1")
	w.must(err)
	w.must(harness.Limit(w.Server, harness.Trigger, triggerKey, ""))
	judgeCalls(t, w.Server)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) createGroup(name string, tags map[string]string) {
	all := map[string]string{"kubernetes.io/cluster/demo": "owned"}
	maps.Copy(all, tags)
	w.must(w.CreateGroup(awsim.Group{
		Name: name, Max: 2 * w.size, Desired: w.size, LaunchTemplate: template, LaunchTemplateVersion: "$Latest", Tags: all,
	}))
	w.waitVersion(name, 1)
	w.must(w.PutHook(name, awsim.Hook{Name: terminatingHook, CompletedAfter: 30 * time.Second}))
}

// waitVersion waits until the group has all instances, in service and of the version.
func (w *world) waitVersion(name string, version int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 24*time.Hour)
	defer cancel()
	err := w.WaitInstances(ctx, name, func(now []awsim.Instance) bool {
		other := func(i awsim.Instance) bool { return i.State != "InService" || i.Version != version }
		return len(now) == w.size && !slices.ContainsFunc(now, other)
	})
	if err != nil {
		w.Fatalf("version %d: %v, the group has %v\n%s", version, err, w.Instances(name), w.output.String())
	}
}

func (w *world) newVersion(n int) {
	w.Helper()
	_, err := w.AddTemplateVersion(template, fmt.Sprintf("ami-%d", n))
	w.must(err)
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

// client is a process by its access key.
type client struct {
	*world
	key string
}

// RoundTrip serves a call by the simulated AWS, and records what it changes.
func (c client) RoundTrip(r *http.Request) (*http.Response, error) {
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
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.key+"/sim")
	what := map[string]string{
		"SetDesiredCapacity": "raise", "SetInstanceHealth": "mark", "TerminateInstanceInAutoScalingGroup": "terminate",
		"StartInstanceRefresh": "start",
	}[form.Get("Action")]
	c.record(what, form.Get("AutoScalingGroupName"), form.Get("InstanceId"))
	return c.Server.RoundTrip(r)
}

// record records what was done to a group, or to one of its instances.
func (w *world) record(what, group, instance string) {
	if group == "" {
		group, _, _ = w.Member(instance)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if what != "" {
		w.events = append(w.events, event{what, group})
	}
}

func (w *world) config(key string) aws.Config {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(w.URL()), Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: client{w, key}}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// autoScaling returns a client of another user.
func (w *world) autoScaling() *autoscaling.Client { return autoscaling.NewFromConfig(w.config("test")) }

// clients are those of a trigger.
func (w *world) clients(key string) (plan.Reader, rollout.Writer) {
	return rollouts.Clients(w.config(key), refresh.ModeRefresh, nodegroup.Request{}, w)
}

// Node is that of an instance that is, or was, in service. It is Ready.
func (w *world) Node(id string) (cluster.Node, bool) {
	group, i, ok := w.Member(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok && i.State == "InService" && w.nodes[id] == nil {
		w.nodes[id], w.since[id] = &cluster.Node{Name: id, UID: id}, time.Now()
	}
	if w.nodes[id] == nil {
		return cluster.Node{}, false
	}
	n := *w.nodes[id]
	n.Ready = i.Version == 1 || group != w.slow || time.Since(w.since[id]) > 5*time.Minute
	if at, ok := w.requested[id]; ok {
		n.DrainRequested, n.Marked, n.Drain = true, true, &cluster.Drain{Done: time.Since(at) > drainTakes}
	}
	return n, true
}

func (*world) Loads(context.Context, []string) (map[string]cluster.Load, error) { return nil, nil }

func (*world) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) { return nil, nil }

func (*world) Stale() error { return nil }

// errLeases is why no agent is known.
var errLeases = errors.New("the Leases may not be listed")

func (*world) Agents(context.Context) ([]lead.Agent, error) { return nil, errLeases }

// change changes the node of an instance.
func (w *world) change(n cluster.Node, do func(n *cluster.Node)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do(w.nodes[n.Name])
}

// Taint taints the node of an instance, which has its name.
func (w *world) Taint(_ context.Context, n cluster.Node, _ cluster.Effect) error {
	if group, _, _ := w.Member(n.Name); w.slow != "" && group == w.slow {
		<-time.After(time.Minute)
	}
	w.record("taint", "", n.Name)
	w.change(n, func(n *cluster.Node) { n.Tainted = true })
	return nil
}

func (w *world) Untaint(_ context.Context, n cluster.Node) error {
	w.change(n, func(n *cluster.Node) { n.Tainted = false })
	return nil
}

// DisableScaleDown and EnableScaleDown change the node of an instance.
func (w *world) DisableScaleDown(_ context.Context, n cluster.Node, group string) (changed bool, err error) {
	w.change(n, func(n *cluster.Node) { changed, n.ScaleDownGroup = n.ScaleDownGroup != group, group })
	return changed, nil
}

func (w *world) EnableScaleDown(_ context.Context, n cluster.Node) error {
	w.change(n, func(n *cluster.Node) { n.ScaleDownGroup = "" })
	return nil
}

// RequestDrain and WithdrawDrain have the agent drain the node of an instance, or not.
func (w *world) RequestDrain(_ context.Context, n cluster.Node) error {
	w.change(n, func(*cluster.Node) { w.requested[n.Name] = time.Now() })
	return nil
}

func (w *world) WithdrawDrain(_ context.Context, n cluster.Node) error {
	w.change(n, func(*cluster.Node) { delete(w.requested, n.Name) })
	return nil
}

// flags are those of a rollout of all groups of the cluster, without Kubernetes.
func flags(mode refresh.Mode) plan.Config {
	c := plan.Config{
		Selection: refresh.Selection{Cluster: "demo"}, Mode: mode, Pin: refresh.PinAuto, OnConflict: plan.Attach,
		Preferences: refresh.Preferences{SkipMatching: true, Protected: "Ignore", Standby: "Ignore"},
		Pace:        refresh.Pace{Batch: refresh.Amount{N: 1}, Order: refresh.ByAge, Then: refresh.ThenTerminate},
		Taint:       cluster.NoTaint, Allow: []string{"hook-timeout"}, Wait: true, Until: plan.Drained,
		StallTimeout: 3 * time.Hour, PollInterval: 5 * time.Second, OnInterrupt: plan.Detach, Parallel: 1,
		Together: refresh.PhaseCheck, Interval: 5 * time.Minute, Holder: "ci-1/1",
	}
	switch mode {
	case refresh.ModeRefresh:
		c.Surge = &refresh.Amount{N: 1}
	case refresh.ModeUnhealthy:
		c.Pace.Surge = refresh.Amount{N: 1}
	case refresh.ModeStandby, refresh.ModeNodegroup:
	}
	return c
}

// run returns how the groups ended. The trigger reads nodes.
func (w *world) run(cfg plan.Config) map[string]report.Outcome {
	w.Helper()
	reader, writer := w.clients(triggerKey)
	end, err := rollout.New(cfg, reader, writer, w, nil).Run(w.Context())
	w.must(err)
	outcomes := map[string]report.Outcome{}
	for _, g := range end.Groups {
		outcomes[g.Name] = g.Outcome
	}
	return outcomes
}

// act runs another command of the trigger, and returns what it says of the group.
func (w *world) act(cfg plan.Config, action rollout.Action) string {
	w.Helper()
	reader, writer := w.clients(triggerKey)
	end, err := rollout.New(cfg, reader, writer, w, nil).Act(w.Context(), action)
	w.must(err)
	return end.Groups[0].Message
}

// start starts a watch, and returns what stops it.
func (w *world) start(cfg plan.Config) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	reader, writer := w.clients(triggerKey)
	reporter := func() report.Reporter { return report.New(report.Options{Format: report.FormatText, Out: &w.output}) }
	observer := observe.NewWatch(prometheus.NewRegistry(), cfg.Interval, nil, func(string, string, bool) {})
	var running sync.WaitGroup
	running.Go(func() {
		w.must(rollout.NewWatcher(cfg, reader, writer, nil, rollout.WatchEnvironment{
			NewReporter: reporter, Observer: observer,
		}).Run(ctx))
	})
	return func() {
		w.Helper()
		began := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(began); took > 10*time.Second {
			w.Errorf("the watch has ended after %v", took)
		}
	}
}

// status is what trigger status shows of the group.
func (w *world) status(cfg plan.Config) report.Group {
	w.Helper()
	reader, _ := w.clients(triggerKey)
	now, err := rollout.New(cfg, reader, nil, nil, nil).Status(w.Context())
	w.must(err)
	return now.Groups[0]
}

// describe describes the groups.
func (w *world) describe() []types.AutoScalingGroup {
	w.Helper()
	out, err := w.autoScaling().DescribeAutoScalingGroups(w.Context(), nil)
	w.must(err)
	return out.AutoScalingGroups
}

// expectAsBefore checks that the groups have the sizes, the tags and the launch template as in the beginning. Each has
// its own tag of the cluster, and so many others.
func (w *world) expectAsBefore(tags int) {
	w.Helper()
	for _, g := range w.describe() {
		if int(*g.DesiredCapacity) != w.size || len(g.Tags) != 1+tags || len(g.SuspendedProcesses) > 0 ||
			aws.ToString(g.LaunchTemplate.Version) != "$Latest" {
			w.Errorf("%s has the size %d, tags %v, suspended processes %v, version %s", *g.AutoScalingGroupName,
				*g.DesiredCapacity, g.Tags, g.SuspendedProcesses, aws.ToString(g.LaunchTemplate.Version))
		}
	}
}

// expectReplaced checks that every instance of the groups is new, and that no node of them is tainted.
func (w *world) expectReplaced(groups ...string) {
	w.Helper()
	for _, name := range groups {
		for _, i := range w.Instances(name) {
			if node, _ := w.Node(i.ID); i.Version != 2 || node.Tainted {
				w.Errorf("%s of %s has version %d, and is tainted: %v", i.ID, name, i.Version, node.Tainted)
			}
		}
	}
}

// calls counts the calls of an action by all triggers.
func (w *world) calls(action string) int { return w.RequestsBy(triggerKey)["autoscaling."+action] }

func (w *world) says(times int, text string) {
	w.Helper()
	if n := strings.Count(w.output.String(), text); n != times {
		w.Errorf("%q is reported %d times, want %d", text, n, times)
	}
}

// elapse lets virtual time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
