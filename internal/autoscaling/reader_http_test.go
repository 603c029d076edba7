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

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"

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
		{"by a tag of any value and another", refresh.Selection{Tags: map[string]string{"team": "", "spot": ""}}, "green-a", 1},
		{"by a cluster and a tag", refresh.Selection{Cluster: "blue", Tags: map[string]string{"team": "x"}}, "blue-a", 1},
		{"by a cluster and a tag of any value", refresh.Selection{Cluster: "blue", Tags: map[string]string{"spot": ""}}, "blue-c", 1},
		{"by names and a cluster", refresh.Selection{Names: []string{"blue-a", "green-a"}, Cluster: "blue"}, "blue-a", 1},
		{"names of which one does not exist", refresh.Selection{Names: []string{"blue", "blue-a"}}, "no such Auto Scaling group: blue; there is blue-a, blue-b, blue-c", 2},
		{"a name that no other resembles", refresh.Selection{Names: []string{"prod"}}, "no such Auto Scaling group: prod; is this the right account and Region?", 2},
		{"a mistyped name", refresh.Selection{Names: []string{"gren-a"}}, "no such Auto Scaling group: gren-a; there is green-a", 2},
		{"a wildcard", refresh.Selection{Names: []string{"gre*"}}, "no such Auto Scaling group: gre*; there is green-a", 2},
		{"a cluster without groups", refresh.Selection{Cluster: "red"}, "none is of the cluster red; is this the right account and Region?", 2},
		{"a mistyped value of a tag", refresh.Selection{Tags: map[string]string{"team": "=x"}}, "with the tag team of the value =x; there is team=x, team=y", 2},
		{"a mistyped value of a tag in a cluster", refresh.Selection{Cluster: "green", Tags: map[string]string{"team": "z"}}, "; there is team=x, team=y", 2},
		{"a mistyped cluster", refresh.Selection{Cluster: "bleu"}, "none is of the cluster bleu; there is blue", 2},
		{"nothing", refresh.Selection{}, "no group is selected", 0},
	} {
		before := s.Requests()["autoscaling.DescribeAutoScalingGroups"]
		found, err := r.Find(bounded(t), tt.s)
		got := strings.Join(namesOf(found), " ")
		if err != nil {
			got = err.Error()
		}
		calls := s.Requests()["autoscaling.DescribeAutoScalingGroups"] - before
		if err == nil && got != tt.want || !strings.Contains(got, tt.want) || calls != tt.calls {
			t.Errorf("%s: got %q in %d calls, want %q in %d", tt.name, got, calls, tt.want, tt.calls)
		}
	}
	_, err := r.Find(bounded(t), refresh.Selection{Names: []string{"blue"}})
	calls := s.Calls("autoscaling", "DescribeAutoScalingGroups")
	if last := calls[len(calls)-1].Values; !errors.Is(err, refresh.ErrNoGroup) || last.Get("IncludeInstances") != "false" {
		t.Errorf("%v: similar names are read with %v", err, last)
	}
}

// TestHTTPGroup: concurrent questions share a call, but not the instances, into which Complete of package ec2 writes.
// TestHTTPFindLeavesOutDeletedGroups: a group that was deleted by force is described for as long as hooks hold instances.
func TestHTTPFindLeavesOutDeletedGroups(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	for _, name := range []string{"deleted", "workers"} {
		must(t, s.CreateGroup(awsim.Group{Name: name, Max: 1, Tags: map[string]string{"eks:cluster-name": "blue"}}))
	}
	must(t, s.AddInstance("deleted", instanceID, ""))
	must(t, s.PutHook("deleted", awsim.Hook{Name: "drain", Transition: awsim.Terminating, HeartbeatTimeout: time.Hour}))
	_, err := w.api.(*sdk.Client).DeleteAutoScalingGroup(t.Context(), &sdk.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("deleted"), ForceDelete: aws.Bool(true),
	})
	must(t, err)
	found, err := r.Find(t.Context(), refresh.Selection{Cluster: "blue"})
	if err != nil || len(found) != 1 || found[0].Name != "workers" {
		t.Errorf("got %v, %v", found, err)
	}
	if _, err := r.Group(t.Context(), "deleted"); !errors.Is(err, refresh.ErrNoGroup) {
		t.Errorf("got %v", err)
	}
}

