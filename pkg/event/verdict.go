package event

import (
	"errors"
	"fmt"
)

// The verdicts on a body that Parse refuses; match them with errors.Is. None of them is a licence to touch
// an instance. What Parse says beside the verdict names the field at fault and never quotes the body, so it
// may be logged.
var (
	// ErrMalformed: not JSON, a value of the wrong type, or a required field that is empty or ill-formed.
	ErrMalformed = errors.New("malformed notification")
	// ErrUnknownSource: JSON, but from none of the services whose notifications we know.
	ErrUnknownSource = errors.New("notification from an unknown source")
	// ErrUnknownTransition: a lifecycle action whose transition or place we do not know, for example one that
	// a newer Auto Scaling has added. Somebody else may be waiting for it.
	ErrUnknownTransition = errors.New("unknown lifecycle transition")
	// ErrTooLarge: more than MaxBody bytes.
	ErrTooLarge = errors.New("notification too large")
)

// Reason returns the verdict in err as a word fit for a metric label, one of Reasons; "" when err holds
// none.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case errors.Is(err, ErrUnknownSource):
		return "unknown-source"
	case errors.Is(err, ErrUnknownTransition):
		return "unknown-transition"
	case errors.Is(err, ErrTooLarge):
		return "too-large"
	}
	return ""
}

// Reasons returns every reason there is, so that a counter can start at zero for each.
func Reasons() []string {
	return []string{"malformed", "unknown-source", "unknown-transition", "too-large"}
}

// malformed blames a field. Its arguments are our own words, never the sender's.
func malformed(field, fault string) error {
	return fmt.Errorf("%w: %s %s", ErrMalformed, field, fault)
}
