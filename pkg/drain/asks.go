package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// HandOverResult is what has become of the hand-over of a pod.
type HandOverResult struct {
	Pod     Pod
	Outcome handover.Outcome // one of HandOverOutcomes
	Message string           // why, without the final period; may be empty
	Leader  string           // the pod that leads now, if the leadership has moved
	Took    time.Duration    // since the pod was asked for the first time; zero if it was not asked
}

// handOvers are the calls of one drain that ask pods whether they may be evicted, and the answers.
type handOvers struct {
	drainer  *Drainer
	removals *removals

	mu    sync.Mutex
	asked map[string]*asked // by UID
}

// asked is what a drain knows of the hand-over of a pod.
type asked struct {
	HandOver
	pod         Pod // at the last call
	leader      string
	since       time.Time          // of the first call
	annotations map[string]string  // of the pod at the last call
	cancel      context.CancelFunc // ends the call in flight
	putOff      bool               // the Observer was notified that the pod may not go yet
	ended       bool               // the Observer was notified of the result
}

// fill adds to the pods what they have answered, and forgets those that are not leaving any more. A change of a pod's
// annotations is a reason to ask again. It must be called before removals.fillTries: an answer that leads to an
// eviction becomes a Try first.
func (h *handOvers) fill(pods []Pod, leaving map[string]struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.asked, func(uid string, one *asked) bool {
		if _, ok := leaving[uid]; ok || one.Asking {
			return false
		}
		if one.Last == handover.Restarting {
			one.Last, one.Message = handover.Replaced, ""
			h.end(one)
		}
		return true
	})
	for i := range pods {
		one, now := h.asked[pods[i].UID], &pods[i].HandOver
		if one == nil || now.Kind == "" {
			continue
		}
		if !maps.Equal(one.annotations, now.Pod.Annotations) {
			one.Next = time.Time{}
		}
		one.Kind, one.Pod = now.Kind, now.Pod
		*now = one.HandOver
	}
}

// find returns what is known of the pod. The lock is held.
func (h *handOvers) find(uid string) *asked {
	if h.asked[uid] == nil {
		h.asked[uid] = &asked{}
	}
	return h.asked[uid]
}

// start asks whether the pod may be evicted, in a goroutine that evicts it if it may: no answer is used later than it
// was given. The goroutine ends with these requests, and the call by callEnd. It returns false if another drain has the
// turn of the namespace, or if the pod is not as it was when the call was decided.
func (h *handOvers) start(ctx context.Context, release Release) (callEnd time.Time, ok bool) {
	namespace := release.Removal.Pod.Namespace
	if release.Evict {
		release.Until = earliest(release.Until, time.Now().Add(h.drainer.policy.HandOverTimeout))
	}
	asking, cancel := context.WithDeadline(ctx, release.Until)
	if !h.begin(release, cancel) {
		cancel()
		return time.Time{}, false
	}
	h.removals.workers.Go(func() {
		defer cancel()
		h.run(ctx, asking, release)
		if release.TakeTurn {
			h.drainer.turns.end(namespace)
		}
	})
	return release.Until, true
}

// begin takes the turn, and records that the pod is asked. It returns false if it does neither.
func (h *handOvers) begin(release Release, cancel context.CancelFunc) bool {
	if h.removals.hasChanged(release.Removal.Pod) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	one, decided := h.find(release.Removal.Pod.UID), release.Removal.Pod.HandOver
	if one.Asking || !one.since.IsZero() && decided.Kind != "" && one.HandOver != decided {
		return false
	}
	if release.TakeTurn && !h.drainer.turns.take(release.Removal.Pod.Namespace) {
		return false
	}
	one.Asking, one.Reserved, one.cancel, one.pod = true, release.Removal.Budget != "", cancel, release.Removal.Pod
	one.annotations = release.Removal.Pod.HandOver.Pod.Annotations
	if one.since.IsZero() {
		one.since = time.Now()
	}
	return true
}

// run asks the pod, and evicts it if it may go, or if that was the last call.
func (h *handOvers) run(ctx, asking context.Context, release Release) {
	started := time.Now()
	answer, err := h.ask(asking, release)
	canceled := ctx.Err() != nil || errors.Is(asking.Err(), context.Canceled)
	if !canceled && release.Evict && (answer.Go || release.Last) {
		evict, ok := h.removals.enqueue(ctx, &release.Removal)
		h.finish(release, answer, err, started)
		if ok { // otherwise another removal of the pod is under way, and the reservation ends by itself
			if t := h.drainer.pdbs.find(release.Removal.Budget); t != nil {
				t.startAfterCall(release.Removal.Pod.Name)
			}
			h.removals.run(ctx, evict, &release.Removal, h.removals.evict)
		}
		return
	}
	if canceled {
		h.drop(release)
	} else {
		h.finish(release, answer, err, started)
	}
	h.removals.release(release.Removal, None)
	h.removals.wakeUp()
}

