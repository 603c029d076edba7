package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// fakeAWS has a group at version 2 of its template, whose instances have version 1. Its script runs before
// each read of the group, and changes it.
type fakeAWS struct {
	*fakeState
	fakeReads
	fakeWrites
}

type (
	fakeReads  struct{ *fakeState }
	fakeWrites struct {
		*fakeState
		hold.Tainter
	}
)

// fakeState is the state of a fakeAWS, and the calls that were made.
type fakeState struct {
	mu           sync.Mutex
	group        refresh.Group
	pool         []refresh.Instance
	refreshes    []refresh.Refresh // the newest first
	changes      []refresh.CapacityChange
	hooks        []refresh.Hook
	script       func(reads int)
	reads        int
	latest       int
	templatesErr error  // of Templates
	begins       string // the status of a refresh at first; InProgress if empty
	hidden       bool   // Refreshes returns none yet.
	started      []refresh.Preferences
	targets      []refresh.Source // of the refreshes that were started
	calls        []string
	errs         map[string][]error // the errors of the next calls of a method
	taken        map[string]bool    // instances that others have terminated, so that no capacity is lowered with them
}

func template(version string) *refresh.Template {
	return &refresh.Template{ID: "lt-1", Name: "node", Version: version}
}

func newFakeAWS(instances int) *fakeAWS {
	a := &fakeState{latest: 2, errs: map[string][]error{}, hooks: []refresh.Hook{
		{Name: "drain", Terminating: true, GlobalTimeout: 48 * time.Hour},
		{Name: "ready", GlobalTimeout: 48 * time.Hour},
	}}
	full, more := 100, 150
	a.group = refresh.Group{
		Name: "workers", Desired: instances, Max: 2 * instances, Source: refresh.Source{Template: template("$Latest")},
		Maintenance: refresh.Maintenance{MinHealthy: &full, MaxHealthy: &more},
	}
	for i := range instances {
		a.group.Instances = append(a.group.Instances, instance(fmt.Sprintf("i-%d", i+1), "1"))
	}
	return &fakeAWS{a, fakeReads{a}, fakeWrites{fakeState: a}}
}

func instance(id, version string) refresh.Instance {
	return refresh.Instance{
		ID: id, Zone: "eu-central-1a", Type: "m7i.large", State: "InService", Healthy: true, Template: template(version),
	}
}

// draining is an outdated instance whose node is draining.
func draining(id string) refresh.Instance {
	i := instance(id, "1")
	i.State = "Terminating:Wait"
	return i
}

// called records a call, and returns its error.
func (a *fakeState) called(method string, args ...any) error {
	method = fmt.Sprint(append([]any{method}, args...)...)
	a.calls = append(a.calls, method)
	if errs := a.errs[method]; len(errs) > 0 {
		a.errs[method] = errs[1:]
		return errs[0]
	}
	return nil
}

func (a fakeReads) Find(ctx context.Context, _ refresh.Selection) ([]refresh.Group, error) {
	g, err := a.Group(ctx, "workers")
	return []refresh.Group{g}, err
}

func (a fakeReads) Pool(context.Context, string) ([]refresh.Instance, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.pool), nil
}

func (a fakeReads) Group(context.Context, string) (refresh.Group, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reads++; a.script != nil {
		a.script(a.reads)
	}
	if errs := a.errs["Group"]; len(errs) > 0 {
		if a.errs["Group"] = errs[1:]; errs[0] != nil {
			return refresh.Group{}, errs[0]
		}
	}
	g := a.group
	g.Instances = slices.Clone(g.Instances)
	for n := range g.Instances {
		g.Instances[n].Launched = time.Time{} // only EC2 knows that: see Complete
	}
	return g, nil
}

func (a fakeReads) Templates(context.Context, []refresh.Group, string) (refresh.Templates, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.templatesErr != nil {
		return refresh.Templates{}, a.templatesErr
	}
	return refresh.NewTemplates(refresh.LaunchTemplate{ID: "lt-1", Name: "node", Latest: a.latest, Default: 1}), nil
}

func (a fakeReads) Complete(_ context.Context, groups []refresh.Group) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range groups {
		for n := range g.Instances {
			for _, i := range a.group.Instances {
				if i.ID == g.Instances[n].ID {
					g.Instances[n].Launched = i.Launched
				}
			}
		}
	}
	return nil
}

func (a fakeReads) Hooks(context.Context, string) ([]refresh.Hook, error) { return a.hooks, nil }

