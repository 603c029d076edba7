package trigger

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// watched is an account in virtual time, with a group at version 1 of a launch template, which it follows.
type watched struct {
	*testing.T
	*awsim.Server
	output lockedBuffer
}

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

// watchedBubble runs a test in virtual time, on a group of so many instances.
func watchedBubble(t *testing.T, name string, size int, test func(w *watched)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := &watched{T: t, Server: awsim.NewUnconnected(awsim.Options{Seed: 1})}
			w.setUp(size)
			test(w)
			w.must(w.Close())
			if t.Failed() {
				t.Log(w.output.String())
			}
		})
	})
}

func (w *watched) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *watched) setUp(size int) {
	_, err := w.CreateLaunchTemplate(template, "ami-1")
	w.must(err)
	w.must(w.CreateGroup(awsim.Group{
		Name: group, Max: 2 * size, Desired: size, LaunchTemplate: template, LaunchTemplateVersion: "$Latest",
		Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
	}))
	w.waitVersion(1, size)
	w.must(w.PutHook(group, awsim.Hook{Name: terminatingHook, CompletedAfter: 30 * time.Second}))
}

// waitVersion waits until the group has so many instances, all of them in service and of the version.
func (w *watched) waitVersion(version, size int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 24*time.Hour)
	defer cancel()
	err := w.WaitInstances(ctx, group, func(now []awsim.Instance) bool {
		other := func(i awsim.Instance) bool { return i.State != "InService" || i.Version != version }
		return len(now) == size && !slices.ContainsFunc(now, other)
	})
	if err != nil {
		w.Fatalf("version %d: %v, the group has %v\n%s", version, err, w.Instances(group), w.output.String())
	}
}

func (w *watched) newVersion(n int) {
	w.Helper()
	_, err := w.AddTemplateVersion(template, fmt.Sprintf("ami-%d", n))
	w.must(err)
}

// named sends the calls of a process.
type named struct {
	aws  *awsim.Server
	name string
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+n.name+"/sim")
	return n.aws.RoundTrip(r)
}

func (w *watched) config(name string) aws.Config {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(w.URL()), Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: named{w.Server, name}}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// configs are the flags of a watch in the two modes.
func configs() map[string]rollout.Config {
	c := rollout.Config{
		Selection: refresh.Selection{Names: []string{group}}, Mode: refresh.ModeRefresh, Pin: refresh.PinAuto,
		Preferences: refresh.Preferences{SkipMatching: true, Protected: "Ignore", Standby: "Ignore"},
		Surge:       &refresh.Amount{N: 1}, Strategy: refresh.LaunchFirst, OnConflict: rollout.Attach,
		Pace:  refresh.Pace{Batch: refresh.Amount{N: 1}, Order: refresh.ByAge},
		Taint: cluster.NoTaint, Allow: []string{"hook-timeout"}, Wait: true, Until: rollout.Drained,
		StallTimeout: 3 * time.Hour, PollInterval: 5 * time.Second, OnInterrupt: rollout.Detach, Parallel: 1,
		Interval: 5 * time.Minute, Holder: "watch/1",
	}
	unhealthy := c
	unhealthy.Mode, unhealthy.Surge, unhealthy.Pace.Surge = refresh.ModeUnhealthy, nil, refresh.Amount{N: 1}
	return map[string]rollout.Config{"refresh": c, "unhealthy": unhealthy}
}

// clients are those of a process.
func (w *watched) clients(name string) (rollout.Reader, rollout.Writer) {
	return clientsOf(w.config(name))
}

// start starts a watch, and returns what stops it.
func (w *watched) start(cfg rollout.Config) (stop func()) {
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

// act runs another command of the trigger.
func (w *watched) act(cfg rollout.Config, action rollout.Action) string {
	w.Helper()
	reader, writer := w.clients("user")
	end, err := rollout.New(cfg, reader, writer, nil, nil).Act(w.Context(), action)
	w.must(err)
	return end.Groups[0].Message
}

// status is what trigger status shows of the group.
func (w *watched) status(cfg rollout.Config) report.Group {
	w.Helper()
	reader, _ := w.clients("user")
	now, err := rollout.New(cfg, reader, nil, nil, nil).Status(w.Context())
	w.must(err)
	return now.Groups[0]
}

func (w *watched) describe() types.AutoScalingGroup {
	w.Helper()
	out, err := autoscaling.NewFromConfig(w.config("test")).DescribeAutoScalingGroups(w.Context(), nil)
	w.must(err)
	return out.AutoScalingGroups[0]
}

// expectAsBefore checks that the group has the size, the tags and the launch template as in the beginning.
func (w *watched) expectAsBefore(size int) {
	w.Helper()
	g := w.describe()
	if int(*g.DesiredCapacity) != size || len(g.Tags) != 1 || len(g.SuspendedProcesses) > 0 ||
		aws.ToString(g.LaunchTemplate.Version) != "$Latest" {
		w.Errorf("the group has the size %d, tags %v, suspended processes %v, version %s", *g.DesiredCapacity, g.Tags,
			g.SuspendedProcesses, aws.ToString(g.LaunchTemplate.Version))
	}
}

// calls counts the calls of an action by all watches.
func (w *watched) calls(action string) int { return w.RequestsBy(triggerKey)["autoscaling."+action] }

func (w *watched) says(times int, text string) {
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

// windowed adds windows to the flags of a watch.
func windowed(t *testing.T, cfg rollout.Config, texts ...string) rollout.Config {
	t.Helper()
	for _, text := range texts {
		window, err := refresh.ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Windows = append(cfg.Windows, window)
	}
	return cfg
}

// Every two hours there is a window, which is open for half an hour.
const (
	windowPeriod = 2 * time.Hour
	windowOpens  = time.Hour
	windowCloses = 90 * time.Minute
)

// twoHourly are the windows of half a day.
func twoHourly() (texts []string) {
	for hour := 1; hour < 12; hour += 2 {
		texts = append(texts, fmt.Sprintf("%02d:00-%02d:30 UTC", hour, hour))
	}
	return texts
}

// expectTerminations checks that the instances of the group were terminated in the windows, and in more than one. A
// refresh is paused a few seconds after the end.
func (w *watched) expectTerminations() {
	w.Helper()
	windows := map[time.Time]bool{}
	for _, a := range w.Ledger() {
		if a.Transition != awsim.Terminating {
			continue
		}
		began := a.StartedAt.Truncate(windowPeriod)
		if since := a.StartedAt.Sub(began); since < windowOpens || since > windowCloses+30*time.Second {
			w.Errorf("an instance was terminated at %v", a.StartedAt.UTC())
		}
		windows[began] = true
	}
	if len(windows) < 2 {
		w.Errorf("the instances were terminated in %d windows: want more than one", len(windows))
	}
}
