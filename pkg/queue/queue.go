// Package queue runs a handler for each message of an SQS queue, and keeps the message invisible until the
// handler returns.
package queue

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Message is one delivery of an SQS message.
type Message struct {
	ID       string    // the same for every delivery and every duplicate of a message
	Body     []byte    // as it was sent; nil for the Observer once the handler has it
	Receives int       // how often SQS has delivered the message, this delivery included
	SentAt   time.Time // when SQS accepted the message
	Sender   string    // the SenderId: the id of the user or role, and of a role's session its name
}

// Config is set by environment variables that begin with QUEUE_.
type Config struct {
	URL               string        `env:"URL,required,notEmpty" help:"URL of the SQS queue that hooks and rules send to."`
	VisibilityTimeout time.Duration `env:"VISIBILITY_TIMEOUT" envDefault:"30s" min:"3s" max:"12h" help:"How long a message stays invisible if this process dies. 3s to 12h."`
	MaxInFlight       int           `env:"MAX_IN_FLIGHT" envDefault:"1000" min:"1" max:"120000" why:"the most in-flight messages that SQS allows for a queue" help:"Maximum number of messages in progress, of about 40 KiB each."`
	Receivers         int           `env:"RECEIVERS" envDefault:"10" min:"1" max:"100" help:"Maximum number of concurrent receive calls, 1 to 100."`
}

// Validate returns an error if URL is not that of a queue. What the tags of the fields exclude is checked when
// the configuration is read.
func (c Config) Validate() error {
	if u, err := url.Parse(c.URL); err == nil && u.Scheme != "" && u.Host != "" && len(u.Path) > 1 {
		return nil
	}
	return fmt.Errorf("QUEUE_URL is %q: must be the URL of a queue, "+
		"for example https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer", c.URL)
}

// verdict is a handler's error with the outcome that the handler chose.
type verdict struct {
	outcome Outcome
	err     error
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// Reject marks err as final: a retry cannot succeed. The queue's redrive policy removes the message; in a
// queue without one it is deleted at its fifth delivery.
func Reject(err error) error { return &verdict{Rejected, err} }

// Release marks err as the message being for another process. The message becomes visible at once, and after
// an increasing pause when this process keeps receiving it.
func Release(err error) error { return &verdict{Released, err} }

// Outcome is how a delivery ended.
type Outcome string

// The outcomes of a delivery.
const (
	Deleted  Outcome = "deleted"  // the handler returned nil
	Rejected Outcome = "rejected" // Reject: left to the redrive policy
	Dropped  Outcome = "dropped"  // Reject, for the fifth time, in a queue without a redrive policy: deleted
	Released Outcome = "released" // Release, or this process is stopping
	Retried  Outcome = "retried"  // any other error: visible again after an increasing pause
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Deleted, Rejected, Dropped, Released, Retried} }

// dropAfter is the delivery at which a rejected message is deleted if the queue has no redrive policy.
const dropAfter = 5

// outcomeOf returns how a delivery ends and, unless the message is deleted, how long it stays invisible.
func outcomeOf(receives int, err error, hasRedrive, stopping bool) (Outcome, time.Duration) {
	outcome := Retried
	var v *verdict
	switch {
	case err == nil:
		return Deleted, 0
	case errors.As(err, &v):
		outcome = v.outcome
	case stopping:
		return Released, 0
	}
	switch {
	case outcome == Rejected && !hasRedrive && receives >= dropAfter:
		return Dropped, 0
	case outcome == Released:
		return outcome, releasePause(receives)
	}
	return outcome, backoff(receives)
}

// releasePause returns how long a message for another process stays invisible to it: 10 s at most, which the process
// may need it for, until it has most likely received it. Of one that nobody takes, as a forged one, up to five minutes.
func releasePause(receives int) time.Duration {
	const short, shortReleases, doublings, longest = 10 * time.Second, 6, 5, 5 * time.Minute
	if receives <= shortReleases {
		return min(backoff(receives-1), short)
	}
	return min(short<<min(receives-shortReleases, doublings), longest)
}

// backoff returns 0, 1, 3, 7, 15, 31 and then always 60 seconds.
func backoff(n int) time.Duration {
	const longest = 60
	if n > 5 {
		return longest * time.Second
	}
	return time.Duration(1<<max(n, 0)-1) * time.Second
}
