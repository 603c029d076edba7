package lead

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// inOutages runs the test for each way in which an API server does not answer.
func inOutages(t *testing.T, test func(t *testing.T, e *env, outage mode)) {
	t.Helper()
	for name, outage := range map[string]mode{"unreachable": unreachable, "hanging": hanging} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T, e *env) { test(t, e, outage) }) })
	}
}

// TestFailedCallsAreReturned: client-go takes a nil error for a renewed lease, so the lock of a leader must
// not return nil for a call that the API server did not answer.
func TestFailedCallsAreReturned(t *testing.T) {
	s := &server{mode: unreachable}
	observer := &replica{}
	l := &lock{Interface: &client{server: s, self: "a"}, timeout: time.Second, observer: observer}
	l.startTerm(func() {})
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "a"}
	for operation, call := range map[string]func() error{
		"read the Lease":   func() error { _, _, err := l.Get(t.Context()); return err },
		"create the Lease": func() error { return l.Create(t.Context(), record) },
		"update the Lease": func() error { return l.Update(t.Context(), record) },
	} {
		if err := call(); !errors.Is(err, errDown) {
			t.Errorf("%s, unanswered, returned %v", operation, err)
		}
	}
	if len(observer.failures) != 3 {
		t.Errorf("reported failures: %q, want 3", observer.failures)
	}
}

// TestOutage: the leader keeps its work, and receives nothing new, until the API server answers.
func TestOutage(t *testing.T) {
	inOutages(t, func(t *testing.T, e *env, outage mode) {
		a, b := e.leaderAndStandby(t)
		e.set(outage)
		advance(10 * time.Minute)
		e.expectLog(t, "a started")
		expect(t, a.Role(), "leading, but the API server does not answer")
		a.expectStatus(t, false, true)
		b.expectStatus(t, false, true)
		if a.receives() || !b.receives() {
			t.Error("the leader receives messages, or the standby waits")
		}
		waited := make(chan struct{})
		go func() { a.WaitForLease(t.Context()); close(waited) }()
		e.set(answered)
		<-waited
		advance(10 * time.Second) // a call that hangs times out; then either replica acquires the expired lease
		if leader := e.leader(t); leader == "" || !a.receives() {
			t.Errorf("%q leads, and a receives: %v", leader, a.receives())
		}
		a.expectStatus(t, true, true)
		b.expectStatus(t, true, true)
	})
}

// TestSingleReplicaAfterAnOutage: it acquires the lease again without stopping its work, if the API server
// allows it.
func TestSingleReplicaAfterAnOutage(t *testing.T) {
	inOutages(t, func(t *testing.T, e *env, outage mode) {
		a := e.replica(t, "a")
		advance(time.Minute)
		for range 3 {
			e.set(outage)
			advance(time.Minute)
			e.set(answered)
			advance(10 * time.Second)
			e.expectLog(t, "a started")
			if age := time.Since(e.record.RenewTime.Time); age > 2*time.Second || e.record.HolderIdentity != "a" {
				t.Errorf("the Lease names %q, %v old", e.record.HolderIdentity, age)
			}
			a.expectStatus(t, true, true)
		}
		e.set(outage)
		advance(time.Minute)
		e.set(forbidden)
		advance(4 * time.Second)
		e.expectLeader(t, "a")
		e.untilLeader(t, 12*time.Second, "")
	})
}

// TestCutOffLeader: another replica leads when the lease has expired, and the first stops as soon as it reads that.
func TestCutOffLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a, b := e.leaderAndStandby(t)
		a.client.change(func() { a.client.down = true })
		advance(20 * time.Second)
		e.expectLog(t, "a started", "b started")
		expect(t, b.holders, []string{"a", "b"})
		if a.receives() {
			t.Error("it receives messages")
		}
		a.client.change(func() { a.client.down = false })
		advance(2 * time.Second)
		e.expectLeader(t, "b")
		e.expectLog(t, "a started", "b started", "a stopped")
		advance(5 * time.Second)
		expect(t, a.Role(), "standing by; b leads")
	})
}

// TestOutageShorterThanTheLease: the leader renews the lease before a standby may acquire it.
func TestOutageShorterThanTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.leaderAndStandby(t)
		for _, length := range []time.Duration{2 * time.Second, 9 * time.Second, 12 * time.Second} {
			e.set(unreachable)
			advance(length)
			e.set(answered)
			advance(time.Minute)
		}
		e.expectLog(t, "a started")
	})
}

func TestStopDuringAnOutage(t *testing.T) {
	for _, length := range []time.Duration{0, time.Minute} {
		inOutages(t, func(t *testing.T, e *env, outage mode) {
			a := e.replica(t, "a")
			advance(time.Minute)
			e.set(outage)
			advance(length)
			a.stop(errStop)
			start := time.Now()
			if err := <-a.ended; !errors.Is(err, errStop) || time.Since(start) > 6*time.Second {
				t.Errorf("Run returned %v after %v", err, time.Since(start))
			}
		})
	}
}