func TestHTTPGroup(t *testing.T) {
	t.Parallel()
	s, r, _ := simulateTrigger(t)
	createWorkers(t, s, "workers", 2, map[string]string{"eks:nodegroup-name": "ng"})
	must(t, s.CreateGroup(awsim.Group{Name: "idle", Max: 1}))
	r.described.Max, r.described.Window = 3, time.Minute // the third question starts the call
	groups := make([]refresh.Group, 3)
	var wg sync.WaitGroup
	for n, name := range []string{"workers", "workers", "idle"} {
		wg.Go(func() {
			var err error
			if groups[n], err = r.Group(bounded(t), name); err != nil || groups[n].Name != name {
				t.Errorf("group %s is %+v, %v", name, groups[n], err)
			}
		})
	}
	wg.Wait()
	g, i := groups[0], groups[0].Instances[0]
	if g.Instances[0].Launched = time.Now(); !groups[1].Instances[0].Launched.IsZero() {
		t.Error("two callers share the instances")
	}
	if calls := s.Requests()["autoscaling.DescribeAutoScalingGroups"]; calls != 1 {
		t.Errorf("%d calls for concurrent questions", calls)
	}
	r.described.Max = 1
	if g.Name != "workers" || g.Desired != 2 || g.Max != 10 || g.ManagedNodegroup() != "ng" ||
		g.Warmup != 90*time.Second || !g.Maintenance.LaunchesFirst() || g.Source.Template.Name != "workers" {
		t.Errorf("the group is %+v", g)
	}
	if i.ID != machineID(0) || !i.InService() || !i.Healthy || i.Template.Version != "1" || i.Type == "" || i.Zone == "" {
		t.Errorf("the instance is %+v", i)
	}
	must(t, s.PutHook("workers", awsim.Hook{Name: "drain", HeartbeatTimeout: time.Minute}))
	must(t, s.PutHook("workers", awsim.Hook{Name: "ready", Transition: awsim.Launching, GlobalTimeout: time.Minute}))
	want := []refresh.Hook{
		{Name: "drain", Terminating: true, HeartbeatTimeout: time.Minute, GlobalTimeout: 100 * time.Minute}, {Name: "ready", HeartbeatTimeout: time.Hour, GlobalTimeout: time.Minute},
	}
	if hooks, err := r.Hooks(bounded(t), "workers"); err != nil || !slices.Equal(hooks, want) {
		t.Errorf("the hooks are %+v, %v", hooks, err)
	}
	if _, err := r.Group(bounded(t), "other"); !errors.Is(err, refresh.ErrNoGroup) || !strings.Contains(err.Error(), "other") {
		t.Errorf("a group that does not exist: %v", err)
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
	_, cancelErr := w.Cancel(bounded(t), "workers", true)
	_, rollbackErr := w.Rollback(bounded(t), "workers")
	if !errors.Is(cancelErr, refresh.ErrNoRefresh) || !errors.Is(rollbackErr, refresh.ErrNoRefresh) {
		t.Errorf("without a refresh: %v, %v", cancelErr, rollbackErr)
	}
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
	prefs.Standby = "Ignore" // by default
	if diff := cmp.Diff(prefs, one.Preferences); diff != "" {
		t.Errorf("its preferences:\n%s", diff)
	}
	if _, err := r.Refresh(bounded(t), "workers", "other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("a refresh that does not exist: %v", err)
	}
	if _, err := w.Rollback(bounded(t), "workers"); !errors.Is(err, refresh.ErrIrreversible) {
		t.Errorf("a rollback to $Default: %v", err)
	}
	if got, err := w.Cancel(bounded(t), "workers", true); err != nil || got != id {
		t.Errorf("cancelled %s, %v", got, err)
	}
}

// TestRefreshesNewestFirst: one that has not started yet is the newest.
func TestRefreshesNewestFirst(t *testing.T) {
	t.Parallel()
	f, at := newAPI(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.refreshes = func(int, string) (*sdk.DescribeInstanceRefreshesOutput, error) {
		return &sdk.DescribeInstanceRefreshesOutput{InstanceRefreshes: []types.InstanceRefresh{
			{InstanceRefreshId: aws.String("old"), StartTime: &at},
			{InstanceRefreshId: aws.String("pending")},
			{InstanceRefreshId: aws.String("young"), StartTime: new(at.Add(time.Second))},
			{InstanceRefreshId: aws.String("pending, too")},
		}}, nil
	}
	all, err := NewReader(f).Refreshes(t.Context(), groupName)
	var got []string
	for _, one := range all {
		got = append(got, one.ID)
	}
	if err != nil || !slices.Equal(got, []string{"pending", "pending, too", "young", "old"}) {
		t.Errorf("got %q, %v", got, err)
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
	const groups = 200
	var names []string
	tags := map[string]string{"kubernetes.io/cluster/blue": "owned"}
	for n := range groups {
		names = append(names, fmt.Sprintf("workers-%03d", n))
		must(t, s.CreateGroup(awsim.Group{Name: names[n], Max: 1, Tags: tags}))
	}
	for name, selection := range map[string]refresh.Selection{"names": {Names: names}, "cluster": {Cluster: "blue"}} {
		before := s.Requests()["autoscaling.DescribeAutoScalingGroups"]
		found, err := r.Find(bounded(t), selection)
		calls := s.Requests()["autoscaling.DescribeAutoScalingGroups"] - before
		if err != nil || len(found) != groups || calls != 2 {
			t.Errorf("by %s: %d groups in %d calls, %v", name, len(found), calls, err)
		}
	}
}
