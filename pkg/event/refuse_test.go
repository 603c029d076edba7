package event_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/pkg/event"
)

type refusal struct {
	name string
	body []byte
	want error
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range slices.Concat(malformedBodies(t), malformedFields(t), strangers(t), unknownTransitions(t)) {
		t.Run(tt.name, func(t *testing.T) { refuse(t, tt) })
	}
}

// refuse also checks that an error never quotes the body: all rows contain "s3cr3t".
func refuse(t *testing.T, tt refusal) {
	t.Helper()
	events, err := event.Parse(tt.body)
	if !errors.Is(err, tt.want) {
		t.Fatalf("got %v, %v; want %v", events, err, tt.want)
	}
	if events != nil {
		t.Errorf("got events beside the error: %v", events)
	}
	if !slices.Contains(event.Reasons(), event.Reason(err)) {
		t.Errorf("%v has reason %q, which is not listed", err, event.Reason(err))
	}
	if strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), instance) {
		t.Errorf("the error quotes the body: %v", err)
	}
}

func malformedBodies(t *testing.T) []refusal {
	terminating := read(t, "terminating.json")
	deep := strings.Repeat(`{"detail":`, 20000) + "1" + strings.Repeat("}", 20000)
	return []refusal{
		{"empty body", nil, event.ErrMalformed},
		{"text that is not JSON", []byte("s3cr3t"), event.ErrMalformed},
		{"JSON cut short", terminating[:len(terminating)/2], event.ErrMalformed},
		{"two bodies in one", slices.Concat(terminating, terminating), event.ErrMalformed},
		{"invalid UTF-8 outside of text", []byte("{\xff}"), event.ErrMalformed},
		{"byte order mark", slices.Concat([]byte("\xef\xbb\xbf"), terminating), event.ErrMalformed},
		{"null", []byte("null"), event.ErrMalformed},
		{"a list", []byte("[" + string(terminating) + "]"), event.ErrMalformed},
		{"a number too large for any type", []byte("1e999999999"), event.ErrMalformed},
		{"nested deeper than any notification", []byte(deep), event.ErrMalformed},
		{"text in an SNS envelope", sns(t, []byte("s3cr3t")), event.ErrMalformed},
		{"three envelopes", sns(t, sns(t, sns(t, terminating))), event.ErrMalformed},
		{"three envelopes, the last of EventBridge", sns(t, sns(t, read(t, "bridge-terminating.json"))), event.ErrMalformed},
		{"larger than SQS carries", []byte(`{"a":"` + strings.Repeat("s3cr3t", 1<<18) + `"}`), event.ErrTooLarge},
		{
			"one byte too large", []byte(strings.Repeat(" ", event.MaxBody+1-len(terminating)) + string(terminating)),
			event.ErrTooLarge,
		},
	}
}

func malformedFields(t *testing.T) []refusal {
	direct, bridge := read(t, "terminating.json"), read(t, "bridge-terminating.json")
	spot, state, health := read(t, "bridge-spot.json"), read(t, "bridge-state.json"), read(t, "bridge-health.json")
	envelope := sns(t, direct)
	reservation, block := read(t, "bridge-reservation.json"), read(t, "bridge-block.json")
	closed := read(t, "bridge-health-closed.json")
	entity := func(entity any) []byte { return edit(t, health, "detail.affectedEntities", []any{entity}) }
	fault := func(name string, body []byte, path string, value any) refusal {
		return refusal{name, edit(t, body, path, value), event.ErrMalformed}
	}
	return []refusal{
		fault("no instance", direct, "EC2InstanceId", nil),
		fault("empty instance", direct, "EC2InstanceId", ""),
		fault("instance that is a number", direct, "EC2InstanceId", 1e300),
		fault("instance with capitals", direct, "EC2InstanceId", "i-0A1B2C3D4E5F60718"),
		fault("instance too short", direct, "EC2InstanceId", "i-0a1b2c3"),
		fault("instance too long", direct, "EC2InstanceId", "i-0a1b2c3d4e5f607180"),
		fault("instance that is a path", direct, "EC2InstanceId", "i-0a1b2c3d/../s3cr3t"),
		fault("instance with a line break", direct, "EC2InstanceId", instance+"\n"),
		fault("instance in digits of another script", direct, "EC2InstanceId", "i-٠١٢٣٤٥٦٧"),
		fault("no group", direct, "AutoScalingGroupName", nil),
		fault("empty group", direct, "AutoScalingGroupName", ""),
		fault("group too long", direct, "AutoScalingGroupName", strings.Repeat("s3cr3t", 50)),
		fault("no hook", direct, "LifecycleHookName", nil),
		fault("hook that is an object", direct, "LifecycleHookName", map[string]any{"s3cr3t": 1}),
		fault("token that is a list", direct, "LifecycleActionToken", []any{"s3cr3t"}),
		fault("token too long", direct, "LifecycleActionToken", strings.Repeat("s3cr3t", 50)),
		fault("metadata that is not text", direct, "NotificationMetadata", map[string]any{"s3cr3t": 1}),
		fault("metadata too long", direct, "NotificationMetadata", strings.Repeat("s", 4001)),
		fault("time that is none", direct, "Time", "s3cr3t"),
		fault("time that is a number", direct, "Time", 1772359200),
		fault("Auto Scaling that says nothing", direct, "LifecycleTransition", nil),
		fault("transition that is no text", direct, "LifecycleTransition", true),
		fault("service that is no text", direct, "Service", 7),
		fault("SNS message that is no text", envelope, "Message", map[string]any{"a": "s3cr3t"}),
		fault("SNS type that is no text", envelope, "Type", 1),
		fault("EventBridge without a time", bridge, "time", nil),
		fault("EventBridge with a time that is none", bridge, "time", "yesterday"),
		fault("EventBridge without a detail", bridge, "detail", nil),
		fault("EventBridge with text for a detail", bridge, "detail", "s3cr3t"),
		fault("EventBridge action without an instance", bridge, "detail.EC2InstanceId", nil),
		fault("EventBridge action without a transition", bridge, "detail.LifecycleTransition", nil),
		fault("EventBridge action that contradicts itself", bridge, "detail.LifecycleTransition",
			"autoscaling:EC2_INSTANCE_LAUNCHING"),
		fault("Spot interruption without an instance", spot, "detail.instance-id", nil),
		fault("Spot interruption without an action", spot, "detail.instance-action", nil),
		fault("state change without a state", state, "detail.state", ""),
		fault("state that is no word", state, "detail.state", "s3cr3t!"),
		fault("scheduled change without a start", health, "detail.startTime", nil),
		fault("scheduled change with a start that is none", health, "detail.startTime", "Sat, 99 Foo 2027"),
		fault("scheduled change with a start in a zone by name", health, "detail.startTime", "Sat, 06 Mar 2027 15:20:37 PST"),
		fault("scheduled change with entities that are no list", health, "detail.affectedEntities", "s3cr3t"),
		fault("scheduled change with a code that is no text", health, "detail.eventTypeCode", 7),
		fault("scheduled change with a status that is no text", health, "detail.statusCode", []any{"s3cr3t"}),
		fault("closed change with entities that are no list", closed, "detail.affectedEntities", "s3cr3t"),
		{
			"scheduled change of an entity whose status is no text",
			entity(map[string]any{"entityValue": instance, "status": 7}), event.ErrMalformed,
		},
		fault("reservation's warning without an instance", reservation, "detail.instance-id", nil),
		fault("reservation's warning without an action", reservation, "detail.instance-action", nil),
		fault("reservation's warning with a time that is none", reservation, "detail.instance-termination-time", "s3cr3t"),
		fault("reservation's warning with a time that is a number", reservation, "detail.instance-termination-time", 7),
		fault("Capacity Block without an id", block, "detail.capacity-reservation-id", nil),
		fault("Capacity Block with an id of something else", block, "detail.capacity-reservation-id", instance),
		fault("Capacity Block with an end that is none", block, "detail.end-date", "s3cr3t"),
		{"scheduled change of an entity that is text", entity("s3cr3t"), event.ErrMalformed},
		{"scheduled change of an entity without a value", entity(map[string]any{}), event.ErrMalformed},
		{"scheduled change of an ill-formed instance", entity(map[string]any{"entityValue": "i-s3cr3t"}), event.ErrMalformed},
	}
}

