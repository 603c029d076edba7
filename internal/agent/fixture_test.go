package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/queue"
	"github.com/node-drainer/node-drainer/pkg/refresh"
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

// answer is what a call returns at a time after the start.
type answer[T any] func(after time.Duration) (T, error)

func always[T any](v T) answer[T] { return func(time.Duration) (T, error) { return v, nil } }

// silent is no answer until the given time.
func silent[T any](until time.Duration, then T) answer[T] {
	return func(after time.Duration) (v T, err error) {
		if after < until {
			return v, errOutage
		}
		return then, nil
	}
}

// changes is an answer that changes at the given time.
func changes[T any](before T, at time.Duration, then T) answer[T] {
	return func(after time.Duration) (T, error) {
		if after < at {
			return before, nil
		}
		return then, nil
	}
}

// fixture plays Auto Scaling, EC2, the Nodes, the drainer and the observer of an agent, in virtual time. It records
// what the agent changes (steps) and observes (facts). Its fields are set before the first message.
type fixture struct {
	start time.Time
	cfg   agent.Config
	errs  map[string][]error // of the next calls, by what they do

	// Auto Scaling.
	state    answer[autoscaling.State]
	clusters answer[[]string]
	memberOf string // the group of the instance, if it is another one
	members  answer[map[string]autoscaling.Member]
	pending  answer[bool] // whether a heartbeat is accepted
	// tokenEnded: no heartbeat is accepted by the token alone.
	tokenEnded bool
	refresh    func(group string) (bool, error)
	ownHooks   []string
	direct     bool                     // they notify the agent's queue
	timeout    map[string]time.Duration // of each hook
	heartbeat  time.Duration            // the heartbeat timeout of all hooks
	givesUp    map[string]time.Duration // when the action of a hook ends
	others     bool                     // the hook notifies another queue
	noHook     bool                     // the group has no such hook
	complete   func(ctx context.Context) error

	// CloudWatch.
	alarm answer[bool] // the alarm "status-check" is on

	// EC2.
	ec2        answer[ec2.Instance]
	scheduled  answer[bool]
	unplaced   answer[int]  // pods of drained nodes that have found no room
	lostEvents answer[bool] // what is scheduled has no message; nil: it has, or nothing is
	notBefore  time.Time    // when what is scheduled starts; zero: EC2 does not say
	reserved   []string     // in the Capacity Block
	spot       answer[ec2.SpotStatus]
	spotSince  time.Time     // when the request got its status; zero if EC2 does not say
	spotSilent time.Duration // until then questions for the status are not answered at all

	// The Nodes.
	registers time.Duration // when the instance registers
	leaves    time.Duration // when the watch stops showing the Node
	// registersAgain: the instance has another Node of the name when that is replaced.
	registersAgain bool
	// isBehind: the watch goes on to show the Node before.
	isBehind  bool
	shown     *node.Node
	hidden    bool          // the watch does not show the Node that exists
	lags      bool          // the watch does not show announcements
	unmarked  time.Duration // until then the watch does not show marks
	deleted   bool          // the watch shows a Node that does not exist
	boots     time.Duration // when the Node has another BootID; 0 is never
	theirs    answer[bool]  // the Node is another agent's
	protected []node.ProtectedNode
	managed   map[node.Manager]int // Nodes besides the node
	requests  chan struct{}        // for drains by annotation

	// Drains and launches.
	drainTakes    time.Duration
	drainStops    time.Duration // how long a drain runs after it was stopped
	report        drain.Report
	since         time.Time       // of the target of the last drain
	late          []time.Duration // pods are bound to the node then
	returns       time.Duration   // the failed machine is back, and its pods are gone; 0 is never
	restartsAfter time.Duration   // the process, once it has stopped
	ready         time.Duration   // when the launched node is ready
	outage        time.Duration   // until then Missing fails

	mu      sync.Mutex
	cond    *sync.Cond
	holding int // holds that have not ended
	node    node.Node
	steps   []step
	facts   []string

	// What the launched node lacks at the end instead of Ready, and which of it are DaemonSets that no node runs.
	lacks, readyNowhere []string
}

// given changes a fixture.
type given = func(f *fixture)

func with(all ...given) given {
	return func(f *fixture) {
		for _, change := range all {
			if change != nil {
				change(f)
			}
		}
	}
}

