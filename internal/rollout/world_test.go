package rollout_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/rollouts"
)

const (
	triggerKey   = "trigger" // the access key of the trigger
	templateName = "node"
	longest      = 3 * time.Hour // of a rollout
)

// world is a group in a simulated AWS, in virtual time. Its instances are at version 1 of a launch template that has a
// version 2; they are named i-1, i-2 and so on in the order of their launches. Each launch and each drain takes 10 s.
type world struct {
	*testing.T
	*awsim.Server
	group    string // its name in AWS
	template string // the id of the launch template
	cfg      plan.Config
	nodes    *nodes
	view     plan.Cluster                     // of the nodes; nil without Kubernetes
	edit     func(action, body string) string // changes the answers of AWS

	work  sync.WaitGroup // of after
	mu    sync.Mutex
	over  bool     // The test has ended.
	ids   []string // of the instances
	calls []string // by which the trigger has changed something, but for most tags
	dos   map[string]func()
}

// scenario is a rollout of three instances, and what is expected of it. Only want must be set.
type scenario struct {
	mode   refresh.Mode   // in place of refresh
	do     rollout.Action // instead of a rollout
	group  awsim.Group    // what differs from that of the world: version, size, policy
	before func(w *world)
	stop   time.Duration // until the interrupt
	want   report.Outcome
	words  string // parts of the message, between bars
	calls  string
	then   func(w *world, end report.Group)
}

// runAll runs each of the scenarios in a world of its own.
func runAll(t *testing.T, all map[string]scenario) {
	t.Helper()
	t.Parallel()
	for name, s := range all {
		inWorld(t, name, s.group, func(w *world) {
			w.setMode(s.mode)
			w.play(s)
		})
	}
}

// play runs the trigger as the scenario says, and returns how the group has ended.
func (w *world) play(s scenario) report.Group {
	w.Helper()
	if s.before != nil {
		s.before(w)
	}
	ctx, cancel := context.WithTimeout(w.Context(), cmp.Or(s.stop, longest))
	defer cancel()
	all, err := w.run(ctx, s.do)
	w.must(err)
	end := all.Groups[0]
	if end.Message = w.short(end.Message); end.Outcome != s.want {
		w.Errorf("outcome %q (%s), want %q\n%s", end.Outcome, end.Message, s.want, w.notes(end))
	}
	for word := range strings.SplitSeq(s.words, " | ") {
		if !strings.Contains(end.Message, word) {
			w.Errorf("message lacks %q: %s", word, end.Message)
		}
	}
	w.expectCalls(s.calls)
	if s.then != nil {
		s.then(w, end)
	}
	return end
}

// inWorld runs a test with a group, of three instances if nothing else is given: see spec.
func inWorld(t *testing.T, name string, group awsim.Group, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			group = spec(w.group, group)
			w.must(w.CreateGroup(group))
			w.begin(group.Desired)
			test(w)
			w.end()
		})
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Server: awsim.NewUnconnected(awsim.Options{Seed: 1}), group: "workers", cfg: defaults()}
	w.nodes = newNodes(w)
	w.view = w.nodes
	var err error
	w.template, err = w.CreateLaunchTemplate(templateName, "ami-1")
	w.must(err)
	return w
}

// spec is a group of three instances whose maintenance policy launches first, and which follows its launch template. A
// maximum below 0 is no policy.
func spec(name string, g awsim.Group) awsim.Group {
	g.Name, g.LaunchTemplate, g.Desired = name, templateName, cmp.Or(g.Desired, 3)
	g.Max, g.LaunchTemplateVersion = cmp.Or(g.Max, 2*g.Desired), cmp.Or(g.LaunchTemplateVersion, "$Latest")
	if g.Zones = []string{"eu-central-1a"}; g.MaxHealthy == 0 {
		g.MinHealthy, g.MaxHealthy = 100, 150
	}
	g.MaxHealthy = max(g.MaxHealthy, 0)
	return g
}

// begin waits until the instances of the group are in service, the first of which is the oldest. They become outdated.
func (w *world) begin(size int) {
	w.Helper()
	w.must(w.WaitInstances(w.Context(), w.group, func(now []awsim.Instance) bool {
		return len(now) == size && !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
	}))
	for n, i := range w.Instances(w.group) {
		w.must(w.SetLaunchTime(i.ID, time.Now().Add(time.Duration(n-100)*time.Hour)))
	}
	w.hook("drain", 10*time.Second)
	w.hook("ready", 10*time.Second)
	w.newVersion()
	w.id("i-1")
}

// hook has the group's hook drain or ready take so long; 0 is until somebody completes it.
func (w *world) hook(name string, takes time.Duration) {
	w.Helper()
	h := awsim.Hook{Name: name, CompletedAfter: takes, HeartbeatTimeout: 24 * time.Hour}
	if name == "ready" {
		h.Transition = awsim.Launching
	}
	w.must(w.PutHook(w.group, h))
}

