package queue

import (
	"sync"
	"time"
)

// inflight is the messages that handlers work on.
type inflight struct {
	mu       sync.Mutex
	messages map[string]*inflightMessage // by message id
}

type inflightMessage struct {
	handle     string // of the latest delivery: with an older one, SQS may not delete the message
	receivedAt time.Time
	done       bool          // its handler has returned: it is not renewed any more
	renewed    chan struct{} // closed when SQS has answered the latest renewal; nil if there was none
}

// change is one entry of a batch: a deletion, or a new visibility timeout.
type change struct {
	handle     string
	visibility time.Duration
	renews     string // the id of the message that is kept invisible for its handler; empty for other changes
}

// add notes a delivery. It returns false if a handler already works on the message: the message is then
// deleted with the receipt handle of this delivery.
func (f *inflight) add(d delivery) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m, ok := f.messages[d.ID]; ok {
		m.handle, m.receivedAt = d.handle, time.Now()
		return false
	}
	f.messages[d.ID] = &inflightMessage{handle: d.handle, receivedAt: time.Now()}
	return true
}

// stopRenewing ends the renewals of the message, and returns its receipt handle.
func (f *inflight) stopRenewing(id string) (handle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages[id].done = true
	return f.messages[id].handle
}

func (f *inflight) remove(id string) inflightMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := *f.messages[id]
	delete(f.messages, id)
	return m
}

// renewals returns the changes that keep the messages invisible for the timeout. SQS keeps a delivery
// invisible for twelve hours at most. Shortly before, the renewals end; the message is delivered again, and
// add notes its new receipt handle.
func (f *inflight) renewals(timeout time.Duration) []change {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]change, 0, len(f.messages))
	for id, m := range f.messages {
		left := maxVisibility - time.Since(m.receivedAt) - time.Second
		if v := min(timeout, left.Truncate(time.Second)); v > 0 && !m.done {
			out = append(out, change{m.handle, v, id})
		}
	}
	return out
}

// isCurrent reports whether the change must still be made. A renewal must not once its handler has returned:
// it would hide a message that was just made visible.
func (f *inflight) isCurrent(ch change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isCurrentLocked(ch)
}

func (f *inflight) isCurrentLocked(ch change) bool {
	m := f.messages[ch.renews]
	return ch.renews == "" || m != nil && m.handle == ch.handle && !m.done
}

// start reports whether the change must still be made. If it is a renewal, whatever removes the message can
// wait until answered is closed.
func (f *inflight) start(ch change, answered chan struct{}) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isCurrentLocked(ch) {
		return false
	}
	if ch.renews != "" {
		f.messages[ch.renews].renewed = answered
	}
	return true
}