// fails makes the next n calls of one kind fail.
func fails(call string, n int, err error) given {
	return func(f *fixture) { f.errs[call] = slices.Repeat([]error{err}, n) }
}

func stateIs(s answer[autoscaling.State]) given { return func(f *fixture) { f.state = s } }
func inState(s autoscaling.State) given         { return stateIs(always(s)) }
func pendingIs(a answer[bool]) given            { return func(f *fixture) { f.pending = a } }
func ec2Says(i answer[ec2.Instance]) given      { return func(f *fixture) { f.ec2 = i } }
func ec2State(s ec2.State) given                { return ec2Says(always(ec2.Instance{State: s})) }
func scheduled(s answer[bool]) given            { return func(f *fixture) { f.scheduled = s } }
func tagged(clusters answer[[]string]) given    { return func(f *fixture) { f.clusters = clusters } }
func registers(after time.Duration) given       { return func(f *fixture) { f.registers = after } }

// findable: a resync finds the hook drain without its message.
func findable(f *fixture) { f.clusters, f.ownHooks = always([]string{"demo"}), []string{"drain"} }

func noNode(f *fixture)                 { f.registers = never }
func notReady(f *fixture)               { f.node.Ready = false }
func hidden(f *fixture)                 { f.hidden = true }
func readyAt(after time.Duration) given { return func(f *fixture) { f.ready = after } }
func noHook(f *fixture)                 { f.noHook = true }
func deleted(f *fixture)                { f.deleted = true }
func conditioned(f *fixture)            { f.node.HasCondition = true }
func lost(f *fixture)                   { f.report.Lost = true }
func podsLeft(f *fixture)               { f.report.Left = []string{"web/a"} }
func boots(after time.Duration) given   { return func(f *fixture) { f.boots = after } }

func givesUp(hook string, at time.Duration) given { return func(f *fixture) { f.givesUp[hook] = at } }

func timeout(hook string, d time.Duration) given { return func(f *fixture) { f.timeout[hook] = d } }

// cordoned has the node cordoned at a time after the start; 0 is no deadline.
func cordoned(kind event.Kind, since, deadline, terminatesAt time.Duration) given {
	return func(f *fixture) {
		f.node.Mark = node.Mark{InstanceID: instance, Reason: string(kind), Since: f.start.Add(since)}
		if deadline != 0 {
			f.node.Mark.Deadline = f.start.Add(deadline)
		}
		if terminatesAt != 0 {
			f.node.Mark.TerminatesAt = f.start.Add(terminatesAt)
		}
	}
}

// inBubble runs a parallel test with a fixture in virtual time.
func inBubble(t *testing.T, change given, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		with(change)(f)
		test(t, f)
	})
}

// each runs one case of a table.
func each(t *testing.T, name string, change given, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, change, test) })
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
			ResyncInterval: 3 * time.Minute, MaxConcurrent: refresh.Amount{N: 1}, MaxPerZone: refresh.Amount{N: 1},
			Events: event.Config{
				SpotInterruption: event.Drain, Rebalance: event.Drain, ScheduledChange: event.Drain, StateChange: event.Drain,
				ReservationInterrupt: event.Drain, CapacityBlockExpiring: event.Drain, Margin: 5 * time.Second,
				ScheduledChangeLead: 100 * time.Hour, Alarm: event.Drain, AlarmsPerHour: 100,
			},
		},
		state:      always(terminating),
		errs:       map[string][]error{},
		clusters:   always[[]string](nil),
		members:    always[map[string]autoscaling.Member](nil),
		pending:    always(false),
		refresh:    func(string) (bool, error) { return false, nil },
		timeout:    map[string]time.Duration{},
		heartbeat:  time.Hour,
		givesUp:    map[string]time.Duration{},
		complete:   func(context.Context) error { return nil },
		ec2:        always(ec2.Instance{State: running, Spot: true, Reserved: true}),
		scheduled:  always(true),
		unplaced:   always(0),
		alarm:      always(true),
		theirs:     always(false),
		spot:       always(ec2.SpotStatus("marked-for-termination")),
		node:       node.Node{Name: "node-1", UID: "uid-1", InstanceID: instance, Ready: true},
		drainTakes: 10 * time.Second,
		report:     drain.Report{Total: 3, Took: 10 * time.Second},
	}
}

