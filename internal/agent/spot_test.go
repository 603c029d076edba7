package agent_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

const (
	fulfilled = ec2.SpotStatus("fulfilled")
	marked    = ec2.SpotStatus("marked-for-termination")
)

func (f instances) SpotRequest(ctx context.Context, _ string) (ec2.SpotRequest, error) {
	if f.after() < f.spotSilent {
		<-ctx.Done()
		return ec2.SpotRequest{}, ctx.Err()
	}
	status, err := f.spot(f.after())
	return ec2.SpotRequest{Status: status, Since: f.spotSince}, err
}

func (f observer) SpotStatusRead(_ event.Event, s ec2.SpotStatus) { f.fact("spot status %q", s) }
func (f observer) SpotStatusFailed(_ event.Event, _ error, first bool) {
	f.fact("spot status failed, first: %v", first)
}

// TestSpotInterruption: a warning is acted on at once, unless the status of the instance's Spot request contradicts it.
// Then the node is cordoned and drained without the deadline of the warning, for half a minute.
func TestSpotInterruption(t *testing.T) {
	t.Parallel()
	spotIs := func(a answer[ec2.SpotStatus]) given { return func(f *fixture) { f.spot = a } }
	status := func(s ec2.SpotStatus) given { return spotIs(always(s)) }
	// No label is wanted where two events share a drain: which of them would set it last is not defined.
	noLabel := fails("exclude", 2, node.ErrGone)
	takes := func(d time.Duration) given { return func(f *fixture) { f.drainTakes = d } }
	later := with(noLabel, takes(time.Hour), spotIs(changes(fulfilled, 10*time.Second, marked)))
	noAnswer := func(from time.Duration) given {
		return spotIs(func(after time.Duration) (ec2.SpotStatus, error) {
			if after < from {
				return fulfilled, nil
			}
			return "", errOutage
		})
	}
	onlyCordon := func(f *fixture) { f.cfg.Events.SpotInterruption = event.Cordon }
	late := func(f *fixture) queue.Message { return spotWarning(&fixture{start: f.start.Add(-4 * time.Minute)}) }

	const dated, undated = "1m55s", "1h0m0s..1h0m2s"
	believed := drainedWithoutHook(dated)
	begun := []string{"cordon until " + undated, "drain node-1 until " + undated}
	tightened := slices.Concat(begun, []string{"cordon until " + dated, "tighten node-1 until " + dated})
	half := 30 * time.Second
	for _, tt := range []struct {
		name        string
		given       given
		message     source
		steps       []string
		outcome     agent.Outcome
		least, most time.Duration
	}{
		{"marked for termination", nil, spotWarning, believed, agent.Drained, 10 * time.Second, 11 * time.Second},
		{"marked for stop", status("marked-for-stop"), spotWarning, believed, agent.Drained, 10 * time.Second, 11 * time.Second},
		{
			"terminated without capacity, and still running", status("instance-terminated-no-capacity"),
			spotWarning, believed, agent.Drained, 10 * time.Second, 11 * time.Second,
		},
		{
			"terminated by an experiment", status("instance-terminated-by-experiment"),
			spotWarning, believed, agent.Drained, 10 * time.Second, 11 * time.Second,
		},
		{"a code of the future", status("something-new"), spotWarning, believed, agent.Drained, 10 * time.Second, 11 * time.Second},
		{"no request", status(""), spotWarning, believed, agent.Drained, 10 * time.Second, 11 * time.Second},
		{"the question is denied", noAnswer(0), spotWarning, believed, agent.Drained, 10 * time.Second, 11 * time.Second},
		{
			"the question is not answered", func(f *fixture) { f.spotSilent = never },
			spotWarning, believed, agent.Drained, 12 * time.Second, 13 * time.Second,
		},
		{
			"the instance runs: drained without force, then uncordoned", status(fulfilled),
			spotWarning, slices.Concat(begun, []string{"exclude", "uncordon"}), agent.Unconfirmed, half, half + 2*time.Second,
		},
		{
			"the instance runs, and its drain lasts: stopped, uncordoned", with(status(fulfilled), takes(time.Hour)),
			spotWarning, slices.Concat(begun, []string{"uncordon"}), agent.Unconfirmed, half, half + 2*time.Second,
		},
		{
			"the request is canceled, and the instance runs",
			with(status("request-canceled-and-instance-running"), takes(time.Hour)),
			spotWarning, slices.Concat(begun, []string{"uncordon"}), agent.Unconfirmed, half, half + 2*time.Second,
		},
		{
			"the instance runs, configured to cordon", with(status(fulfilled), onlyCordon),
			spotWarning,
			[]string{"cordon", "uncordon"},
			agent.Unconfirmed, half, half + 2*time.Second,
		},
		{
			"contradicted at first, then marked: the drain is tightened", later,
			spotWarning, tightened, agent.Drained, 115 * time.Second, 116 * time.Second,
		},
		{
			"contradicted at first, and drained before it is marked: not drained again", with(later, takes(time.Second)),
			spotWarning, slices.Concat(begun, []string{"cordon until " + dated}),
			agent.Drained, 10 * time.Second, 17 * time.Second,
		},
		{
			"contradicted at first, then no answer: believed at the end", with(noLabel, noAnswer(10*time.Second), takes(time.Hour)),
			spotWarning, tightened, agent.Drained, 115 * time.Second, 116 * time.Second,
		},
		{
			"an old warning for an instance that runs: nothing is evicted", status(fulfilled),
			late, nil, agent.Unconfirmed, time.Minute, time.Minute,
		},
	} {
		each(t, tt.name, with(inState(inService), tt.given), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.message)
			f.wantSteps(t, tt.steps...)
			f.wantOutcome(t, tt.outcome)
			if took := f.after(); took < tt.least || took > tt.most {
				t.Errorf("it took %v, want %v to %v", took, tt.least, tt.most)
			}
		})
	}
}

// TestContradictedSpotWarningDuringADrain: a forged warning neither shortens nor stops the drain for another event.
func TestContradictedSpotWarningDuringADrain(t *testing.T) {
	running := func(f *fixture) { f.spot, f.drainTakes = always(fulfilled), 10*time.Minute }
	for _, tt := range []struct {
		name  string
		given given
		of    source
		steps []string
	}{
		{"of a hook", running, termination, drainedBy("1h0m0s")},
		{
			"for maintenance in three hours", with(running, scheduled(always(true))), maintenance,
			drainedWithoutHook("47h59m55s"),
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			a := f.agent()
			go func() {
				time.Sleep(time.Minute)
				mustHandle(t, f, a, spotWarning)
			}()
			mustHandle(t, f, a, tt.of)
			f.wantSteps(t, tt.steps...)
		})
	}
}

// TestSpotStatusFailure: only the first of several failures is reported as such.
func TestSpotStatusFailure(t *testing.T) {
	fails := func(f *fixture) { f.spot = silent(time.Hour, marked) }
	inBubble(t, fails, func(t *testing.T, f *fixture) {
		a := f.agent()
		mustHandle(t, f, a, spotWarning)
		f.node.UID, f.node.Mark = "uid-2", node.Mark{}
		mustHandle(t, f, a, spotWarning)
		for _, fact := range []string{"spot status failed, first: true", "spot status failed, first: false"} {
			if f.observed(fact) != 1 {
				t.Errorf("%q was not observed once: %q", fact, f.facts)
			}
		}
	})
}