// newVersion gives the launch template another version.
func (w *world) newVersion() {
	w.Helper()
	_, err := w.AddTemplateVersion(templateName, "ami-new")
	w.must(err)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// after does something so long from now, unless the test has ended.
func (w *world) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		over := w.over
		if !over {
			w.work.Add(1)
		}
		w.mu.Unlock()
		if !over {
			defer w.work.Done()
			do()
		}
	})
}

// end ends what happens in the world.
func (w *world) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.work.Wait()
	w.must(w.Close())
}

// upon does something just before the next call of an action by the trigger is served.
func (w *world) upon(action string, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dos == nil {
		w.dos = map[string]func(){}
	}
	w.dos[action] = do
}

// defaults is the configuration of a run by an Instance Refresh.
func defaults() plan.Config {
	return plan.Config{
		Selection: refresh.Selection{Names: []string{"workers"}},
		Mode:      refresh.ModeRefresh, Pin: refresh.PinAlways, OnConflict: plan.Attach, Wait: true, Until: plan.Drained,
		OnInterrupt: plan.Detach, PollInterval: 5 * time.Second, Together: refresh.PhaseCheck, Parallel: 1,
		Surge: &refresh.Amount{N: 10, Percent: true}, Pace: refresh.Pace{Batch: refresh.Amount{N: 1}, Order: refresh.ByAge},
		Preferences: refresh.Preferences{SkipMatching: true, Protected: "Ignore", Standby: "Ignore"}, Holder: "ci-1/42",
		Allow: []string{"hook-timeout"}, GateTimeout: time.Minute, Interval: 5 * time.Minute,
	}
}

// setMode changes the configuration to that of a run in another mode.
func (w *world) setMode(mode refresh.Mode) {
	if mode != "" {
		w.cfg.Mode, w.cfg.Surge = mode, nil
	}
}

// run runs the trigger: a rollout, unless another action is to be done.
func (w *world) run(ctx context.Context, do rollout.Action) (report.Rollout, error) {
	reader, writer := w.clients()
	t := rollout.New(w.cfg, reader, writer, w.view, nil)
	if do == "" {
		return t.Run(ctx)
	}
	return t.Act(ctx, do)
}

// clients are those of the trigger.
func (w *world) clients() (plan.Reader, rollout.Writer) {
	return rollouts.Clients(aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(w.URL()), Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: w}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}, w.cfg.Mode, nodegroup.Request{Cluster: eksCluster, Names: []string{"workers"}}, w.nodes)
}

// RoundTrip serves a call of the trigger by the simulated AWS, and records what it changes.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	var err error
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+triggerKey+"/sim")
	form, _ := url.ParseQuery(string(body)) // What is none has no action.
	action := actionOf(r, form)
	call := w.describe(action, form)
	w.mu.Lock()
	if call != "" {
		w.calls = append(w.calls, call)
	}
	do := w.dos[action]
	delete(w.dos, action)
	w.mu.Unlock()
	if do != nil {
		do()
	}
	answer, err := w.Server.RoundTrip(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.edit == nil {
		return answer, err
	}
	if body, err = io.ReadAll(answer.Body); err != nil {
		return nil, err
	}
	edited := w.edit(action, string(body))
	answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(edited)), int64(len(edited))
	return answer, nil
}

// actionOf is the action of a call. Those of EKS have it in their path.
func actionOf(r *http.Request, form url.Values) string {
	switch _, target, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); {
	case form.Has("Action"):
		return form.Get("Action")
	case target != "":
		return target
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/update-version"):
		return "Update"
	}
	return "Describe " + r.URL.Path
}

// describe is what the call changes; empty if that is nothing, or a tag that tests do not look for.
func (w *world) describe(action string, form url.Values) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(form)) {
		if lists.MatchString(key) || slices.Contains([]string{"DesiredCapacity", "MaxSize"}, key) {
			all = append(all, form.Get(key))
		}
	}
	what := w.short(strings.Join(all, ","))
	switch action {
	case "SetInstanceProtection":
		if form.Get("ProtectedFromScaleIn") == "true" {
			return "Protect " + what
		}
		return "Unprotect " + what
	case "CreateOrUpdateTags", "DeleteTags":
		if form.Get("Tags.member.1.Key") == refresh.FailedTag {
			target, _, _ := strings.Cut(form.Get("Tags.member.1.Value"), " ")
			return strings.TrimSpace("Failed " + w.short(target))
		}
		return ""
	default:
		if reads.MatchString(action) {
			return ""
		}
		return strings.TrimSpace(verbs(action) + " " + what)
	}
}

// verbs shortens the names of the actions that tests expect most.
func verbs(action string) string {
	short := map[string]string{
		"SetInstanceHealth": "Mark", "TerminateInstanceInAutoScalingGroup": "Terminate", "SetDesiredCapacity": "Resize",
		"StartInstanceRefresh": "Start", "CancelInstanceRefresh": "Cancel", "RollbackInstanceRefresh": "Rollback",
		"SuspendProcesses": "Suspend", "ResumeProcesses": "Resume", "UpdateAutoScalingGroup": "Max",
	}[action]
	if short == "" {
		return action
	}
	return short
}

