package refresh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// simulated is an AWS of its own, and a Reader and a Writer over the SDK's clients.
func simulated(t *testing.T) (*awsim.Server, *Reader, *Writer) {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	done(t, err)
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		done(t, s.Close())
	})
	client, keys := cloud.InMemory(&http.Client{Transport: tr}), credentials.NewStaticCredentialsProvider("k", "s", "")
	retryer := retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = 5 * time.Millisecond })
	groups := autoscaling.New(autoscaling.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()), Credentials: keys, HTTPClient: client, Retryer: retryer,
	})
	instances := ec2.New(ec2.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()), Credentials: keys, HTTPClient: client, Retryer: retryer,
	})
	return s, NewReader(groups, instances), NewWriter(groups)
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// machineID is the id of the n-th instance of a test.
func machineID(n int) string { return fmt.Sprintf("i-%017x", n+1) }

// launchTemplate makes a template with so many versions, of the images ami-1, ami-2, and so on.
func launchTemplate(t *testing.T, s *awsim.Server, name string, versions int) string {
	t.Helper()
	id, err := s.CreateLaunchTemplate(name, "ami-1")
	done(t, err)
	client := ec2.New(ec2.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("test", "s", ""),
		HTTPClient:  cloud.InMemory(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}),
	})
	for n := 2; n <= versions; n++ {
		_, err := client.CreateLaunchTemplateVersion(bounded(t), &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateId:   aws.String(id),
			LaunchTemplateData: requestData(fmt.Sprint("ami-", n)),
		})
		done(t, err)
	}
	return id
}

// workers is a group of so many instances on the template's default version.
func workers(t *testing.T, s *awsim.Server, name string, n int, tags map[string]string) {
	t.Helper()
	if _, err := s.CreateLaunchTemplate(name, "ami-1"); err != nil {
		t.Fatal(err)
	}
	done(t, s.CreateGroup(awsim.Group{
		Name: name, Max: 10, LaunchTemplate: name, Tags: tags, GracePeriod: 90 * time.Second, RetainOnAbandon: true,
		MinHealthy: 100, MaxHealthy: 150,
	}))
	for i := range n {
		done(t, s.AddInstance(name, machineID(i), ""))
	}
}

func TestHTTPFind(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	for name, tags := range map[string]map[string]string{
		"blue-a":  {"kubernetes.io/cluster/blue": "owned", "team": "x"},
		"blue-b":  {"k8s.io/cluster-autoscaler/blue": "true", "team": "y"},
		"blue-c":  {"eks:cluster-name": "blue", "spot": ""},
		"green-a": {"eks:cluster-name": "green", "team": "x", "spot": "yes"},
	} {
		done(t, s.CreateGroup(awsim.Group{Name: name, Max: 1, Tags: tags}))
	}
	for _, tt := range []struct {
		name  string
		s     Selection
		want  string // The names, or a part of the error.
		calls int
	}{
		{"by names, each once", Selection{Names: []string{"blue-b", "blue-a", "blue-b"}}, "blue-a blue-b", 1},
		{"by a cluster, whatever tag names it", Selection{Cluster: "blue"}, "blue-a blue-b blue-c", 1},
		{"by a tag", Selection{Tags: map[string]string{"team": "x"}}, "blue-a green-a", 1},
		{"by a tag of any value", Selection{Tags: map[string]string{"team": ""}}, "blue-a blue-b green-a", 1},
		{
			"by a tag of any value and another",
			Selection{Tags: map[string]string{"team": "", "spot": ""}},
			"green-a", 1,
		},
		{"by a cluster and a tag", Selection{Cluster: "blue", Tags: map[string]string{"team": "x"}}, "blue-a", 1},
		{
			"by a cluster and a tag of any value",
			Selection{Cluster: "blue", Tags: map[string]string{"spot": ""}},
			"blue-c", 1,
		},
		{"by names and a cluster", Selection{Names: []string{"blue-a", "green-a"}, Cluster: "blue"}, "blue-a", 1},
		{"names of which one is wrong", Selection{Names: []string{"blue", "blue-a"}}, "no such Auto Scaling group: blue; there is blue-a, blue-b, blue-c", 2},
		{"a name like no other", Selection{Names: []string{"prod"}}, "no such Auto Scaling group: prod; is this the right account and Region?", 2},
		{"a cluster without groups", Selection{Cluster: "red"}, "none is of the cluster red", 1},
		{"nothing", Selection{}, "no group is selected", 0},
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
}

func TestHTTPFindSuggestsWithoutInstances(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	if _, err := r.Find(bounded(t), Selection{Names: []string{"blue"}}); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a group that is not there: %v", err)
	}
	calls := s.Calls("autoscaling", "DescribeAutoScalingGroups")
	if last := calls[len(calls)-1].Values; last.Get("IncludeInstances") != "false" {
		t.Errorf("similar names are asked for with %v", last)
	}
}