func strangers(t *testing.T) []refusal {
	bridge, envelope := read(t, "bridge-terminating.json"), sns(t, read(t, "terminating.json"))
	return []refusal{
		{"an unknown object", []byte(`{"hello":"s3cr3t"}`), event.ErrUnknownSource},
		{"an empty object", []byte(`{}`), event.ErrUnknownSource},
		{"an S3 notification", []byte(`{"Records":[{"eventSource":"aws:s3"}]}`), event.ErrUnknownSource},
		{"S3's own test message", []byte(`{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2027-03-01T10:00:00.123Z",` +
			`"Bucket":"s3cr3t","RequestId":"5582815E1AEA5ADF"}`), event.ErrUnknownSource},
		{"an event of another service", []byte(`{"Event":"s3cr3t"}`), event.ErrUnknownSource},
		{"an EventBridge event of another service", edit(t, bridge, "source", "aws.s3cr3t"), event.ErrUnknownSource},
		{"an EventBridge event of a custom source", edit(t, bridge, "source", "com.example"), event.ErrUnknownSource},
		{"an SNS subscription to confirm", edit(t, envelope, "Type", "SubscriptionConfirmation"), event.ErrUnknownSource},
		{"an alarm in an SNS envelope", sns(t, []byte(`{"AlarmName":"s3cr3t"}`)), event.ErrUnknownSource},
	}
}

func unknownTransitions(t *testing.T) []refusal {
	direct, bridge := read(t, "terminating.json"), read(t, "bridge-terminating.json")
	replaced := edit(t, direct, "LifecycleTransition", "autoscaling:EC2_INSTANCE_REPLACING_ROOT_VOLUME")
	return []refusal{
		{"root volume replacement", replaced, event.ErrUnknownTransition},
		{"root volume replacement in an SNS envelope", sns(t, replaced), event.ErrUnknownTransition},
		{"unknown transition with other fields", edit(t, replaced, "EC2InstanceId", nil), event.ErrUnknownTransition},
		{
			"known transition in another case", edit(t, direct, "LifecycleTransition", "autoscaling:ec2_instance_terminating"),
			event.ErrUnknownTransition,
		},
		{"unknown origin", edit(t, direct, "Origin", "s3cr3t"), event.ErrUnknownTransition},
		{"unknown destination", edit(t, direct, "Destination", "ColdPool"), event.ErrUnknownTransition},
		{
			"unknown transition by EventBridge", edit(t, bridge, "detail.LifecycleTransition", "autoscaling:s3cr3t"),
			event.ErrUnknownTransition,
		},
		{
			"lifecycle action of an unknown detail-type", edit(t, bridge, "detail-type", "EC2 Instance-pause Lifecycle Action"),
			event.ErrUnknownTransition,
		},
		{
			"detail-type that hides a lifecycle action", edit(t, bridge, "detail-type", "EC2 Instance Terminate Successful"),
			event.ErrUnknownTransition,
		},
	}
}