func (a fakeReads) Refreshes(context.Context, string) ([]refresh.Refresh, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errs := a.errs["Refreshes"]; a.hidden || len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return slices.Clone(a.refreshes), nil
}

func (a fakeReads) Refresh(_ context.Context, _, id string) (refresh.Refresh, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.refreshes {
		if r.ID == id {
			return r, nil
		}
	}
	return refresh.Refresh{}, errors.New("no such refresh")
}

func (a fakeWrites) Start(
	_ context.Context, _ refresh.Group, t refresh.Target, _ bool, p refresh.Preferences,
) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.called("Start"); err != nil {
		return "", err
	}
	a.started, a.targets = append(a.started, p), append(a.targets, t.Source)
	id := fmt.Sprintf("r-%d", len(a.refreshes)+1)
	a.begin(id, &t.Source)
	return id, nil
}

// begin starts a refresh. It needs mu once the trigger runs.
func (a *fakeState) begin(id string, to *refresh.Source) {
	status := cmp.Or(a.begins, refresh.StatusInProgress)
	a.refreshes = append([]refresh.Refresh{{ID: id, Group: "workers", Status: status, Desired: to}}, a.refreshes...)
}

// status sets the status of the newest refresh. It needs mu.
func (a *fakeState) status(status, reason string) {
	a.refreshes[0].Status, a.refreshes[0].Reason = status, reason
}

// replaceAll replaces the instances by new ones of a version. It needs mu.
func (a *fakeState) replaceAll(version string) {
	for n := range a.group.Instances {
		a.group.Instances[n] = instance(fmt.Sprintf("i-%d%d", n+1, n+1), version)
	}
}

func (a fakeWrites) Cancel(context.Context, string, bool) (string, error) {
	return a.endRefresh("Cancel", refresh.StatusCancelled)
}

func (a fakeWrites) Rollback(context.Context, string) (string, error) {
	a.mu.Lock()
	uncounted := []string{refresh.StatusPending, refresh.StatusCancelling, refresh.StatusRollbackInProgress}
	if len(a.refreshes) > 0 && slices.Contains(uncounted, a.refreshes[0].Status) {
		a.errs["Rollback"] = []error{refresh.ErrNoRefresh}
	}
	a.mu.Unlock()
	return a.endRefresh("Rollback", refresh.StatusRollbackSuccessful)
}

func (a *fakeState) endRefresh(method, status string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.called(method); err != nil {
		return "", err
	}
	if len(a.refreshes) == 0 || !a.refreshes[0].Active() {
		return "", refresh.ErrNoRefresh
	}
	a.status(status, "")
	return a.refreshes[0].ID, nil
}

func (a fakeWrites) Pause(ctx context.Context, _ string) error { return a.call(ctx, "Pause") }

func (a fakeWrites) Resume(ctx context.Context, _ string) error { return a.call(ctx, "Resume") }

// errHangs makes a call hang until its context ends.
var errHangs = errors.New("no answer")

