package event

import (
	"fmt"
	"strings"
	"time"
)

// The detail-types of a lifecycle action (EC2 Auto Scaling user guide, "Amazon EC2 Auto Scaling event
// reference").
const (
	terminateAction = "EC2 Instance-terminate Lifecycle Action"
	launchAction    = "EC2 Instance-launch Lifecycle Action"
	actionSuffix    = "Lifecycle Action"
)

// fromEventBridge opens an EventBridge envelope. An unknown detail-type of a known source is a Notice, unless
// it is a lifecycle action, which must be completed. The field resources is never read: in AWS's own samples
// it is a string instead of a list.
func fromEventBridge(f *fields, envelopes int) ([]Event, error) {
	if envelopes == 0 {
		return nil, malformed("body", "has too many envelopes")
	}
	source, detailType := f.text("source"), f.text("detail-type")
	e := Event{
		Kind:      Notice,
		ID:        f.text("id"),
		At:        f.instant("time", time.RFC3339),
		AccountID: f.text("account"),
		Region:    f.text("region"),
	}
	if !f.has("time") {
		f.fail("time", "is empty")
	}
	detail := f.inner("detail")
	if f.err != nil {
		return nil, f.err
	}
	switch source {
	case sourceGroups:
		return one(fromGroup(detailType, detail, e))
	case sourceEC2:
		return one(fromEC2(detailType, detail, e))
	case sourceHealth:
		return fromHealth(detailType, detail, e)
	case sourceAlarms:
		return one(fromAlarm(detailType, detail, e))
	}
	return nil, fmt.Errorf("%w: an EventBridge event of another service", ErrUnknownSource)
}

// fromGroup reads an event of source aws.autoscaling.
func fromGroup(detailType string, detail *fields, e Event) (Event, error) {
	if !strings.HasSuffix(detailType, actionSuffix) && !detail.has("LifecycleTransition") {
		return e, nil
	}
	e, err := lifecycle(detail, e)
	want := map[string]Kind{terminateAction: LifecycleTerminating, launchAction: LifecycleLaunching}[detailType]
	switch {
	case err != nil:
		return Event{}, err
	case want == "":
		return Event{}, fmt.Errorf("%w: by its detail-type", ErrUnknownTransition)
	case want != e.Kind:
		return Event{}, malformed("LifecycleTransition", "contradicts the detail-type")
	}
	return e, nil
}
