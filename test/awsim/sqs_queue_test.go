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

func testQueue(t *testing.T, attrs map[string]string) *queue {
	t.Helper()
	a, err := defaultAttributes().with(attrs)
	if err != nil {
		t.Fatal(err)
	}
	return newQueue("jobs", a, began())
}

// mustReceive receives what there is, with a visibility of 30 s.
func mustReceive(t *testing.T, q *queue, now time.Time, most int) []receipt {
	t.Helper()
	receipts, err := q.receive(now, most, 30*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func bodies(receipts []receipt) string {
	var all []string
	for _, r := range receipts {
		all = append(all, r.body)
	}
	return strings.Join(all, " ")
}

func codeOf(err error) string {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Code
	}
	return ""
}

func TestVisibility(t *testing.T) {
	t.Parallel()
	now := began()
	q := testQueue(t, nil)
	q.send(now, "a", 0)
	first := mustReceive(t, q, now, 10)
	if len(first) != 1 || len(mustReceive(t, q, now.Add(29*time.Second), 10)) != 0 {
		t.Fatal("a message in flight was received")
	}
	again := mustReceive(t, q, now.Add(30*time.Second), 10)
	if len(again) != 1 || again[0].receives != 2 || again[0].handle == first[0].handle ||
		!again[0].first.Equal(now) || again[0].id != first[0].id {
		t.Fatalf("the message came back as %+v", again)
	}
	// An extension is counted from now, and the moment that it replaces does not count any more.
	if err := q.changeVisibility(now.Add(40*time.Second), again[0].handle, time.Minute); err != nil {
		t.Fatal(err)
	}
	if len(mustReceive(t, q, now.Add(99*time.Second), 10)) != 0 {
		t.Error("the extension was too short")
	}
	if len(mustReceive(t, q, now.Add(100*time.Second), 10)) != 1 {
		t.Error("the extension was too long")
	}
}

func TestChangeVisibilityErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		at   time.Duration // Since the receipt, with a visibility of 30 s that was once extended to 12 h.
		d    time.Duration
		prep func(q *queue, handle string)
		want string
	}{
		{name: "up to 12 h from the receipt", at: time.Hour, d: 11 * time.Hour},
		{
			name: "beyond 12 h from the receipt", at: time.Hour, d: 11*time.Hour + time.Second,
			want: "InvalidParameterValue",
		},
		{name: "more than 12 h", d: maxVisibility + time.Second, want: "InvalidParameterValue"},
		{name: "less than nothing", d: -time.Second, want: "InvalidParameterValue"},
		{name: "the visibility is over", at: 13 * time.Hour, d: time.Minute, want: "MessageNotInflight"},
		{
			name: "deleted", d: time.Minute, want: "InvalidParameterValue",
			prep: func(q *queue, handle string) { _ = q.delete(began(), handle) },
		},
		{
			name: "released", d: time.Minute, want: "MessageNotInflight",
			prep: func(q *queue, handle string) { _ = q.changeVisibility(began(), handle, 0) },
		},
		{
			name: "received again", d: time.Minute, want: "InvalidParameterValue",
			prep: func(q *queue, _ string) {
				q.expireVisibility(began())
				_, _ = q.receive(began(), 1, time.Minute, nil)
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := testQueue(t, nil)
			q.send(began(), "a", 0)
			handle := mustReceive(t, q, began(), 1)[0].handle
			if err := q.changeVisibility(began(), handle, maxVisibility); err != nil {
				t.Fatal(err)
			}
			if c.prep != nil {
				c.prep(q, handle)
			}
			if err := q.changeVisibility(began().Add(c.at), handle, c.d); codeOf(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestReceiptHandles(t *testing.T) {
	t.Parallel()
	now := began()
	q := testQueue(t, nil)
	q.send(now, "a", 0)
	old := mustReceive(t, q, now, 1)[0].handle
	q.expireVisibility(now)
	newer := mustReceive(t, q, now, 1)[0].handle
	if err := q.delete(now, old); err != nil || q.held() != 1 {
		t.Fatalf("the old handle: %v, %d held", err, q.held())
	}
	q.expireVisibility(now)
	if err := q.delete(now, newer); err != nil || q.held() != 0 {
		t.Fatalf("the newest handle, out of flight: %v, %d held", err, q.held())
	}
	if err := q.delete(now, newer); err != nil || q.deleted != 1 {
		t.Errorf("deleted again: %v, %d times", err, q.deleted)
	}
	elsewhere := newQueue("other", defaultAttributes(), now)
	elsewhere.send(now, "a", 0)
	for _, handle := range []string{"", "garbage", "!!", mustReceive(t, elsewhere, now, 1)[0].handle} {
		if err := q.delete(now, handle); codeOf(err) != "ReceiptHandleIsInvalid" {
			t.Errorf("handle %q: %v", handle, err)
		}
	}
}

func TestRedrive(t *testing.T) {
	t.Parallel()
	now := began()
	dead := newQueue("dead", defaultAttributes(), now)
	q := testQueue(t, map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:r:1:dead","maxReceiveCount":"2"}`,
	})
	id := q.send(now, "a", 0)
	for i := range 3 {
		receipts, err := q.receive(now, 10, time.Second, dead)
		if err != nil || len(receipts) != [...]int{1, 1, 0}[i] {
			t.Fatalf("receive %d: %v, %v", i, receipts, err)
		}
		now = now.Add(time.Second)
	}
	got := mustReceive(t, dead, now, 10)
	if len(got) != 1 || got[0].id != id || !got[0].sentAt.Equal(began()) || q.held() != 0 {
		t.Errorf("the dead letters are %+v", got)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	now := began()
	q := testQueue(t, map[string]string{"MessageRetentionPeriod": "60"})
	for _, body := range []string{"in flight", "visible"} {
		q.send(now, body, 0)
	}
	q.send(now, "delayed", 15*time.Minute)
	handle := mustReceive(t, q, now, 1)[0].handle
	q.advance(now.Add(59 * time.Second))
	if q.visible != 2 || q.delayed != 1 {
		t.Fatalf("%d visible, %d delayed", q.visible, q.delayed)
	}
	q.setRetention(61 * time.Second)
	q.advance(now.Add(60 * time.Second))
	if q.held() != 3 {
		t.Fatalf("%d are held, though they are kept longer now", q.held())
	}
	q.advance(now.Add(61 * time.Second))
	if q.held() != 0 || q.visible != 0 || q.inFlight != 0 || q.delayed != 0 {
		t.Fatalf("%d are held that are too old", q.held())
	}
	if err := q.delete(now.Add(time.Hour), handle); err != nil || q.deleted != 0 {
		t.Errorf("a handle of what is gone: %v", err)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	now := began()
	q := testQueue(t, nil)
	q.send(now, "later", 2*time.Second)
	q.send(now, "now", 0)
	if next, ok := nextChange(q); !ok || !next.Equal(now.Add(2*time.Second)) {
		t.Errorf("the queue changes next at %v", next)
	}
	if got := bodies(mustReceive(t, q, now.Add(time.Second), 10)); got != "now" {
		t.Errorf("received %s", got)
	}
	if got := bodies(mustReceive(t, q, now.Add(2*time.Second), 10)); got != "later" {
		t.Errorf("received %s", got)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		reorder bool
		shuffle *rand.Rand
		want    string
	}{
		{name: "as sent", want: "a b c d e"},
		{name: "newest first", reorder: true, want: "e d c b a"},
		{name: "shuffled", reorder: true, shuffle: rand.New(rand.NewPCG(1, 0)), want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := testQueue(t, nil)
			q.reorder, q.shuffle = c.reorder, c.shuffle
			for body := range strings.SplitSeq("a b c d e", " ") {
				q.send(began(), body, 0)
			}
			got := bodies(mustReceive(t, q, began(), 10))
			sorted := strings.Fields(got)
			slices.Sort(sorted)
			if c.want != "" && got != c.want || c.want == "" && got == "a b c d e" ||
				strings.Join(sorted, " ") != "a b c d e" {
				t.Errorf("received %s", got)
			}
		})
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	q := testQueue(t, nil)
	q.duplicate = 1
	q.send(began(), "twice", 0)
	q.send(began(), "once", 0)
	got := mustReceive(t, q, began(), 10)
	if bodies(got) != "twice twice once" || got[0].id != got[1].id || got[0].handle == got[1].handle {
		t.Fatalf("received %+v", got)
	}
	if err := q.delete(began(), got[0].handle); err != nil || q.held() != 2 {
		t.Errorf("deleting one copy: %v, %d held", err, q.held())
	}
}

func TestInFlightLimit(t *testing.T) {
	t.Parallel()
	q := testQueue(t, nil)
	q.limit = 3
	for range 5 {
		q.send(began(), "a", 0)
	}
	if got := len(mustReceive(t, q, began(), 10)); got != 3 {
		t.Errorf("%d were received", got)
	}
	if _, err := q.receive(began(), 1, time.Second, nil); codeOf(err) != "OverLimit" {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestNoVisibility receives with a visibility of 0, which gives each message once and hides none.
func TestNoVisibility(t *testing.T) {
	t.Parallel()
	q := testQueue(t, nil)
	q.send(began(), "a", 0)
	q.send(began(), "b", 0)
	for range 2 {
		got, err := q.receive(began(), 10, 0, nil)
		if err != nil || bodies(got) != "a b" || q.visible != 2 || q.inFlight != 0 {
			t.Fatalf("received %v, %v; %d visible", bodies(got), err, q.visible)
		}
	}
}

func TestPurge(t *testing.T) {
	t.Parallel()
	q := testQueue(t, nil)
	for range 3 {
		q.send(began(), "a", 0)
	}
	q.send(began(), "a", time.Second)
	mustReceive(t, q, began(), 1)
	q.purge()
	if q.held() != 0 || len(mustReceive(t, q, began().Add(time.Hour), 10)) != 0 {
		t.Errorf("%d are held", q.held())
	}
}

func TestAttributeErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"VisibilityTimeout", "43200", ""},
		{"VisibilityTimeout", "43201", "InvalidAttributeValue"},
		{"VisibilityTimeout", "x", "InvalidAttributeValue"},
		{"MessageRetentionPeriod", "59", "InvalidAttributeValue"},
		{"MessageRetentionPeriod", "1209600", ""},
		{"ReceiveMessageWaitTimeSeconds", "21", "InvalidAttributeValue"},
		{"DelaySeconds", "901", "InvalidAttributeValue"},
		{"MaximumMessageSize", "1048577", "InvalidAttributeValue"},
		{"RedrivePolicy", "", ""},
		{"RedrivePolicy", "{", "InvalidAttributeValue"},
		{"RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:r:1:d","maxReceiveCount":3}`, ""},
		{"RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:r:1:d","maxReceiveCount":0}`, "InvalidAttributeValue"},
		{"RedrivePolicy", `{"deadLetterTargetArn":"d","maxReceiveCount":3}`, "InvalidAttributeValue"},
		{"RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:r:1:d"}`, "InvalidAttributeValue"},
		{"Policy", "anything", ""},
		{"QueueArn", "arn", "InvalidAttributeName"},
	} {
		if _, err := defaultAttributes().with(map[string]string{c.name: c.value}); codeOf(err) != c.want {
			t.Errorf("%s = %s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
}

// FuzzReceiptHandle throws handles at a queue: none may hit a message that it was not made for.
func FuzzReceiptHandle(f *testing.F) {
	f.Add("am9icyAxIDE=")
	f.Add("am9icyAxIDI=")
	f.Add("")
	f.Fuzz(func(t *testing.T, handle string) {
		q := newQueue("jobs", defaultAttributes(), began())
		q.send(began(), "a", 0)
		mustReceive(t, q, began(), 1)
		q.expireVisibility(began())
		valid := mustReceive(t, q, began(), 1)[0].handle
		err := q.delete(began(), handle)
		if deleted := q.held() == 0; deleted && err != nil {
			t.Errorf("deleted, with %v", err)
		}
		if _, err := q.find(valid); err != nil {
			t.Errorf("the valid handle: %v", err)
		}
	})
}

// TestQueueForgets: what has passed through a queue is not kept, however much that was.
func TestQueueForgets(t *testing.T) {
	q, now := testQueue(t, nil), began()
	const most = 300
	for range 1000 {
		for range 10 {
			q.send(now, "body", 0)
		}
		for _, r := range mustReceive(t, q, now, 10) {
			for range 3 {
				if err := q.changeVisibility(now, r.handle, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			if err := q.delete(now, r.handle); err != nil {
				t.Fatal(err)
			}
		}
		if len(q.expiries) > most || len(q.wakeups) > most || len(q.messages) > 0 || len(q.ready) > most {
			t.Fatalf("kept %d expiries, %d wakeups, %d messages", len(q.expiries), len(q.wakeups), len(q.messages))
		}
	}
	if q.deleted != 10_000 {
		t.Errorf("deleted %d", q.deleted)
	}
	last := q.send(now, "last", 0)
	if got := mustReceive(t, q, now, 10); len(got) != 1 || got[0].id != last {
		t.Errorf("got %v", got)
	}
	if got := mustReceive(t, q, now.Add(time.Minute), 10); len(got) != 1 {
		t.Errorf("the last message did not come back: %v", got)
	}
	if q.advance(now.Add(15 * 24 * time.Hour)); q.held() != 0 {
		t.Errorf("the last message did not end by age: %d are held", q.held())
	}
}
