package awsim

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxVisibility bounds how long a message can be in flight, counted from its receipt.
const maxVisibility = 12 * time.Hour

// queue is a standard queue without a lock, without a clock and without HTTP: its methods take the time as a
// parameter. A message is in exactly one of three states: ready, waiting (delayed or in flight), or deleted.
type queue struct {
	name  string
	delay time.Duration // Of what is sent from now on.

	attributes map[string]string // Those that are shown as they were set, and change nothing here.

	policyText string           // As it was set.
	policy     []queueStatement // nil without a policy.

	redrivePolicy string // As it was set.
	deadLetters   *queue // nil without a redrive policy.
	maxReceives   int

	messages map[uint64]*message
	ready    []*message // May hold deleted messages; take skips them.
	wakeups  []moment   // When waiting messages become visible, the earliest first.
	serial   uint64
	ids      *rand.Rand

	reorder     bool
	shuffle     *rand.Rand // nil reverses.
	disturbance Disturbance
	duplicate   int // How many of the next sends are delivered twice.
	lose        int // How many of the next deliveries are lost.
	lost        []string
	received    int
	deleted     int
}

type state int

const (
	visible state = iota
	inFlight
	delayed
	gone
)

// message is one copy of a message in one queue.
type message struct {
	serial   uint64 // Within its queue.
	id       string // Both copies of a duplicate have the same.
	body     string
	sender   string // SenderId.
	sentAt   time.Time
	state    state
	wakeAt   time.Time // When it becomes visible, if it is waiting.
	last     time.Time // Of its receipts.
	receives int
}

// moment is when a message becomes visible, unless its visibility is changed before.
type moment struct {
	at time.Time
	m  *message
}

// compare breaks ties by age, so that messages become visible in the order in which they were sent.
func (x moment) compare(y moment) int {
	return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.m.serial, y.m.serial))
}

// means reports whether the message becomes visible at that moment. A later change of its visibility leaves
// the earlier moment behind.
func (x moment) means() bool {
	return (x.m.state == inFlight || x.m.state == delayed) && x.m.wakeAt.Equal(x.at)
}

func newQueue(name string, ids *rand.Rand) *queue {
	return &queue{name: name, messages: map[uint64]*message{}, ids: ids}
}

// send adds a message, or two if a duplicate is due; none if a disturbance loses it.
func (q *queue) send(now time.Time, body, sender string) (id string) {
	id = uuid(q.ids)
	delays := q.disturbance.copies()
	if q.duplicate > 0 {
		q.duplicate--
		delays = append(delays, 0)
	}
	for _, delay := range delays {
		q.add(now, &message{id: id, body: body, sender: sender, sentAt: now}, q.delay+delay)
	}
	return id
}

func (q *queue) add(now time.Time, m *message, delay time.Duration) {
	q.serial++
	m.serial = q.serial
	q.messages[m.serial] = m
	if delay > 0 {
		q.hideUntil(m, delayed, now.Add(delay))
		return
	}
	q.makeVisible(m)
}

func (q *queue) makeVisible(m *message) {
	m.state = visible
	q.ready = append(q.ready, m)
}

// hideUntil also forgets the moments that mean nothing any more, once they are the most: a message that was
// deleted must not be kept in memory until its visibility would have been over.
func (q *queue) hideUntil(m *message, as state, until time.Time) {
	m.state, m.wakeAt = as, until
	at, _ := slices.BinarySearchFunc(q.wakeups, moment{until, m}, moment.compare)
	q.wakeups = slices.Insert(q.wakeups, at, moment{until, m})
	if len(q.wakeups) > 64+2*len(q.messages) {
		q.wakeups = slices.DeleteFunc(q.wakeups, func(x moment) bool { return !x.means() })
	}
}

// advance shows what has waited long enough.
func (q *queue) advance(now time.Time) {
	due := 0
	for ; due < len(q.wakeups) && !q.wakeups[due].at.After(now); due++ {
		if x := q.wakeups[due]; x.means() {
			q.makeVisible(x.m)
		}
	}
	q.wakeups = slices.Delete(q.wakeups, 0, due)
}

func (q *queue) remove(m *message) {
	m.state = gone
	delete(q.messages, m.serial)
}

