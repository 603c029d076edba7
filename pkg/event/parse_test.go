package event_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/event"
)

const (
	account  = "123456789012"
	instance = "i-0a1b2c3d4e5f60718"
	token    = "71514b9d-6a40-4b26-8523-05e7eEXAMPLE"
	group    = "workers"
	hook     = "drain"
	// rebootCode is the eventTypeCode of the scheduled changes in testdata.
	rebootCode = "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED"
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

// sns puts the envelope of a topic around a body.
func sns(t testing.TB, body []byte) []byte {
	t.Helper()
	wrapped, err := json.Marshal(map[string]string{
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
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

// edit changes one top-level field of a JSON object, or one of its detail if the path has a dot; nil
// removes it.
func edit(t testing.TB, body []byte, path string, value any) []byte {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	target, key := object, path
	if outer, inner, nested := strings.Cut(path, "."); nested {
		target, key = object[outer].(map[string]any), inner
	}
	target[key] = value
	if value == nil {
		delete(target, key)
	}
	edited, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return edited
}

func at(second int) time.Time { return time.Date(2027, 3, 1, 10, 0, second, 0, time.UTC) }

// action returns the lifecycle action in the samples of testdata.
func action(kind event.Kind, change ...func(*event.Event)) event.Event {
	e := event.Event{
		Kind:        kind,
		ID:          "9d1f4a52-0000-4000-8000-00000000000a",
		InstanceID:  instance,
		At:          at(0).Add(123 * time.Millisecond),
		Hook:        event.Hook{Group: group, Name: hook, Token: token},
		Origin:      event.PlaceGroup,
		Destination: event.PlaceEC2,
		AccountID:   account,
	}
	if kind == event.LifecycleLaunching {
		e.Origin, e.Destination = e.Destination, e.Origin
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

// bridged is an event that came through EventBridge.
func bridged(kind event.Kind, change ...func(*event.Event)) event.Event {
	e := event.Event{
		Kind:      kind,
		ID:        "9d1f4a52-0000-4000-8000-00000000000b",
		At:        at(0),
		AccountID: account,
		Region:    "eu-west-1",
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func ofInstance(e *event.Event) { e.InstanceID = instance }

func asAction(e *event.Event) {
	of := action(e.Kind)
	e.InstanceID, e.Hook, e.Origin, e.Destination = of.InstanceID, of.Hook, of.Origin, of.Destination
}

func TestParse(t *testing.T) {
	test := func(e *event.Event) {
		*e = event.Event{Kind: event.TestNotification, ID: e.ID, At: e.At, AccountID: account}
	}
	notice := func(e *event.Event) { *e = event.Event{Kind: event.Notice, ID: e.ID, At: e.At, AccountID: account} }
	scheduled := func(id string) func(*event.Event) {
		return func(e *event.Event) {
			e.InstanceID, e.Code = id, rebootCode
			e.Deadline = time.Date(2027, 3, 6, 15, 20, 37, 0, time.UTC)
		}
	}
	tests := []struct {
		name string
		file string
		want []event.Event
	}{
		{"termination", "terminating.json", []event.Event{action(event.LifecycleTerminating)}},
		{"launch", "launching.json", []event.Event{action(event.LifecycleLaunching)}},
		{
			"termination with the fields in another order and metadata that is escaped JSON", "terminating-metadata.json",
			[]event.Event{action(event.LifecycleTerminating, func(e *event.Event) {
				e.Hook.Metadata = `{"cluster":"blue","note":"\"quoted\" ünïcode"}`
			})},
		},
		{
			"termination from before warm pools has no origin, and an 8-digit instance", "terminating-2018.json",
			[]event.Event{action(event.LifecycleTerminating, func(e *event.Event) {
				e.Origin, e.Destination, e.InstanceID = "", "", "i-0a1b2c3d"
			})},
		},
		{
			"termination towards the warm pool", "terminating-warmpool.json",
			[]event.Event{action(event.LifecycleTerminating, func(e *event.Event) {
				e.Destination = event.PlaceWarmPool
			})},
		},
		{"test message", "test.json", []event.Event{action("", test)}},
		{"test message that names itself in LifecycleTransition", "test-transition.json", []event.Event{action("", test)}},
		{"Auto Scaling notification is a notice", "notification-terminate.json", []event.Event{action("", notice)}},
		{
			"termination by EventBridge", "bridge-terminating.json",
			[]event.Event{bridged(event.LifecycleTerminating, asAction)},
		},
		{"launch by EventBridge", "bridge-launching.json", []event.Event{bridged(event.LifecycleLaunching, asAction)}},
		{
			"successful termination is a notice", "bridge-terminate-successful.json",
			[]event.Event{bridged(event.Notice)},
		},
		{"Instance Refresh is a notice", "bridge-refresh-started.json", []event.Event{bridged(event.Notice)}},
		{
			"Spot interruption ends two minutes after its own time, whatever zone its ARN names", "bridge-spot.json",
			[]event.Event{bridged(event.SpotInterruption, ofInstance, func(e *event.Event) {
				e.State, e.Deadline = "terminate", at(120)
			})},
		},
		{
			"rebalance recommendation has no deadline", "bridge-rebalance.json",
			[]event.Event{bridged(event.RebalanceRecommendation, ofInstance)},
		},
		{"state change", "bridge-state.json", []event.Event{
			bridged(event.StateChange, ofInstance, func(e *event.Event) { e.State = "shutting-down" }),
		}},
		{"scheduled change is one event for each instance, once, and none for a host", "bridge-health.json", []event.Event{
			bridged(event.ScheduledChange, scheduled(instance)),
			bridged(event.ScheduledChange, scheduled("i-0ffffffffffffffff")),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := read(t, tt.file)
			expect(t, "as sent", body, tt.want)
			expect(t, "in an SNS envelope", sns(t, body), tt.want)
			expect(t, "indented", indented(t, body), tt.want)
		})
	}
}

// TestParseLeniency: unusual messages that are valid.
func TestParseLeniency(t *testing.T) {
	terminating, bridge := read(t, "terminating.json"), read(t, "bridge-terminating.json")
	health := read(t, "bridge-health.json")
	with := func(body []byte, path string, value any) []byte { return edit(t, body, path, value) }
	want := func(change func(*event.Event)) []event.Event {
		return []event.Event{action(event.LifecycleTerminating, change)}
	}
	same := func(*event.Event) {}
	tests := []struct {
		name string
		body []byte
		want []event.Event
	}{
		{"no Time: the instant is zero", with(terminating, "Time", nil), want(func(e *event.Event) { e.At = time.Time{} })},
		{"Time with an offset is the same instant", with(terminating, "Time", "2027-03-01T12:00:00.123+02:00"), want(same)},
		{
			"no token: the instance stands for it", with(terminating, "LifecycleActionToken", nil),
			want(func(e *event.Event) { e.Hook.Token = "" }),
		},
		{"no Service, but a transition", with(terminating, "Service", nil), want(same)},
		{"no RequestId", with(terminating, "RequestId", nil), want(func(e *event.Event) { e.ID = "" })},
		{"unknown fields are ignored", with(terminating, "Surprise", []any{map[string]any{"a": 1}}), want(same)},
		{
			"a null is an absent field", []byte(strings.Replace(string(terminating), "{", `{"NotificationMetadata":null,`, 1)),
			want(same),
		},
		{
			"of two like fields the last one counts",
			[]byte(strings.Replace(string(terminating), "{", `{"EC2InstanceId":"i-00000000",`, 1)), want(same),
		},
		{
			"a field in another case is another field",
			[]byte(strings.Replace(string(terminating), "{", `{"time":"never","ec2instanceid":7,`, 1)), want(same),
		},
		{
			"names of 255 characters, not bytes", with(terminating, "AutoScalingGroupName", strings.Repeat("ü", 255)),
			want(func(e *event.Event) { e.Hook.Group = strings.Repeat("ü", 255) }),
		},
		{"SNS in SNS", sns(t, terminating), want(same)},
		{"SNS without a Subject", with(sns(t, terminating), "Subject", nil), want(same)},
		{
			"EventBridge with empty resources", with(bridge, "resources", []any{}),
			[]event.Event{bridged(event.LifecycleTerminating, asAction)},
		},
		{
			"Health: an event of another service is a notice", with(health, "detail.service", "RDS"),
			[]event.Event{bridged(event.Notice)},
		},
		{
			"Health: another category is a notice", with(health, "detail.eventTypeCategory", "issue"),
			[]event.Event{bridged(event.Notice)},
		},
		{
			"Health: no entities ask for nothing", with(health, "detail.affectedEntities", nil),
			[]event.Event{bridged(event.Notice)},
		},
		{
			"Health: an abuse event is a notice", with(health, "detail-type", "AWS Health Abuse Event"),
			[]event.Event{bridged(event.Notice)},
		},
		{
			"EC2: an event of an unknown type is a notice", with(bridge, "source", "aws.ec2"),
			[]event.Event{bridged(event.Notice)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expect(t, "as sent", tt.body, tt.want) })
	}
}

func expect(t *testing.T, form string, body []byte, want []event.Event) {
	t.Helper()
	got, err := event.Parse(body)
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", form, got, want)
	}
}

func indented(t *testing.T, body []byte) []byte {
	t.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(value, " ", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReasonOfAnotherError(t *testing.T) {
	if got := event.Reason(errors.New("throttled")); got != "" {
		t.Errorf("got reason %q for an error that is not of this package", got)
	}
	if got := event.Reason(nil); got != "" {
		t.Errorf("got reason %q for no error", got)
	}
}
