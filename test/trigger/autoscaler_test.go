package trigger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	groups "github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cluster"
	instances "github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// scaled is a group that an autoscaler and triggers change in virtual time.
type scaled struct {
	*testing.T
	aws  *awsim.Server
	dice *rand.Rand
	mode refresh.Mode
	most int // the maximum size of the group

	autoscaler *autoscaler.Deployment // nil unless triggers pause it
	kept       string                 // an instance that triggers exclude, if any

	began time.Time
	step  refresh.Amount // of the surge
	then  refresh.Then

	raiseMax bool // in mode standby

	untagged  int           // After so many changes of a trigger, another client removes its tags; 0 is never.
	taints    bool          // Triggers taint outdated nodes.
	tainted   sync.Map      // the nodes
	scaleDown sync.Map      // the nodes that an autoscaler must not remove
	nodes     *drainedNodes // nil without Kubernetes

	mu      sync.Mutex
	asked   int // the desired capacity by what the autoscaler has asked for
	removed int // instances that the autoscaler has removed
	peak    int // what the autoscaler has asked for at most, with what it has removed
}

// process is a trigger, or an autoscaler. It can be killed: then its calls fail.
type process struct {
	*scaled
	name   string
	mu     sync.Mutex
	calls  int // that have changed something
	last   int // of them; after it the process is killed. 0 is never.
	cancel context.CancelFunc
}

var errKilled = errors.New("the process was killed")

// RoundTrip serves a call by the simulated AWS.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+p.name+"/sim")
	if err := p.call(!strings.Contains(string(body), "Action=Describe")); err != nil {
		return nil, err
	}
	response, err := p.aws.RoundTrip(r)
	p.untag(context.WithoutCancel(r.Context())) //nolint:contextcheck // It inherits that of the call.
	if p.name != "autoscaler" && p.name != "test" {
		p.expectCapacity(context.WithoutCancel(r.Context())) //nolint:contextcheck // It inherits that of the call.
	}
	return response, err
}

// call counts a call. It is an error if the process is dead.
func (p *process) call(changes bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last > 0 && p.calls >= p.last {
		p.cancel()
		return errKilled
	}
	if changes {
		p.calls++
	}
	return nil
}

// untag removes the tags of the trigger, as infrastructure as code does with those that it does not know.
func (p *process) untag(ctx context.Context) {
	p.mu.Lock()
	due := p.untagged > 0 && p.calls == p.untagged && p.name != "test"
	p.mu.Unlock()
	if !due {
		return
	}
	p.untagged = 0
	var ours []types.Tag
	for _, t := range p.describe(ctx).Tags {
		if refresh.IsRecord(*t.Key) {
			ours = append(ours, types.Tag{ResourceId: t.ResourceId, ResourceType: t.ResourceType, Key: t.Key})
		}
	}
	client := autoscaling.NewFromConfig((&process{scaled: p.scaled, name: "test"}).config())
	if _, err := client.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: ours}); err != nil && len(ours) > 0 {
		p.Error(err)
	}
}

// expectCapacity checks that the desired capacity is at least what the autoscaler has asked for.
func (s *scaled) expectCapacity(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if desired := int(*s.describe(ctx).DesiredCapacity); desired < s.asked {
		s.Errorf("%v: the desired capacity is %d, and the autoscaler has asked for %d", time.Since(s.began), desired, s.asked)
	}
}

func (p *process) config() aws.Config {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(p.aws.URL()), Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: p}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// run replaces what is outdated, as a process that is killed after so many changes, unless last is 0.
func (s *scaled) run(name string, last int) report.Outcome {
	return s.command(name, last, (*rollout.Trigger).Run)
}

// resume gives back what triggers hold that were killed.
func (s *scaled) resume() {
	s.Helper()
	end, err := s.trigger(&process{scaled: s, name: "ci-1/2"}).Act(s.Context(), rollout.ActResume)
	if err != nil || end.Groups[0].Outcome != report.Done {
		s.Errorf("trigger resume: %v, %v", end.Groups, err)
	}
}

