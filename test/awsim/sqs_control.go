package awsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// QueueStats is a queue's state, and what went through it since it was created.
type QueueStats struct {
	Visible  int
	InFlight int
	Delayed  int
	Deleted  int // By DeleteMessage; what ended by age or was moved to another queue is not counted.
	Received int // A message that was received twice counts twice.
}

// CreateQueue makes a queue, unless there is one of the name, and gives its URL. Of the attributes, under their
// SQS names, only Policy and RedrivePolicy are simulated. It shows those about keys and retention. It panics on
// anything else, because then the test is wrong.
func (s SQS) CreateQueue(name string, attrs map[string]string) (url string) {
	s.sqs.mu.Lock()
	defer s.sqs.mu.Unlock()
	q := s.sqs.create(name)
	for attribute, value := range attrs {
		if err := s.sqs.set(q, attribute, value); err != nil {
			panic(fmt.Sprintf("awsim: create queue %s with %s %s: %v", name, attribute, value, err))
		}
	}
	return s.sqs.url(name)
}

// set sets an attribute. It needs mu.
func (s *sqs) set(q *queue, attribute, value string) (err error) {
	switch attribute {
	case "Policy":
		var statements []queueStatement
		if statements, err = readQueuePolicy(value); err == nil {
			q.policyText, q.policy = value, statements
		}
		return err
	case "RedrivePolicy":
		var policy struct {
			DeadLetterTargetArn string
			MaxReceiveCount     int
		}
		err := json.Unmarshal([]byte(value), &policy)
		dead, missing := s.find(policy.DeadLetterTargetArn)
		if err = errors.Join(err, missing); err == nil {
			q.redrivePolicy, q.deadLetters, q.maxReceives = value, dead, policy.MaxReceiveCount
		}
		return err
	case "KmsMasterKeyId", "SqsManagedSseEnabled", "MessageRetentionPeriod", "MaximumMessageSize":
		if q.attributes == nil {
			q.attributes = map[string]string{}
		}
		q.attributes[attribute] = value
		return nil
	}
	return errorf("InvalidAttributeName", "Unknown Attribute %s.", attribute)
}

// DeleteQueue removes a queue with its messages. Whoever waits for one of them learns nothing.
func (s SQS) DeleteQueue(url string) {
	s.sqs.with(url, func(_ time.Time, q *queue) { delete(s.sqs.queues, q.name) })
}

// Send puts a message into a queue, given by URL or ARN, whatever the queue's policy says. It panics if there is
// no such queue.
func (s SQS) Send(url, body string) (messageID string) {
	id, err := s.sqs.deliver(url, body, sender{})
	if err != nil {
		panic(fmt.Sprintf("awsim: send to %s: %v", url, err))
	}
	return id
}

// sendMessage delivers what AWS itself sends to a queue: notifications.
func (s SQS) sendMessage(queueARNorURL, body string, from sender) error {
	_, err := s.sqs.deliver(queueARNorURL, body, from)
	return err
}

func (s *sqs) deliver(urlOrARN, body string, from sender) (messageID string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(urlOrARN)
	if err != nil {
		return "", err
	}
	if err := q.admits(s.arn(q.name), from); err != nil {
		return "", err
	}
	if q.lose > 0 {
		q.lose--
		q.lost = append(q.lost, body)
		return uuid(q.ids), nil
	}
	defer s.signal()
	return q.send(time.Now(), body, from.id()), nil
}

// Queue returns a queue's state. It panics if there is no such queue, as the methods below do.
func (s SQS) Queue(url string) (stats QueueStats) {
	s.sqs.with(url, func(now time.Time, q *queue) {
		q.advance(now)
		stats = q.stats()
	})
	return stats
}

// Held is the bodies of all messages that a queue holds, the oldest first: visible, in flight and delayed. To
// look is no receipt.
func (s SQS) Held(url string) (bodies []string) {
	s.sqs.with(url, func(now time.Time, q *queue) {
		q.advance(now)
		for _, serial := range sortedKeys(q.messages) {
			bodies = append(bodies, q.messages[serial].body)
		}
	})
	return bodies
}

// Duplicate delivers the next n messages twice: two copies with one message id, each of which has to be
// deleted.
func (s SQS) Duplicate(url string, n int) {
	s.sqs.with(url, func(_ time.Time, q *queue) { q.duplicate = n })
}

// Lose drops the next n messages of Send and of AWS itself, and no sender learns of it.
func (s SQS) Lose(url string, n int) {
	s.sqs.with(url, func(_ time.Time, q *queue) { q.lose = n })
}

// Lost is the bodies of the messages that a queue has lost, the oldest first.
func (s SQS) Lost(url string) (bodies []string) {
	s.sqs.with(url, func(_ time.Time, q *queue) { bodies = slices.Clone(q.lost) })
	return bodies
}

// Reorder makes a queue deliver its newest message first or, if the server has a seed, in an order that the
// seed determines.
func (s SQS) Reorder(url string, on bool) {
	s.sqs.with(url, func(_ time.Time, q *queue) { q.reorder = on })
}

// Delay delays messages that are sent to a queue from now on, as DelaySeconds does but in any fraction of a
// second.
func (s SQS) Delay(url string, d time.Duration) {
	s.sqs.with(url, func(_ time.Time, q *queue) { q.delay = d })
}

// ExpireVisibility ends the visibility timeout of all messages in flight.
func (s SQS) ExpireVisibility(url string) {
	s.sqs.with(url, func(now time.Time, q *queue) { q.expireVisibility(now) })
}

// WaitDrained blocks until the queue holds no message: none visible, in flight or delayed. An error means
// that ctx ended first.
func (s SQS) WaitDrained(ctx context.Context, url string) error {
	var watched *queue
	s.sqs.with(url, func(_ time.Time, q *queue) { watched = q })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.sqs.server.ctx, cancel)() //nolint:contextcheck // Close ends the wait too.
	err := s.sqs.await(ctx, time.Time{}, watched, func(now time.Time) bool {
		watched.advance(now)
		return len(watched.messages) == 0
	})
	if err != nil {
		return fmt.Errorf("%s is not drained: %+v: %w", url, s.Queue(url), err)
	}
	return nil
}

func (s *sqs) with(url string, do func(now time.Time, q *queue)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(url)
	if err != nil {
		panic(fmt.Sprintf("awsim: %s: %v", url, err))
	}
	do(time.Now(), q)
	s.signal()
}
