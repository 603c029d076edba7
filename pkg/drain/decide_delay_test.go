package drain

import (
	"testing"
	"time"
)

// TestDecideEvictionDelay: load balancers get time before the first pod ends.
func TestDecideEvictionDelay(t *testing.T) {
	after := func(delay time.Duration) given {
		return given{policy: func(p *Policy) { p.EvictionDelay, p.HandOverTimeout = delay, m }}
	}
	after(m).expect(t, "before the delay no pod is evicted, asked or restarted", 30*s,
		"wait a eviction-delayed, b eviction-delayed, c eviction-delayed; again 1m0s",
		pod("a"), pod("b", annotated()), pod("c", restarts()))
	after(m).expect(t, "after the delay", m, "evict a", pod("a"))
	after(m).expect(t, "a terminating pod is waited for", 30*s, "wait a terminating; again 10m0s", pod("a", terminating(50*s)))
	after(m).expect(t, "nor does it matter that there is no pod", 30*s, "done")
	after(time.Hour).expect(t, "the delay is half of the drain at most", 4*m, "wait a eviction-delayed; again 5m0s", pod("a"))
	after(time.Hour).expect(t, "then the pod is evicted", 5*m, "evict a", pod("a"))
	after(8*m).expect(t, "a pod that must be removed is removed", 5*m, "evict a in 5m0s", pod("a", grace(6*m)))
	lost := after(m)
	lost.state = func(state *State) { state.Unreachable = true }
	lost.expect(t, "a node that is not Ready gets no requests", 30*s, "evict a", pod("a"))
	spot := after(m)
	spot.state = func(state *State) { state.Since = at(8 * m) }
	spot.expect(t, "a Spot interruption leaves no time", 8*m, "evict a", pod("a"))
	spot.state = func(state *State) { state.Since = at(6*m + 30*s) }
	spot.expect(t, "the delay ends when the drain is urgent", 6*m+40*s, "wait a eviction-delayed; again 7m0s", pod("a"))
}
