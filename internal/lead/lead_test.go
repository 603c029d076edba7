package lead

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

func TestIdentity(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, prefix := range map[string]string{"agent-1": "agent-1_", "": host + "_"} {
		first, err1 := New(fake.NewClientset(), settings(), name, nil, nil)
		second, err2 := New(fake.NewClientset(), settings(), name, nil, nil)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		a, b := first.lock.Identity(), second.lock.Identity()
		if !strings.HasPrefix(a, prefix) || !strings.HasPrefix(b, prefix) || a == b {
			t.Errorf("two processes named %q have the identities %q and %q", name, a, b)
		}
	}
}

func TestInvalidConfig(t *testing.T) {
	cfg := settings()
	cfg.RenewDeadline = cfg.LeaseDuration
	elector := newElector(&client{server: &server{}, self: "a"}, cfg, &replica{})
	if err := elector.Run(t.Context(), nil); err == nil || errors.Is(err, errLost) {
		t.Errorf("Run returned %v", err)
	}
}

func TestOneReplicaLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a, b := e.leaderAndStandby(t)
		c := e.replica(t, "c")
		advance(time.Hour)
		e.expectLeader(t, "a")
		expect(t, a.Role(), "leading")
		for _, r := range []*replica{b, c} {
			expect(t, r.Role(), "standing by; a leads")
			expect(t, r.holders, []string{"a"})
		}
		for _, r := range []*replica{a, b, c} {
			r.expectStatus(t, true, true)
			expect(t, r.failures, []string{})
		}
	})
}

// TestStoppedLeader: its work stops first, and no replica works meanwhile; then the other leads within 3 s.
func TestStoppedLeader(t *testing.T) {
	for _, stopTime := range []time.Duration{0, 40 * time.Second} {
		inBubble(t, func(t *testing.T, e *env) {
			a, _ := e.leaderAndStandby(t, func(r *replica, _ *Config) { r.stopTime = stopTime })
			a.stop(errStop)
			advance(stopTime)
			e.untilLeader(t, 3*time.Second, "b")
			e.expectLog(t, "a started", "a stopped", "b started")
			if err := <-a.ended; !errors.Is(err, errStop) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}

// TestRefusedLease: the work stops, and the process becomes a standby without a restart.
func TestRefusedLease(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a := e.replica(t, "a")
		advance(time.Minute)
		e.set(forbidden)
		e.untilLeader(t, 12*time.Second, "")
		advance(time.Minute)
		a.expectStatus(t, false, true)
		if len(a.failures) == 0 {
			t.Error("no failure was reported")
		}
		expect(t, a.Role(), "standing by; no leader")
		e.set(answered)
		e.untilLeader(t, 10*time.Second, "a")
		a.expectStatus(t, true, true)
		e.expectLog(t, "a started", "a stopped", "a started")
	})
}

// TestWorkThatDoesNotStop: the lease is not released before the work has stopped, and the process is not
// healthy after a minute.
func TestWorkThatDoesNotStop(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a := e.replica(t, "a", func(r *replica, _ *Config) { r.stopTime = 5 * time.Minute })
		advance(time.Minute)
		e.set(forbidden)
		advance(time.Minute)
		a.expectStatus(t, false, true)
		e.set(answered)
		advance(30 * time.Second)
		a.expectStatus(t, false, false)
		advance(5 * time.Minute)
		e.expectLeader(t, "a")
		a.expectStatus(t, true, true)
	})
}

// TestStoppedElection: only a restart of the process can end it.
func TestStoppedElection(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		_, b := e.leaderAndStandby(t)
		frozen := make(chan struct{})
		b.client.change(func() { b.client.frozen = frozen })
		advance(29 * time.Second)
		if err := b.Healthy(); err != nil {
			t.Errorf("not healthy too early: %v", err)
		}
		advance(5 * time.Second)
		b.expectStatus(t, false, false)
		close(frozen)
		advance(5 * time.Second)
		b.expectStatus(t, true, true)
	})
}

func TestWorkThatEndsByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		a, _ := e.leaderAndStandby(t)
		a.workResult <- errWork
		if err := <-a.ended; !errors.Is(err, errWork) {
			t.Errorf("Run returned %v, want the work's error", err)
		}
		advance(3 * time.Second)
		e.expectLeader(t, "b")
	})
}

// TestStoppedStandby: it stops at once, and does not touch the lease.
func TestStoppedStandby(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		_, b := e.leaderAndStandby(t)
		b.stop(errStop)
		start := time.Now()
		if err := <-b.ended; err != nil || time.Since(start) > 0 {
			t.Errorf("Run returned %v after %v", err, time.Since(start))
		}
		advance(0)
		e.expectLeader(t, "a")
		expect(t, e.record.HolderIdentity, "a")
	})
}

func TestWithoutElection(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.set(unreachable)
		a := e.replica(t, "a", func(_ *replica, c *Config) { *c = Config{} })
		advance(time.Hour)
		e.expectLeader(t, "a")
		expect(t, a.Role(), "leading")
		a.expectStatus(t, true, true)
		if a.HandOver("node-1") || len(a.failures) > 0 {
			t.Errorf("it handed over, or called the API server: %q", a.failures)
		}
		a.stop(errStop)
		if err := <-a.ended; !errors.Is(err, errStop) {
			t.Errorf("Run returned %v", err)
		}
	})
}