func (a *fakeState) call(ctx context.Context, method string, args ...any) error {
	a.mu.Lock()
	err := a.called(method, args...)
	a.mu.Unlock()
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// MarkUnhealthy marks the instance. See replaceUnhealthy.
func (a fakeWrites) MarkUnhealthy(ctx context.Context, id string) error {
	if err := a.call(ctx, "Mark ", id); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := range a.group.Instances {
		if a.group.Instances[n].ID == id {
			a.group.Instances[n].Healthy = false
		}
	}
	return nil
}

func (a fakeWrites) Terminate(ctx context.Context, id string) error {
	if err := a.call(ctx, "Terminate ", id); err != nil || a.taken[id] {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.group.Desired--
	return nil
}

func (a fakeWrites) Raise(ctx context.Context, g refresh.Group, by int) (refresh.Surge, error) {
	s := refresh.Surge{From: g.Desired, To: g.Desired + by}
	return s, a.call(ctx, "Raise ", s)
}

func (a fakeWrites) Lower(ctx context.Context, g refresh.Group) (int, error) {
	err := a.call(ctx, "Lower")
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, _ := refresh.SurgeOf(g); err == nil && s.Left(g) > 0 {
		a.group.Desired = g.Desired - s.Left(g)
	}
	return a.group.Desired, err
}

func (a fakeWrites) WriteSurge(ctx context.Context, _ string, s refresh.Surge) error {
	if err := a.call(ctx, "WriteSurge ", s); err != nil {
		return err
	}
	a.tag(refresh.SurgeTag, s.String())
	return nil
}

func (a fakeWrites) Suspend(ctx context.Context, _ refresh.Group, processes []string) ([]string, error) {
	if err := a.call(ctx, "Suspend ", strings.Join(processes, ",")); err != nil {
		return nil, err
	}
	a.tag(refresh.SuspendedTag, strings.Join(processes, " "))
	return processes, nil
}

func (a fakeWrites) Release(ctx context.Context, g refresh.Group, _ ...string) ([]string, error) {
	ours := refresh.SuspendedBy(g)
	if len(ours) == 0 {
		return nil, nil
	}
	err := a.call(ctx, "Release ", strings.Join(ours, ","))
	if err == nil {
		a.tag(refresh.SuspendedTag, "")
	}
	return ours, err
}

func (n *fakeCluster) Agents(context.Context) ([]lead.Agent, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listed++
	if n.agents == nil {
		return nil, errors.New("forbidden")
	}
	return n.agents, nil
}

// fakeCluster has a Node for every instance, unless it is empty.
type fakeCluster struct {
	mu      sync.Mutex
	empty   bool
	unready map[string]bool
	labels  map[string]map[string]string
	drains  map[string]string
	stale   error
	blocked map[string]cluster.Load // by the names of nodes
	// By instance: the ends of drains that were requested.
	requested map[string]cluster.Drain
	agents    []lead.Agent // nil is forbidden.
	listed    int          // how often they were
}

func (n *fakeCluster) Stale() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stale
}

func (n *fakeCluster) Node(id string) (cluster.Node, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.empty {
		return cluster.Node{}, false
	}
	node := cluster.Node{Name: "node-" + id, Ready: !n.unready[id], Labels: n.labels[id]}
	if drain, requested := n.requested[id]; requested {
		node.DrainRequested, node.Marked, node.Drain = true, true, &drain
	}
	if message, drains := n.drains[id]; drains {
		node.Drain = &cluster.Drain{Reason: "Draining", Message: message}
	}
	return node, true
}

// defaults is the configuration of a run by an Instance Refresh.
func defaults() plan.Config {
	return plan.Config{
		Mode: refresh.ModeRefresh, Pin: refresh.PinAlways, OnConflict: plan.Attach, Wait: true, Until: plan.Drained, OnInterrupt: plan.Detach,
		PollInterval: 5 * time.Second, Together: refresh.PhaseCheck, Parallel: 1,
		Surge: &refresh.Amount{N: 10, Percent: true}, Pace: refresh.Pace{Batch: refresh.Amount{N: 1}, Order: refresh.ByAge},
		Preferences: refresh.Preferences{SkipMatching: true, Protected: "Ignore", Standby: "Ignore"},
	}
}

// runGroup runs the trigger, and returns how the first group ended.
func runGroup(ctx context.Context, t *testing.T, cfg plan.Config, a interface {
	plan.Reader
	Writer
}, nodes plan.Cluster,
) report.Group {
	t.Helper()
	r, err := New(cfg, a, a, nodes, nil).Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r.Groups[0]
}

// runInBubble runs a subtest in virtual time.
func runInBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// expectCalls fails the test unless these calls were made, in this order. Reads are not among them.
func (a *fakeState) expectCalls(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(a.calls, " "); got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// expect fails the test unless the group ended so, with all of the words in its message.
func expect(t *testing.T, g report.Group, want report.Outcome, words ...string) {
	t.Helper()
	if g.Outcome != want {
		t.Errorf("outcome %q (%s), want %q", g.Outcome, g.Message, want)
	}
	for _, word := range words {
		if !strings.Contains(g.Message, word) {
			t.Errorf("message lacks %q: %s", word, g.Message)
		}
	}
}

func (a fakeWrites) WriteBegun(_ context.Context, _ string, b refresh.Begun) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.group.Tags == nil {
		a.group.Tags = map[string]string{}
	}
	a.group.Tags[refresh.BegunTag] = b.String()
	return nil
}

func (a fakeWrites) RemoveBegun(context.Context, string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.group.Tags, refresh.BegunTag)
	return nil
}

func (a fakeWrites) WriteFailed(ctx context.Context, _ string, f refresh.Failed) error {
	a.mu.Lock()
	a.group.Tags = map[string]string{refresh.FailedTag: f.String()}
	a.mu.Unlock()
	return a.call(ctx, "WriteFailed ", f.Target)
}

func (a fakeWrites) RemoveFailed(ctx context.Context, _ string) error {
	a.mu.Lock()
	delete(a.group.Tags, refresh.FailedTag)
	a.mu.Unlock()
	return a.call(ctx, "RemoveFailed")
}
