// Package queue runs a handler for each message of an SQS queue and keeps the message invisible meanwhile.
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
	Body     []byte    // as it was sent
	Receives int       // how often SQS has handed the message out, this delivery included
	SentAt   time.Time // when SQS took the message in
}

// Config is what a user can set, by environment variables that begin with QUEUE_.
type Config struct {
	URL               string        `env:"URL,required,notEmpty" help:"URL of the SQS queue that the lifecycle hooks and EventBridge rules send to."`
	VisibilityTimeout time.Duration `env:"VISIBILITY_TIMEOUT" envDefault:"30s" help:"How long a message stays invisible if this process dies while it works on it. It is renewed as long as the work goes on. Between 3s and 12h."`
	MaxInFlight       int           `env:"MAX_IN_FLIGHT" envDefault:"10000" help:"Most messages worked on at the same time. A message costs memory while its node drains, and nothing else."`
	Receivers         int           `env:"RECEIVERS" envDefault:"10" help:"Most receives under way at the same time. There is one while the queue is empty, and more as long as they come back full. Between 1 and 100."`
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.URL); err != nil || u.Scheme == "" || u.Host == "" || len(u.Path) < 2 {
		errs = append(errs, fmt.Errorf("QUEUE_URL is %q: must be the URL of a queue, "+
			"as https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer", c.URL))
	}
	if c.VisibilityTimeout < 3*time.Second || c.VisibilityTimeout > maxVisibility {
		errs = append(errs, fmt.Errorf("QUEUE_VISIBILITY_TIMEOUT is %v: must be from 3s to 12h",
			c.VisibilityTimeout))
	}
	if c.MaxInFlight < 1 || c.MaxInFlight > 120_000 {
		errs = append(errs, fmt.Errorf("QUEUE_MAX_IN_FLIGHT is %d: must be from 1 to 120000, "+
			"the most that SQS hands out of one queue", c.MaxInFlight))
	}
	return errors.Join(append(errs, c.validateReceivers())...)
}

func (c Config) validateReceivers() error {
	if c.Receivers < 1 || c.Receivers > 100 {
		return fmt.Errorf("QUEUE_RECEIVERS is %d: must be from 1 to 100", c.Receivers)
	}
	return nil
}

// verdict is a handler's error with what it asks of the queue.
type verdict struct {
	outcome Outcome
	err     error
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// Reject returns err as the verdict that no retry can help the message. The queue's redrive policy takes the
// message away; where the queue has none, the message is deleted at its fifth delivery.
func Reject(err error) error { return &verdict{Rejected, err} }

// Release returns err as the verdict that the message is somebody else's. It is visible again at once, and
// after a growing pause when it keeps coming back here.
func Release(err error) error { return &verdict{Released, err} }

// Outcome is what became of a delivery.
type Outcome string

// The outcomes of a delivery.
const (
	Deleted  Outcome = "deleted"  // the handler returned nil
	Rejected Outcome = "rejected" // Reject: left to the redrive policy
	Dropped  Outcome = "dropped"  // Reject, for the fifth time, in a queue without a redrive policy: deleted
	Released Outcome = "released" // Release, or this process is stopping
	Retried  Outcome = "retried"  // any other error: visible again after a growing pause
)

// Outcomes lists every outcome, for those who count them.
func Outcomes() []Outcome { return []Outcome{Deleted, Rejected, Dropped, Released, Retried} }

// dropAfter is the delivery at which a rejected message is deleted if the queue has no redrive policy.
const dropAfter = 5

// settle says what becomes of a delivery and, if the message stays, how long it remains invisible.
func settle(receives int, err error, hasRedrive, stopping bool) (Outcome, time.Duration) {
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
		return outcome, min(backoff(receives-1), longestRelease)
	}
	return outcome, backoff(receives)
}

// longestRelease bounds how long a message that is somebody else's stays hidden from its owner.
const longestRelease = 10 * time.Second

// backoff grows from 0 over 1, 3, 7, 15 to 31 seconds, and to no more than 60.
func backoff(n int) time.Duration {
	const longest = 60
	if n > 5 {
		return longest * time.Second
	}
	return time.Duration(1<<max(n, 0)-1) * time.Second
}
