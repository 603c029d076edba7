package drain

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestADeletionThatTheAPIServerCannotDo does not hold up the drain for ever: a webhook that is broken answers
// 500 to whoever asks.
func TestADeletionThatTheAPIServerCannotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, running("a"), pdb(0))
		asked := 0
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if asked++; asked > 1000 {
				panic("a hot loop, or no end")
			}
			return true, nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
		})
		report, err := w.drain(time.Minute)()
		if err != nil || len(report.Left) != 1 || report.Took > 90*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
		if asked < 3 || asked > 20 {
			t.Errorf("it was asked for %d times", asked)
		}
	})
}

func TestWhatABusyAPIServerIsGiven(t *testing.T) {
	evicting := func(p *Pod) { p.Try = Try{Last: Deferred, Next: at(10 * m), Failures: 7, Eviction: true} }
	runRows(t, []row{
		{
			name: "an eviction that was put off does not put off the last call", now: 9*m + 30*s,
			pods: []Pod{pod("a", evicting)}, want: "delete a in 30s",
		},
		{name: "and nothing comes before that", now: 9*m + 29*s, pods: []Pod{pod("a", evicting)}, want: "wait a backing-off; again 9m30s"},
	})
	t.Run("a deletion has pauses of its own", func(t *testing.T) {
		r := Removal{Pod: pod("a", evicting), Reason: AtDeadline}
		try := r.next(Deferred, "busy", errors.New("busy"), t0)
		if pause := try.Next.Sub(t0); pause < s || pause > 2*s || try.Failures != 1 || try.Eviction {
			t.Errorf("got %+v", try)
		}
	})
	t.Run("nobody is given an hour", func(t *testing.T) {
		try := Removal{Pod: pod("a")}.next(Deferred, "busy", apierrors.NewTooManyRequests("busy", 3600), t0)
		if pause := try.Next.Sub(t0); pause > 40*s {
			t.Errorf("got a pause of %v", pause)
		}
	})
	t.Run("what it cannot do three times in a row it will not do", func(t *testing.T) {
		broken := apierrors.NewInternalError(errors.New("failed calling webhook"))
		r := Removal{Pod: pod("a"), Reason: AtDeadline}
		var got []Outcome
		for range 3 {
			r.Pod.Try = r.next(Deferred, "broken", broken, t0)
			got = append(got, r.Pod.Try.Last)
		}
		if diff := cmp.Diff([]Outcome{Deferred, Deferred, Denied}, got); diff != "" {
			t.Error(diff)
		}
	})
}