// expectCalls fails the test unless these calls were made, in this order.
func (w *world) expectCalls(want string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.calls, ", "); got != want {
		w.Errorf("calls %q, want %q", got, want)
	}
}

// operator makes a call of another user, for the group and with further parameters: KEY=VALUE.
func (w *world) operator(action string, params ...string) {
	w.Helper()
	form := url.Values{"Action": {action}, "Version": {"2011-01-01"}, "AutoScalingGroupName": {w.group}}
	for _, p := range params {
		key, value, _ := strings.Cut(p, "=")
		form.Set(key, value)
	}
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.URL(), strings.NewReader(form.Encode()))
	w.must(err)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=operator/sim")
	answer, err := w.Server.RoundTrip(r)
	w.must(err)
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		w.Fatalf("%s: %s", action, body)
	}
}

func (w *world) suspend(process string) {
	w.operator("SuspendProcesses", "ScalingProcesses.member.1="+process)
}

// resize has an autoscaler change the desired capacity.
func (w *world) resize(to int) {
	w.operator("SetDesiredCapacity", fmt.Sprintf("DesiredCapacity=%d", to))
}

// tag sets a tag of the group, or removes it if the value is empty.
func (w *world) tag(key, value string) {
	w.Helper()
	params := []string{"ResourceId=" + w.group, "ResourceType=auto-scaling-group", "Key=" + key, "PropagateAtLaunch=false"}
	action := "DeleteTags"
	if value != "" {
		action, params = "CreateOrUpdateTags", append(params, "Value="+value)
	}
	for n := range params {
		params[n] = "Tags.member.1." + params[n]
	}
	w.operator(action, params...)
}

// fails has calls of the trigger fail: so many of them, or all if that is 0.
func (w *world) fails(action, code string, times int) {
	w.Inject(awsim.Fault{Action: action, Client: triggerKey, Code: code, Times: times})
}

// otherRefresh starts a refresh that is not the trigger's, to a version of the launch template. It replaces nothing
// before release.
func (w *world) otherRefresh(version string) {
	w.Helper()
	w.hook("ready", 0)
	_, err := w.StartRefresh(w.group, awsim.RefreshSpec{Version: version, MinHealthy: 100})
	w.must(err)
	time.Sleep(time.Millisecond) // until an instance waits for the hook
}

// complete completes what waits for a hook, with a result.
func (w *world) complete(hook, result string) {
	w.Helper()
	for _, a := range w.Ledger() {
		if a.Hook == hook && a.ClosedAt.IsZero() {
			w.operator("CompleteLifecycleAction", "LifecycleHookName="+hook, "InstanceId="+a.InstanceID,
				"LifecycleActionResult="+result)
		}
	}
}

// release ends that launches wait.
func (w *world) release() {
	w.Helper()
	w.hook("ready", 10*time.Second)
	w.complete("ready", "CONTINUE")
}

// id is that of an instance in AWS. It gives all instances that have appeared their names.
func (w *world) id(name string) string {
	w.name("")
	var n int
	_, err := fmt.Sscanf(name, "i-%d", &n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || n > len(w.ids) {
		w.Fatalf("there is no instance %s: %v", name, err)
	}
	return w.ids[n-1]
}

// succeeds waits until the refresh of the group has succeeded.
func (w *world) succeeds() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), longest)
	defer cancel()
	_, err := w.WaitRefresh(ctx, w.group, refresh.StatusSuccessful)
	w.must(err)
}

// await waits until an instance is in a state.
func (w *world) await(name, state string) {
	w.Helper()
	w.must(w.WaitState(w.Context(), w.id(name), state))
}

// name is that of the instance with an id.
func (w *world) name(id string) string {
	all := w.Instances(w.group)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range all {
		if !slices.Contains(w.ids, i.ID) {
			w.ids = append(w.ids, i.ID)
		}
	}
	return fmt.Sprintf("i-%d", slices.Index(w.ids, id)+1)
}

var (
	reads     = regexp.MustCompile("^(Describe|Get)")
	lists     = regexp.MustCompile(`^(InstanceIds?|ScalingProcesses)\b`)
	uuids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	instances = regexp.MustCompile(`\bi-[0-9a-f]{17}`)
	templates = regexp.MustCompile(`\blt-[0-9a-f]{17}`)
)

// short replaces ids in a text by the names of the instances, the refresh by r, and the launch template by lt.
func (w *world) short(text string) string {
	text = templates.ReplaceAllString(uuids.ReplaceAllString(text, "r"), "lt")
	return instances.ReplaceAllStringFunc(text, w.name)
}

// notes are those of the group, a line each.
func (w *world) notes(g report.Group) string {
	var b strings.Builder
	for _, n := range g.Notes {
		fmt.Fprintf(&b, "%s: %s\n", n.Level, w.short(n.Text))
	}
	return b.String()
}
