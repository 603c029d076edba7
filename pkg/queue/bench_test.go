package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// burst is the number of messages in Karpenter's benchmark of interruptions.
const burst = 15_000

// BenchmarkBurst receives, handles and deletes many messages over HTTP.
func BenchmarkBurst(b *testing.B) {
	for _, bb := range []struct {
		name      string
		receivers int
		handle    Handler
	}{
		{"no-op", 10, func(context.Context, Message) error { return nil }},
		{"parse", 10, func(_ context.Context, m Message) error {
			_, err := event.Parse(m.Body)
			return err
		}},
		{"one receiver", 1, func(context.Context, Message) error { return nil }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s, client := simulatedSQS(b)
				url := s.CreateQueue("jobs", nil)
				for i := range burst {
					s.Send(url, awsim.SpotInterruption(s.Envelope(), fmt.Sprintf("i-%017x", i), "eu-central-1a", "terminate"))
				}
				c := New(client, Config{URL: url, VisibilityTimeout: time.Minute, MaxInFlight: 10_000, Receivers: bb.receivers}, &recorder{})
				ctx, stop := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				b.StartTimer()
				go func() { ended <- c.Run(ctx, bb.handle) }()
				if err := s.WaitDrained(ctx, url); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				stop()
				if err := <-ended; err == nil {
					b.Error("Run ended without a reason")
				}
				if got := s.Queue(url); got.Deleted != burst || got.Received != burst {
					b.Errorf("the queue is %+v", got)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(burst)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
