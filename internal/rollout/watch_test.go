package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// facts are what an observer of a watch is notified of.
type facts []string

func (f *facts) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func (f *facts) Looked(groups []refresh.Watched, open bool) { f.add("looked %v %v", groups, open) }

func (f *facts) RoundEnded(err error) { f.add("round %t", err == nil) }

func (f *facts) RolloutStarted(group string, outdated int, _ string) {
	f.add("started %s %d", group, outdated)
}

func (f *facts) RolloutEnded(group, outcome, _ string, started, failed bool) {
	f.add("ended %s %s %t %t", group, outcome, started, failed)
}

// watch runs a watch until ctx ends, and returns what it says, and what its observer is notified of.
func (w *world) watch(ctx context.Context, gate func(context.Context)) (says, notified string) {
	w.Helper()
	var out strings.Builder
	var seen facts
	reader, writer := w.clients()
	w.must(rollout.NewWatcher(w.cfg, reader, writer, w.view, rollout.WatchEnvironment{
		NewReporter: func() report.Reporter { return report.New(report.Options{Out: &out}) }, Observer: &seen, Gate: gate,
	}).Run(ctx))
	return w.short(out.String()), strings.Join(seen, " | ")
}

// watchFor is watch for so long.
func (w *world) watchFor(lasts time.Duration) (says, notified string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), lasts)
	defer cancel()
	return w.watch(ctx, nil)
}

// TestWhatIsNotTriedAgain: a target is kept in a tag if the rollout to it ended badly, and not for what may end in another way next
// time. The observer is notified of each round, and of each rollout once, and the user is told once.
func TestWhatIsNotTriedAgain(t *testing.T) {
	looked := func(outdated string) string { return "looked [{workers " + outdated + "}] true | " }
	current, held, refused := looked("0 false false")+"round true", looked("3 true false")+"round true", looked("3 false true")+"round true"
	ended := func(outcome, next string) string {
		return looked("3 false false") + "started workers 3 | ended workers " + outcome + " | round true | " + next
	}
	const gaveUp, once, again = "Start, Failed lt/2", "not tried again: lt/2", "Start, Start"
	done := func(w *world) { w.cfg.Version = "1" }
	at := func(d time.Duration, action string) func(w *world) {
		return func(w *world) { w.after(d, func() { w.operator(action) }) }
	}
	failedAt := func(version string) func(w *world) {
		return func(w *world) { w.tag(refresh.FailedTag, w.template+"/"+version+" failed") }
	}
	batches := func(before func(w *world)) func(w *world) {
		return func(w *world) { w.setMode(refresh.ModeUnhealthy); done(w); before(w) }
	}
	conflict := func(on plan.Conflict) func(w *world) {
		return func(w *world) {
			w.cfg.OnConflict = on
			w.otherRefresh("1")
			w.after(11*time.Minute, func() { w.release(); w.operator("CancelInstanceRefresh", "WaitForTransitioningInstances=false") })
		}
	}
	for name, tt := range map[string]struct {
		before      func(w *world)
		calls       string
		facts, says string // empty if it does not matter
	}{
		"nothing is outdated": {done, "", current + " | " + current, "watching 1 group every 5m0s: 0 outdated instances"},
		"it succeeds":         {func(*world) {}, "Start", ended("done true false", current), ""},
		"it fails":            {(*world).givesUp, gaveUp, ended("failed true true", held), once},
		"it is cancelled":     {at(15*time.Second, "CancelInstanceRefresh"), gaveUp, "", once},
		"it is rolled back": {func(w *world) {
			w.cfg.Version = "2"
			w.operator("UpdateAutoScalingGroup", "LaunchTemplate.LaunchTemplateName=node", "LaunchTemplate.Version=1")
			at(15*time.Second, "RollbackInstanceRefresh")(w)
		}, gaveUp, "", once},
		"it is refused": {(*world).noHook, "", refused + " | " + refused, "refused by the preflight"},
		"AWS does not answer": {
			func(w *world) { w.fails("DescribeAutoScalingGroups", "InternalFailure", 1) }, "Start",
			"round false | " + strings.TrimSuffix(ended("done true false", ""), " | "), "call failed, trying again in 5m0s",
		},
		"a newer version appears": {func(w *world) {
			w.cfg.Pin = refresh.PinNever
			w.hook("drain", 2*time.Minute)
			w.after(time.Minute, w.newVersion)
		}, again, "", ""},
		"what is left is kept": {func(w *world) {
			w.operator("EnterStandby", "InstanceIds.member.1="+w.id("i-1"), "ShouldDecrementDesiredCapacity=true")
			w.await("i-1", "Standby")
		}, "Start", "", ""},
		"AWS refuses it": {func(w *world) { w.fails("StartInstanceRefresh", "AccessDenied", 0) }, again, "", ""},
		"the tag cannot be written at first": {func(w *world) {
			w.givesUp()
			w.Inject(awsim.Fault{Action: "CreateOrUpdateTags", Code: "AccessDenied", Times: 1, Match: func(form url.Values, _ []byte) bool {
				return form.Get("Tags.member.1.Key") == refresh.FailedTag
			}})
		}, gaveUp + ", Failed lt/2", "", once},
		"a target that failed before was reached":        {failedAt("7"), "Start, Failed", "", ""},
		"somebody else has reached a target that failed": {func(w *world) { done(w); failedAt("1")(w) }, "Failed", "", ""},
		"a gate that does not pass says not now, and not never": {
			func(w *world) { w.cfg.Gate = &fakeGate{fails: from(1)} }, "", "", "",
		},
		"another trigger works": {batches((*world).works), "", "", "the trigger ci-2/7 replaces"},
		"another trigger was killed": {
			batches(func(w *world) { w.leased(other, -time.Hour) }), "",
			looked("0 false false") + "ended workers nothing false false | round true | " + current, "",
		},
		"another refresh is under way, and then cancelled":    {conflict(plan.Attach), "Start", "", "not started: "},
		"another refresh is not to be touched, and cancelled": {conflict(plan.Fail), "Start", "", "not started: "},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			tt.before(w)
			lasts := 9 * time.Minute
			if strings.Contains(name, "refresh") {
				lasts = 19 * time.Minute
			}
			says, notified := w.watchFor(lasts)
			w.expectCalls(tt.calls)
			if tt.facts != "" && notified != tt.facts {
				w.Errorf("the observer is notified of\n%s, want\n%s", notified, tt.facts)
			}
			if n := strings.Count(says, tt.says); tt.says != "" && n != 1 {
				w.Errorf("%q is reported %d times:\n%s", tt.says, n, says)
			}
			if _, leased := w.Tags(w.group)[refresh.LeaseTag]; leased != (name == "another trigger works") {
				w.Errorf("the lease is left: %t", leased)
			}
		})
	}
}

