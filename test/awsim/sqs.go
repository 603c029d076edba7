package awsim

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// sqs is the queues behind a lock, with a signal for those who wait for a message or for the end of one.
type sqs struct {
	server *Server

	mu      sync.Mutex
	queues  map[string]*queue
	changed chan struct{} // Closed and replaced at every change.
}

func newSQS(s *Server) *sqs {
	return &sqs{server: s, queues: map[string]*queue{}, changed: make(chan struct{})}
}

// signal wakes all waits. It needs mu.
func (s *sqs) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await calls look, with mu held, until it returns true: at once, after every change, when time alone may
// have changed the queue, and at the deadline, which ends it; a zero deadline is none. An error means that
// ctx ended first.
func (s *sqs) await(ctx context.Context, deadline time.Time, q *queue, look func(now time.Time) bool) error {
	for {
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			s.mu.Unlock()
			return err
		}
		now := time.Now()
		if look(now) || !deadline.IsZero() && !now.Before(deadline) {
			s.mu.Unlock()
			return nil
		}
		changed := s.changed
		again := deadline
		if len(q.wakeups) > 0 && (again.IsZero() || q.wakeups[0].at.Before(again)) {
			again = q.wakeups[0].at
		}
		s.mu.Unlock()
		waitForChange(ctx, changed, again, now)
	}
}

// waitForChange ends with ctx, at a change, or at a time, if that is not zero.
func waitForChange(ctx context.Context, changed <-chan struct{}, again, now time.Time) {
	var alarm <-chan time.Time
	if !again.IsZero() {
		timer := time.NewTimer(again.Sub(now))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-changed:
	case <-alarm:
	case <-ctx.Done():
	}
}

func (s *sqs) arn(name string) string {
	o := s.server.opts
	return "arn:aws:sqs:" + o.Region + ":" + o.Account + ":" + name
}

func (s *sqs) url(name string) string { return s.server.url + "/" + s.server.opts.Account + "/" + name }

// find is the queue of a URL or an ARN. Of a URL only the name counts: clients in containers reach the server
// under other names than its own.
func (s *sqs) find(urlOrARN string) (*queue, error) {
	name := urlOrARN[strings.LastIndexAny(urlOrARN, "/:")+1:]
	q := s.queues[name]
	if q == nil || strings.HasPrefix(urlOrARN, "arn:") && urlOrARN != s.arn(name) {
		return nil, errorf("QueueDoesNotExist", "The specified queue does not exist.")
	}
	return q, nil
}

// create makes a queue, unless there is one of the name.
func (s *sqs) create(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = newQueue(name, s.server.opts.source("queue", name))
		if seed := s.server.opts.Seed; seed != 0 {
			q.shuffle = rand.New(rand.NewPCG(seed, 0))
		}
		s.queues[name] = q
	}
	return q
}
