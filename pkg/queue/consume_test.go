package queue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMessageIsHandedOverAsItCame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a body")
		var got Message
		r := run(t, f, Config{}, func(_ context.Context, m Message) error { got = m; return nil })
		after(time.Second)
		want := Message{ID: "id-0", Body: []byte("a body"), Receives: 1, SentAt: f.start}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if f.left() != 0 || !slices.Equal(r.outcomes("id-0"), []Outcome{Deleted}) {
			t.Errorf("%d messages left, outcomes %v", f.left(), r.outcomes("id-0"))
		}
	})
}

func TestMessagesStayInvisibleWhileHandled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(25)...)
		r := run(t, f, Config{}, func(context.Context, Message) error { time.Sleep(time.Hour); return nil })
		after(time.Hour + time.Second)
		if len(r.received) != 25 || f.left() != 0 {
			t.Errorf("%d deliveries, %d messages left; want each delivered once and deleted", len(r.received), f.left())
		}
		rounds := map[time.Duration]int{} // how many messages each round of renewals was for
		for _, c := range f.called("visibility") {
			if c.size > 10 {
				t.Errorf("a batch of %d", c.size)
			}
			rounds[c.at.Truncate(time.Second)] += c.size
		}
		for at := 20 * time.Second; at < time.Hour; at += 20 * time.Second {
			if rounds[at] != 25 {
				t.Fatalf("%d messages renewed after %v, want all 25", rounds[at], at)
			}
		}
		if n := len(f.called("visibility")); n > 3*180 {
			t.Errorf("%d calls for 180 rounds of three batches", n)
		}
		if len(r.failures) > 0 {
			t.Errorf("failures: %v", r.failures)
		}
	})
}

// TestRenewalDoesNotHideWhatIsReleased: handlers end at the very instant of a round of renewals.
func TestRenewalDoesNotHideWhatIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(50)...)
		r := run(t, f, Config{}, func(_ context.Context, m Message) error {
			if m.Receives > 1 {
				return nil
			}
			time.Sleep(20 * time.Second)
			return Release(errWork)
		})
		after(21 * time.Second)
		if f.left() != 0 || len(r.failures) > 0 {
			t.Errorf("%d messages were still hidden a second later, failures %v", f.left(), r.failures)
		}
	})
}

func TestDeletesAreBatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(23)...)
		run(t, f, Config{}, func(context.Context, Message) error { time.Sleep(time.Second); return nil })
		after(10 * time.Second)
		var sizes []int
		for _, c := range f.called("delete") {
			sizes = append(sizes, c.size)
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{3, 10, 10}) || f.left() != 0 {
			t.Errorf("deletes of %v, %d left", sizes, f.left())
		}
	})
}

// TestDeleteIsTriedAgain: what SQS does not delete at once does not come back.
func TestDeleteIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(5)...)
		refusals := 0
		f.refuse = func(op string, m *message) bool {
			if op != "delete" || m.id != "id-2" || refusals == 3 {
				return false
			}
			refusals++
			return true
		}
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(3 * time.Second)
		if f.left() != 0 || len(r.received) != 5 || len(r.failures) > 0 || refusals != 3 {
			t.Errorf("%d messages left, %d deliveries, failures %v", f.left(), len(r.received), r.failures)
		}
	})
}

// TestRedeliveryWhileItIsDeleted: there is no second handler, and the newer receipt handle is used.
func TestRedeliveryWhileItIsDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		f.refuse = func(op string, m *message) bool { return op == "delete" && m.receives == 1 }
		handlers := atomic.Int32{}
		r := run(t, f, Config{VisibilityTimeout: 3 * time.Second}, func(context.Context, Message) error {
			handlers.Add(1)
			return nil
		})
		after(10 * time.Second)
		if handlers.Load() != 1 || f.left() != 0 || f.messages[0].receives != 2 || len(r.failures) > 0 {
			t.Errorf("%d handlers, %d messages left, received %d times, failures %v",
				handlers.Load(), f.left(), f.messages[0].receives, r.failures)
		}
	})
}

