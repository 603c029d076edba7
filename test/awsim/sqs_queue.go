package awsim

import (
	"container/heap"
	"crypto/md5" //nolint:gosec // SQS and its clients check messages with MD5.
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxVisibility bounds how long a message can be in flight, counted from its receipt.
	maxVisibility = 12 * time.Hour
	// maxInFlight is how many messages of a standard queue can be in flight.
	maxInFlight = 120_000
)

// queue is a standard queue without a lock, without a clock and without HTTP: its methods take the time as a
// parameter. A message is in exactly one of three states: ready, waiting (delayed or in flight), or deleted.
type queue struct {
	name    string
	attrs   queueAttributes
	created time.Time
	changed time.Time // When the attributes last were.

	messages map[uint64]*message
	ready    []*message // May hold deleted messages; take skips them.
	counts
	wakeups  timeline // When waiting messages become visible.
	expiries timeline // When messages end by age.
	serial   uint64

	limit     int // Of messages in flight.
	reorder   bool
	shuffle   *rand.Rand // nil reverses.
	duplicate int        // How many of the next sends are delivered twice.
	lose      int        // How many of the next deliveries are lost.
	received  int
	deleted   int
}

// counts are how many messages are in each state. visible does not count the deleted messages in ready.
type counts struct {
	visible  int
	inFlight int
	delayed  int
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
	sentAt   time.Time
	state    state
	wakeAt   time.Time // When it becomes visible, if it is waiting.
	first    time.Time // Of its receipts.
	last     time.Time
	receives int
}

func newQueue(name string, attrs queueAttributes, now time.Time) *queue {
	return &queue{
		name: name, attrs: attrs, created: now, changed: now,
		messages: map[uint64]*message{}, limit: maxInFlight,
	}
}

// send adds a message, or two if a duplicate is due.
func (q *queue) send(now time.Time, body string, delay time.Duration) (id string) {
	id = newID()
	copies := 1
	if q.duplicate > 0 {
		q.duplicate--
		copies = 2
	}
	for range copies {
		q.add(now, &message{id: id, body: body, sentAt: now}, delay)
	}
	return id
}

// add adds a message, which may be from another queue.
func (q *queue) add(now time.Time, m *message, delay time.Duration) {
	q.serial++
	m.serial = q.serial
	m.receives, m.first, m.last = 0, time.Time{}, time.Time{}
	q.messages[m.serial] = m
	heap.Push(&q.expiries, moment{m.sentAt.Add(q.attrs.retention), m})
	if delay > 0 {
		m.state = delayed
		q.delayed++
		q.hideUntil(m, now.Add(delay))
		return
	}
	m.state = visible
	q.visible++
	q.ready = append(q.ready, m)
}

func (q *queue) hideUntil(m *message, until time.Time) {
	m.wakeAt = until
	heap.Push(&q.wakeups, moment{until, m})
	q.wakeups.prune(q.inFlight+q.delayed, func(at moment) bool { return at.m.wakes(at.at) })
}

// wakes reports whether the message becomes visible at that moment. A later change of its visibility leaves
// the earlier moment behind.
func (m *message) wakes(at time.Time) bool {
	return (m.state == inFlight || m.state == delayed) && m.wakeAt.Equal(at)
}

// advance does what time does: it ends what is too old and shows what has waited long enough.
func (q *queue) advance(now time.Time) {
	for q.expiries.due(now) {
		m := heap.Pop(&q.expiries).(moment).m
		if m.state != gone {
			q.remove(m)
		}
	}
	for q.wakeups.due(now) {
		if at := heap.Pop(&q.wakeups).(moment); at.m.wakes(at.at) {
			q.makeVisible(at.m)
		}
	}
}

func (q *queue) makeVisible(m *message) {
	q.uncount(m)
	m.state = visible
	q.visible++
	q.ready = append(q.ready, m)
}

func (q *queue) remove(m *message) {
	q.uncount(m)
	m.state = gone
	delete(q.messages, m.serial)
	q.expiries.prune(len(q.messages), func(at moment) bool { return at.m.state != gone })
}

func (q *counts) uncount(m *message) {
	switch m.state {
	case visible:
		q.visible--
	case inFlight:
		q.inFlight--
	case delayed:
		q.delayed--
	case gone:
	}
}

// nextChange returns the earliest moment at which time alone may change the queue.
func nextChange(q *queue) (at time.Time, ok bool) {
	for _, t := range []timeline{q.wakeups, q.expiries} {
		if len(t) > 0 && (!ok || t[0].at.Before(at)) {
			at, ok = t[0].at, true
		}
	}
	return at, ok
}

// receive puts up to most visible messages in flight, unless they have been received too often, in
// which case they go to dead.
func (q *queue) receive(now time.Time, most int, visibility time.Duration, dead *queue) ([]receipt, error) {
	q.advance(now)
	if q.inFlight >= q.limit {
		return nil, &Error{"OverLimit", "Too many messages in flight.", 403}
	}
	var receipts []receipt
	var back []*message // A visibility of 0 shows them again, but not twice to one receiver.
	for len(receipts) < most && q.inFlight < q.limit {
		m := q.take()
		if m == nil {
			break
		}
		if dead != nil && m.receives >= q.attrs.maxReceives {
			q.remove(m)
			dead.add(now, &message{id: m.id, body: m.body, sentAt: m.sentAt}, 0)
			continue
		}
		receipts = append(receipts, q.markInFlight(now, m, visibility))
		if visibility <= 0 {
			back = append(back, m)
		}
	}
	for _, m := range back {
		q.makeVisible(m)
	}
	return receipts, nil
}

