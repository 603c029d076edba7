package event_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/event"
)

// wrappings are the ways in which one notification can reach the queue.
func wrappings() map[string]func(testing.TB, []byte) []byte {
	raw := func(_ testing.TB, body []byte) []byte { return body }
	return map[string]func(testing.TB, []byte) []byte{
		"as it is sent, or by SNS with raw delivery": raw,
		"by SNS": sns,
		"by SNS without a Subject, as for EventBridge": func(t testing.TB, body []byte) []byte {
			return edit(t, sns(t, body), "Subject", nil)
		},
	}
}

// TestParseInterruptions: the events of EC2 and AWS Health about instances that are terminated without Auto Scaling.
func TestParseInterruptions(t *testing.T) {
	until := func(deadline time.Time) func(*event.Event) {
		return func(e *event.Event) { e.InstanceID, e.State, e.Deadline = instance, "terminate", deadline }
	}
	block := func(e *event.Event) { e.ReservationID, e.Deadline = "cr-0a1b2c3d4e5f60718", at(10*60) }
	health := func(kind event.Kind, id, code string, start time.Time) event.Event {
		return bridged(kind, func(e *event.Event) { e.InstanceID, e.Code, e.Deadline = id, code, start })
	}
	const retirement = "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED"
	start, never := time.Date(2027, 3, 6, 15, 20, 37, 0, time.UTC), time.Time{}
	tests := []struct {
		name string
		file string
		want []event.Event
	}{
		{
			"reservation interrupted: the instance is terminated at the given time, whatever the form of resources",
			"bridge-reservation.json",
			[]event.Event{bridged(event.CapacityReservationInterruption, until(at(120)))},
		},
		{
			"reservation interrupted, by the name that was documented first", "bridge-reservation-interruptible.json",
			[]event.Event{bridged(event.CapacityReservationInterruption, until(at(120)))},
		},
		{
			"reservation interrupted because its Capacity Block ends", "bridge-reservation-block.json",
			[]event.Event{bridged(event.CapacityReservationInterruption, until(at(10*60)))},
		},
		{
			"Capacity Block ends: its instances go half an hour before", "bridge-block.json",
			[]event.Event{bridged(event.CapacityBlockExpiration, block)},
		},
		{
			"Capacity Block ends, by its other documented name", "bridge-block-markdown.json",
			[]event.Event{bridged(event.CapacityBlockExpiration, block)},
		},
		{
			"scheduled change closed: over for every instance, started or not", "bridge-health-closed.json",
			[]event.Event{
				health(event.ScheduledChangeCanceled, instance, rebootCode, never),
				health(event.ScheduledChangeCanceled, "i-0ffffffffffffffff", rebootCode, never),
			},
		},
		{
			"scheduled change resolved for one instance only, and unimpaired is not resolved", "bridge-health-entities.json",
			[]event.Event{
				health(event.ScheduledChangeCanceled, instance, retirement, never),
				health(event.ScheduledChange, "i-0ffffffffffffffff", retirement, start),
				health(event.ScheduledChange, "i-0eeeeeeeeeeeeeeee", retirement, start),
			},
		},
	}
	for _, tt := range tests {
		for wrapping, wrap := range wrappings() {
			t.Run(tt.name+", "+wrapping, func(t *testing.T) {
				expect(t, wrapping, wrap(t, read(t, tt.file)), tt.want)
			})
		}
	}
}

// TestParseNotices: notifications that only inform must never cause an action.
func TestParseNotices(t *testing.T) {
	direct := action(event.Notice, func(e *event.Event) {
		*e = event.Event{Kind: e.Kind, ID: e.ID, At: e.At, AccountID: account}
	})
	tests := map[string]event.Event{
		"notification-launch.json":          direct,
		"notification-launch-error.json":    direct,
		"notification-terminate.json":       direct,
		"notification-terminate-error.json": direct,
		"bridge-terminate-successful.json":  bridged(event.Notice),
		"bridge-refresh-started.json":       bridged(event.Notice),
		"bridge-refresh-checkpoint.json":    bridged(event.Notice),
		"bridge-refresh-succeeded.json":     bridged(event.Notice),
		"bridge-refresh-failed.json":        bridged(event.Notice),
		"bridge-refresh-cancelled.json":     bridged(event.Notice),
		"bridge-block-delivered.json":       bridged(event.Notice),
		"bridge-reclamation-completed.json": bridged(event.Notice),
	}
	for file, want := range tests {
		for wrapping, wrap := range wrappings() {
			t.Run(file+", "+wrapping, func(t *testing.T) {
				expect(t, wrapping, wrap(t, read(t, file)), []event.Event{want})
			})
		}
	}
}

