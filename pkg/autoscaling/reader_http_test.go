package autoscaling

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestHTTPFind(t *testing.T) {
	t.Parallel()
	s, r, _ := simulateTrigger(t)
	for name, tags := range map[string]map[string]string{
		"blue-a":  {"kubernetes.io/cluster/blue": "owned", "team": "x"},
		"blue-b":  {"k8s.io/cluster-autoscaler/blue": "true", "team": "y"},
		"blue-c":  {"eks:cluster-name": "blue", "spot": ""},
		"green-a": {"eks:cluster-name": "green", "team": "x", "spot": "yes"},
	} {
		must(t, s.CreateGroup(awsim.Group{Name: name, Max: 1, Tags: tags}))
	}
	for _, tt := range []struct {
		name  string
		s     refresh.Selection
		want  string // the names, or a part of the error
		calls int
	}{
		{"by names, without duplicates", refresh.Selection{Names: []string{"blue-b", "blue-a", "blue-b"}}, "blue-a blue-b", 1},
		{"by a cluster, whatever tag names it", refresh.Selection{Cluster: "blue"}, "blue-a blue-b blue-c", 1},
		{"by a tag", refresh.Selection{Tags: map[string]string{"team": "x"}}, "blue-a green-a", 1},
		{"by a tag of any value", refresh.Selection{Tags: map[string]string{"team": ""}}, "blue-a blue-b green-a", 1},
		{
			"by a tag of any value and another",
			refresh.Selection{Tags: map[string]string{"team": "", "spot": ""}},
			"green-a", 1,
		},
		{"by a cluster and a tag", refresh.Selection{Cluster: "blue", Tags: map[string]string{"team": "x"}}, "blue-a", 1},
		{
			"by a cluster and a tag of any value",
			refresh.Selection{Cluster: "blue", Tags: map[string]string{"spot": ""}},
			"blue-c", 1,
		},
		{"by names and a cluster", refresh.Selection{Names: []string{"blue-a", "green-a"}, Cluster: "blue"}, "blue-a", 1},
		{"names of which one does not exist", refresh.Selection{Names: []string{"blue", "blue-a"}}, "no such Auto Scaling group: blue; there is blue-a, blue-b, blue-c", 2},
		{"a name that no other resembles", refresh.Selection{Names: []string{"prod"}}, "no such Auto Scaling group: prod; is this the right account and Region?", 2},
		{"a cluster without groups", refresh.Selection{Cluster: "red"}, "none is of the cluster red", 1},
		{"nothing", refresh.Selection{}, "no group is selected", 0},
	} {
		before := s.Requests()["autoscaling.DescribeAutoScalingGroups"]
		found, err := r.Find(bounded(t), tt.s)
		got := strings.Join(namesOf(found), " ")
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != tt.want || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if calls := s.Requests()["autoscaling.DescribeAutoScalingGroups"] - before; calls != tt.calls {
			t.Errorf("%s: %d calls, want %d", tt.name, calls, tt.calls)
		}
	}
	_, err := r.Find(bounded(t), refresh.Selection{Names: []string{"blue"}})
	calls := s.Calls("autoscaling", "DescribeAutoScalingGroups")
	if last := calls[len(calls)-1].Values; !errors.Is(err, refresh.ErrNoGroup) || last.Get("IncludeInstances") != "false" {
		t.Errorf("%v: similar names are read with %v", err, last)
	}
}

func TestHTTPGroup(t *testing.T) {
	t.Parallel()
	s, r, _ := simulateTrigger(t)
	createWorkers(t, s, "workers", 2, map[string]string{"eks:nodegroup-name": "ng"})
	g, err := r.Group(bounded(t), "workers")
	must(t, err)
	if g.Name != "workers" || g.Desired != 2 || g.Max != 10 || g.ManagedNodegroup() != "ng" ||
		g.Warmup != 90*time.Second || !g.Maintenance.LaunchesFirst() || g.Source.Template.Name != "workers" {
		t.Errorf("the group is %+v", g)
	}
	i := g.Instances[0]
	if i.ID != machineID(0) || !i.InService() || !i.Healthy || i.Template.Version != "1" || i.Type == "" || i.Zone == "" {
		t.Errorf("the instance is %+v", i)
	}
	if _, err := r.Group(bounded(t), "other"); !errors.Is(err, refresh.ErrNoGroup) || !strings.Contains(err.Error(), "other") {
		t.Errorf("a group that does not exist: %v", err)
	}
}

