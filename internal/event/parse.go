package event

import (
	"fmt"
	"math"
)

// MaxBody is the longest body that Parse reads, in bytes: the longest message that SQS carries.
const MaxBody = 1 << 20

// MaxInstances is the most instances that one message may name. AWS Health splits an event whose list would make it
// longer than 256 KB (AWS Health user guide, "Viewing paginated lists of AWS Health events on EventBridge"); an entity
// with the id of an instance, a status and a time has 95 bytes at least.
const MaxInstances = 3000

// maxEnvelopes is how often a notification may be wrapped: an EventBridge event that came through an SNS
// topic.
const maxEnvelopes = 2

// Parse returns the events in the body of a message: at least one, or an error that wraps ErrMalformed,
// ErrUnknownSource, ErrUnknownTransition or ErrTooLarge. It knows Auto Scaling's direct form (a hook whose
// target is the queue), EventBridge events, and either of them as an SNS notification, enveloped or raw. Only
// AWS Health names several instances at once.
func Parse(body []byte) ([]Event, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxBody)
	}
	return parse(body, maxEnvelopes)
}

// parse distinguishes the forms by the fields that only one of them has.
func parse(body []byte, envelopes int) ([]Event, error) {
	f, err := open(body, "body")
	if err != nil {
		return nil, err
	}
	switch {
	case f.has("Message") && f.has("TopicArn"):
		return fromSNS(f, envelopes)
	case f.has("detail-type") && f.has("source"):
		return fromEventBridge(f, envelopes)
	case f.has("Service") || f.has("LifecycleTransition") || f.has("Event"):
		return one(fromAutoScaling(f))
	}
	return nil, fmt.Errorf("%w: no known form", ErrUnknownSource)
}

// fromSNS opens the envelope that a topic puts around its messages unless raw delivery is on (SNS developer
// guide, "Amazon SNS message and JSON formats"). Its other types are requests to confirm a subscription.
func fromSNS(f *fields, envelopes int) ([]Event, error) {
	kind, message := f.text("Type"), f.long("Message", math.MaxInt)
	switch {
	case f.err != nil:
		return nil, f.err
	case kind != "Notification":
		return nil, fmt.Errorf("%w: an SNS message that is not a notification", ErrUnknownSource)
	case envelopes == 0:
		return nil, malformed("body", "has too many envelopes")
	}
	return parse([]byte(message), envelopes-1)
}

func one(e Event, err error) ([]Event, error) {
	if err != nil {
		return nil, err
	}
	return []Event{e}, nil
}