// receive puts up to most visible messages in flight, unless they have been received too often, in
// which case they go to the dead-letter queue.
func (q *queue) receive(now time.Time, most int, visibility time.Duration) (receipts []receipt) {
	q.advance(now)
	for len(receipts) < most {
		m := q.take()
		if m == nil {
			break
		}
		if q.deadLetters != nil && m.receives >= q.maxReceives {
			q.remove(m)
			q.deadLetters.add(now, &message{id: m.id, body: m.body, sender: m.sender, sentAt: m.sentAt}, 0)
			continue
		}
		q.received++
		m.receives++
		m.last = now
		q.hideUntil(m, inFlight, now.Add(visibility))
		receipts = append(receipts, receipt{*m, m.handle(q.name)})
	}
	return receipts
}

// nextReady returns the index of what is taken next.
func (q *queue) nextReady() int {
	switch last := len(q.ready) - 1; {
	case q.disturbance.Reorder:
		return q.disturbance.Rand.IntN(last + 1)
	case !q.reorder:
		return 0
	case q.shuffle != nil:
		return q.shuffle.IntN(last + 1)
	default:
		return last
	}
}

// take finds the next visible message and removes it from ready; its state is the caller's to change.
func (q *queue) take() *message {
	for len(q.ready) > 0 {
		i := q.nextReady()
		m := q.ready[i]
		if i == 0 {
			q.ready[0] = nil
			q.ready = q.ready[1:]
		} else {
			q.ready = slices.Delete(q.ready, i, i+1)
		}
		if m.state == visible {
			return m
		}
	}
	return nil
}

// receipt is what a consumer gets: the message as it was at that moment.
type receipt struct {
	message
	handle string
}

// handle is opaque to clients. It names the receipt, not only the message, so that it can be outdated.
func (m *message) handle(queue string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d", queue, m.serial, m.receives))
}

// find returns the message of a receipt handle: nil if the message was deleted, or received again, which
// makes the handle invalid. An error means that the handle never belonged to this queue.
func (q *queue) find(handle string) (*message, error) {
	plain, _ := base64.StdEncoding.DecodeString(handle) // What is no base64 has no three fields.
	fields := strings.Fields(string(plain))
	if len(fields) != 3 || fields[0] != q.name {
		return nil, errorf("ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", handle)
	}
	serial, _ := strconv.ParseUint(fields[1], 10, 64)
	m := q.messages[serial]
	if m == nil || fields[2] != strconv.Itoa(m.receives) {
		return nil, nil //nolint:nilnil // Both are promised above.
	}
	return m, nil
}

// delete ends a message. SQS promises success for a handle that is not the newest, though the message
// "might not be deleted": here it never is, so that a consumer which relies on it is found out.
func (q *queue) delete(now time.Time, handle string) error {
	q.advance(now)
	m, err := q.find(handle)
	if err != nil || m == nil {
		return err
	}
	q.remove(m)
	q.deleted++
	return nil
}

// changeVisibility makes a message in flight visible after d; 0 means at once.
func (q *queue) changeVisibility(now time.Time, handle string, d time.Duration) error {
	q.advance(now)
	m, err := q.find(handle)
	switch {
	case err != nil:
		return err
	case d < 0 || d > maxVisibility:
		return errorf("InvalidParameterValue", "Value %d for parameter VisibilityTimeout is invalid. "+
			"Reason: Must be between 0 and 43200, if provided.", int(d.Seconds()))
	case m == nil:
		return errorf("InvalidParameterValue", "Value %s for parameter ReceiptHandle is invalid. Reason: Message "+
			"does not exist or is not available for visibility timeout change.", handle)
	case m.state != inFlight:
		return errorf("MessageNotInflight", "The message referred to is not in flight.")
	case now.Add(d).After(m.last.Add(maxVisibility)):
		return errorf("InvalidParameterValue", "Value %d for parameter VisibilityTimeout is invalid. "+
			"Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds].",
			int(d.Seconds()))
	case d == 0:
		q.makeVisible(m)
	default:
		q.hideUntil(m, inFlight, now.Add(d))
	}
	return nil
}

// expireVisibility shows every message in flight, as if its visibility timeout had passed.
func (q *queue) expireVisibility(now time.Time) {
	q.advance(now)
	for _, serial := range sortedKeys(q.messages) {
		if m := q.messages[serial]; m.state == inFlight {
			q.makeVisible(m)
		}
	}
}

func (q *queue) stats() QueueStats {
	out := QueueStats{Deleted: q.deleted, Received: q.received}
	for _, m := range q.messages {
		switch m.state {
		case visible:
			out.Visible++
		case inFlight:
			out.InFlight++
		case delayed:
			out.Delayed++
		case gone:
		}
	}
	return out
}