// ask asks the pod. An answer that may be about the group as it was before another member was removed is not used.
func (h *handOvers) ask(ctx context.Context, release Release) (handover.Answer, error) {
	answer, err := h.drainer.ask(ctx, release, h.removals.target().Deadline)
	answer.Go = answer.Go && err == nil
	inTurn := release.TakeTurn && !release.Last
	if answer.Go && inTurn && h.drainer.turns.hasChanged(release.Removal.Pod.Namespace) {
		return handover.Answer{
			Outcome: handover.GroupBehind, Leader: answer.Leader,
			Message: "another member was removed while this one was asked",
		}, nil
	}
	return answer, err
}

// drop records that a call was canceled. It is decided again.
func (h *handOvers) drop(release Release) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.find(release.Removal.Pod.UID)
	one.Asking, one.Reserved = false, false
}

// finish records the answer to a call.
func (h *handOvers) finish(release Release, answer handover.Answer, err error, started time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.find(release.Removal.Pod.UID)
	one.Asking, one.Reserved, one.Closed = false, false, release.Last
	one.record(answer, err, !time.Now().Before(release.Until))
	if answer.Go {
		one.FailingSince, one.Next = time.Time{}, time.Time{}
		return
	}
	if answer.Outcome == handover.GroupBehind || answer.Outcome == handover.Restarting {
		one.FailingSince = time.Time{}
	} else if one.FailingSince.IsZero() {
		one.FailingSince = started
	}
	again := min(max(cmp.Or(answer.Again, handOverPause), shortestHandOverPause), longestHandOverPause)
	one.Next = time.Now().Add(jittered(again))
	if !one.putOff && !one.Closed {
		one.putOff = true
		h.drainer.observer.HandOverPutOff(h.removals.target(), one.result(release.Removal.Pod))
	}
}

// record keeps an answer, or the error of a call without one. If a call was cut off because its time was up, the answer
// before it says more than its error.
func (o *asked) record(answer handover.Answer, err error, cutOff bool) {
	switch {
	case err == nil:
		o.Last, o.Message, o.leader = answer.Outcome, excerpt(answer.Message), cmp.Or(answer.Leader, o.leader)
	case o.Last == "" || !cutOff:
		o.Last, o.Message = noAnswer, excerpt(err.Error())
	}
	if o.Last == handover.NotLeading && o.leader != "" { // An earlier call has moved the leadership.
		o.Last = handover.HandedOver
	}
}

// longestMessage bounds the message of an answer. An Event takes 1,024 bytes, and pods write what they want.
const longestMessage = 400

// excerpt returns the beginning of a message, without what a terminal would interpret.
func excerpt(message string) string { return text.Cut(text.Clean(message), longestMessage) }

func (o *asked) result(pod Pod) HandOverResult {
	r := HandOverResult{Pod: pod, Outcome: o.Last, Message: o.Message, Leader: o.leader}
	if !o.since.IsZero() {
		r.Took = time.Since(o.since)
	}
	return r
}

// report notifies the Observer once of what has become of the hand-over of a pod that is removed now.
func (h *handOvers) report(pod *Pod) {
	if pod.HandOver.Kind == "" && pod.HandOver.Unknown == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.find(pod.UID)
	one.pod = *pod
	switch {
	case pod.HandOver.Unknown != "":
		one.Last = handover.Invalid
		one.Message = fmt.Sprintf("the annotation %s is %q: must be %s",
			handover.KindAnnotation, pod.HandOver.Unknown, h.drainer.rules.kinds())
	case one.Last == "":
		one.Last, one.Message = noAnswer, "there was no time to ask"
	}
	h.end(one)
}

// end notifies the Observer once of what has become of a hand-over. A pod that nobody has asked to restart is none.
func (h *handOvers) end(one *asked) {
	if one.ended || one.Last == handover.Unfit && one.Message == "" {
		return
	}
	one.ended = true
	h.drainer.observer.HandOverEnded(h.removals.target(), one.result(one.pod))
}

// cancel ends all calls, so that they are decided again.
func (h *handOvers) cancel() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.asked {
		if one.Asking {
			one.cancel()
		}
	}
}

// ask asks the pod whether it may be evicted.
func (d *Drainer) ask(ctx context.Context, release Release, deadline time.Time) (handover.Answer, error) {
	if release.Removal.Pod.HandOver.Starting {
		return handover.Answer{Go: true}, nil
	}
	return d.rules.releaser(release.Removal.Pod.HandOver.Kind).Release(ctx, handover.Request{
		Pod: *release.Removal.Pod.HandOver.Pod, Deadline: deadline, Last: release.Last, Leaving: d.rules.Leaving(),
	})
}
