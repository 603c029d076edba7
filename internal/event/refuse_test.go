package event_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/event"
)

// refuse checks in a subtest that Parse returns the error, and that it never quotes the body: many contain "s3cr3t".
func refuse(t *testing.T, name string, body []byte, want error) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		events, err := event.Parse(body)
		if !errors.Is(err, want) || events != nil {
			t.Fatalf("got %v, %v; want %v", events, err, want)
		}
		if !slices.Contains(event.Reasons(), event.Reason(err)) {
			t.Errorf("%v has reason %q, which is not listed", err, event.Reason(err))
		}
		if strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), instance) {
			t.Errorf("the error quotes the body: %v", err)
		}
	})
}

func TestMalformedBodies(t *testing.T) {
	message := string(read(t, "terminating.json"))
	wrapped := func(body string, times int) string {
		for range times {
			body = string(sns(t, []byte(body)))
		}
		return body
	}
	for name, body := range map[string]string{
		"empty body":                               "",
		"text that is not JSON":                    "s3cr3t",
		"JSON cut short":                           message[:len(message)/2],
		"two bodies in one":                        message + message,
		"invalid UTF-8 outside of text":            "{\xff}",
		"byte order mark":                          "\xef\xbb\xbf" + message,
		"null":                                     "null",
		"a list":                                   "[" + message + "]",
		"a number too large for any type":          "1e999999999",
		"nested deeper than any notification":      strings.Repeat(`{"detail":`, 20000) + "1" + strings.Repeat("}", 20000),
		"text in an SNS envelope":                  wrapped("s3cr3t", 1),
		"three envelopes":                          wrapped(message, 3),
		"three envelopes, the last of EventBridge": wrapped(string(read(t, "bridge-terminating.json")), 2),
	} {
		refuse(t, name, []byte(body), event.ErrMalformed)
	}
	refuse(t, "larger than SQS carries", []byte(`{"a":"`+strings.Repeat("s3cr3t", 1<<18)+`"}`), event.ErrTooLarge)
	refuse(t, "one byte too large", []byte(strings.Repeat(" ", event.MaxBody+1-len(message))+message), event.ErrTooLarge)
	refuse(t, "more instances than AWS sends at once", manyEntities(event.MaxInstances+1), event.ErrTooLarge)
}

// manyEntities returns a message of AWS Health about n instances, as short as it can be.
func manyEntities(n int) []byte {
	entities := make([]string, n)
	for i := range entities {
		entities[i] = fmt.Sprintf(`{"entityValue":"i-%017x"}`, i)
	}
	return fmt.Appendf(nil, `{"source":"aws.health","detail-type":"AWS Health Event","time":"2027-03-01T10:00:00Z","detail":`+
		`{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":"Sat, 05 Jun 2027 15:20:37 GMT",`+
		`"affectedEntities":[%s]}}`, strings.Join(entities, ","))
}