func TestHTTPGroupsShareACall(t *testing.T) {
	t.Parallel()
	s, r, _ := simulateTrigger(t)
	r.described.Max, r.described.Window = 5, time.Minute // the fifth question starts the call
	for n, name := range []string{"a", "b", "c"} {
		must(t, s.CreateGroup(awsim.Group{Name: name, Max: 1}))
		must(t, s.AddInstance(name, machineID(n), ""))
	}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "a", "a"} {
		wg.Go(func() {
			g, err := r.Group(bounded(t), name)
			if err != nil || g.Name != name || len(g.Instances) != 1 || !g.Instances[0].Launched.IsZero() {
				t.Errorf("group %s is %+v, %v", name, g, err)
				return
			}
			g.Instances[0].Launched = time.Now() // as Complete does: callers with the same question must not see it
		})
	}
	wg.Wait()
	if calls := s.Requests()["autoscaling.DescribeAutoScalingGroups"]; calls != 1 {
		t.Errorf("%d calls for concurrent questions", calls)
	}
}

func TestHTTPHooks(t *testing.T) {
	t.Parallel()
	s, r, _ := simulateTrigger(t)
	must(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	must(t, s.PutHook("workers", awsim.Hook{Name: "drain", HeartbeatTimeout: time.Minute}))
	must(t, s.PutHook("workers", awsim.Hook{Name: "ready", Transition: awsim.Launching, GlobalTimeout: time.Minute}))
	hooks, err := r.Hooks(bounded(t), "workers")
	must(t, err)
	want := []refresh.Hook{
		{Name: "drain", Terminating: true, GlobalTimeout: 100 * time.Minute}, {Name: "ready", GlobalTimeout: time.Minute},
	}
	if !slices.Equal(hooks, want) {
		t.Errorf("the hooks are %+v", hooks)
	}
	if _, err := r.Hooks(bounded(t), "other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("the hooks of a group that does not exist: %v", err)
	}
}

func TestHTTPRefresh(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	createWorkers(t, s, "workers", 2, nil)
	must(t, s.PutHook("workers", awsim.Hook{Name: "drain"})) // so that the refresh does not end
	g, err := r.Group(bounded(t), "workers")
	must(t, err)
	target := refresh.Target{Source: refresh.Source{Template: &refresh.Template{ID: g.Source.Template.ID, Version: "1"}}}
	prefs := refresh.Preferences{
		MinHealthy: new(50), MaxHealthy: new(110), Warmup: new(time.Second), Bake: new(time.Minute), AutoRollback: true,
		Checkpoints: []int{50, 100}, CheckpointDelay: new(time.Minute), Alarms: []string{"errors"}, Protected: "Refresh",
	}
	id, err := w.Start(bounded(t), g, target, true, prefs)
	must(t, err)
	if _, err := w.Start(bounded(t), g, target, true, prefs); !errors.Is(err, refresh.ErrInProgress) {
		t.Errorf("a second refresh: %v", err)
	}
	one, err := r.Refresh(bounded(t), "workers", id)
	must(t, err)
	if one.ID != id || one.Group != "workers" || !one.Active() || one.ToUpdate == 0 || one.Started.IsZero() ||
		one.Desired == nil || one.Desired.Template.Version != "1" {
		t.Errorf("the refresh is %+v", one)
	}
	if p := one.Preferences; *p.MinHealthy != 50 || *p.MaxHealthy != 110 || *p.Warmup != time.Second ||
		!slices.Equal(p.Checkpoints, []int{50, 100}) || !p.AutoRollback || p.Protected != "Refresh" || p.Standby != "Ignore" {
		t.Errorf("its preferences are %+v", p)
	}
	if _, err := r.Refresh(bounded(t), "workers", "other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("a refresh that does not exist: %v", err)
	}
	if _, err := w.Rollback(bounded(t), "workers"); !errors.Is(err, refresh.ErrIrreversible) {
		t.Errorf("a rollback to $Default: %v", err)
	}
	if got, err := w.Cancel(bounded(t), "workers"); err != nil || got != id {
		t.Errorf("cancelled %s, %v", got, err)
	}
	must(t, s.CreateGroup(awsim.Group{Name: "idle", Max: 1}))
	_, cancelErr := w.Cancel(bounded(t), "idle")
	_, rollbackErr := w.Rollback(bounded(t), "idle")
	if !errors.Is(cancelErr, refresh.ErrNoRefresh) || !errors.Is(rollbackErr, refresh.ErrNoRefresh) {
		t.Errorf("without a refresh: %v, %v", cancelErr, rollbackErr)
	}
	if _, err := w.Rollback(bounded(t), "other"); err == nil || errors.Is(err, refresh.ErrNoRefresh) {
		t.Errorf("rollback of a group that does not exist: %v", err)
	}
	if all, err := r.Refreshes(bounded(t), "idle"); err != nil || len(all) > 0 {
		t.Errorf("the refreshes are %v, %v", all, err)
	}
}

func TestHTTPRefreshesNewestFirst(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	must(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	var want []string
	for range 3 {
		id, err := w.Start(bounded(t), refresh.Group{Name: "workers"}, refresh.Target{}, false, refresh.Preferences{})
		must(t, err)
		_, _ = w.Cancel(bounded(t), "workers") // it may have ended already: there is nothing to replace
		want = append([]string{id}, want...)
	}
	all, err := r.Refreshes(bounded(t), "workers")
	must(t, err)
	var got []string
	for _, one := range all {
		got = append(got, one.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHTTPPauseAndResume(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	must(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	suspended := func() []string {
		g, err := r.Group(bounded(t), "workers")
		must(t, err)
		return g.Suspended
	}
	must(t, w.Pause(bounded(t), "workers"))
	if got := suspended(); !slices.Equal(got, []string{"InstanceRefresh"}) {
		t.Errorf("after Pause %v is suspended", got)
	}
	must(t, w.Resume(bounded(t), "workers"))
	if got := suspended(); len(got) > 0 {
		t.Errorf("after Resume %v is suspended", got)
	}
}

func TestHTTPMarkAndTerminate(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	createWorkers(t, s, "workers", 3, nil)
	must(t, w.MarkUnhealthy(bounded(t), machineID(0))) // in its grace period
	must(t, s.WaitInstances(bounded(t), "workers", func(all []awsim.Instance) bool {
		return !slices.ContainsFunc(all, func(i awsim.Instance) bool { return i.ID == machineID(0) })
	}))
	must(t, w.Terminate(bounded(t), machineID(1)))
	if g, err := r.Group(bounded(t), "workers"); err != nil || g.Desired != 2 {
		t.Errorf("the desired capacity is %d, %v", g.Desired, err)
	}
	for call, err := range map[string]error{
		"mark": w.MarkUnhealthy(bounded(t), machineID(99)), "terminate": w.Terminate(bounded(t), machineID(99)),
	} {
		if !errors.Is(err, refresh.ErrGone) || !strings.Contains(err.Error(), machineID(99)) {
			t.Errorf("%s an instance that does not exist: %v", call, err)
		}
	}
	s.Inject(awsim.Fault{
		Action: "TerminateInstanceInAutoScalingGroup", Code: "ValidationError",
		Message: "Currently, desiredSize equals minSize (2).",
	})
	if err := w.Terminate(bounded(t), machineID(2)); err == nil || errors.Is(err, refresh.ErrGone) {
		t.Errorf("a group at its minimum: %v", err)
	}
}

func TestHTTPSurge(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	createWorkers(t, s, "workers", 2, nil)
	described := func() refresh.Group {
		g, err := r.Group(bounded(t), "workers")
		must(t, err)
		return g
	}
	if surge, err := w.Raise(bounded(t), described(), 2); err != nil || surge != (refresh.Surge{From: 2, To: 4}) {
		t.Errorf("raised %v, %v", surge, err)
	}
	if sent := s.Calls("autoscaling", "SetDesiredCapacity")[0].Values; sent.Get("HonorCooldown") != "false" {
		t.Errorf("the capacity is set with %v", sent)
	}
	if sent := s.Calls("autoscaling", "CreateOrUpdateTags")[0].Values; sent.Get("Tags.member.1.PropagateAtLaunch") != "false" {
		t.Errorf("the tag is set with %v", sent)
	}
	g := described()
	if surge, ok := refresh.SurgeOf(g); g.Desired != 4 || !ok || surge != (refresh.Surge{From: 2, To: 4}) {
		t.Errorf("the group has %d, and the tag says %v", g.Desired, surge)
	}
	for _, want := range []bool{true, false} {
		if restored, err := w.Lower(bounded(t), described()); err != nil || restored != want {
			t.Errorf("lowered: %v, %v; want %v", restored, err, want)
		}
	}
	if g := described(); g.Desired != 2 || len(g.Tags) > 0 {
		t.Errorf("the group has %d and the tags %v", g.Desired, g.Tags)
	}
}

func TestHTTPTerminateIsRetriedOnlyIfThrottled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault awsim.Fault
		calls int
		lost  bool
	}{
		{"no fault", awsim.Fault{Action: "none"}, 1, false},
		{"throttled twice", awsim.Fault{Code: "Throttling", Times: 2}, 3, false},
		{"the response is lost", awsim.Fault{Drop: true, AfterApply: true, Times: 1}, 1, true},
		{"the response is a server error", awsim.Fault{Status: http.StatusInternalServerError, AfterApply: true, Times: 1}, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, r, w := simulateTrigger(t)
			createWorkers(t, s, "workers", 2, nil)
			s.Inject(tt.fault)
			if err := w.Terminate(bounded(t), machineID(0)); (err != nil) != tt.lost || errors.Is(err, refresh.ErrGone) {
				t.Errorf("got %v", err)
			}
			if got := s.Requests()["autoscaling.TerminateInstanceInAutoScalingGroup"]; got != tt.calls {
				t.Errorf("%d calls", got)
			}
			if g, err := r.Group(bounded(t), "workers"); err != nil || g.Desired != 1 {
				t.Errorf("the group is %+v, %v", g, err)
			}
		})
	}
}

// TestHTTPFindManyGroups: the number of calls grows with hundreds of groups.
func TestHTTPFindManyGroups(t *testing.T) {
	t.Parallel()
	s, r, _ := simulateTrigger(t)
	const groups, instances = 200, 1000
	var names []string
	for n := range groups {
		names = append(names, fmt.Sprintf("workers-%03d", n))
		must(t, s.CreateGroup(awsim.Group{
			Name: names[n], Max: 1, Tags: map[string]string{"kubernetes.io/cluster/blue": "owned"},
		}))
	}
	for n := range instances {
		must(t, s.AddInstance(names[n%groups], machineID(n), "eu-central-1a"))
	}
	for name, selection := range map[string]refresh.Selection{"names": {Names: names}, "cluster": {Cluster: "blue"}} {
		before := s.Requests()["autoscaling.DescribeAutoScalingGroups"]
		found, err := r.Find(bounded(t), selection)
		must(t, err)
		count := 0
		for _, g := range found {
			count += len(g.Instances)
		}
		calls := s.Requests()["autoscaling.DescribeAutoScalingGroups"] - before
		if len(found) != groups || count != instances || calls != 2 {
			t.Errorf("by %s: %d groups and %d instances in %d calls", name, len(found), count, calls)
		}
	}
}