func (s *scaled) trigger(p *process) *rollout.Trigger {
	cfg, writer, view := s.settings(p)
	return rollout.New(cfg, readerOf(p.config()), writer, view, nil)
}

// settings are those of a trigger that is the process.
func (s *scaled) settings(p *process) (rollout.Config, rollout.Writer, rollout.Cluster) {
	var deployment rollout.Autoscaler
	if s.autoscaler != nil {
		deployment = pausing{s.autoscaler, p}
	}
	view := s.view()
	var exclude []string
	taint := cluster.NoTaint
	if s.kept != "" && s.nodes == nil {
		view, exclude = readyNodes{s}, []string{"keep"}
	}
	if s.taints && s.nodes == nil {
		view, taint = readyNodes{s}, cluster.HardTaint
	}
	cfg := rollout.Config{
		Exclude:    exclude,
		Autoscaler: deployment,
		Selection:  refresh.Selection{Names: []string{group}}, Mode: s.mode, Pin: refresh.PinAuto, RaiseMax: true,
		Preferences: refresh.Preferences{SkipMatching: true, Protected: "Ignore", Standby: "Ignore"},
		Surge:       &refresh.Amount{N: 2}, Strategy: refresh.LaunchFirst, OnConflict: rollout.Attach,
		Pace:    refresh.Pace{Batch: refresh.Amount{N: 2}, Order: refresh.ByAge, Surge: refresh.Amount{N: 2}, Step: s.step},
		Suspend: []string{"AZRebalance"}, Taint: taint, Allow: []string{"hook-timeout"}, Wait: true,
		Until: rollout.Drained, StallTimeout: time.Hour, PollInterval: 5 * time.Second, OnInterrupt: rollout.Detach,
		Holder: p.name,
	}
	if cfg.Mode == refresh.ModeStandby {
		cfg.Pace.Surge, cfg.Pace.Then, cfg.RaiseMax = refresh.Amount{}, s.then, s.raiseMax
	}
	return cfg, struct {
		*groups.Writer
		*instances.Machines
		requester
	}{
		groups.NewWriter(autoscaling.NewFromConfig(p.config())), instances.NewMachines(ec2.NewFromConfig(p.config())),
		requester{process: p},
	}, view
}

func (s *scaled) describe(ctx context.Context) types.AutoScalingGroup {
	client := autoscaling.NewFromConfig((&process{scaled: s, name: "test"}).config())
	out, err := client.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	if err != nil {
		s.Fatal(err)
	}
	return out.AutoScalingGroups[0]
}

// expectNew checks that every instance is new, unless it is excluded.
func (s *scaled) expectNew() {
	s.Helper()
	for _, i := range s.aws.Instances(group) {
		if i.Version != 2 && i.ID != s.kept {
			s.Errorf("%s is %s, of version %d", i.ID, i.State, i.Version)
		}
	}
}

// expectUntouchedNodes checks that the nodes are as they were. Of a trigger that was killed the agent enables the
// scale-down again.
func (s *scaled) expectUntouchedNodes(killed bool) {
	s.Helper()
	for _, i := range s.aws.Instances(group) {
		_, tainted := s.tainted.Load(i.ID)
		_, kept := s.scaleDown.Load(i.ID)
		if i.State == "InService" && (tainted || kept && !killed) {
			s.Errorf("the node of %s is tainted: %t; its scale-down is disabled: %t", i.ID, tainted, kept)
		}
	}
}

