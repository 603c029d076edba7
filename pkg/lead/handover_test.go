package lead

import (
	"testing"
	"time"
)

func TestFollows(t *testing.T) {
	for _, tt := range []struct {
		name string
		now  holding
		want bool
	}{
		{"no replica has acquired the Lease", holding{"", 7}, false},
		{"another has acquired it", holding{"b", 8}, true},
		{"another has acquired and released it", holding{"", 8}, true},
		{"another has created it again", holding{"b", 0}, true},
		{"it still names the former leader", holding{"a", 7}, false},
		{"it could not be read", holding{}, false},
	} {
		if got := tt.now.follows(holding{"a", 7}); got != tt.want {
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

// TestHandOverAndBack: a replica that handed over notices that another has led, even if only for a moment.
func TestHandOverAndBack(t *testing.T) {
	for range 10 { // the pauses of the election are random
		inBubble(t, func(t *testing.T, e *env) {
			a, b := e.leaderAndStandby(t)
			a.HandOver("node-a")
			e.untilLeader(t, time.Minute, "b")
			b.HandOver("node-b")
			e.untilLeader(t, 4*time.Second, "a")
		})
	}
}

// TestTwoTerminatingNodes: each replica hands over once, and then one leads until its pod is evicted.
func TestTwoTerminatingNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a, b := e.leaderAndStandby(t)
		replicas := map[string]*replica{"a": a, "b": b}
		count := 0
		for range 10 {
			until(t, time.Minute, func() bool { return e.leader(t) != "" })
			leader := e.leader(t)
			if replicas[leader].HandOver("node-" + leader) {
				count++
			}
			advance(time.Minute)
		}
		if count != 2 || e.leader(t) == "" {
			t.Errorf("the lease was handed over %d times, and %q leads; want twice", count, e.leader(t))
		}
	})
}