// take finds the next visible message and removes it from ready; its state is the caller's to change.
func (q *queue) take() *message {
	for len(q.ready) > 0 {
		i := 0
		if q.reorder {
			i = len(q.ready) - 1
			if q.shuffle != nil {
				i = q.shuffle.IntN(len(q.ready))
			}
		}
		m := q.ready[i]
		if i == 0 {
			q.ready[0] = nil
			q.ready = q.ready[1:]
		} else {
			q.ready = append(q.ready[:i], q.ready[i+1:]...)
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

func (q *queue) markInFlight(now time.Time, m *message, visibility time.Duration) receipt {
	q.visible--
	q.inFlight++
	q.received++
	m.state = inFlight
	m.receives++
	m.last = now
	if m.first.IsZero() {
		m.first = now
	}
	q.hideUntil(m, now.Add(visibility))
	return receipt{*m, m.handle(q.name)}
}

// handle is opaque to clients. It names the receipt, not only the message, so that it can be outdated.
func (m *message) handle(queue string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d", queue, m.serial, m.receives))
}

// find returns the message of a receipt handle: nil if the message was deleted, or received again, which
// makes the handle invalid. An error means that the handle never belonged to this queue.
func (q *queue) find(handle string) (*message, error) {
	plain, err := base64.StdEncoding.DecodeString(handle)
	fields := strings.Fields(string(plain))
	if err != nil || len(fields) != 3 || fields[0] != q.name {
		return nil, invalidHandle(handle)
	}
	serial, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil || serial > q.serial {
		return nil, invalidHandle(handle)
	}
	m := q.messages[serial]
	if m == nil || fields[2] != strconv.Itoa(m.receives) {
		return nil, nil //nolint:nilnil // Both are promised above.
	}
	return m, nil
}

func invalidHandle(handle string) *Error {
	return errorf("ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", handle)
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
	if d < 0 || d > maxVisibility {
		return errorf("InvalidParameterValue", "Value %d for parameter VisibilityTimeout is invalid. "+
			"Reason: Must be between 0 and 43200, if provided.", int(d.Seconds()))
	}
	m, err := q.find(handle)
	if err != nil {
		return err
	}
	if m == nil {
		return errorf("InvalidParameterValue", "Value %s for parameter ReceiptHandle is invalid. Reason: Message "+
			"does not exist or is not available for visibility timeout change.", handle)
	}
	if m.state != inFlight {
		return errorf("MessageNotInflight", "The message referred to is not in flight.")
	}
	if now.Add(d).After(m.last.Add(maxVisibility)) {
		return errorf("InvalidParameterValue", "Value %d for parameter VisibilityTimeout is invalid. "+
			"Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds].",
			int(d.Seconds()))
	}
	if d == 0 {
		q.makeVisible(m)
		return nil
	}
	q.hideUntil(m, now.Add(d))
	return nil
}

// expireVisibility shows every message in flight, as if its visibility timeout had passed.
func (q *queue) expireVisibility(now time.Time) {
	q.advance(now)
	for serial := uint64(1); serial <= q.serial; serial++ {
		if m := q.messages[serial]; m != nil && m.state == inFlight {
			q.makeVisible(m)
		}
	}
}

// setRetention changes for how long messages are kept, those included that are there already.
func (q *queue) setRetention(d time.Duration) {
	q.attrs.retention = d
	q.expiries = nil
	for _, m := range q.messages {
		heap.Push(&q.expiries, moment{m.sentAt.Add(d), m})
	}
}

func (q *queue) purge() {
	for _, m := range q.messages {
		q.remove(m)
	}
	q.ready = nil
}

// held is how many messages the queue has, in whatever state.
func (q *counts) held() int { return q.visible + q.inFlight + q.delayed }

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // See the import.
	return hex.EncodeToString(sum[:])
}

// timeline is a heap of moments, the earliest first.
type timeline []moment

type moment struct {
	at time.Time
	m  *message
}

func (t timeline) due(now time.Time) bool { return len(t) > 0 && !t[0].at.After(now) }

// prune forgets the moments that mean nothing any more, once they are the most: a message that was deleted
// must not be kept in memory for the four days after which it would have ended by age.
func (t *timeline) prune(live int, means func(moment) bool) {
	const few = 64
	if len(*t) <= few+2*live {
		return
	}
	*t = slices.DeleteFunc(*t, func(at moment) bool { return !means(at) })
	heap.Init(t)
}

func (t timeline) Len() int { return len(t) }

// Less breaks ties by age, so that messages become visible in the order in which they were sent.
func (t timeline) Less(i, j int) bool {
	if t[i].at.Equal(t[j].at) {
		return t[i].m.serial < t[j].m.serial
	}
	return t[i].at.Before(t[j].at)
}

func (t timeline) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push is for container/heap, as the others are.
func (t *timeline) Push(x any) { *t = append(*t, x.(moment)) }

// Pop takes the last moment off, where container/heap has put the earliest.
func (t *timeline) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
