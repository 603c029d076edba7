package drain

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// TestDecideAnnotationsEnd: no annotation of a pod delays its eviction for longer than DRAIN_ANNOTATION_TIMEOUT, here
// three of ten minutes. What the configuration itself says to wait for is waited for.
func TestDecideAnnotationsEnd(t *testing.T) {
	on := given{policy: func(p *Policy) { p.AnnotationTimeout, p.HandOverTimeout = 3*m, 5*m }}
	on.expect(t, "a pod that has opted out", 3*m-s, "wait a opted-out; again 3m0s", pod("a", waiting(OptedOut)))
	on.expect(t, "is evicted then", 3*m, "evict a", pod("a", waiting(OptedOut)))
	on.expect(t, "or earlier, as its annotation says", m, "evict a", pod("a", waitingUntil(OptedOut, m)))
	on.expect(t, "and not later", 3*m, "evict a", pod("a", waitingUntil(OptedOut, 4*m)))
	on.expect(t, "within its budget", 3*m, "wait a blocked-by-budget x/b; again 9m30s", guarded("a", waiting(OptedOut)))
	on.expect(t, "one that the configuration waits for is not", 3*m, "wait a waited-for; again 9m30s", pod("a", waiting(WaitedFor)))

	refused := annotated(answered(handover.Refused, 0), failingSince(10*s))
	on.expect(t, "a pod that refuses", 3*m-30*s, "ask a to evict it until 3m0s; again 9m30s", pod("a", refused))
	on.expect(t, "is evicted then, too", 3*m, "evict a", pod("a", refused))
	on.expect(t, "one that was not asked yet is not", 3*m, "evict a", pod("a", annotated()))
	paused := annotated(answered(handover.Refused, 4*m), failingSince(10*s))
	on.expect(t, "its pause is no longer", 2*m, "wait a handing-over; again 2m50s", pod("a", paused))
	behind := annotated(answered(handover.GroupBehind, 8*m))
	on.expect(t, "a group that is behind", 2*m, "wait a group-behind; again 2m50s", pod("a", behind))
	on.expect(t, "is asked for the last time before", 3*m-10*s, "ask a at last to evict it until 3m0s; again 9m30s", pod("a", behind))
	on.expect(t, "and evicted then", 3*m, "evict a", pod("a", behind))
	taken := on
	taken.state = turnTaken
	taken.expect(t, "turns", 2*m, "wait a group-behind; again 3m0s", pod("a", annotated()))
	taken.expect(t, "end, too", 3*m, "evict a, b", pod("a", annotated()), pod("b", beginning))
	waits := on
	waits.policy = func(p *Policy) { p.AnnotationTimeout, p.HandOverTimeout = 8*m, 5*m }
	waits.expect(t, "half of the drain is earlier", 5*m, "ask a at last to evict it until 8m0s; again 9m30s", pod("a", behind))
	waits.expect(t, "what its budget permits later is asked until then", 6*m,
		"wait a blocked-by-budget x/b; again 8m0s", guarded("a", annotated()))

	chosen := func(h *HandOver) {
		h.Pod = &handover.Pod{Annotations: map[string]string{handover.DrainAnnotation: handover.Restart}}
	}
	restarting := answered(handover.Restarting, 5*m)
	on.expect(t, "a rolling restart", 2*m, "wait a restarting; again 3m0s", pod("a", restarts(chosen, restarting)))
	on.expect(t, "is waited for no longer", 3*m, "evict a", pod("a", restarts(chosen, restarting)))
	on.expect(t, "except by configuration", 3*m, "wait a restarting; again 5m0s", pod("a", restarts(restarting)))
	none := given{policy: func(p *Policy) { p.AnnotationTimeout, p.HandOverTimeout = 0, time.Minute }}
	none.expect(t, "it may be zero", 0, "evict b, c, a", pod("a", waiting(OptedOut)), pod("b", annotated()), pod("c", restarts(chosen)))
}
