package event_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
)

const (
	account  = "123456789012"
	instance = "i-0a1b2c3d4e5f60718"
	other    = "i-0ffffffffffffffff"
	// rebootCode is the eventTypeCode of the scheduled changes in testdata, but for one.
	rebootCode     = "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED"
	retirementCode = "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED"
)

// read returns one of the messages in testdata, which are as AWS sends them except for names.
func read(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func decode[T any](t testing.TB, body []byte) (value T) {
	t.Helper()
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return value
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	body, err := json.MarshalIndent(value, " ", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// sns puts the envelope of a topic around a body.
func sns(t testing.TB, body []byte) []byte {
	t.Helper()
	return encode(t, map[string]string{
		"Type":             "Notification",
		"MessageId":        "b5a1e2f0-0000-5000-8000-000000000001",
		"TopicArn":         "arn:aws:sns:eu-west-1:123456789012:lifecycle",
		"Subject":          "Auto Scaling:  Lifecycle action 'TERMINATING' for instance " + instance + " in progress.",
		"Message":          string(body),
		"Timestamp":        "2027-03-01T10:00:01.000Z",
		"SignatureVersion": "1",
		"Signature":        "RVhBTVBMRQ==",
		"SigningCertURL":   "https://sns.eu-west-1.amazonaws.com/cert.pem",
		"UnsubscribeURL":   "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
	})
}

// edit changes one top-level field of a JSON object, or one of its detail if the path has a dot; nil
// removes it.
func edit(t testing.TB, body []byte, path string, value any) []byte {
	t.Helper()
	object := decode[map[string]any](t, body)
	target, key := object, path
	if outer, inner, nested := strings.Cut(path, "."); nested {
		target, key = object[outer].(map[string]any), inner
	}
	target[key] = value
	if value == nil {
		delete(target, key)
	}
	return encode(t, object)
}

func at(second int) time.Time { return time.Date(2027, 3, 1, 10, 0, second, 0, time.UTC) }

func changed(e event.Event, changes []func(*event.Event)) event.Event {
	for _, change := range changes {
		change(&e)
	}
	return e
}

// direct is an event in a message of Auto Scaling itself.
func direct(kind event.Kind, changes ...func(*event.Event)) event.Event {
	return changed(event.Event{
		Kind: kind, ID: "9d1f4a52-0000-4000-8000-00000000000a", At: at(0).Add(123 * time.Millisecond), AccountID: account,
	}, changes)
}

// bridged is an event that came through EventBridge.
func bridged(kind event.Kind, changes ...func(*event.Event)) event.Event {
	return changed(event.Event{
		Kind: kind, ID: "9d1f4a52-0000-4000-8000-00000000000b", At: at(0), AccountID: account, Region: "eu-west-1",
	}, changes)
}

// asAction adds the lifecycle action in the samples of testdata.
func asAction(e *event.Event) {
	e.InstanceID = instance
	e.Hook = event.Hook{Group: "workers", Name: "node-drainer-terminating", Token: "71514b9d-6a40-4b26-8523-05e7eEXAMPLE"}
	e.Origin, e.Destination = event.PlaceGroup, event.PlaceEC2
	if e.Kind == event.LifecycleLaunching {
		e.Origin, e.Destination = e.Destination, e.Origin
	}
}

func terminating(change func(*event.Event)) event.Event {
	return direct(event.LifecycleTerminating, asAction, change)
}

// ofInstance adds the instance, what happens to it, and when it is terminated; zero is not known.
func ofInstance(state string, deadline time.Time) func(*event.Event) {
	return func(e *event.Event) { e.InstanceID, e.State, e.Deadline = instance, state, deadline }
}

func same(*event.Event) {}

// forms are the ways in which one notification can reach the queue.
var forms = map[string]func(testing.TB, []byte) []byte{
	"as it is sent, or by SNS with raw delivery": func(_ testing.TB, body []byte) []byte { return body },
	"by SNS": sns,
	"by SNS without a Subject, as for EventBridge": func(t testing.TB, body []byte) []byte {
		return edit(t, sns(t, body), "Subject", nil)
	},
	"indented": func(t testing.TB, body []byte) []byte { return encode(t, decode[any](t, body)) },
}

// TestParse parses each message in testdata, in all forms.
func TestParse(t *testing.T) {
	var files []string
	var kinds []event.Kind
	check := func(name, file string, want ...event.Event) {
		t.Helper()
		files = append(files, file)
		for _, e := range want {
			kinds = append(kinds, e.Kind)
		}
		t.Run(name+": "+file, func(t *testing.T) {
			for form, wrap := range forms {
				expect(t, form, wrap(t, read(t, file)), want...)
			}
		})
	}
	change := func(kind event.Kind, id, code string) event.Event {
		return bridged(kind, func(e *event.Event) {
			if e.InstanceID, e.Code = id, code; kind == event.ScheduledChange {
				e.Deadline = time.Date(2027, 3, 6, 15, 20, 37, 0, time.UTC)
			}
		})
	}
	check("termination", "terminating.json", terminating(same))
	check("launch", "launching.json", direct(event.LifecycleLaunching, asAction))
	check("the fields in another order, and metadata that is escaped JSON", "terminating-metadata.json",
		terminating(func(e *event.Event) { e.Hook.Metadata = `{"cluster":"blue","note":"\"quoted\" ünïcode"}` }))
	check("from before warm pools: no origin, and an 8-digit instance", "terminating-2018.json",
		terminating(func(e *event.Event) { e.Origin, e.Destination, e.InstanceID = "", "", "i-0a1b2c3d" }))
	check("towards the warm pool", "terminating-warmpool.json",
		terminating(func(e *event.Event) { e.Destination = event.PlaceWarmPool }))
	check("before the root volume is replaced", "terminating-root-volume.json", terminating(func(e *event.Event) {
		e.Destination, e.Action = event.PlaceGroup, event.ReplaceRootVolume
	}))
	check("test message", "test.json", direct(event.TestNotification))
	check("test message that names itself in LifecycleTransition", "test-transition.json", direct(event.TestNotification))
	check("termination by EventBridge", "bridge-terminating.json", bridged(event.LifecycleTerminating, asAction))
	check("launch by EventBridge", "bridge-launching.json", bridged(event.LifecycleLaunching, asAction))

	// Of EC2 and AWS Health, about instances that are terminated without Auto Scaling.
	check("two minutes after its own time, whatever zone its ARN names", "bridge-spot.json",
		bridged(event.SpotInterruption, ofInstance("terminate", at(120))))
	check("no deadline", "bridge-rebalance.json", bridged(event.RebalanceRecommendation, ofInstance("", time.Time{})))
	check("the same by another name", "bridge-rebalance-spot.json", bridged(event.RebalanceRecommendation, ofInstance("", time.Time{})))
	check("no deadline", "bridge-state.json", bridged(event.StateChange, ofInstance("shutting-down", time.Time{})))
	check("one event for each instance, once, and none for a host", "bridge-health.json",
		change(event.ScheduledChange, instance, rebootCode), change(event.ScheduledChange, other, rebootCode))
	check("scheduled change closed: over for every instance, started or not", "bridge-health-closed.json",
		change(event.ScheduledChangeCanceled, instance, rebootCode), change(event.ScheduledChangeCanceled, other, rebootCode))
	check("scheduled change resolved for one instance only, and unimpaired is not resolved", "bridge-health-entities.json",
		change(event.ScheduledChangeCanceled, instance, retirementCode), change(event.ScheduledChange, other, retirementCode),
		change(event.ScheduledChange, "i-0eeeeeeeeeeeeeeee", retirementCode))
	interrupted := func(deadline int) event.Event {
		return bridged(event.CapacityReservationInterruption, ofInstance("terminate", at(deadline)))
	}
	check("at the given time, whatever the form of resources", "bridge-reservation.json", interrupted(120))
	check("by the name that was documented first", "bridge-reservation-interruptible.json", interrupted(120))
	check("because its Capacity Block ends", "bridge-reservation-block.json", interrupted(10*60))
	block := bridged(event.CapacityBlockExpiration, func(e *event.Event) {
		e.ReservationID, e.Deadline = "cr-0a1b2c3d4e5f60718", at(10*60)
	})
	check("the instances terminate half an hour before the end", "bridge-block.json", block)
	check("by the other documented name", "bridge-block-markdown.json", block)

	// Of CloudWatch and of users.
	alarm := bridged(event.Alarm, ofInstance("", time.Time{}), func(e *event.Event) { e.Alarm = "node-drainer-status-check" })
	check("alarm on a metric of the instance", "bridge-alarm.json", alarm)
	check("alarm on an expression of such metrics", "bridge-alarm-expression.json", alarm)

	// Notifications that only inform must never cause an action.
	for _, what := range []string{"launch", "launch-error", "terminate", "terminate-error"} {
		check("a notice", "notification-"+what+".json", direct(event.Notice))
	}
	for _, what := range []string{
		"terminate-successful", "refresh-started", "refresh-checkpoint", "refresh-succeeded", "refresh-failed",
		"refresh-cancelled", "block-delivered", "reclamation-completed", "alarm-ok", "alarm-several", "alarm-group",
		"alarm-composite",
	} {
		check("a notice", "bridge-"+what+".json", bridged(event.Notice))
	}

	if slices.Sort(files); !slices.Equal(files, shapes(t)) {
		t.Errorf("tested %q of %q", files, shapes(t))
	}
	slices.Sort(kinds)
	if all := slices.Sorted(slices.Values(event.Kinds())); !slices.Equal(slices.Compact(kinds), all) {
		t.Errorf("testdata has the kinds %q, there are %q", slices.Compact(kinds), all)
	}
}

// TestParseLeniency: unusual messages that are valid.
func TestParseLeniency(t *testing.T) {
	message, health := read(t, "terminating.json"), read(t, "bridge-health.json")
	bridge := read(t, "bridge-terminating.json")
	check := func(name string, body []byte, want event.Event) {
		t.Helper()
		t.Run(name, func(t *testing.T) { expect(t, "as sent", body, want) })
	}
	without := func(field string, change func(*event.Event)) {
		t.Helper()
		check("no "+field, edit(t, message, field, nil), terminating(change))
	}
	without("Time", func(e *event.Event) { e.At = time.Time{} })
	without("LifecycleActionToken", func(e *event.Event) { e.Hook.Token = "" })
	without("Service", same)
	without("RequestId", func(e *event.Event) { e.ID = "" })
	check("Time with an offset", edit(t, message, "Time", "2027-03-01T12:00:00.123+02:00"), terminating(same))
	check("unknown fields are ignored", edit(t, message, "Surprise", []any{map[string]any{"a": 1}}), terminating(same))
	with := func(name, fields string) {
		t.Helper()
		check(name, []byte(strings.Replace(string(message), "{", "{"+fields+",", 1)), terminating(same))
	}
	with("a null is an absent field", `"NotificationMetadata":null`)
	with("of two like fields the last one counts", `"EC2InstanceId":"i-00000000"`)
	with("a field in another case is another field", `"time":"never","ec2instanceid":7`)
	long := strings.Repeat("ü", 255)
	check("names of 255 characters, not bytes", edit(t, message, "AutoScalingGroupName", long),
		terminating(func(e *event.Event) { e.Hook.Group = long }))
	check("SNS in SNS", sns(t, sns(t, message)), terminating(same))
	check("empty resources", edit(t, bridge, "resources", []any{}), bridged(event.LifecycleTerminating, asAction))
	notice := bridged(event.Notice)
	check("Health: an event of another service is a notice", edit(t, health, "detail.service", "RDS"), notice)
	check("Health: another category is a notice", edit(t, health, "detail.eventTypeCategory", "issue"), notice)
	check("Health: no entities ask for nothing", edit(t, health, "detail.affectedEntities", nil), notice)
	check("Health: an abuse event is a notice", edit(t, health, "detail-type", "AWS Health Abuse Event"), notice)
	check("EC2: an event of an unknown type is a notice", edit(t, bridge, "source", "aws.ec2"), notice)
}

func expect(t *testing.T, form string, body []byte, want ...event.Event) {
	t.Helper()
	got, err := event.Parse(body)
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", form, got, want)
	}
}

// TestParseDeadlines: unusual warnings that are valid.
// TestRegionOfHealthEvent: the management account of an organization gets copies in a Region of its own.
func TestRegionOfHealthEvent(t *testing.T) {
	t.Parallel()
	events, err := event.Parse(edit(t, read(t, "bridge-health.json"), "region", "us-west-2"))
	if err != nil || events[0].Region != "eu-west-1" {
		t.Errorf("got %+v, %v", events, err)
	}
}

func TestParseDeadlines(t *testing.T) {
	reservation, block := read(t, "bridge-reservation.json"), read(t, "bridge-block.json")
	closed := read(t, "bridge-health-closed.json")
	check := func(name string, body []byte, path string, value any, want time.Time) {
		t.Helper()
		events, err := event.Parse(edit(t, body, path, value))
		if err != nil || !events[0].Deadline.Equal(want) {
			t.Errorf("%s: got %+v, %v; want the deadline %v", name, events, err, want)
		}
	}
	const ends = "detail.instance-termination-time"
	check("a reservation's warning without a time has the documented notice", reservation, ends, nil, at(120))
	check("ISO 8601 with an offset", reservation, ends, "2027-03-01T12:01:00+02:00", at(60))
	check("ISO 8601 with an offset that has no colon", reservation, ends, "2027-03-01T10:01:00+0000", at(60))
	check("ISO 8601 without seconds", reservation, ends, "2027-03-01T10:01Z", at(60))
	check("a time in the past is returned unchanged", reservation, ends, "2027-03-01T09:59:00Z", at(-60))
	check("a reservation's warning without resources", reservation, "resources", nil, at(120))
	check("a Capacity Block without an end ends in forty minutes", block, "detail.end-date", nil, at(600))
	check("a Capacity Block without a Region", block, "region", nil, at(600))
	check("an ended change without a start", closed, "detail.startTime", nil, time.Time{})
	check("an ended change with an invalid start", closed, "detail.startTime", "s3cr3t", time.Time{})
}

// TestResolvedTwice: where a Health event lists an instance twice, one entry that is not resolved counts.
func TestResolvedTwice(t *testing.T) {
	check := func(want event.Kind, statuses ...string) {
		t.Helper()
		var entities []any
		for _, status := range statuses {
			entities = append(entities, map[string]any{"entityValue": instance, "status": status})
		}
		events, err := event.Parse(edit(t, read(t, "bridge-health.json"), "detail.affectedEntities", entities))
		if err != nil || len(events) != 1 || events[0].Kind != want {
			t.Errorf("%q: got %+v, %v", statuses, events, err)
		}
	}
	check(event.ScheduledChangeCanceled, "RESOLVED", "RESOLVED")
	check(event.ScheduledChange, "RESOLVED", "PENDING")
	check(event.ScheduledChange, "PENDING", "RESOLVED")
	check(event.ScheduledChange, "")
}

func TestReasonOfAnotherError(t *testing.T) {
	for _, err := range []error{nil, errors.New("throttled")} {
		if got := event.Reason(err); got != "" {
			t.Errorf("got reason %q for %v", got, err)
		}
	}
}