// TestWatchHandsOver: a rollout is left to another process that leads, although an interrupt would cancel it. No round
// begins while it is not certain which process leads.
func TestWatchHandsOver(t *testing.T) {
	for name, tt := range map[string]struct {
		cause error
		calls string
	}{"another leads": {loop.ErrNotLeading, "Start"}, "interrupted": {nil, "Start, Cancel"}} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			w.hook("ready", 0)
			w.cfg.OnInterrupt = plan.Cancel
			ctx, stop := context.WithCancelCause(w.Context())
			defer stop(nil)
			rounds := 0
			w.after(2*time.Minute, func() { stop(tt.cause) })
			if w.watch(ctx, func(context.Context) { rounds++; time.Sleep(time.Minute) }); rounds != 1 {
				w.Errorf("%d rounds began", rounds)
			}
			w.expectCalls(tt.calls)
		})
	}
}

// brokenPipe is what a program reads no more.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestWatchWithoutReader: a watch ends when nobody reads its output.
func TestWatchWithoutReader(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.noHook()
		reader, writer := w.clients()
		err := rollout.NewWatcher(w.cfg, reader, writer, nil, rollout.WatchEnvironment{
			NewReporter: func() report.Reporter { return report.New(report.Options{Out: brokenPipe{}}) }, Observer: &facts{},
		}).Run(w.Context())
		if !errors.Is(err, io.ErrClosedPipe) {
			w.Errorf("it ended with %v", err)
		}
	})
}