// expectNothingLeft checks that nothing of a trigger remains.
func (s *scaled) expectNothingLeft() {
	s.Helper()
	if s.peak > s.most { // It has used what the maximum was raised by, and may have removed that since.
		s.resume()
	}
	g, desired := s.describe(s.Context()), 0
	if desired = int(*g.DesiredCapacity); desired < s.asked || desired > s.asked+s.removed {
		s.Errorf("the desired capacity is %d, the autoscaler has asked for %d, and has removed %d", desired, s.asked, s.removed)
	}
	if used := desired > s.most; !used && int(*g.MaxSize) != s.most {
		s.Errorf("the maximum is %d, and was %d; the desired capacity is %d", *g.MaxSize, s.most, desired)
	} else if used { // The autoscaler has used what the maximum was raised by.
		g.Tags = slices.DeleteFunc(g.Tags, func(t types.TagDescription) bool { return *t.Key == refresh.MaxTag })
	}
	if s.autoscaler != nil {
		if d := s.deployed(s.Context()); d.Replicas != 2 || d.Pause != nil {
			s.Errorf("the Deployment of the autoscaler has %d replicas, paused by %v", d.Replicas, d.Pause)
		}
	}
	if len(g.Tags) != 1 || len(g.SuspendedProcesses) > 0 {
		for _, t := range g.Tags {
			s.Errorf("left: %s=%s, suspended %d", *t.Key, *t.Value, len(g.SuspendedProcesses))
		}
	}
	for _, i := range g.Instances {
		if *i.ProtectedFromScaleIn && i.LifecycleState == types.LifecycleStateInService {
			s.Errorf("%s is protected from scale in", *i.InstanceId)
		}
	}
}

func newScaled(t *testing.T, mode refresh.Mode, seed uint64) *scaled {
	dice := rand.New(rand.NewPCG(seed, 0))
	s := &scaled{T: t, aws: awsim.NewUnconnected(awsim.Options{Seed: seed}), dice: dice, mode: mode, most: 30, began: time.Now()}
	s.asked = 2 + dice.IntN(5)
	if seed%2 == 1 {
		s.most = s.asked + dice.IntN(2)
	}
	return s
}

// besideAutoscaler runs triggers in virtual time, on a group whose desired capacity an autoscaler changes meanwhile. With
// an odd seed the maximum size has no room for the surge; with one of three the triggers pause the autoscaler,
// and with one of five they exclude an instance.
func besideAutoscaler(t *testing.T, mode refresh.Mode, seed uint64, triggers func(s *scaled)) {
	t.Helper()
	besideAutoscalerWith(t, mode, seed, triggers, (*scaled).expectNothingLeft)
}

