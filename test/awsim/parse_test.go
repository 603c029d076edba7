package awsim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const reservationID = "cr-0123456789abcdef0"

// near: events tell whole seconds, rounded down.
func near(got, due time.Time) bool { return !got.After(due) && due.Sub(got) < time.Second }

// TestWarningsAreParsed parses the warnings of awsim with the product's parser: the time that it reads is the time
// at which the instance terminates.
func TestWarningsAreParsed(t *testing.T) {
	s := workers(t, awsim.Options{})
	url := s.CreateQueue("events", nil)
	topic := topicARN
	s.SubscribeTopic(topic, s.QueueARN(url), false)
	s.AddRule(topic, awsim.SpotWarning, awsim.RebalanceAdvice, awsim.ReservationWarning, awsim.BlockWarning,
		awsim.HealthChanged, awsim.StateChanged)
	must(t, s.SetMarket(instanceID, awsim.CapacityBlock, reservationID))
	start := time.Now().Add(time.Hour)
	must(t, s.Recommend(instanceID))
	must(t, s.Interrupt(instanceID, time.Hour))
	must(t, s.ReclaimReservation(instanceID, time.Hour))
	must(t, s.ExpireBlock(reservationID, time.Hour))
	change, err := s.ScheduleChange("instance-stop", start, instanceID)
	must(t, err)
	must(t, s.CancelChange(change))
	s.Publish(awsim.StateChange(s.Envelope(), instanceID, "stopping"))

	got := map[event.Kind]event.Event{}
	c := queueClient(t, s)
	out := do(t, c.ReceiveMessage, &sqs.ReceiveMessageInput{QueueUrl: new(url), MaxNumberOfMessages: 10})
	for _, m := range out.Messages {
		events, err := event.Parse([]byte(*m.Body))
		must(t, err)
		got[events[0].Kind] = events[0]
	}
	for kind, deadline := range map[event.Kind]time.Time{
		event.RebalanceRecommendation:         {},
		event.SpotInterruption:                s.Interruptions()[0].DueAt,
		event.CapacityReservationInterruption: s.Interruptions()[1].DueAt,
		event.CapacityBlockExpiration:         s.Interruptions()[2].DueAt,
		event.ScheduledChange:                 start,
		event.ScheduledChangeCanceled:         {},
		event.StateChange:                     {},
	} {
		e, ok := got[kind]
		named := slices.Contains([]string{instanceID, ""}, e.InstanceID) && (e.InstanceID != "") != (e.ReservationID != "")
		if !ok || !named || deadline.IsZero() != e.Deadline.IsZero() || !deadline.IsZero() && !near(e.Deadline, deadline) {
			t.Errorf("%s: got %+v, want the deadline %v", kind, e, deadline)
		}
	}
}