func TestHTTPGroup(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	workers(t, s, "workers", 2, map[string]string{"eks:nodegroup-name": "ng"})
	g, err := r.Group(bounded(t), "workers")
	done(t, err)
	if g.Name != "workers" || g.Desired != 2 || g.Max != 10 || g.ManagedNodegroup() != "ng" ||
		g.Warmup != 90*time.Second || !g.Maintenance.LaunchesFirst() || g.Source.Template.Name != "workers" {
		t.Errorf("the group is %+v", g)
	}
	i := g.Instances[0]
	if i.ID != machineID(0) || !i.InService() || !i.Healthy || i.Template.Version != "1" || i.Type == "" || i.Zone == "" {
		t.Errorf("the instance is %+v", i)
	}
	if _, err := r.Group(bounded(t), "other"); !errors.Is(err, ErrNoGroup) || !strings.Contains(err.Error(), "other") {
		t.Errorf("a group that is not there: %v", err)
	}
}

func TestHTTPGroupsShareACall(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	r.described.Max, r.described.Window = 5, time.Minute // The fifth question has them all asked.
	for n, name := range []string{"a", "b", "c"} {
		done(t, s.CreateGroup(awsim.Group{Name: name, Max: 1}))
		done(t, s.AddInstance(name, machineID(n), ""))
	}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "a", "a"} {
		wg.Go(func() {
			g, err := r.Group(bounded(t), name)
			if err != nil || g.Name != name || len(g.Instances) != 1 || !g.Instances[0].Launched.IsZero() {
				t.Errorf("group %s is %+v, %v", name, g, err)
				return
			}
			g.Instances[0].Launched = time.Now() // As Complete does: those who asked for the same must not see it.
		})
	}
	wg.Wait()
	if calls := s.Requests()["autoscaling.DescribeAutoScalingGroups"]; calls != 1 {
		t.Errorf("%d calls for groups that were asked for together", calls)
	}
}

func TestHTTPTemplates(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	id := launchTemplate(t, s, "node", 3)
	groups := []Group{
		{Source: Source{Template: &Template{ID: id, Name: "node", Version: "$Latest"}}},
		{Source: Source{Template: &Template{ID: id, Name: "node", Version: "2"}}},
	}
	known, err := r.Templates(bounded(t), groups, "")
	done(t, err)
	got := known.byID[id]
	if got == nil || got != known.byName["node"] || got.Latest != 3 || got.Default != 1 || got.Missing ||
		!maps.Equal(got.Images, map[int]string{1: "ami-1", 2: "ami-2", 3: "ami-3"}) || len(got.Aliases) > 0 {
		t.Errorf("the template is %+v", got)
	}
	if calls := s.Calls("ec2", "DescribeLaunchTemplateVersions"); len(calls) != 1 {
		t.Errorf("%d calls for one template", len(calls))
	}
}

// TestHTTPMissingTemplates: what is gone is a finding about some groups, and no end for the others.
func TestHTTPMissingTemplates(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	id := launchTemplate(t, s, "node", 3)
	group := func(one Template) Group { return Group{Source: Source{Template: &one}} }
	known, err := r.Templates(bounded(t), []Group{
		group(Template{ID: id, Version: "9"}), group(Template{ID: id, Version: "2"}),
		group(Template{ID: "lt-00000000000000000", Name: "gone"}), group(Template{Name: "nameless"}),
	}, "")
	done(t, err)
	if got := known.byID[id]; !got.Missing || got.Latest != 3 || got.Default != 1 ||
		!slices.Equal(slices.Sorted(maps.Keys(got.Images)), []int{1, 2, 3}) {
		t.Errorf("a template without a version is %+v", got)
	}
	for _, got := range []*LaunchTemplate{known.byID["lt-00000000000000000"], known.byName["gone"], known.byName["nameless"]} {
		if got == nil || !got.Missing {
			t.Errorf("a template that is not there is %+v", got)
		}
	}
	s.Inject(awsim.Fault{Action: "DescribeLaunchTemplateVersions", Code: "UnauthorizedOperation", Status: 403})
	if _, err := r.Templates(bounded(t), []Group{group(Template{Name: "node"})}, ""); err == nil ||
		!strings.Contains(err.Error(), "launch template node") {
		t.Errorf("a call that is not allowed: %v", err)
	}
}

