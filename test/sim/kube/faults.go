package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Effect is what a fault does.
type Effect string

const (
	// Refused refuses connections, and cuts those of watches when it begins.
	Refused Effect = "refused"
	// Unanswered leaves requests without an answer. A watch breaks when its client notices after 45 seconds.
	Unanswered Effect = "unanswered"
	// Slow adds Delay before the decision.
	Slow Effect = "slow"
	// Lost executes a request and loses the answer.
	Lost Effect = "lost"
	// Throttled answers 429 with Delay as Retry-After.
	Throttled Effect = "throttled"
	// Failing answers 500, as an API server does whose etcd does not answer.
	Failing Effect = "failing"
	// Denied answers 403.
	Denied Effect = "denied"
	// Conflicting answers 409 to changes that name a resource version.
	Conflicting Effect = "conflicting"
	// Stale has watches, and lists of resource version 0, show changes later by Delay.
	Stale Effect = "stale"
)

// Fault is something that goes wrong with the requests that it selects.
type Fault struct {
	Effect   Effect
	From, To time.Time     // a zero To has no end
	Client   string        // this and the following select all requests if they are empty
	Verb     string        // as in a Record
	Resource string        // as in a Record
	Every    int           // if it is not 0: only the first of so many requests
	Delay    time.Duration // see the effects
}

// fault counts the requests that it has selected.
type fault struct {
	Fault
	selected int
}

// clientNotices is how long an HTTP/2 client of Kubernetes takes to break a connection without answers: it sends a ping
// after 30 seconds, and waits 15 seconds for the answer.
const clientNotices = 45 * time.Second

// faults are what goes wrong.
type faults struct {
	list  []*fault
	hooks []*Webhook
}

// Inject adds a fault.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.list = append(s.faults.list, &fault{Fault: f})
	began := f.From
	switch f.Effect {
	case Refused:
	case Unanswered:
		if began = began.Add(clientNotices); !f.To.IsZero() && began.After(f.To) {
			return
		}
	default:
		return
	}
	s.clock.at(began, func() { s.watches.cut(f.selects) })
}

// Unavailable refuses all connections for a time, or those of some clients.
func (s *Server) Unavailable(from, to time.Time, clients ...string) {
	if len(clients) == 0 {
		clients = []string{""}
	}
	for _, client := range clients {
		s.Inject(Fault{Effect: Refused, From: from, To: to, Client: client})
	}
}

// Forbidden withdraws a permission from now on. Allow gives it back.
func (s *Server) Forbidden(verb, resource string) {
	s.Inject(Fault{Effect: Denied, From: time.Now(), Verb: verb, Resource: resource})
}

// Allow gives back all permissions that were withdrawn.
func (s *Server) Allow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.list = slices.DeleteFunc(s.faults.list, func(f *fault) bool { return f.Effect == Denied })
}

func (f Fault) active() bool {
	return !time.Now().Before(f.From) && (f.To.IsZero() || time.Now().Before(f.To))
}

func (f Fault) selects(c *call) bool {
	return (f.Client == "" || f.Client == c.Client) && (f.Verb == "" || f.Verb == c.Verb) &&
		(f.Resource == "" || f.Resource == c.Resource)
}

// fault returns the first fault with an effect that the request has now, or nil.
func (s *faults) find(c *call, effects ...Effect) *Fault {
	for _, f := range s.list {
		if !slices.Contains(effects, f.Effect) || !f.active() || !f.selects(c) {
			continue
		}
		f.selected++
		if f.Every == 0 || f.selected%f.Every == 1%f.Every {
			return &f.Fault
		}
	}
	return nil
}

// obstruct has a request wait, for faults and then for webhooks, or returns the error of its connection.
func (t transport) obstruct(ctx context.Context, c *call) error {
	s := t.server
	s.mu.Lock()
	f := s.faults.find(c, Refused, Unanswered, Slow)
	hooks := s.faults.webhooks(c, s.pod(c.object))
	s.mu.Unlock()
	if err := f.obstruct(ctx); err != nil {
		return err
	}
	return c.review(ctx, hooks)
}

// obstruct is what a fault, which may be nil, does to a connection.
func (f *Fault) obstruct(ctx context.Context) error {
	switch {
	case f == nil:
		return nil
	case f.Effect == Refused:
		return fmt.Errorf("dial tcp 10.0.0.1:443: connect: %w", syscall.ECONNREFUSED)
	case f.Effect == Slow:
		return sleep(ctx, f.Delay)
	}
	wait := clientNotices
	if !f.To.IsZero() {
		wait = min(wait, time.Until(f.To))
	}
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	return errReset
}

// refuse returns the error that answers a request instead of the server, or nil.
func (s *faults) refuse(c *call) error {
	f := s.find(c, Throttled, Failing, Denied)
	switch {
	case f == nil:
		return c.denial
	case f.Effect == Throttled:
		return apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again "+
			"later", int(max(f.Delay, time.Second)/time.Second))
	case f.Effect == Failing:
		return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	}
	denied := fmt.Sprintf("User %q cannot %s resource %q in API group %q at the cluster scope",
		c.Client, c.Verb, c.Resource, c.resource.kind.Group)
	return apierrors.NewForbidden(c.resource.group(), c.object.Name, errors.New(denied))
}

func (s *faults) conflicts(c *call) bool { return s.find(c, Conflicting) != nil }

func (s *faults) loses(c *call) bool { return s.find(c, Lost) != nil }

// lag returns how much later the watches of a client show a change.
func (s *faults) lag(c *call) (longest time.Duration) {
	for _, f := range s.list {
		if f.Effect == Stale && f.active() && (f.Client == "" || f.Client == c.Client) &&
			(f.Resource == "" || f.Resource == c.Resource) {
			longest = max(longest, f.Delay)
		}
	}
	return longest
}
