package rollout

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// launchOutdated is the script of a group that launches from version 1 of its template, whatever it says of itself.
func launchOutdated(a *fakeAWS) func(int) {
	current := replaceUnhealthy(a)
	return func(reads int) {
		current(reads)
		for n, i := range a.group.Instances {
			if strings.HasSuffix(i.ID, "-new") && i.Launched.IsZero() {
				a.group.Instances[n].Template, a.group.Instances[n].Launched = template("1"), time.Now()
			}
		}
	}
}

// TestGroupThatLaunchesOutdatedInstances: the first one ends the rollout, also if it begins again.
func TestGroupThatLaunchesOutdatedInstances(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a, cfg := newFakeAWS(4), unhealthyDefaults()
		a.script = launchOutdated(a)
		words := []string{"i-1-new", "version 1", "the group is at 2", "trigger resume --asg workers"}
		expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Ineffective, words...)
		a.expectCalls(t, "Mark i-1")
		// The second run knows from the tag when the first one began.
		expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Ineffective, words...)
		a.expectCalls(t, "Mark i-1")
		// Another target is another rollout.
		a.latest, a.script, a.calls = 3, replaceWith(a, "3"), nil
		expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Done, "4 instances replaced")
		if _, begun := refresh.BegunOf(a.group); begun {
			t.Error("the tag stays when the rollout has succeeded")
		}
	})
}

// TestInstancesOfUnknownSource: if AWS names the launch template of no new instance, the first one ends the rollout. It
// may have been attached, but then the group has launched others since.
func TestInstancesOfUnknownSource(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a := newFakeAWS(4)
		replace := replaceUnhealthy(a)
		a.script = func(reads int) {
			replace(reads)
			for n, i := range a.group.Instances {
				if strings.HasSuffix(i.ID, "-new") && i.Launched.IsZero() {
					a.group.Instances[n].Template, a.group.Instances[n].Launched = nil, time.Now()
				}
			}
		}
		expect(t, runGroup(t.Context(), t, unhealthyDefaults(), a, nil), report.Ineffective, "i-1-new", "unknown")
		a.expectCalls(t, "Mark i-1")
	})
}

// TestInterruptedRolloutThatBeginsAgain replaces nothing that the first run has had launched.
func TestInterruptedRolloutThatBeginsAgain(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a, cfg := newFakeAWS(4), unhealthyDefaults()
		outdated := launchOutdated(a)
		ctx, stop := context.WithCancel(t.Context())
		a.script = func(reads int) {
			if outdated(reads); strings.HasSuffix(a.group.Instances[0].ID, "-new") {
				stop()
			}
		}
		expect(t, runGroup(ctx, t, cfg, a, nil), report.Interrupted)
		expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Ineffective, "i-1-new")
		a.expectCalls(t, "Mark i-1")
	})
}

// TestWatchOfAGroupThatLaunchesOutdatedInstances: the target counts as failed.
func TestWatchOfAGroupThatLaunchesOutdatedInstances(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a := newFakeAWS(4)
		a.script = launchOutdated(a)
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		if err := newWatcher(unhealthyDefaults(), a, io.Discard).Run(ctx); err != nil {
			t.Fatal(err)
		}
		a.expectCalls(t, "Mark i-1 WriteFailed lt-1/2")
	})
}

// TestOutdatedInstancesThatJoinTheGroup during a rollout are replaced: those of a warm pool were launched before, and
// an attached one was not launched by the group.
func TestOutdatedInstancesThatJoinTheGroup(t *testing.T) {
	for name, joins := range map[string]func(*refresh.Instance){
		"from a warm pool": func(i *refresh.Instance) { i.Launched = time.Now().Add(-time.Hour) },
		"attached":         func(i *refresh.Instance) { i.Template, i.Launched = nil, time.Now() },
	} {
		runInBubble(t, name, func(t *testing.T) {
			a := newFakeAWS(2)
			replace := replaceUnhealthy(a)
			a.script = func(reads int) {
				if replace(reads); reads == 8 {
					one := instance("i-joins", "1")
					joins(&one)
					a.group.Instances, a.group.Desired = append(a.group.Instances, one), 3
				}
			}
			expect(t, runGroup(t.Context(), t, unhealthyDefaults(), a, nil), report.Done)
			if !slices.Contains(a.calls, "Mark i-joins") {
				t.Errorf("calls %q", a.calls)
			}
		})
	}
}
