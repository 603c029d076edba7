package event

// How an event names itself that is no service's, but that a user puts on the event bus (PutEvents). EventBridge
// reserves sources that begin with "aws." for AWS ("PutEventsRequestEntry" in its API reference).
const (
	requestSource = "node-drainer.io"
	requestType   = "Drain Request"
)

// fromRequest reads a request of a user.
func fromRequest(detailType string, detail *fields, e Event) (Event, error) {
	if detailType != requestType {
		return Event{}, malformed("detail-type", "is not "+requestType)
	}
	e.Kind, e.InstanceID = Request, detail.instance("instance-id")
	if detail.err != nil {
		return Event{}, detail.err
	}
	return e, nil
}
