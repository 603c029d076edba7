package awsim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// began is when every test of the queue begins: the queue has no clock of its own.
func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// testQueue is a queue with these messages.
func testQueue(bodies ...string) *queue {
	q := newQueue("jobs", Options{}.source("jobs"))
	for _, body := range bodies {
		q.send(began(), body, "")
	}
	return q
}

// receiveAt receives what there is, with a visibility of 30 s, and returns the bodies too.
func receiveAt(q *queue, now time.Time) (receipts []receipt, bodies string) {
	receipts = q.receive(now, 10, 30*time.Second)
	for _, r := range receipts {
		bodies += r.body
	}
	return receipts, bodies
}

func codeOf(err error) string {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Code
	}
	return ""
}

func TestVisibility(t *testing.T) {
	t.Parallel()
	now, q := began(), testQueue("a")
	first, _ := receiveAt(q, now)
	if _, got := receiveAt(q, now.Add(29*time.Second)); len(first) != 1 || got != "" {
		t.Fatal("a message in flight was received")
	}
	again, _ := receiveAt(q, now.Add(30*time.Second))
	if len(again) != 1 || again[0].receives != 2 || again[0].handle == first[0].handle || again[0].id != first[0].id {
		t.Fatalf("the message came back as %+v", again)
	}
	// An extension is counted from now, and the moment that it replaces does not count any more.
	if err := q.changeVisibility(now.Add(40*time.Second), again[0].handle, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, got := receiveAt(q, now.Add(99*time.Second)); got != "" {
		t.Error("the extension was too short")
	}
	if _, got := receiveAt(q, now.Add(100*time.Second)); got != "a" {
		t.Error("the extension was too long")
	}
}

func TestChangeVisibilityErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   time.Duration // Since the receipt, with a visibility of 30 s that was once extended to 12 h.
		d    time.Duration
		prep func(q *queue, handle string)
		want string
	}{
		"up to 12 h from the receipt":  {at: time.Hour, d: 11 * time.Hour},
		"beyond 12 h from the receipt": {at: time.Hour, d: 11*time.Hour + time.Second, want: "InvalidParameterValue"},
		"more than 12 h":               {d: maxVisibility + time.Second, want: "InvalidParameterValue"},
		"the visibility is over":       {at: 13 * time.Hour, d: time.Minute, want: "MessageNotInflight"},
		"deleted": {
			d: time.Minute, want: "InvalidParameterValue",
			prep: func(q *queue, handle string) { _ = q.delete(began(), handle) },
		},
		"released": {
			d: time.Minute, want: "MessageNotInflight",
			prep: func(q *queue, handle string) { _ = q.changeVisibility(began(), handle, 0) },
		},
		"received again": {
			d: time.Minute, want: "InvalidParameterValue",
			prep: func(q *queue, _ string) {
				q.expireVisibility(began())
				receiveAt(q, began())
			},
		},
	} {
		q := testQueue("a")
		receipts, _ := receiveAt(q, began())
		handle := receipts[0].handle
		if err := q.changeVisibility(began(), handle, maxVisibility); err != nil {
			t.Fatal(err)
		}
		if c.prep != nil {
			c.prep(q, handle)
		}
		if err := q.changeVisibility(began().Add(c.at), handle, c.d); codeOf(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestReceiptHandles(t *testing.T) {
	t.Parallel()
	now, q := began(), testQueue("a")
	old, _ := receiveAt(q, now)
	q.expireVisibility(now)
	newer, _ := receiveAt(q, now)
	if err := q.delete(now, old[0].handle); err != nil || len(q.messages) != 1 {
		t.Fatalf("the old handle: %v, %d held", err, len(q.messages))
	}
	q.expireVisibility(now)
	if err := q.delete(now, newer[0].handle); err != nil || len(q.messages) != 0 {
		t.Fatalf("the newest handle, out of flight: %v, %d held", err, len(q.messages))
	}
	if err := q.delete(now, newer[0].handle); err != nil || q.deleted != 1 {
		t.Errorf("deleted again: %v, %d times", err, q.deleted)
	}
	for _, handle := range []string{"", "garbage", "!!", (&message{}).handle("other")} {
		if err := q.delete(now, handle); codeOf(err) != "ReceiptHandleIsInvalid" {
			t.Errorf("handle %q: %v", handle, err)
		}
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	now, q := began(), testQueue()
	q.delay = 2 * time.Second
	q.send(now, "later", "")
	q.delay = 0
	q.send(now, "now", "")
	if got := q.stats(); got != (QueueStats{Visible: 1, Delayed: 1}) {
		t.Errorf("the queue is %+v", got)
	}
	for after, want := range []string{"now", "", "later"} {
		if _, got := receiveAt(q, now.Add(time.Duration(after)*time.Second)); got != want {
			t.Errorf("received %s after %d s, want %s", got, after, want)
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reorder bool
		shuffle *rand.Rand
		want    string
	}{
		"as sent":      {want: "abcde"},
		"newest first": {reorder: true, want: "edcba"},
		"shuffled":     {reorder: true, shuffle: rand.New(rand.NewPCG(1, 0))},
	} {
		q := testQueue("a", "b", "c", "d", "e")
		q.reorder, q.shuffle = c.reorder, c.shuffle
		_, got := receiveAt(q, began())
		sorted := slices.Sorted(strings.SplitSeq(got, ""))
		if c.want != "" && got != c.want || c.want == "" && got == "abcde" || strings.Join(sorted, "") != "abcde" {
			t.Errorf("%s: received %s", name, got)
		}
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	q := testQueue()
	q.duplicate = 1
	q.send(began(), "twice ", "")
	q.send(began(), "once", "")
	got, bodies := receiveAt(q, began())
	if bodies != "twice twice once" || got[0].id != got[1].id || got[0].handle == got[1].handle {
		t.Fatalf("received %+v", got)
	}
	if err := q.delete(began(), got[0].handle); err != nil || len(q.messages) != 2 {
		t.Errorf("deleting one copy: %v, %d held", err, len(q.messages))
	}
}

// TestQueueFreesMemory: what has passed through a queue is not kept, however much that was.
func TestQueueFreesMemory(t *testing.T) {
	now, q := began(), testQueue()
	for range 1000 {
		for range 10 {
			q.send(now, "body", "")
		}
		receipts, _ := receiveAt(q, now)
		for _, r := range receipts {
			err := q.changeVisibility(now, r.handle, time.Hour)
			if err = errors.Join(err, q.delete(now, r.handle)); err != nil {
				t.Fatal(err)
			}
		}
		if len(q.wakeups) > 300 || len(q.messages) > 0 || len(q.ready) > 0 {
			t.Fatalf("kept %d wakeups, %d messages", len(q.wakeups), len(q.messages))
		}
	}
}
