package awsim

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxMessage is the size of the largest message, and of a batch as a whole.
const maxMessage = 1 << 20

// queueAttributes is what can be set on a queue.
type queueAttributes struct {
	visibility  time.Duration
	retention   time.Duration
	wait        time.Duration
	delay       time.Duration
	maxSize     int
	deadLetters string // The name of the dead-letter queue; empty without a redrive policy.
	maxReceives int
}

func defaultAttributes() queueAttributes {
	return queueAttributes{visibility: 30 * time.Second, retention: 4 * 24 * time.Hour, maxSize: maxMessage}
}

// sqsName is what SQS takes for the name of a queue and for the id of a batch's entry.
var sqsName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// validQueueName reports whether it is the name of a standard queue.
func validQueueName(name string) bool {
	return sqsName.MatchString(name)
}

// with is the attributes after a change, or an error that leaves everything as it was.
func (a queueAttributes) with(changes map[string]string) (queueAttributes, error) {
	for name, value := range changes {
		set := a.setter(name)
		if set == nil {
			return a, errorf("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
		if !set(value) {
			return a, errorf("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
		}
	}
	return a, nil
}

// setter returns a function that sets an attribute and reports whether the value is valid, or nil for an
// unknown attribute.
func (a *queueAttributes) setter(name string) func(value string) bool {
	switch name {
	case "VisibilityTimeout":
		return secondsSetter(&a.visibility, 0, 43200)
	case "MessageRetentionPeriod":
		return secondsSetter(&a.retention, 60, 1209600)
	case "ReceiveMessageWaitTimeSeconds":
		return secondsSetter(&a.wait, 0, 20)
	case "DelaySeconds":
		return secondsSetter(&a.delay, 0, 900)
	case "MaximumMessageSize":
		return numberSetter(&a.maxSize, 1024, maxMessage)
	case "RedrivePolicy":
		return a.setRedrive
	}
	if slices.Contains(ignoredAttributes(), name) {
		return func(string) bool { return true }
	}
	return nil
}

func numberSetter(dst *int, low, high int) func(string) bool {
	return func(value string) bool {
		n, err := strconv.Atoi(value)
		*dst = n
		return err == nil && n >= low && n <= high
	}
}

func secondsSetter(dst *time.Duration, low, high int) func(string) bool {
	return func(value string) bool {
		n := 0
		ok := numberSetter(&n, low, high)(value)
		*dst = time.Duration(n) * time.Second
		return ok
	}
}

// ignoredAttributes are accepted without effect: who may use the queue, and how it is encrypted.
func ignoredAttributes() []string {
	return []string{
		"Policy", "RedriveAllowPolicy", "SqsManagedSseEnabled", "KmsMasterKeyId",
		"KmsDataKeyReusePeriodSeconds",
	}
}

// setRedrive reads {"deadLetterTargetArn":"arn:…:name","maxReceiveCount":"5"}, whose count may be a
// number too; an empty policy means none.
func (a *queueAttributes) setRedrive(value string) bool {
	a.deadLetters, a.maxReceives = "", 0
	if value == "" {
		return true
	}
	var policy struct {
		DeadLetterTargetArn string `json:"deadLetterTargetArn"`
		MaxReceiveCount     any    `json:"maxReceiveCount"`
	}
	if json.Unmarshal([]byte(value), &policy) != nil {
		return false
	}
	text, _ := policy.MaxReceiveCount.(string)
	if n, ok := policy.MaxReceiveCount.(float64); ok {
		text = strconv.Itoa(int(n))
	}
	n, err := strconv.Atoi(text)
	a.maxReceives = n
	a.deadLetters = lastOf(policy.DeadLetterTargetArn, ":")
	return err == nil && n >= 1 && n <= 1000 && strings.HasPrefix(policy.DeadLetterTargetArn, "arn:aws:sqs:")
}

// attributesOf returns what GetQueueAttributes shows of a queue.
func attributesOf(q *queue, arnOf func(name string) string) map[string]string {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
	all := map[string]string{
		"QueueArn":                              arnOf(q.name),
		"ApproximateNumberOfMessages":           strconv.Itoa(q.visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(q.inFlight),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(q.delayed),
		"CreatedTimestamp":                      strconv.FormatInt(q.created.Unix(), 10),
		"LastModifiedTimestamp":                 strconv.FormatInt(q.changed.Unix(), 10),
		"VisibilityTimeout":                     seconds(q.attrs.visibility),
		"MessageRetentionPeriod":                seconds(q.attrs.retention),
		"ReceiveMessageWaitTimeSeconds":         seconds(q.attrs.wait),
		"DelaySeconds":                          seconds(q.attrs.delay),
		"MaximumMessageSize":                    strconv.Itoa(q.attrs.maxSize),
		"SqsManagedSseEnabled":                  "true",
	}
	if q.attrs.deadLetters != "" {
		policy, _ := json.Marshal(map[string]any{
			"deadLetterTargetArn": arnOf(q.attrs.deadLetters),
			"maxReceiveCount":     q.attrs.maxReceives,
		})
		all["RedrivePolicy"] = string(policy)
	}
	return all
}

// knownAttribute reports whether GetQueueAttributes accepts the name.
func knownAttribute(name string) bool {
	return slices.Contains(ignoredAttributes(), name) || slices.Contains([]string{
		"All", "RedrivePolicy",
		"QueueArn", "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
		"ApproximateNumberOfMessagesDelayed", "CreatedTimestamp", "LastModifiedTimestamp",
		"VisibilityTimeout", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds", "DelaySeconds",
		"MaximumMessageSize",
	}, name)
}

func lastOf(text, separator string) string { return text[strings.LastIndex(text, separator)+1:] }