// TestManyInstances: the most that a page of AWS Health can have are accepted.
func TestManyInstances(t *testing.T) {
	events, err := event.Parse(manyEntities(event.MaxInstances))
	if err != nil || len(events) != event.MaxInstances {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func TestMalformedFields(t *testing.T) {
	// check changes a field of a sample. Without a value the field is missing.
	check := func(file, path string, values ...any) {
		t.Helper()
		for _, value := range values {
			refuse(t, file+" "+path, edit(t, read(t, file), path, value), event.ErrMalformed)
		}
	}
	const direct, bridge, health = "terminating.json", "bridge-terminating.json", "bridge-health.json"
	object, list, long := map[string]any{"s3cr3t": 1}, []any{"s3cr3t"}, strings.Repeat("s3cr3t", 50)
	check(direct, "EC2InstanceId", nil, "", 1e300, "i-0A1B2C3D4E5F60718", "i-0a1b2c3", "i-0a1b2c3d4e5f607180",
		"i-0a1b2c3d/../s3cr3t", instance+"\n", "i-٠١٢٣٤٥٦٧")
	check(direct, "AutoScalingGroupName", nil, "", long)
	check(direct, "LifecycleHookName", nil, object)
	check(direct, "LifecycleActionToken", list, long)
	check(direct, "Action", list, long)
	check(direct, "NotificationMetadata", object, strings.Repeat("s", 4001))
	check(direct, "Time", "s3cr3t", 1772359200)
	check(direct, "LifecycleTransition", nil, true)
	check(direct, "Service", 7)
	check(bridge, "time", nil, "yesterday")
	check(bridge, "detail", nil, "s3cr3t")
	check(bridge, "detail.EC2InstanceId", nil)
	check(bridge, "detail.LifecycleTransition", nil, "autoscaling:EC2_INSTANCE_LAUNCHING") // contradicts the detail-type
	check("bridge-spot.json", "detail.instance-id", nil)
	check("bridge-spot.json", "detail.instance-action", nil)
	check("bridge-state.json", "detail.state", "", "s3cr3t!")
	check(health, "detail.startTime", nil, "Sat, 99 Foo 2027", "Sat, 06 Mar 2027 15:20:37 PST")
	check(health, "detail.eventTypeCode", 7)
	check(health, "detail.statusCode", list)
	check(health, "detail.affectedEntities", "s3cr3t", list, []any{map[string]any{}},
		[]any{map[string]any{"entityValue": "i-s3cr3t"}}, []any{map[string]any{"entityValue": instance, "status": 7}})
	check("bridge-health-closed.json", "detail.affectedEntities", "s3cr3t")
	check("bridge-reservation.json", "detail.instance-id", nil)
	check("bridge-reservation.json", "detail.instance-action", nil)
	check("bridge-reservation.json", "detail.instance-termination-time", "s3cr3t", 7)
	check("bridge-block.json", "detail.capacity-reservation-id", nil, instance)
	check("bridge-block.json", "detail.end-date", "s3cr3t")

	envelope := sns(t, read(t, direct))
	refuse(t, "SNS message that is no text", edit(t, envelope, "Message", object), event.ErrMalformed)
	refuse(t, "SNS type that is no text", edit(t, envelope, "Type", 1), event.ErrMalformed)
}

func TestUnknownMessages(t *testing.T) {
	direct, bridge := read(t, "terminating.json"), read(t, "bridge-terminating.json")
	source := func(name string, body []byte) { t.Helper(); refuse(t, name, body, event.ErrUnknownSource) }
	source("an unknown object", []byte(`{"hello":"s3cr3t"}`))
	source("an empty object", []byte(`{}`))
	source("an S3 notification", []byte(`{"Records":[{"eventSource":"aws:s3"}]}`))
	source("S3's own test message", []byte(`{"Service":"Amazon S3","Event":"s3:TestEvent",`+
		`"Time":"2027-03-01T10:00:00.123Z","Bucket":"s3cr3t","RequestId":"5582815E1AEA5ADF"}`))
	source("an event of another service", []byte(`{"Event":"s3cr3t"}`))
	source("an EventBridge event of another service", edit(t, bridge, "source", "aws.s3cr3t"))
	source("an EventBridge event of a custom source", edit(t, bridge, "source", "com.example"))
	source("an SNS subscription to confirm", edit(t, sns(t, direct), "Type", "SubscriptionConfirmation"))
	source("an alarm in an SNS envelope", sns(t, []byte(`{"AlarmName":"s3cr3t"}`)))

	transition := func(name string, body []byte) { t.Helper(); refuse(t, name, body, event.ErrUnknownTransition) }
	unknown := edit(t, direct, "LifecycleTransition", "autoscaling:EC2_INSTANCE_HIBERNATING")
	transition("unknown transition", unknown)
	transition("unknown transition in an SNS envelope", sns(t, unknown))
	transition("unknown transition with other fields", edit(t, unknown, "EC2InstanceId", nil))
	transition("another case", edit(t, direct, "LifecycleTransition", "autoscaling:ec2_instance_terminating"))
	transition("unknown origin", edit(t, direct, "Origin", "s3cr3t"))
	transition("unknown destination", edit(t, direct, "Destination", "ColdPool"))
	transition("by EventBridge", edit(t, bridge, "detail.LifecycleTransition", "autoscaling:s3cr3t"))
	transition("unknown detail-type", edit(t, bridge, "detail-type", "EC2 Instance-pause Lifecycle Action"))
	transition("a detail-type that hides it", edit(t, bridge, "detail-type", "EC2 Instance Terminate Successful"))
}
