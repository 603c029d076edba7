package lead

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHandsOver(t *testing.T) {
	for _, tt := range []struct {
		name          string
		leads, before bool
		want          bool
	}{
		{"a leader hands over before its node is drained", true, false, true},
		{"once for each node", true, true, false},
		{"who does not lead has nothing to hand over", false, false, false},
		{"nor who has led before", false, true, false},
	} {
		if got := handsOver(tt.leads, tt.before); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestStandsAgain(t *testing.T) {
	const lease = 15 * time.Second
	for _, tt := range []struct {
		name   string
		seen   seen
		since  time.Duration
		stands bool
	}{
		{"another may come yet", seen{"", 7}, time.Second, false},
		{"another has come", seen{"b", 8}, time.Second, true},
		{"another has come and gone", seen{"", 8}, time.Second, true},
		{"another has made the Lease anew", seen{"b", 0}, time.Second, true},
		{"what the lease says of us is not news", seen{"a", 7}, time.Second, false},
		{"it could not be read", seen{}, time.Second, false},
		{"nobody has come", seen{"", 7}, lease, true},
		{"nobody has come, and the lease could not be released", seen{"a", 7}, lease, true},
	} {
		if got := standsAgain(seen{"a", 7}, tt.seen, tt.since, lease); got != tt.stands {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// TestHandOverToAnother: the other takes over, and the first stands by again; it may lead once more.
func TestHandOverToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		after(time.Second)
		b := w.replica(t, "b")
		after(time.Minute)
		if b.HandOver("node-b") {
			t.Error("who stands by has handed over")
		}
		if !a.HandOver("node-a") {
			t.Fatal("the leader does not hand over")
		}
		if took := until(t, func() bool { return w.leader(t) == "b" }); took > 3*time.Second {
			t.Errorf("the hand-over took %v", took)
		}
		after(time.Minute)
		wants(t, w.leader(t), "b")
		wants(t, a.Role(), "standing by; b leads")
		b.stop(errStop)
		until(t, func() bool { return w.leader(t) == "a" })
		if a.HandOver("node-a") {
			t.Error("the lease is handed over twice for one node")
		}
		wants(t, w.told(), []string{"a works", "a stops", "b works", "b stops", "a works"})
	})
}

// TestHandOverToNobody: a single replica leads again when nobody has come.
func TestHandOverToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		after(time.Minute)
		if !a.HandOver("node-a") {
			t.Fatal("the leader does not hand over")
		}
		after(10 * time.Second)
		wants(t, a.Role(), "standing by; no leader")
		if a.Ready() != nil || a.Healthy() != nil {
			t.Errorf("ready %v, healthy %v", a.Ready(), a.Healthy())
		}
		if took := until(t, func() bool { return w.leader(t) == "a" }); took > 10*time.Second {
			t.Errorf("nobody led for another %v", took)
		}
		if a.HandOver("node-a") {
			t.Error("the lease is handed over twice for one node")
		}
	})
}

// TestHandOverThereAndBackAtOnce: who has handed over learns that another has led, however short that was.
func TestHandOverThereAndBackAtOnce(t *testing.T) {
	for range 10 { // the elections' pauses are rolled
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			a := w.replica(t, "a")
			after(time.Second)
			b := w.replica(t, "b")
			after(time.Minute)
			a.HandOver("node-a")
			for w.leader(t) != "b" {
				after(10 * time.Millisecond)
			}
			b.HandOver("node-b")
			if took := until(t, func() bool { return w.leader(t) == "a" }); took > 4*time.Second {
				t.Errorf("nobody led for %v", took)
			}
		})
	}
}

// TestTwoOnTwoNodesThatBothGo: the lease goes there and back, and stays.
func TestTwoOnTwoNodesThatBothGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		replicas := map[string]*replica{"a": w.replica(t, "a")}
		after(time.Second)
		replicas["b"] = w.replica(t, "b")
		after(time.Minute)
		hands := 0
		for range 10 {
			until(t, func() bool { return w.leader(t) != "" })
			if r := replicas[w.leader(t)]; r.HandOver("node-" + r.name) {
				hands++
			}
			after(time.Minute)
		}
		if hands != 2 || w.leader(t) == "" {
			t.Errorf("the lease was handed over %d times, and %q leads; want twice", hands, w.leader(t))
		}
	})
}