// launching is an instance that waits for its launch hook, and whose node is ready after a minute.
func launching(f *fixture) {
	f.state, f.cfg.Launch.Timeout, f.ready = always(pendingWait), 15*time.Minute, time.Minute
}

func (f *fixture) agent() *agent.Agent {
	return agent.New(f.cfg, autoScaling{f}, instances{f}, alarms{f}, nodes{f}, drainer{f}, launches{f}, observer{f})
}

// source returns the message of an event at the start of the fixture.
type source = func(f *fixture) queue.Message

func termination(f *fixture) queue.Message { return message("drain", f.start) }

func launchTo(destination string) source {
	return func(f *fixture) queue.Message { return launchMessage(destination, f.start) }
}

// mustHandle passes the messages to the agent, one after the other.
func mustHandle(t *testing.T, f *fixture, a *agent.Agent, messages ...source) {
	t.Helper()
	for _, m := range messages {
		if err := a.Handle(t.Context(), m(f)); err != nil {
			t.Errorf("the message ended with %v", err)
		}
		f.awaitEnds()
	}
}

// awaitEnds returns when each termination and launch that has started has ended.
func (f *fixture) awaitEnds() {
	count := func(prefix string) (n int) {
		for _, fact := range f.facts {
			if strings.HasPrefix(fact, prefix) {
				n++
			}
		}
		return n
	}
	f.mu.Lock()
	for count("started")+count("launch started") > count("ended ")+count("launch ended ") || f.holding > 0 {
		f.changed().Wait()
	}
	f.mu.Unlock()
}

// changed must be called with mu locked.
func (f *fixture) changed() *sync.Cond {
	if f.cond == nil {
		f.cond = sync.NewCond(&f.mu)
	}
	return f.cond
}

func message(hook string, at time.Time) queue.Message {
	text := body(hook, at.Format(time.RFC3339))
	return queue.Message{ID: "m-" + hook, Receives: 1, SentAt: at.Add(time.Second), Body: text}
}

func body(hook, at string) []byte {
	return fmt.Appendf(nil, `{"Service":"AWS Auto Scaling","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING",`+
		`"AutoScalingGroupName":%q,"LifecycleHookName":%q,"EC2InstanceId":%q,"LifecycleActionToken":"token-%s","Time":%q}`,
		group, hook, instance, hook, at)
}

func launchMessage(destination string, at time.Time) queue.Message {
	m := message("launch", at)
	text := strings.Replace(string(m.Body), "TERMINATING", "LAUNCHING", 1)
	if destination != "" {
		text = strings.Replace(text, "{", fmt.Sprintf(`{"Origin":"EC2","Destination":%q,`, destination), 1)
	}
	m.Body = []byte(text)
	return m
}

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
	f.changed().Broadcast()
}

// next removes and returns the first error of a call; nil if there is none.
func (f *fixture) next(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs[call]) == 0 {
		return nil
	}
	err := f.errs[call][0]
	f.errs[call] = f.errs[call][1:]
	return err
}

// did returns the steps with the prefix.
func (f *fixture) did(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	steps := slices.Clone(f.steps)
	for i := range steps {
		for j := i; j > 0 && steps[j].after == steps[j-1].after && isWithin(steps[j-1].what, steps[j].what); j-- {
			steps[j], steps[j-1] = steps[j-1], steps[j]
		}
	}
	for _, s := range steps {
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
	n := 0
	for _, fact := range f.facts {
		if strings.HasPrefix(fact, prefix) {
			n++
		}
	}
	return n
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
	synctest.Wait() // for drains that were interrupted
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

// contextFor ends after d as it does when the process stops.
func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeoutCause(t.Context(), d, errStopping)
}

// isWithin reports whether what begins at the same time belongs after the step, where their order is not defined.
func isWithin(what, step string) bool {
	first, second := strings.Fields(what), strings.Fields(step)
	switch second[0] {
	case "hold":
		isOther := first[0] == "release" && first[1] != second[1]
		return isOther || !slices.Contains([]string{"hold", "release", "complete"}, first[0])
	case "release":
		return second[1] == "drain" && (first[0] == "uncordon" || first[0] == "wait")
	case "cordon":
		return first[0] == "tighten"
	}
	return false
}