// TestStopWhileItIsDeleted: a process that stops leaves the rest to the next.
func TestStopWhileItIsDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		f.refuse = func(op string, _ *message) bool { return op == "delete" }
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(2 * time.Second)
		start := time.Now()
		r.end()
		if took := time.Since(start); took > lastCall || !slices.Equal(r.failures, []string{"settle message id-0"}) {
			t.Errorf("Run returned after %v, failures %q", took, r.failures)
		}
	})
}

func TestOneFailingEntryConcernsOnlyItsMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(5)...)
		f.refuse = func(op string, m *message) bool { return op == "delete" && m.id == "id-2" && m.receives == 1 }
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(2 * time.Minute)
		if f.left() != 0 {
			t.Errorf("%d messages left", f.left())
		}
		if len(r.received) != 6 || len(r.outcomes("id-2")) != 2 {
			t.Errorf("%d deliveries, of id-2 %d; want one again, of id-2", len(r.received), len(r.outcomes("id-2")))
		}
		if diff := cmp.Diff([]string{"settle message id-2"}, r.failures); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailedRenewalConcernsOnlyItsMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(3)...)
		f.refuse = func(op string, m *message) bool { return op == "visibility" && m.id == "id-1" }
		handlers := atomic.Int32{}
		r := run(t, f, Config{}, func(context.Context, Message) error {
			handlers.Add(1)
			time.Sleep(150 * time.Second)
			return nil
		})
		after(4 * time.Minute)
		if f.left() != 0 || handlers.Load() != 3 || !slices.Contains(r.failures, "keep a message invisible") {
			t.Errorf("%d messages left, %d handlers, failures %v", f.left(), handlers.Load(), r.failures)
		}
		if f.messages[0].receives != 1 || f.messages[1].receives < 2 {
			t.Errorf("received %d and %d times", f.messages[0].receives, f.messages[1].receives)
		}
	})
}

// TestTwelveHours: SQS lets no delivery stay invisible longer. The message comes back to the process that
// works on it, which takes the new receipt handle and goes on.
func TestTwelveHours(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		handlers := atomic.Int32{}
		r := run(t, f, Config{}, func(context.Context, Message) error {
			handlers.Add(1)
			time.Sleep(30 * time.Hour)
			return nil
		})
		after(30*time.Hour + time.Second)
		if handlers.Load() != 1 || len(r.received) != 1 {
			t.Errorf("%d handlers for one message", handlers.Load())
		}
		if got := f.messages[0].receives; got != 3 {
			t.Errorf("received %d times, want again after 12 h and after 24 h", got)
		}
		if f.left() != 0 || len(r.failures) > 0 {
			t.Errorf("%d messages left, failures %v: want the newest handle used", f.left(), r.failures)
		}
	})
}

// TestHangingRenewal: the renewal after the one that got no answer must come before the message is visible.
func TestHangingRenewal(t *testing.T) {
	for _, visibility := range []time.Duration{3 * time.Second, 30 * time.Second, time.Minute} {
		t.Run(visibility.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake("")
				f.before = func(ctx context.Context, op string, n int) error {
					if op == "visibility" && n%2 == 1 {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
				r := run(t, f, Config{VisibilityTimeout: visibility}, func(context.Context, Message) error {
					time.Sleep(time.Hour)
					return nil
				})
				after(time.Hour + time.Minute)
				if f.messages[0].receives != 1 || len(r.failures) == 0 {
					t.Errorf("received %d times, want once; %d failures", f.messages[0].receives, len(r.failures))
				}
			})
		})
	}
}

