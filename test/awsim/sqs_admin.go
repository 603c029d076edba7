package awsim

import (
	"context"
	"time"
)

// What an administrator does with queues by the API: the probe does.

func adminActions(s queueAPI) map[string]actionFunc {
	return map[string]actionFunc{
		"CreateQueue":        s.createQueue,
		"DeleteQueue":        onQueue(s.sqs, s.deleteQueue),
		"SetQueueAttributes": onQueue(s.sqs, s.setQueueAttributes),
		"PurgeQueue":         onQueue(s.sqs, s.purgeQueue),
	}
}

type setAttributesRequest struct {
	queueRequest
	Attributes map[string]string
}

type queueURLAnswer struct {
	QueueURL string `json:"QueueUrl"`
}

func (s queueAPI) createQueue(_ context.Context, raw input) (any, error) {
	in, err := decodeJSON[struct {
		QueueName  string
		Attributes map[string]string
	}](raw)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.create(in.QueueName)
	if _, err := s.setQueueAttributes(time.Time{}, q, setAttributesRequest{Attributes: in.Attributes}); err != nil {
		return nil, err
	}
	return queueURLAnswer{s.url(in.QueueName)}, nil
}

func (s queueAPI) deleteQueue(_ time.Time, q *queue, _ queueRequest) (any, error) {
	delete(s.queues, q.name)
	return struct{}{}, nil
}

func (s queueAPI) purgeQueue(_ time.Time, q *queue, _ queueRequest) (any, error) {
	for _, m := range q.messages {
		q.remove(m)
	}
	return struct{}{}, nil
}

func (s queueAPI) setQueueAttributes(_ time.Time, q *queue, in setAttributesRequest) (any, error) {
	for name, value := range in.Attributes {
		if err := s.set(q, name, value); err != nil {
			return nil, errorf("InvalidAttributeValue", "Invalid value for the parameter %s: %v.", name, err)
		}
	}
	return struct{}{}, nil
}
