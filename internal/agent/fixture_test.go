package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

const (
	group    = "workers"
	instance = "i-0a1b2c3d4e5f60718"
	never    = 1000 * time.Hour

	inService   = autoscaling.State("InService")
	terminating = autoscaling.State("Terminating:Wait")
	proceeding  = autoscaling.State("Terminating:Proceed")
	inNoGroup   = autoscaling.State("")

	running = ec2.State("running")
)

var (
	errOutage   = errors.New("no answer")
	errStopping = errors.New("stopping")
)

// fixture plays Auto Scaling, EC2, the Nodes, the drainer and the observer of an agent, in virtual time. It records
// what the agent changes (steps) and observes (facts). Its fields are set before the first message. Functions of a
// duration get the time since the start; slices of errors have one for each call.
type fixture struct {
	start time.Time
	cfg   agent.Config

	// Auto Scaling.
	state        func(after time.Duration) (autoscaling.State, error)
	clusters     func(after time.Duration) ([]string, error)
	members      func(after time.Duration) (map[string]autoscaling.Member, error)
	pending      func(after time.Duration) (bool, error) // whether a launch hook holds the instance
	refresh      func(group string) (bool, error)
	ownHooks     []string
	timeout      map[string]time.Duration // of each hook
	givesUp      map[string]time.Duration // when the action of a hook ends
	noHook       bool                     // the group has no such hook
	deadlineErrs []error
	unhealthyErr error // of MarkUnhealthy
	complete     func(ctx context.Context) error

	// EC2.
	ec2         func(after time.Duration) (ec2.Instance, error)
	scheduled   func(after time.Duration) (bool, error)
	reserved    []string // in the Capacity Block
	reservedErr error

	// The Nodes.
	registers time.Duration // when the instance registers
	leaves    time.Duration // when the watch stops showing the Node
	hidden    bool          // the watch does not show the Node that exists
	deleted   bool          // the watch shows a Node that does not exist
	protected []node.ProtectedNode

	lookupErrs, cordonErrs, uncordonErrs, excludeErrs, protectErrs []error

	// Drains and launches.
	drainTakes time.Duration
	report     drain.Report
	drainErr   error
	ready      time.Duration                  // when the launched node is ready
	outage     func(after time.Duration) bool // whether Missing fails

	mu    sync.Mutex
	node  node.Node
	steps []step
	facts []string
}

type step struct {
	after time.Duration
	what  string
}

// newFixture returns one without faults: the instance waits for its hook, and its node is registered.
func newFixture() *fixture {
	return &fixture{
		start: time.Now(),
		cfg: agent.Config{
			ClusterName: "demo", ConfirmTimeout: time.Minute, RegistrationTimeout: 5 * time.Minute, DrainTimeout: time.Hour,
			ResyncInterval: 3 * time.Minute,
			Events: event.Config{
				SpotInterruption: event.Drain, Rebalance: event.Drain, ScheduledChange: event.Drain, StateChange: event.Drain,
				ReservationInterrupt: event.Drain, CapacityBlockExpiring: event.Drain, Margin: 5 * time.Second,
			},
		},
		state:      always(terminating),
		clusters:   func(time.Duration) ([]string, error) { return nil, nil },
		members:    func(time.Duration) (map[string]autoscaling.Member, error) { return nil, nil },
		pending:    func(time.Duration) (bool, error) { return false, nil },
		refresh:    func(string) (bool, error) { return false, nil },
		timeout:    map[string]time.Duration{},
		givesUp:    map[string]time.Duration{},
		complete:   func(context.Context) error { return nil },
		ec2:        describes(ec2.Instance{State: running, Spot: true, Reserved: true}),
		scheduled:  func(time.Duration) (bool, error) { return true, nil },
		node:       node.Node{Name: "node-1", UID: "uid-1", InstanceID: instance, Ready: true},
		drainTakes: 10 * time.Second,
		report:     drain.Report{Total: 3, Took: 10 * time.Second},
	}
}

// newLaunchFixture returns one whose instance waits for its launch hook, and whose node is ready after a minute.
func newLaunchFixture() *fixture {
	f := newFixture()
	f.state = always(pendingWait)
	f.cfg.Launch.Timeout = 15 * time.Minute
	f.ready = time.Minute
	return f
}

func (f *fixture) agent() *agent.Agent {
	return agent.New(f.cfg, autoScaling{f}, instances{f}, nodes{f}, drainer{f}, launches{f}, observer{f})
}

// handle passes the termination message of a hook to an agent.
func (f *fixture) handle(ctx context.Context, hook string) error {
	return f.agent().Handle(ctx, message(hook, f.start))
}