func TestReceiveErrorsBackOffAndRecover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		f.before = func(_ context.Context, op string, n int) error {
			if op == "receive" && n < 8 {
				return errDown
			}
			return nil
		}
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(2 * time.Minute)
		if len(r.failures) != 8 || f.left() != 0 {
			t.Fatalf("%d failures, %d messages left", len(r.failures), f.left())
		}
		var pauses []time.Duration
		for i, c := range f.called("receive")[1:9] {
			pauses = append(pauses, c.at-f.called("receive")[i].at)
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 15 * s, 15 * s, 15 * s}, pauses); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDeadConnectionDoesNotStopTheIntake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		f.before = func(ctx context.Context, _ string, n int) error {
			if n == 0 {
				<-ctx.Done() // whatever the operation
			}
			return ctx.Err()
		}
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(5 * time.Minute)
		if !r.Ready() || f.left() != 0 || f.messages[0].receives != 1 {
			t.Errorf("ready %v, %d left, received %d times", r.Ready(), f.left(), f.messages[0].receives)
		}
	})
}

func TestReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		var down atomic.Bool
		down.Store(true)
		f.before = func(_ context.Context, op string, _ int) error {
			if op == "attributes" && down.Load() {
				return errDown
			}
			return nil
		}
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(time.Minute)
		if r.Ready() || len(f.called("receive")) > 0 || len(r.failures) == 0 {
			t.Errorf("ready %v, received %d times, failures %v", r.Ready(), len(f.called("receive")), r.failures)
		}
		down.Store(false)
		after(15 * time.Second)
		if !r.Ready() || f.left() != 0 {
			t.Errorf("ready %v, %d messages left", r.Ready(), f.left())
		}
	})
}

func TestStopWhileAttributesFail(t *testing.T) {
	for name, hang := range map[string]bool{"between two calls": false, "in a call": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake()
				f.before = func(ctx context.Context, _ string, _ int) error {
					if hang {
						<-ctx.Done()
					}
					return errDown
				}
				r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
				after(time.Second)
				r.stop(errStop)
				start := time.Now()
				if err := <-r.ended; !errors.Is(err, errStop) || time.Since(start) > 0 || r.Ready() {
					t.Errorf("Run returned %v after %v", err, time.Since(start))
				}
			})
		})
	}
}

func TestStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("unfinished", "finished", "stubborn", "rejected")
		var causes atomic.Int32
		r := run(t, f, Config{}, func(ctx context.Context, m Message) error {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), errStop) {
				causes.Add(1)
			}
			switch string(m.Body) {
			case "finished":
				return nil
			case "stubborn": // takes a while to see that it is over, and stays invisible meanwhile
				time.Sleep(5 * time.Minute)
			case "rejected":
				return Reject(errWork)
			}
			return context.Cause(ctx)
		})
		after(90 * time.Second)
		receives := len(f.called("receive"))
		stopped := time.Now()
		r.stop(errStop)
		f.send("too late")
		after(time.Second)
		if got := f.messages[0]; time.Since(got.visible) < 0 || got.deleted {
			t.Errorf("what was unfinished is visible in %v", time.Until(got.visible))
		}
		if !f.messages[1].deleted {
			t.Error("what was finished was not deleted")
		}
		if err := <-r.ended; !errors.Is(err, errStop) {
			t.Errorf("Run returned %v, want the cause", err)
		}
		if took := time.Since(stopped); took < 5*time.Minute || took > 5*time.Minute+time.Second {
			t.Errorf("Run returned after %v, want when the last handler had", took)
		}
		if f.messages[2].receives != 1 || time.Since(f.messages[2].visible) < 0 {
			t.Errorf("the stubborn one was received %d times", f.messages[2].receives)
		}
		if causes.Load() != 4 || len(f.called("receive")) != receives {
			t.Errorf("%d of 4 contexts ended, %d receives after the end", causes.Load(), len(f.called("receive"))-receives)
		}
		want := []settled{
			{"id-0", Released, errStop},
			{"id-1", Deleted, nil},
			{"id-2", Released, errStop},
			{"id-3", Rejected, errWork},
			{"id-4", Released, errStop}, // without a handler
		}
		less := cmpopts.SortSlices(func(a, b settled) bool { return a.ID < b.ID })
		if diff := cmp.Diff(want, r.settled, less, cmpopts.EquateErrors()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStopWhileReceiveFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake()
		f.before = func(_ context.Context, op string, _ int) error {
			if op == "receive" {
				return errDown
			}
			return nil
		}
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(10 * time.Second)
		r.stop(errStop)
		start := time.Now()
		if err := <-r.ended; !errors.Is(err, errStop) || time.Since(start) > 0 {
			t.Errorf("Run returned %v after %v", err, time.Since(start))
		}
	})
}

