package agent_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
)

// TestLaunchWithoutMessage: a resync finds a launch after a crash. Its time counts from the launch by EC2, and it has a few
// minutes at least: EC2 may have launched the instance long before, for a warm pool.
func TestLaunchWithoutMessage(t *testing.T) {
	t.Parallel()
	const m, h = time.Minute, time.Hour
	launched := func(ago time.Duration) given {
		return func(f *fixture) { f.ec2 = always(ec2.Instance{State: running, Launched: f.start.Add(-ago)}) }
	}
	for _, tt := range []struct {
		name  string
		given given
		took  time.Duration // until it is abandoned
	}{
		{"launched a moment ago", launched(0), 15 * m},
		{"launched ten minutes ago", launched(10 * m), 5 * m},
		{"launched too long ago", launched(14 * m), 3 * m},
		{"launched the day before", launched(24 * h), 3 * m},
		{"launched in the future, by a clock that is wrong", launched(-h), 15 * m},
		{"EC2 does not answer", ec2Says(silent(never, ec2.Instance{})), 15 * m},
		{"EC2 does not know the instance", ec2State(""), 15 * m},
		{
			"back from the warm pool", with(launched(24*h), cordoned(event.LifecycleTerminating, -h, -m, 0)), 15 * m,
		},
		{
			"the hook could not have held it since", with(launched(24*h), timeout("launch", 50*m), func(f *fixture) {
				f.cfg.Launch.Timeout = 48 * h
			}),
			50*m - 10*time.Second,
		},
		{"the time is shorter than a few minutes", with(launched(h), func(f *fixture) { f.cfg.Launch.Timeout = m }), m},
	} {
		each(t, tt.name, with(launching, inGroup(pendingWait, "launch"), readyAt(never), tt.given), func(t *testing.T, f *fixture) {
			f.drainTakes = 0
			resync(t, f.agent(), time.Hour)
			if took := f.when("complete launch with ABANDON"); took != tt.took {
				t.Errorf("abandoned after %v, want %v", took, tt.took)
			}
		})
	}
}

// TestLaunchMessageJoins: the time of a message that joins a launch counts, whatever was assumed without it.
func TestLaunchMessageJoins(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	launched := func(ago time.Duration) given {
		return func(f *fixture) { f.ec2 = always(ec2.Instance{State: running, Launched: f.start.Add(-ago)}) }
	}
	for _, tt := range []struct {
		name  string
		given given
		sent  time.Duration // before the resync
		took  time.Duration
	}{
		{"sent before the resync", launched(11 * m), 10 * m, 5 * m},
		{"sent so long before that the time is over", launched(21 * m), 20 * m, 3 * m},
		{"sent before, and EC2 does not answer", ec2Says(silent(never, ec2.Instance{})), 20 * m, 15 * m},
		{"sent after the resync", launched(0), -30 * time.Second, 15 * m},
		{"of an instance that EC2 launched long before, for a warm pool", launched(1000 * time.Hour), m, 14 * m},
	} {
		given := with(launching, inGroup(pendingWait, "launch"), readyAt(never), tt.given)
		each(t, tt.name, given, func(t *testing.T, f *fixture) {
			f.drainTakes = 0
			a := f.agent()
			go func() {
				time.Sleep(m)
				if err := a.Handle(t.Context(), launchMessage("", f.start.Add(-tt.sent))); err != nil {
					t.Error(err)
				}
			}()
			resync(t, a, time.Hour)
			if took := f.when("complete launch with ABANDON"); took != tt.took || f.observed("launch started") != 1 {
				t.Errorf("abandoned after %v, want %v; facts: %q", took, tt.took, f.facts)
			}
		})
	}
}
