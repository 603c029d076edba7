package event

import (
	"fmt"
	"strings"
	"time"
)

// The values of LifecycleTransition and Event (SDK, service/autoscaling: LifecycleHook.LifecycleTransition
// and DescribeAutoScalingNotificationTypes).
const (
	autoScaling      = "AWS Auto Scaling"
	eventPrefix      = "autoscaling:"
	terminating      = "autoscaling:EC2_INSTANCE_TERMINATING"
	launching        = "autoscaling:EC2_INSTANCE_LAUNCHING"
	testNotification = "autoscaling:TEST_NOTIFICATION"
)

// fromAutoScaling reads what Auto Scaling itself sends to a queue or topic: a lifecycle action, the test
// message that PutLifecycleHook and PutNotificationConfiguration cause, or a notification such as
// autoscaling:EC2_INSTANCE_TERMINATE.
func fromAutoScaling(f *fields) (Event, error) {
	service, transition, event := f.text("Service"), f.text("LifecycleTransition"), f.text("Event")
	e := Event{
		ID:        f.text("RequestId"),
		At:        f.instant("Time", time.RFC3339),
		AccountID: f.text("AccountId"),
	}
	switch {
	case f.err != nil:
		return Event{}, f.err
	case !isAutoScaling(f, service, event):
		return Event{}, fmt.Errorf("%w: not from Auto Scaling", ErrUnknownSource)
	case event == testNotification || transition == testNotification:
		e.Kind = TestNotification
	case f.has("LifecycleTransition"):
		return lifecycle(f, e)
	case strings.HasPrefix(event, eventPrefix):
		e.Kind = Notice
	default:
		return Event{}, malformed("LifecycleTransition", "is empty, and so is Event")
	}
	return e, nil
}

// isAutoScaling reports whether Auto Scaling has sent the message. Messages of other services, such as S3's
// test message, have a Service and an Event too. A message without a Service is recognized by its transition
// or event.
func isAutoScaling(f *fields, service, event string) bool {
	if f.has("Service") {
		return service == autoScaling
	}
	return f.has("LifecycleTransition") || strings.HasPrefix(event, eventPrefix)
}

// lifecycle adds to e the lifecycle action that f describes; the direct form and EventBridge's detail have
// the same fields for it.
func lifecycle(f *fields, e Event) (Event, error) {
	transition := f.name("LifecycleTransition")
	if f.err != nil {
		return Event{}, f.err
	}
	e.Kind = map[string]Kind{terminating: LifecycleTerminating, launching: LifecycleLaunching}[transition]
	if e.Kind == "" {
		// Before the other fields are read, which may differ for an unknown transition.
		return Event{}, fmt.Errorf("%w: by its LifecycleTransition", ErrUnknownTransition)
	}
	e.InstanceID = f.instance("EC2InstanceId")
	e.Hook = Hook{
		Group:    f.name("AutoScalingGroupName"),
		Name:     f.name("LifecycleHookName"),
		Token:    f.text("LifecycleActionToken"),
		Metadata: f.long("NotificationMetadata", maxMetadata),
	}
	e.Origin, e.Destination, e.Action = Place(f.text("Origin")), Place(f.text("Destination")), f.text("Action")
	switch {
	case f.err != nil:
		return Event{}, f.err
	case !isPlace(e.Origin) || !isPlace(e.Destination):
		return Event{}, fmt.Errorf("%w: by its Origin or Destination", ErrUnknownTransition)
	}
	return e, nil
}

func isPlace(p Place) bool {
	return p == "" || p == PlaceEC2 || p == PlaceGroup || p == PlaceWarmPool
}
