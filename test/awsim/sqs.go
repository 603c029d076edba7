package awsim

import (
	"context"
	"math/rand/v2"
	"net/url"
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

// queueAPI is the actions of the SQS API.
type queueAPI struct{ *sqs }

func sqsActions(q *sqs) map[string]actionFunc {
	s := queueAPI{q}
	return map[string]actionFunc{
		"CreateQueue":                  act(q, s.createQueue),
		"DeleteQueue":                  onQueue(q, s.deleteQueue),
		"ListQueues":                   act(q, s.listQueues),
		"GetQueueUrl":                  act(q, s.getQueueURL),
		"GetQueueAttributes":           onQueue(q, s.getQueueAttributes),
		"SetQueueAttributes":           onQueue(q, s.setQueueAttributes),
		"PurgeQueue":                   onQueue(q, purgeQueue),
		"SendMessage":                  onQueue(q, send),
		"SendMessageBatch":             onQueue(q, sendBatch),
		"ReceiveMessage":               s.receive,
		"DeleteMessage":                onQueue(q, deleteMessage),
		"DeleteMessageBatch":           onQueue(q, deleteMessageBatch),
		"ChangeMessageVisibility":      onQueue(q, changeVisibility),
		"ChangeMessageVisibilityBatch": onQueue(q, changeVisibilityBatch),
	}
}

// act makes an action of a function that neither waits nor locks nor reads JSON.
func act[In any](s *sqs, do func(now time.Time, in In) (any, error)) actionFunc {
	return func(_ context.Context, raw input) (any, error) {
		in, err := decodeJSON[In](raw)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		defer s.signal()
		return do(time.Now(), in)
	}
}

// onQueue is act for a function of the queue that the request names.
func onQueue[In interface{ queueURL() string }](
	s *sqs, do func(now time.Time, q *queue, in In) (any, error),
) actionFunc {
	return act(s, func(now time.Time, in In) (any, error) {
		q, err := s.find(in.queueURL())
		if err != nil {
			return nil, err
		}
		return do(now, q, in)
	})
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
		if next, ok := nextChange(q); ok && (again.IsZero() || next.Before(again)) {
			again = next
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

// find is the queue of a URL or an ARN. A URL's host is not looked at: clients in containers reach
// the server under other names than its own.
func (s *sqs) find(urlOrARN string) (*queue, error) {
	missing := errorf("QueueDoesNotExist", "The specified queue does not exist.")
	name := ""
	if fields := strings.Split(urlOrARN, ":"); len(fields) == 6 && fields[2] == "sqs" {
		name = fields[5]
		if urlOrARN != s.arn(name) {
			return nil, missing
		}
	} else if u, err := url.Parse(urlOrARN); err == nil {
		account := ""
		account, name, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if account != s.server.opts.Account {
			return nil, missing
		}
	}
	q := s.queues[name]
	if q == nil {
		return nil, missing
	}
	return q, nil
}

// create makes a queue, or finds the one that has the same attributes already.
func (s *sqs) create(now time.Time, name string, changes map[string]string) (*queue, error) {
	if !validQueueName(name) {
		return nil, errorf("InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or "+
			"underscores. 1 to 80 in length. FIFO queues are not known here.")
	}
	attrs, err := s.changeAttributes(defaultAttributes(), changes)
	if err != nil {
		return nil, err
	}
	if q := s.queues[name]; q != nil {
		if same, err := q.attrs.with(changes); err != nil || same != q.attrs {
			return nil, errorf("QueueNameExists",
				"A queue already exists with the same name and a different value for an attribute.")
		}
		return q, nil
	}
	q := newQueue(name, attrs, now)
	if seed := s.server.opts.Seed; seed != 0 {
		q.shuffle = rand.New(rand.NewPCG(seed, 0))
	}
	s.queues[name] = q
	return q, nil
}

// changeAttributes is attributes after changes; a dead-letter queue must exist.
func (s *sqs) changeAttributes(a queueAttributes, changes map[string]string) (queueAttributes, error) {
	a, err := a.with(changes)
	if err == nil && a.deadLetters != "" && s.queues[a.deadLetters] == nil {
		err = errorf("InvalidParameterValue", "Value %s for parameter RedrivePolicy is invalid. "+
			"Reason: Dead letter target does not exist.", changes["RedrivePolicy"])
	}
	return a, err
}
