package drain

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// TestAnswerAboutAnEarlierGroup: while a is asked, b is evicted, whose node has no time left. The answer that a may go
// is not used.
func TestAnswerAboutAnEarlierGroup(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		c, a := startAsking(t, always(handover.Answer{Go: true, Outcome: handover.NotLeading}),
			memberPod("a", "test"), memberPod("b", "test", on("o")))
		first := c.drain("n", time.Hour)
		synctest.Wait()
		c.expectDrained(c.drain("o", time.Second), 1)
		c.expectDrained(first, 1)
		c.expectRequests("evict o/b in 1s", "evict n/a")
		c.expect(t, "put off a: group-behind another member was removed while this one was asked")
		if !slices.Equal(a.calls, []string{"a", "a"}) || c.requests[1].after < handOverPause {
			t.Errorf("calls: %q, %+v", a.calls, c.requests)
		}
	})
}

// TestLostTurnIsNoDemand: a pod that has lost the race for the turn of its namespace waits for its group, and keeps no
// disruption of its budget from other drains.
func TestLostTurnIsNoDemand(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		c := newCluster(t, newPDB(1))
		c.start(defaults)
		r, err := newRun(c.drainer, c.target("n", time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		pod := Pod{Namespace: "x", Name: "a", UID: "uid-a", Budgets: []string{"x/b"}, HandOver: HandOver{Kind: "test", Pod: &handover.Pod{}}}
		r.budgetsRead = map[string]struct{}{"x/b": {}}
		if !c.drainer.turns.take("x") {
			t.Fatal("the turn is taken")
		}
		r.act(c.ctx, Step{Release: []Release{{Removal: Removal{Pod: pod, Budget: "x/b"}, TakeTurn: true, Until: time.Now()}}})
		if b := c.drainer.pdbs.find("x/b").view(drainUntil("later", 2*time.Hour)); b.Allowed != 1 || !r.waiter.woken() {
			t.Errorf("got %+v; want a free disruption, and that the drain decides again", b)
		}
	})
}