func TestHTTPComplete(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	workers(t, s, "workers", 2, nil)
	found, err := r.Find(bounded(t), Selection{Names: []string{"workers"}})
	done(t, err)
	s.Forget(machineID(1))
	found[0].Instances[0].ImageID = "ami-replaced"
	found = append(found, Group{Instances: []Instance{{ID: machineID(0)}}})
	done(t, r.Complete(bounded(t), found))
	replaced, unknown, plain := found[0].Instances[0], found[0].Instances[1], found[1].Instances[0]
	if replaced.ImageID != "ami-replaced" || time.Since(replaced.Launched) > time.Hour {
		t.Errorf("an instance with a replaced root volume is %+v", replaced)
	}
	if unknown.ImageID != "" || !unknown.Launched.IsZero() {
		t.Errorf("an instance that EC2 does not know is %+v", unknown)
	}
	if plain.ImageID != "ami-1" || plain.Launched.IsZero() {
		t.Errorf("an instance is %+v", plain)
	}
}

func TestHTTPHooks(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	done(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	done(t, s.PutHook("workers", awsim.Hook{Name: "drain", HeartbeatTimeout: time.Minute}))
	hooks, err := r.Hooks(bounded(t), "workers")
	done(t, err)
	want := []Hook{{"drain", true, 100 * time.Minute}}
	if !slices.Equal(hooks, want) {
		t.Errorf("the hooks are %+v", hooks)
	}
	if _, err := r.Hooks(bounded(t), "other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("the hooks of a group that is not there: %v", err)
	}
}

func TestHTTPRefresh(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	workers(t, s, "workers", 2, nil)
	done(t, s.PutHook("workers", awsim.Hook{Name: "drain"})) // So that the refresh does not end.
	g, err := r.Group(bounded(t), "workers")
	done(t, err)
	target := Target{Source: Source{Template: &Template{ID: g.Source.Template.ID, Version: "1"}}}
	prefs := Preferences{
		MinHealthy: new(50), MaxHealthy: new(110), Warmup: new(time.Second), Bake: new(time.Minute), AutoRollback: true,
		Checkpoints: []int{50, 100}, CheckpointDelay: new(time.Minute), Alarms: []string{"errors"}, Protected: "Refresh",
	}
	id, err := w.Start(bounded(t), g, target, true, prefs)
	done(t, err)
	if _, err := w.Start(bounded(t), g, target, true, prefs); !errors.Is(err, ErrInProgress) {
		t.Errorf("a second refresh: %v", err)
	}
	one, err := r.Refresh(bounded(t), "workers", id)
	done(t, err)
	if one.ID != id || one.Group != "workers" || !one.Active() || one.ToUpdate == 0 || one.Started.IsZero() ||
		one.Desired == nil || one.Desired.Template.Version != "1" {
		t.Errorf("the refresh is %+v", one)
	}
	if p := one.Preferences; *p.MinHealthy != 50 || *p.MaxHealthy != 110 || *p.Warmup != time.Second ||
		!slices.Equal(p.Checkpoints, []int{50, 100}) || !p.AutoRollback || p.Protected != "Refresh" || p.Standby != "Ignore" {
		t.Errorf("its preferences are %+v", p)
	}
	if _, err := r.Refresh(bounded(t), "workers", "other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("a refresh that is not there: %v", err)
	}
	if _, err := w.Rollback(bounded(t), "workers"); !errors.Is(err, ErrIrreversible) {
		t.Errorf("a rollback to $Default: %v", err)
	}
	if got, err := w.Cancel(bounded(t), "workers"); err != nil || got != id {
		t.Errorf("cancelled %s, %v", got, err)
	}
}

func TestHTTPNoRefresh(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	done(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	if _, err := w.Cancel(bounded(t), "workers"); !errors.Is(err, ErrNoRefresh) {
		t.Errorf("cancel: %v", err)
	}
	if _, err := w.Rollback(bounded(t), "workers"); !errors.Is(err, ErrNoRefresh) {
		t.Errorf("rollback: %v", err)
	}
	if _, err := w.Rollback(bounded(t), "other"); err == nil || errors.Is(err, ErrNoRefresh) {
		t.Errorf("rollback of a group that is not there: %v", err)
	}
	if all, err := r.Refreshes(bounded(t), "workers"); err != nil || len(all) > 0 {
		t.Errorf("the refreshes are %v, %v", all, err)
	}
}

func TestHTTPRefreshesNewestFirst(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	done(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	var want []string
	for range 3 {
		id, err := w.Start(bounded(t), Group{Name: "workers"}, Target{}, false, Preferences{})
		done(t, err)
		_, _ = w.Cancel(bounded(t), "workers") // It may be over already: there is nothing to replace.
		want = append([]string{id}, want...)
	}
	all, err := r.Refreshes(bounded(t), "workers")
	done(t, err)
	var got []string
	for _, one := range all {
		got = append(got, one.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHTTPStartAlwaysSaysWhatTheConsoleWould(t *testing.T) {
	t.Parallel()
	s, _, w := simulated(t)
	done(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	_, err := w.Start(bounded(t), Group{Name: "workers"}, Target{}, true, Preferences{})
	done(t, err)
	sent := s.Calls("autoscaling", "StartInstanceRefresh")[0].Values
	for key, want := range map[string]string{
		"SkipMatching": "false", "ScaleInProtectedInstances": "Ignore", "StandbyInstances": "Ignore", "AutoRollback": "false",
		"MinHealthyPercentage": "", "MaxHealthyPercentage": "", "InstanceWarmup": "", "BakeTime": "",
	} {
		if got := sent.Get("Preferences." + key); got != want {
			t.Errorf("%s is sent as %q, want %q", key, got, want)
		}
	}
}

func TestHTTPPauseAndResume(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	done(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
	suspended := func() []string {
		g, err := r.Group(bounded(t), "workers")
		done(t, err)
		return g.Suspended
	}
	done(t, w.Pause(bounded(t), "workers"))
	if got := suspended(); !slices.Equal(got, []string{"InstanceRefresh"}) {
		t.Errorf("after the pause %v is suspended", got)
	}
	done(t, w.Resume(bounded(t), "workers"))
	if got := suspended(); len(got) > 0 {
		t.Errorf("after it %v is suspended", got)
	}
}

func TestHTTPMarkAndTerminate(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	workers(t, s, "workers", 3, nil)
	done(t, w.MarkUnhealthy(bounded(t), machineID(0))) // In its grace period.
	done(t, s.WaitInstances(bounded(t), "workers", func(all []awsim.Instance) bool {
		return !slices.ContainsFunc(all, func(i awsim.Instance) bool { return i.ID == machineID(0) })
	}))
	done(t, w.Terminate(bounded(t), machineID(1)))
	if g, err := r.Group(bounded(t), "workers"); err != nil || g.Desired != 2 {
		t.Errorf("the desired capacity is %d, %v", g.Desired, err)
	}
	for call, err := range map[string]error{
		"mark": w.MarkUnhealthy(bounded(t), machineID(99)), "terminate": w.Terminate(bounded(t), machineID(99)),
	} {
		if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), machineID(99)) {
			t.Errorf("%s an instance that is not there: %v", call, err)
		}
	}
	s.Inject(awsim.Fault{
		Action: "TerminateInstanceInAutoScalingGroup", Code: "ValidationError",
		Message: "Currently, desiredSize equals minSize (2).",
	})
	if err := w.Terminate(bounded(t), machineID(2)); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a group at its least: %v", err)
	}
}

func TestHTTPSurge(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	workers(t, s, "workers", 2, nil)
	described := func() Group {
		g, err := r.Group(bounded(t), "workers")
		done(t, err)
		return g
	}
	if surge, err := w.Raise(bounded(t), described(), 2); err != nil || surge != (Surge{2, 4}) {
		t.Errorf("raised %v, %v", surge, err)
	}
	if sent := s.Calls("autoscaling", "SetDesiredCapacity")[0].Values; sent.Get("HonorCooldown") != "false" {
		t.Errorf("the capacity is set with %v", sent)
	}
	if sent := s.Calls("autoscaling", "CreateOrUpdateTags")[0].Values; sent.Get("Tags.member.1.PropagateAtLaunch") != "false" {
		t.Errorf("the tag is set with %v", sent)
	}
	g := described()
	if surge, ok := SurgeOf(g); g.Desired != 4 || !ok || surge != (Surge{2, 4}) {
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

func TestHTTPThrottledCallsAreRetried(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	workers(t, s, "workers", 1, nil)
	for _, action := range []string{"DescribeAutoScalingGroups", "DescribeLaunchTemplateVersions", "StartInstanceRefresh"} {
		s.Inject(awsim.Fault{Action: action, Code: "Throttling", Message: "Rate exceeded", Times: 2})
	}
	found, err := r.Find(bounded(t), Selection{Names: []string{"workers"}})
	done(t, err)
	_, err = r.Templates(bounded(t), found, "")
	done(t, err)
	_, err = w.Start(bounded(t), found[0], Target{}, false, Preferences{})
	done(t, err)
	if got := s.Requests()["autoscaling.DescribeAutoScalingGroups"]; got != 3 {
		t.Errorf("%d calls, two of them throttled", got)
	}
}

func TestHTTPTerminateIsSentAgainOnlyIfItWasRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault awsim.Fault
		calls int
		lost  bool
	}{
		{"nothing is wrong", awsim.Fault{Action: "none"}, 1, false},
		{"throttled twice", awsim.Fault{Code: "Throttling", Times: 2}, 3, false},
		{"the answer is lost", awsim.Fault{Drop: true, AfterApply: true, Times: 1}, 1, true},
		{"the answer is an error of the server", awsim.Fault{Status: http.StatusInternalServerError, AfterApply: true, Times: 1}, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, r, w := simulated(t)
			workers(t, s, "workers", 2, nil)
			s.Inject(tt.fault)
			if err := w.Terminate(bounded(t), machineID(0)); (err != nil) != tt.lost || errors.Is(err, ErrGone) {
				t.Errorf("it ended with %v", err)
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

// TestHTTPPlanOfManyGroups: the calls of a plan grow with hundreds of groups, and with templates.
func TestHTTPPlanOfManyGroups(t *testing.T) {
	t.Parallel()
	s, r, _ := simulated(t)
	const groups, templates, instances = 200, 20, 1000
	for n := range templates {
		_, err := s.CreateLaunchTemplate(fmt.Sprint("node-", n), "ami-1")
		done(t, err)
	}
	var names []string
	for n := range groups {
		names = append(names, fmt.Sprintf("workers-%03d", n))
		done(t, s.CreateGroup(awsim.Group{
			Name: names[n], Max: 1, LaunchTemplate: fmt.Sprint("node-", n%templates),
			Tags: map[string]string{"kubernetes.io/cluster/blue": "owned"},
		}))
	}
	for n := range instances {
		done(t, s.AddInstance(names[n%groups], machineID(n), "eu-central-1a"))
	}
	for name, selection := range map[string]Selection{"names": {Names: names}, "cluster": {Cluster: "blue"}} {
		before := s.Requests()
		found, err := r.Find(bounded(t), selection)
		done(t, err)
		known, err := r.Templates(bounded(t), found, "")
		done(t, err)
		count := 0
		for _, g := range found {
			count += len(g.Instances)
		}
		if len(found) != groups || count != instances || len(known.byID) != templates {
			t.Errorf("by %s: %d groups, %d instances, %d templates", name, len(found), count, len(known.byID))
		}
		for action, want := range map[string]int{
			"autoscaling.DescribeAutoScalingGroups": 2, "ec2.DescribeLaunchTemplateVersions": templates,
		} {
			if got := s.Requests()[action] - before[action]; got != want {
				t.Errorf("by %s: %d calls of %s, want %d", name, got, action, want)
			}
		}
	}
}

func requestData(image string) *ec2types.RequestLaunchTemplateData {
	return &ec2types.RequestLaunchTemplateData{ImageId: aws.String(image)}
}
