package agent

import (
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// key tells the reasons of one instance apart. Copies of a message, and what a resync finds of it, have the same. An
// instance may launch twice with one hook: into the warm pool, and later from there into service. Messages without a
// destination, and resyncs, mean the latter.
type key struct {
	kind     event.Kind
	hook     string // GROUP/HOOK; empty without a hook
	intoPool bool
}

func keyOf(e event.Event) key {
	k := key{kind: e.Kind, intoPool: isIntoPool(e)}
	if e.Hook.Name != "" {
		k.hook = hookOf(e)
	}
	return k
}

// reason is an event of an instance, and what is known of it by now.
type reason struct {
	event.Event // with the times that are known best
	key         key
	handled     time.Time    // when this process began with it
	began       time.Time    // when it began with its lifecycle action, of which there may be one after another
	waiting     []chan error // the handlers of its messages
	announced   bool         // maintenance that was postponed
	done        verbs        // the steps that are done
	canceled    bool

	// What AWS has said.
	pauses    retry.Pauses
	next      time.Time // when AWS is asked again
	doubted   bool      // AWS has contradicted the event
	doubtEnds time.Time // then the event is contradicted for good; zero while AWS does not contradict it
	mustAsk   bool      // although it has confirmed the event
	answer    finding   // the last one that decided
	confirmed time.Time // when AWS has confirmed it last; zero if it has not
	intoPool  bool      // by the state of the instance
	spot      spotAnswer
	refused   error // why it is for others
	findable  bool  // a resync finds the lifecycle action without its message
	failed    error // why its message must be delivered again

	// What has come of it.
	limit        limit
	deadline     time.Time // of the mark that the reason has set; zero if it has not
	markedUID    string    // of the Node with that mark
	unregistered bool
	hadNode      bool // which was deleted
	noGroup      bool // no group replaces the instance
	gone         bool // the lifecycle action has ended
	draining     bool // its drain has begun
	report       *drain.Report
	reportUID    string

	// Of a launch.
	startsAt   time.Time // when it began, by what is known last
	uncordoned time.Time // when the agent uncordoned the node; zero if it did not
	recovers   time.Time // the node has time until then, in spite of LAUNCH_TIMEOUT; zero if it has not
	launched   string    // the outcome
	holdEnds   time.Time // if it is abandoned: its drain ends by then
}

// limit is what bounds a drain, or the wait for a launching node, besides the event itself.
type limit struct {
	known time.Time // since when it is known; zero if it is not
	stale bool      // it must be read again
	hook  time.Time // when the hook ends; zero without one
	// earliest is when a launch has begun at the earliest, whatever messages say.
	earliest time.Time
	stopped  bool // nothing runs on the instance
}

func newReason(e event.Event, now time.Time) *reason {
	return &reason{
		Event: e, key: keyOf(e), handled: now, began: now, startsAt: e.At, pauses: retry.Backoff(firstPause, longestPause),
	}
}

// again resets the reason for another lifecycle action of its hook, which holds the instance since an unknown time.
func (r *reason) again(now time.Time) {
	e := r.Event
	e.Hook.Token = ""
	fresh := newReason(foundAt(e, now), now)
	fresh.waiting, fresh.handled = r.waiting, r.handled
	fresh.done, fresh.findable = verbs(0).with(readOwner), r.findable
	*r = *fresh
}

// merge adds what another event of the same key says: the earlier of two deadlines, and of two beginnings. While AWS
// contradicts what is known, a later event takes its place, which AWS may only now confirm.
func (r *reason) merge(e event.Event, now time.Time, confirmTimeout time.Duration) {
	r.askAgain(now)
	replaces := !r.doubtEnds.IsZero() && e.At.After(r.At)
	r.startsAt = r.startWith(e, replaces)
	switch {
	case replaces:
		r.Event = e
		r.doubtEnds = laterOf(r.doubtEnds, now.Add(contradictionTimeout(e, confirmTimeout)))
		return
	case r.Found && !e.Found, e.At.Before(r.At):
		r.At, r.Found = earlier(r.At, e.At), r.Found && e.Found
		r.Seen = earlier(r.Seen, e.Seen)
		r.limit.stale = true
	}
	if r.Hook.Token == "" {
		r.Hook.Token = e.Hook.Token
	}
	if r.Kind == event.ScheduledChange && !r.confirmed.IsZero() { // only EC2's schedule says when it starts
		r.mustAsk = true
		return
	}
	if !e.Deadline.IsZero() && (r.Deadline.IsZero() || e.Deadline.Before(r.Deadline)) {
		r.Deadline = e.Deadline
	}
}

// askAgain has AWS asked once more about an event that it has contradicted for good. It may confirm the one that joins
// it, whatever that says of its time.
func (r *reason) askAgain(now time.Time) {
	if r.answer.contradicts() && r.confirmed.IsZero() {
		r.answer, r.next = finding{}, now
	}
}

// startWith returns when the launch began if the event is about it, too: a message that says when counts more than what
// was assumed without one, and of two the earlier. A copy gives a launch no more time.
func (r *reason) startWith(e event.Event, replaces bool) time.Time {
	at := earlier(e.At, r.handled) // whatever the clock of AWS says
	switch {
	case replaces, r.Found && !e.Found:
		return at
	case r.Found == e.Found:
		return earlier(r.startsAt, at)
	}
	return r.startsAt
}

// heard records an answer of AWS, or that there is none.
func (r *reason) heard(a answer, now time.Time, confirmTimeout time.Duration) {
	r.next, r.mustAsk = r.nextAsk(a, now, r.pauses.Step()), r.mustAsk && a.contradicts()
	if a.intoPool != nil {
		r.intoPool = *a.intoPool
	}
	if !a.notBefore.IsZero() {
		r.Deadline = a.notBefore
		r.Event, _ = withDeadline(r.Event)
	}
	f := a.finding
	switch {
	case a.noAnswer != nil:
		r.failed = a.noAnswer
	case f.contradicts():
		r.doubted = r.doubted || a.answered
		if r.doubtEnds.IsZero() {
			r.doubtEnds = now.Add(contradictionTimeout(r.Event, confirmTimeout))
		}
		if !now.Before(r.doubtEnds) {
			if a.hasLeft {
				f.verdict = ended
			}
			r.answer, r.confirmed = f, time.Time{}
			r.done = r.done.without(uncordon) // which the node may have been since
			return
		}
		r.next = earlier(r.next, r.doubtEnds)
	case f.verdict == confirmed:
		r.answer, r.confirmed, r.doubtEnds = f, now, time.Time{}
		r.pauses = retry.Backoff(firstPause, longestPause)
	case f.verdict == ended:
		r.answer, r.confirmed = f, time.Time{}
	}
}

// nextAsk returns when AWS is asked again: after the pause, and without an answer when a heartbeat may confirm the
// action at the latest.
func (r *reason) nextAsk(a answer, now time.Time, pause time.Duration) time.Time {
	next := now.Add(pause)
	if heartbeat := r.began.Add(stateTimeout); !a.answered && r.Hook.Name != "" && now.Before(heartbeat) {
		return earlier(next, heartbeat)
	}
	return next
}

// answer is what one question to AWS has brought.
type answer struct {
	finding
	hasLeft   bool      // the instance has left its group for good, if it is in none
	answered  bool      // by AWS, and not decided for want of an answer
	intoPool  *bool     // of a launch: where the state of the instance says that it goes
	notBefore time.Time // of maintenance: when it starts by EC2's schedule
	noAnswer  error     // EC2 has not answered for so long that the message is delivered again
}

// isLaunch reports whether the reason is a launch, which has outcomes of its own.
func (r *reason) isLaunch() bool { return r.Kind == event.LifecycleLaunching }

// awaitsReady reports whether the reason is a launch whose outcome is not known: its node may become ready.
func (r *reason) awaitsReady() bool { return r.isLaunch() && r.launched == "" }

// drainBy returns when the drain must end: the earliest of the hook's, the event's and the configured deadline, and
// never before the limit was known. The configured one does not bound a drain for maintenance that is ahead: its
// budgets are not overridden before they must be.
func (r *reason) drainBy(p policy) time.Time {
	deadline := earlier(r.limit.known.Add(p.drainTimeout), r.latest(p))
	if r.Kind == event.ScheduledChange && !r.Deadline.IsZero() {
		deadline = r.Deadline.Add(-p.events.Margin)
	}
	if r.limit.stopped {
		deadline = earlier(deadline, r.limit.known) // no kubelet is left to report the end of its pods
	}
	return laterOf(deadline, r.limit.known)
}

// latest returns by when the drain must end whatever is configured, or a person asks for: AWS ends the instance then.
func (r *reason) latest(p policy) time.Time {
	latest := r.limit.known.Add(longestAction)
	if !r.limit.hook.IsZero() {
		latest = r.limit.hook
	}
	if !r.Deadline.IsZero() {
		latest = earlier(latest, r.Deadline.Add(-p.events.Margin))
	}
	return latest
}

// finishedDrain is the last drain of a node that has ended in this process.
type finishedDrain struct {
	uid    string    // of the Node
	since  time.Time // when the node was cordoned
	hook   string    // that was to be completed afterwards, as GROUP/HOOK; may be empty
	report drain.Report
	repeat bool // the node has got a pod since
}
