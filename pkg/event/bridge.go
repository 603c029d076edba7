package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The detail-types that we read (EC2 Auto Scaling user guide, "Amazon EC2 Auto Scaling event reference";
// EC2 user guide, "Automate Amazon EC2 using EventBridge"; AWS Health user guide, "Health events
// EventBridge schema").
const (
	terminateAction = "EC2 Instance-terminate Lifecycle Action"
	launchAction    = "EC2 Instance-launch Lifecycle Action"
	actionSuffix    = "Lifecycle Action"
	spotWarning     = "EC2 Spot Instance Interruption Warning"
	rebalance       = "EC2 Instance Rebalance Recommendation"
	stateChange     = "EC2 Instance State-change Notification"
	healthEvent     = "AWS Health Event"
)

// fromEventBridge opens an EventBridge envelope. A detail-type that we do not know, of a source that we do
// know, is a Notice, unless it is a lifecycle action: those wait for somebody.
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
	case "aws.autoscaling":
		return one(fromGroup(detailType, detail, e))
	case "aws.ec2":
		return one(fromEC2(detailType, detail, e))
	case "aws.health":
		return fromHealth(detailType, detail, e)
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

// fromEC2 reads an event of source aws.ec2. The instance is taken from the detail, never from resources,
// where a Spot interruption has an ARN with a zone for a Region and without an account.
func fromEC2(detailType string, detail *fields, e Event) (Event, error) {
	switch detailType {
	case spotWarning:
		e.Kind = SpotInterruption
		e.State = detail.word("instance-action")
		e.Deadline = e.At.Add(SpotNotice)
	case rebalance:
		e.Kind = RebalanceRecommendation
	case stateChange:
		e.Kind = StateChange
		e.State = detail.word("state")
	default:
		return e, nil
	}
	e.InstanceID = detail.instance("instance-id")
	if detail.err != nil {
		return Event{}, detail.err
	}
	return e, nil
}

// fromHealth reads an event of source aws.health: one for each instance that a scheduled change of EC2
// affects. A change that is over, and one of things that are no instances (dedicated hosts, say), is a
// Notice.
func fromHealth(detailType string, detail *fields, e Event) ([]Event, error) {
	scheduled := detail.text("service") == "EC2" && detail.text("eventTypeCategory") == "scheduledChange"
	over := detail.text("statusCode") == "closed"
	if detail.err != nil {
		return nil, detail.err
	}
	if detailType != healthEvent || !scheduled || over {
		return []Event{e}, nil
	}
	change := e
	change.Kind = ScheduledChange
	change.Deadline = startTime(detail)
	instances := affected(detail)
	if detail.err != nil {
		return nil, detail.err
	}
	var events []Event
	for _, id := range instances {
		change.InstanceID = id
		events = append(events, change)
	}
	if len(events) == 0 {
		return []Event{e}, nil
	}
	return events, nil
}

// startTime reads the one time in all this that is not RFC 3339: "Sat, 05 Jun 2027 15:20:37 GMT". Another
// zone's name is refused, as time.Parse would take an abbreviation that it does not know for UTC.
func startTime(detail *fields) time.Time {
	start := detail.instant("startTime",
		"Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 -0700", time.RFC3339)
	if !detail.has("startTime") {
		detail.fail("startTime", "is empty")
	}
	return start
}

// affected returns the instances among a Health event's entities, each once.
func affected(detail *fields) []string {
	var entities []json.RawMessage
	if detail.has("affectedEntities") && json.Unmarshal(detail.raw["affectedEntities"], &entities) != nil {
		detail.fail("affectedEntities", "is not a list")
	}
	var ids []string
	seen := make(map[string]bool)
	for _, raw := range entities {
		entity, err := open(raw, "affectedEntities")
		if err != nil {
			detail.fail("affectedEntities", "has an entry that is not a JSON object")
			return nil
		}
		id := entity.name("entityValue")
		if entity.err == nil && strings.HasPrefix(id, "i-") && !seen[id] {
			ids = append(ids, entity.instance("entityValue"))
			seen[id] = true
		}
		if entity.err != nil {
			detail.err = entity.err
			return nil
		}
	}
	return ids
}