// TestParseOddInterruptions: unusual warnings that are valid.
func TestParseOddInterruptions(t *testing.T) {
	reservation, block := read(t, "bridge-reservation.json"), read(t, "bridge-block.json")
	health := read(t, "bridge-health-closed.json")
	deadline := func(body []byte) time.Time {
		events, err := event.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		return events[0].Deadline
	}
	tests := []struct {
		name string
		body []byte
		want time.Time
	}{
		{
			"a reservation's warning without a time has the documented notice",
			edit(t, reservation, "detail.instance-termination-time", nil), at(120),
		},
		{
			"ISO 8601 with an offset",
			edit(t, reservation, "detail.instance-termination-time", "2027-03-01T12:01:00+02:00"), at(60),
		},
		{
			"ISO 8601 with an offset that has no colon",
			edit(t, reservation, "detail.instance-termination-time", "2027-03-01T10:01:00+0000"), at(60),
		},
		{
			"ISO 8601 without seconds",
			edit(t, reservation, "detail.instance-termination-time", "2027-03-01T10:01Z"), at(60),
		},
		{
			"a time in the past is returned unchanged",
			edit(t, reservation, "detail.instance-termination-time", "2027-03-01T09:59:00Z"), at(-60),
		},
		{"a reservation's warning without resources", edit(t, reservation, "resources", nil), at(120)},
		{"a Capacity Block without an end ends in forty minutes", edit(t, block, "detail.end-date", nil), at(600)},
		{"a Capacity Block without a Region", edit(t, block, "region", nil), at(600)},
		{"an ended change without a start", edit(t, health, "detail.startTime", nil), time.Time{}},
		{"an ended change with an invalid start", edit(t, health, "detail.startTime", "s3cr3t"), time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := deadline(tt.body); !got.Equal(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestResolvedTwice: where a Health event lists an instance twice, one entry that is not resolved counts.
func TestResolvedTwice(t *testing.T) {
	resolved := map[string]any{"entityValue": instance, "status": "RESOLVED"}
	pending := map[string]any{"entityValue": instance, "status": "PENDING"}
	for _, tt := range []struct {
		name     string
		entities []any
		want     event.Kind
	}{
		{"resolved twice", []any{resolved, resolved}, event.ScheduledChangeCanceled},
		{"resolved, then pending", []any{resolved, pending}, event.ScheduledChange},
		{"pending, then resolved", []any{pending, resolved}, event.ScheduledChange},
		{"no status", []any{map[string]any{"entityValue": instance}}, event.ScheduledChange},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, err := event.Parse(edit(t, read(t, "bridge-health.json"), "detail.affectedEntities", tt.entities))
			if err != nil || len(events) != 1 || events[0].Kind != tt.want {
				t.Errorf("got %+v, %v", events, err)
			}
		})
	}
}

// TestEveryKindHasAShape: each kind has a message in testdata, which the tests and the fuzzing use.
func TestEveryKindHasAShape(t *testing.T) {
	var seen []event.Kind
	for _, file := range shapes(t) {
		body := read(t, file)
		events, err := event.Parse(body)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !json.Valid(body) {
			t.Errorf("%s is no JSON", file)
		}
		for _, e := range events {
			seen = append(seen, e.Kind)
		}
	}
	slices.Sort(seen)
	want := slices.Sorted(slices.Values(event.Kinds()))
	if got := slices.Compact(seen); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := slices.Compact(slices.Clone(want)); len(got) != len(want) {
		t.Errorf("a kind is listed twice: %v", want)
	}
}