// launch passes the launch message of a hook to an agent.
func (f *fixture) launch(ctx context.Context, destination string) error {
	return f.agent().Handle(ctx, launchMessage("launch", destination, f.start))
}

func message(hook string, at time.Time) queue.Message {
	return queue.Message{ID: "m-" + hook, Receives: 1, SentAt: at.Add(time.Second), Body: body(hook, at.Format(time.RFC3339))}
}

func body(hook, at string) []byte {
	return fmt.Appendf(nil, `{"Service":"AWS Auto Scaling","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING",`+
		`"AutoScalingGroupName":%q,"LifecycleHookName":%q,"EC2InstanceId":%q,"LifecycleActionToken":"token-%s","Time":%q}`,
		group, hook, instance, hook, at)
}

func launchMessage(hook, destination string, at time.Time) queue.Message {
	m := message(hook, at)
	text := strings.Replace(string(m.Body), "TERMINATING", "LAUNCHING", 1)
	if destination != "" {
		text = strings.Replace(text, "{", fmt.Sprintf(`{"Origin":"EC2","Destination":%q,`, destination), 1)
	}
	m.Body = []byte(text)
	return m
}

func always(s autoscaling.State) func(time.Duration) (autoscaling.State, error) {
	return func(time.Duration) (autoscaling.State, error) { return s, nil }
}

// silent is an Auto Scaling that does not answer until the given time.
func silent(until time.Duration, then autoscaling.State) func(time.Duration) (autoscaling.State, error) {
	return func(after time.Duration) (autoscaling.State, error) {
		if after < until {
			return "", errOutage
		}
		return then, nil
	}
}

// changes is an instance whose state changes at the given time.
func changes(before autoscaling.State, at time.Duration, then autoscaling.State) func(time.Duration) (autoscaling.State, error) {
	return func(after time.Duration) (autoscaling.State, error) {
		if after < at {
			return before, nil
		}
		return then, nil
	}
}

func describes(i ec2.Instance) func(time.Duration) (ec2.Instance, error) {
	return func(time.Duration) (ec2.Instance, error) { return i, nil }
}

func repeat(err error, n int) []error { return slices.Repeat([]error{err}, n) }

func (f *fixture) after() time.Duration { return time.Since(f.start) }

func (f *fixture) step(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = append(f.steps, step{f.after(), fmt.Sprintf(format, args...)})
}

func (f *fixture) fact(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.facts = append(f.facts, fmt.Sprintf(format, args...))
}

// next removes and returns the first error; nil if there is none.
func (f *fixture) next(errs *[]error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

// did returns the steps with the prefix.
func (f *fixture) did(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, s := range f.steps {
		if strings.HasPrefix(s.what, prefix) {
			out = append(out, s.what)
		}
	}
	return out
}

// when returns the time of the first step with the prefix; -1 if there is none.
func (f *fixture) when(prefix string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.steps {
		if strings.HasPrefix(s.what, prefix) {
			return s.after
		}
	}
	return -1
}

// observed returns the number of facts with the prefix.
func (f *fixture) observed(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(f.facts), func(fact string) bool { return !strings.HasPrefix(fact, prefix) }))
}

// wantSteps compares the steps with want, where a duration may be a range, for what depends on jittered pauses:
// "cordon until 7.75s..9.3s".
func (f *fixture) wantSteps(t *testing.T, want ...string) {
	t.Helper()
	if got := f.did(""); !slices.EqualFunc(want, got, matches) {
		t.Errorf("steps (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func matches(want, got string) bool {
	return slices.EqualFunc(strings.Fields(want), strings.Fields(got), func(want, got string) bool {
		first, last, isRange := strings.Cut(want, "..")
		if !isRange {
			return want == got
		}
		d, err := time.ParseDuration(got)
		least, _ := time.ParseDuration(first)
		most, _ := time.ParseDuration(last)
		return err == nil && least <= d && d <= most
	})
}

func (f *fixture) wantFacts(t *testing.T, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(slices.Clone(f.facts), func(f string) bool { return strings.HasPrefix(f, "received ") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func (f *fixture) wantOutcome(t *testing.T, want agent.Outcome) {
	t.Helper()
	if f.observed("started") != f.observed("ended ") || f.observed("ended "+string(want)) == 0 {
		t.Errorf("the termination did not end as %s: %q", want, f.facts)
	}
}

// wantSame compares two lists whose order does not matter.
func wantSame(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// contextFor ends after d as it does when the process stops.
func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeoutCause(t.Context(), d, errStopping)
}
