package awsim

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The requests of SQS about queues, under the names of the real API. What is accepted without effect has
// the type any.

type createQueueRequest struct {
	QueueName  string
	Attributes map[string]string
	Tags       any `json:"tags"`
}

type queueURLAnswer struct {
	QueueURL string `json:"QueueUrl"`
}

func (s queueAPI) createQueue(now time.Time, in createQueueRequest) (any, error) {
	q, err := s.create(now, in.QueueName, in.Attributes)
	if err != nil {
		return nil, err
	}
	return queueURLAnswer{s.url(q.name)}, nil
}

type queueRequest struct {
	QueueURL string `json:"QueueUrl"`
}

func (r queueRequest) queueURL() string { return r.QueueURL }

func (s queueAPI) deleteQueue(_ time.Time, q *queue, _ queueRequest) (any, error) {
	delete(s.queues, q.name)
	q.purge()
	return nil, nil
}

func purgeQueue(_ time.Time, q *queue, _ queueRequest) (any, error) {
	q.purge()
	return nil, nil
}

type listQueuesRequest struct {
	QueueNamePrefix string
	MaxResults      int
	NextToken       string
}

type listQueuesAnswer struct {
	QueueURLs []string `json:"QueueUrls,omitempty"`
	NextToken string   `json:",omitempty"`
}

// listQueues gives pages; the token of the next is the name of the last queue that was given.
func (s queueAPI) listQueues(_ time.Time, in listQueuesRequest) (any, error) {
	if in.MaxResults < 0 || in.MaxResults > 1000 {
		return nil, errorf("InvalidParameterValue", "MaxResults must be between 1 and 1000.")
	}
	var out listQueuesAnswer
	last := ""
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		if !strings.HasPrefix(name, in.QueueNamePrefix) || name <= in.NextToken {
			continue
		}
		if in.MaxResults > 0 && len(out.QueueURLs) == in.MaxResults {
			out.NextToken = last
			break
		}
		out.QueueURLs = append(out.QueueURLs, s.url(name))
		last = name
	}
	return out, nil
}

type getQueueURLRequest struct {
	QueueName              string
	QueueOwnerAWSAccountID string `json:"QueueOwnerAWSAccountId"`
}

func (s queueAPI) getQueueURL(_ time.Time, in getQueueURLRequest) (any, error) {
	owner := in.QueueOwnerAWSAccountID
	if owner != "" && owner != s.server.opts.Account || s.queues[in.QueueName] == nil {
		return nil, errorf("QueueDoesNotExist", "The specified queue does not exist.")
	}
	return queueURLAnswer{s.url(in.QueueName)}, nil
}

type getQueueAttributesRequest struct {
	queueRequest
	AttributeNames []string
}

type attributesAnswer struct {
	Attributes map[string]string `json:",omitempty"`
}

func (s queueAPI) getQueueAttributes(now time.Time, q *queue, in getQueueAttributesRequest) (any, error) {
	q.advance(now)
	all := attributesOf(q, s.arn)
	if slices.Contains(in.AttributeNames, "All") {
		return attributesAnswer{all}, nil
	}
	some := map[string]string{}
	for _, name := range in.AttributeNames {
		if !knownAttribute(name) {
			return nil, errorf("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
		if value, ok := all[name]; ok {
			some[name] = value
		}
	}
	return attributesAnswer{some}, nil
}

type setQueueAttributesRequest struct {
	queueRequest
	Attributes map[string]string
}

func (s queueAPI) setQueueAttributes(now time.Time, q *queue, in setQueueAttributesRequest) (any, error) {
	attrs, err := s.changeAttributes(q.attrs, in.Attributes)
	if err != nil {
		return nil, err
	}
	q.attrs = attrs
	q.changed = now
	q.setRetention(attrs.retention)
	return nil, nil
}
