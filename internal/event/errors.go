package event

import (
	"errors"
	"fmt"
)

// The errors of Parse. Match them with errors.Is. The errors that wrap them name the invalid field and never
// quote the body, so they can be logged.
var (
	// ErrMalformed: not JSON, a value of the wrong type, or a required field that is empty or ill-formed.
	ErrMalformed = errors.New("malformed notification")
	// ErrUnknownSource: JSON, but not from a known service.
	ErrUnknownSource = errors.New("notification from an unknown source")
	// ErrUnknownTransition: a lifecycle action with an unknown transition or place, for example one that was
	// added to Auto Scaling later. Another program may be responsible for it.
	ErrUnknownTransition = errors.New("unknown lifecycle transition")
	// ErrTooLarge: more than MaxBody bytes, or MaxInstances instances.
	ErrTooLarge = errors.New("notification too large")
)

// Reason returns the reason of an error of Parse for a metric label: one of Reasons, or "" for other errors.
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

// Reasons returns all reasons, so that a counter can start at zero for each.
func Reasons() []string {
	return []string{"malformed", "unknown-source", "unknown-transition", "too-large"}
}

// malformed returns an error about a field. Its arguments must not come from the message.
func malformed(field, problem string) error {
	return fmt.Errorf("%w: %s %s", ErrMalformed, field, problem)
}
