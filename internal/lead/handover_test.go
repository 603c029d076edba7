package lead

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestFollows(t *testing.T) {
	record := func(holder string, transitions int) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: transitions}
	}
	for _, tt := range []struct {
		name        string
		holder      string
		transitions int
		want        bool
	}{
		{"no replica has acquired the Lease", "", 7, false},
		{"another has acquired it", "b", 8, true},
		{"another has acquired and released it", "", 8, true},
		{"another has created it again", "b", 0, true},
		{"it still names the former leader", "a", 7, false},
	} {
		if got := follows(record(tt.holder, tt.transitions), record("a", 7)); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// TestHandOverToAnother: the other leads, and the first becomes a standby; it may lead again.
func TestHandOverToAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a, b := e.leaderAndStandby(t)
		if b.HandOver("node-b") {
			t.Error("a standby handed over")
		}
		if !a.HandOver("node-a") {
			t.Fatal("the leader did not hand over")
		}
		e.untilLeader(t, 3*time.Second, "b")
		advance(time.Minute)
		e.expectLeader(t, "b")
		expect(t, a.Role(), "standing by; b leads")
		b.stop(errStop)
		e.untilLeader(t, time.Minute, "a")
		if a.HandOver("node-a") {
			t.Error("the lease was handed over twice for one node")
		}
		e.expectLog(t, "a started", "a stopped", "b started", "b stopped", "a started")
	})
}

// TestHandOverOfASingleReplica: it leads again when no other replica has acquired the lease.
func TestHandOverOfASingleReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a := e.replica(t, "a")
		advance(time.Minute)
		if !a.HandOver("node-a") {
			t.Fatal("the leader did not hand over")
		}
		advance(10 * time.Second)
		expect(t, a.Role(), "standing by; no leader")
		a.expectStatus(t, true, true)
		e.untilLeader(t, 10*time.Second, "a")
		if a.HandOver("node-a") {
			t.Error("the lease was handed over twice for one node")
		}
	})
}

// TestHandOverAndBack: a replica that handed over notices that another has led, even if only for a moment. It does not
// hand over again.
func TestHandOverAndBack(t *testing.T) {
	for range 10 { // the pauses of the election are random
		inBubble(t, func(t *testing.T, e *env) {
			a, b := e.leaderAndStandby(t)
			a.HandOver("node-a")
			e.untilLeader(t, time.Minute, "b")
			b.HandOver("node-b")
			e.untilLeader(t, 4*time.Second, "a")
			if a.HandOver("node-a") {
				t.Error("the lease was handed over twice for one node")
			}
		})
	}
}