// TestStopWithoutSQS: nothing that SQS does not take may hold the process beyond one call's time.
func TestStopWithoutSQS(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(30)...)
		f.before = func(ctx context.Context, op string, _ int) error {
			if op == "visibility" {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		r := run(t, f, Config{}, func(ctx context.Context, _ Message) error { <-ctx.Done(); return context.Cause(ctx) })
		after(90 * time.Second)
		r.stop(errStop)
		start := time.Now()
		r.end()
		if took := time.Since(start); took > lastCall+renewalWait+callTimeout {
			t.Errorf("Run returned after %v", took)
		}
	})
}

func TestMaxInFlight(t *testing.T) {
	for _, most := range []int{1, 3, 12} {
		bubble(t, func(t *testing.T) {
			f := newFake(bodies(25)...)
			var handlers crowd
			r := run(t, f, Config{MaxInFlight: most}, func(context.Context, Message) error {
				defer handlers.enter()()
				time.Sleep(10 * time.Minute)
				return nil
			})
			after(26 * 10 * time.Minute)
			if _, peak := handlers.count(); peak != most || f.left() != 0 {
				t.Errorf("%d at a time, want %d; %d left", peak, most, f.left())
			}
			// A message that waits for its turn must wait in the queue, for all replicas and uncounted.
			for _, m := range f.messages {
				if m.receives != 1 {
					t.Errorf("at most %d in flight: %s was received %d times", most, m.id, m.receives)
				}
			}
			if len(r.received) != 25 || len(r.failures) > 0 {
				t.Errorf("%d deliveries, failures %v", len(r.received), r.failures)
			}
		})
	}
}

func TestStopWhileFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(15)...)
		r := run(t, f, Config{MaxInFlight: 2}, func(ctx context.Context, _ Message) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		after(time.Hour)
		r.stop(errStop)
		after(time.Second)
		for _, m := range f.messages {
			if time.Since(m.visible) < 0 {
				t.Errorf("%s is invisible for another %v", m.id, time.Until(m.visible))
			}
		}
		if len(r.received) != 2 {
			t.Errorf("%d were taken up, want 2", len(r.received))
		}
	})
}

func TestRetriedMessageComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		var at []time.Duration
		r := run(t, f, Config{}, func(_ context.Context, m Message) error {
			at = append(at, time.Since(f.start).Truncate(time.Second))
			if m.Receives < 4 {
				return errWork
			}
			return nil
		})
		after(time.Minute)
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, s, 4 * s, 11 * s}, at); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]Outcome{Retried, Retried, Retried, Deleted}, r.outcomes("id-0")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRejectedMessageInAQueueWithRedrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		f.attrs = map[string]string{"RedrivePolicy": `{"maxReceiveCount":9}`}
		r := run(t, f, Config{}, func(context.Context, Message) error { return Reject(errWork) })
		after(10 * time.Minute)
		if f.left() != 1 || slices.Contains(r.outcomes("id-0"), Dropped) || len(r.received) < 9 {
			t.Errorf("%d left, outcomes %v: the redrive policy is to take it", f.left(), r.outcomes("id-0"))
		}
	})
}

func TestRejectedMessageInAQueueWithoutRedrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		r := run(t, f, Config{}, func(context.Context, Message) error { return Reject(errWork) })
		after(10 * time.Minute)
		want := []Outcome{Rejected, Rejected, Rejected, Rejected, Dropped}
		if diff := cmp.Diff(want, r.outcomes("id-0")); diff != "" || f.left() != 0 {
			t.Errorf("%d left, %s", f.left(), diff)
		}
	})
}