func besideAutoscalerWith(
	t *testing.T, mode refresh.Mode, seed uint64, triggers func(s *scaled), expect func(s *scaled),
) {
	t.Helper()
	t.Run(fmt.Sprintf("%s, seed %d", mode, seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScaled(t, mode, seed)
			if seed%3 == 0 {
				s.deployAutoscaler()
			}
			s.taints = true
			s.step = refresh.Amount{N: int(seed / 2 % 2)} // none, or one
			s.setUp()
			if seed%5 == 0 && mode.InBatches() {
				s.kept = s.aws.Instances(group)[0].ID
			}
			ctx, stop := context.WithCancel(t.Context())
			var scaling sync.WaitGroup
			scaling.Go(func() { s.autoscale(ctx) })
			triggers(s)
			stop()
			scaling.Wait()
			expect(s)
			if err := s.aws.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// setUp creates the group, and then a second version of its launch template.
func (s *scaled) setUp() {
	must := func(err error) {
		if err != nil {
			s.Fatal(err)
		}
	}
	_, err := s.aws.CreateLaunchTemplate(template, "ami-1")
	must(err)
	must(s.aws.CreateGroup(awsim.Group{
		Name: group, Max: s.most, Min: 1, Desired: s.asked, LaunchTemplate: template, LaunchTemplateVersion: "$Latest",
		Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
	}))
	must(s.aws.WaitInstances(s.Context(), group, func(now []awsim.Instance) bool {
		return len(now) == s.asked && !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
	}))
	must(s.aws.PutHook(group, awsim.Hook{Name: terminatingHook, CompletedAfter: 30 * time.Second}))
	_, err = s.aws.AddTemplateVersion(template, "ami-2")
	must(err)
}

// TestBesideAnAutoscaler: rollouts with a surge never leave a group with fewer instances than an autoscaler has asked for,
// and leave nothing behind.
func TestBesideAnAutoscaler(t *testing.T) {
	t.Parallel()
	for _, seed := range sample(100) {
		besideAutoscaler(t, refresh.ModeUnhealthy, uint64(seed), func(s *scaled) {
			if outcome := s.run("ci-1/1", 0); outcome != report.Done {
				s.Errorf("the trigger ended with %s", outcome)
			}
			s.expectNew()
			s.expectUntouchedNodes(false)
		})
	}
}

// TestKilledBesideAnAutoscaler: the same if the trigger is killed after each of its changes in turn, in both modes.
func TestKilledBesideAnAutoscaler(t *testing.T) {
	t.Parallel()
	for mode, changes := range map[refresh.Mode]int{refresh.ModeUnhealthy: 55, refresh.ModeRefresh: 35} {
		for _, n := range sample(2 * changes) {
			besideAutoscaler(t, mode, uint64(n), func(s *scaled) {
				s.run("ci-1/1", n/2+1)
				if outcome := s.run("ci-1/2", 0); outcome != report.Done && outcome != report.Nothing {
					s.Errorf("the second trigger ended with %s", outcome)
				}
				s.expectNew()
				s.expectUntouchedNodes(true)
			})
		}
	}
}

// TestTagsRemovedByOthers: another client removes the tags of a trigger after each of its changes in turn. The rollout
// gives back all the same what it holds.
func TestTagsRemovedByOthers(t *testing.T) {
	t.Parallel()
	for mode, changes := range map[refresh.Mode]int{refresh.ModeUnhealthy: 45, refresh.ModeStandby: 30, refresh.ModeRefresh: 15} {
		for _, n := range sample(changes) {
			besideAutoscaler(t, mode, uint64(n), func(s *scaled) {
				s.untagged, s.then = n+1, refresh.ThenTerminate
				if outcome := s.run("ci-1/1", 0); outcome != report.Done {
					s.Errorf("the trigger ended with %s", outcome)
				}
				s.expectNew()
				s.expectUntouchedNodes(false)
			})
		}
	}
}

// TestResumedBesideAnAutoscaler: trigger resume gives back all that a trigger holds which was killed after any change.
func TestResumedBesideAnAutoscaler(t *testing.T) {
	t.Parallel()
	for mode, changes := range map[refresh.Mode]int{refresh.ModeUnhealthy: 30, refresh.ModeRefresh: 10} {
		for _, n := range sample(3 * changes) {
			besideAutoscaler(t, mode, uint64(n), func(s *scaled) {
				s.run("ci-1/1", n/3+1)
				s.resume()
			})
		}
	}
}

// TestTwoBesideAnAutoscaler: the same if a second trigger is started meanwhile, in both modes.
func TestTwoBesideAnAutoscaler(t *testing.T) {
	t.Parallel()
	for _, mode := range []refresh.Mode{refresh.ModeUnhealthy, refresh.ModeRefresh} {
		for _, seed := range sample(30) {
			besideAutoscaler(t, mode, uint64(seed), func(s *scaled) {
				var first, second report.Outcome
				var both sync.WaitGroup
				both.Go(func() { first = s.run("ci-1/1", 0) })
				both.Go(func() {
					time.Sleep(time.Duration(seed) * time.Second)
					second = s.run("ci-2/1", 0)
				})
				both.Wait()
				outcomes := []report.Outcome{first, second}
				ends := []report.Outcome{report.Done, report.Nothing, report.Conflict}
				stray := slices.ContainsFunc(outcomes, func(o report.Outcome) bool { return !slices.Contains(ends, o) })
				if !slices.Contains(outcomes, report.Done) || stray {
					s.Errorf("the triggers ended with %s", outcomes)
				}
				s.expectNew()
				s.expectUntouchedNodes(false)
			})
		}
	}
}