// strange answers as no SQS should.
type strange struct {
	*fakeSQS
	messages []types.Message
	given    atomic.Bool
	deletes  atomic.Int32
}

func (s *strange) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	if s.given.Swap(true) {
		return s.fakeSQS.ReceiveMessage(ctx, in, opts...)
	}
	return &sqs.ReceiveMessageOutput{Messages: s.messages}, nil
}

func (s *strange) DeleteMessageBatch(
	_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options),
) (*sqs.DeleteMessageBatchOutput, error) {
	s.deletes.Add(int32(len(in.Entries)))
	return &sqs.DeleteMessageBatchOutput{
		Successful: []types.DeleteMessageBatchResultEntry{
			{}, {Id: aws.String("-1")}, {Id: aws.String("99")}, {Id: aws.String("x")}, {Id: aws.String("0")},
		},
		Failed: []types.BatchResultErrorEntry{{}, {Id: aws.String("17")}, {Id: aws.String("1")}},
	}, nil
}

func TestStrangeAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &strange{fakeSQS: newFake(), messages: []types.Message{
			{MessageId: aws.String("bare"), ReceiptHandle: aws.String("h")},
			{MessageId: aws.String("odd"), ReceiptHandle: aws.String("i"), Attributes: map[string]string{
				"ApproximateReceiveCount": "many", "SentTimestamp": "yesterday",
			}},
			{MessageId: aws.String("third"), ReceiptHandle: aws.String("j"), Attributes: map[string]string{
				"ApproximateReceiveCount": "-3", "SentTimestamp": "0",
			}},
			{MessageId: aws.String("bare"), ReceiptHandle: aws.String("k")},
			{},
		}}
		r := run(t, s, Config{}, func(context.Context, Message) error { time.Sleep(time.Second); return nil })
		now := time.Now()
		after(time.Minute)
		for _, m := range r.received {
			if m.Receives != 1 {
				t.Errorf("%q was received %d times", m.ID, m.Receives)
			}
			// An event without a time of its own is as old as its message: 1970 would be past any deadline.
			if !m.SentAt.Equal(now) {
				t.Errorf("%q was sent at %v, want now for want of better", m.ID, m.SentAt)
			}
		}
		// SQS confirms no deletion but that of the first entry: of four, three, two, one.
		if len(r.received) != 4 || len(r.failures) > 0 || s.deletes.Load() != 4+3+2+1 {
			t.Errorf("%d deliveries, failures %v, asked for %d deletions", len(r.received), r.failures, s.deletes.Load())
		}
	})
}

// TestMoreThanWasAskedFor: what there is no room for comes back by itself.
func TestMoreThanWasAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &strange{fakeSQS: newFake()}
		for _, id := range []string{"a", "b", "c", "d"} {
			s.messages = append(s.messages, types.Message{MessageId: aws.String(id), ReceiptHandle: aws.String(id)})
		}
		r := run(t, s, Config{MaxInFlight: 2}, func(context.Context, Message) error { return nil })
		after(time.Minute)
		r.end()
		if len(r.received) != 2 {
			t.Errorf("%d were taken up, want 2", len(r.received))
		}
	})
}

func TestAnswersThatLeaveOutMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		silent := func(context.Context) *Consumer {
			return New(&mute{}, Config{URL: queueURL, VisibilityTimeout: time.Minute, MaxInFlight: 1}, &watcher{})
		}
		for _, r := range silent(t.Context()).visibilityBatch(t.Context(), make([]change, 2)) {
			if !errors.Is(r.Err, errMissing) {
				t.Errorf("got %v, want %v", r.Err, errMissing)
			}
		}
	})
}

// mute takes every change of visibility and tells of none.
type mute struct{ API }

func (*mute) ChangeMessageVisibilityBatch(
	context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options),
) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	return &sqs.ChangeMessageVisibilityBatchOutput{}, nil
}
