package awsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// sender is who sends a message to a queue: the caller of the API, or an AWS service for a resource of the
// account.
type sender struct {
	arn     string // aws:PrincipalArn: a user or a role; empty for a service.
	service string // The service principal; empty for a user or a role.
	source  string // aws:SourceArn: the rule or the topic.
}

// id is the message's SenderId: opaque for a service, and for a role it ends with the session's name.
func (from sender) id() string {
	switch {
	case from.service != "":
		return "AIDA" + from.service
	case from.arn != "":
		return from.arn
	}
	return "AIDATEST"
}

// keys are the condition keys of the sender's request (IAM user guide, "AWS global condition context keys").
func (from sender) keys() map[string]string {
	keys := map[string]string{"aws:SecureTransport": "true", "aws:PrincipalIsAWSService": fmt.Sprint(from.service != "")}
	if from.arn != "" {
		keys["aws:PrincipalArn"] = from.arn
	}
	if from.source != "" {
		keys["aws:SourceArn"] = from.source
	}
	return keys
}

// user is the caller with an access key.
func (s *sqs) user(key string) sender {
	return sender{arn: "arn:aws:iam::" + s.server.opts.Account + ":user/" + key}
}

// queueStatement is one of a queue's policy.
type queueStatement struct {
	Sid, Effect      string
	Principal        principals
	Action, Resource texts
	Condition        map[string]map[string]texts
}

// principals is * or one service. Anything else is not simulated.
type principals struct {
	all     bool
	service string
}

// UnmarshalJSON reads either.
func (p *principals) UnmarshalJSON(data []byte) error {
	if string(data) == `"*"` {
		p.all = true
		return nil
	}
	var named struct{ Service string }
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&named)
	p.service = named.Service
	return err
}

// readQueuePolicy returns the statements of a queue's policy, or an error if anything in it is not simulated.
func readQueuePolicy(policy string) ([]queueStatement, error) {
	var document struct {
		Version   string
		Statement []queueStatement
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(policy)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is no policy that is simulated here: %w", err)
	}
	for _, st := range document.Statement {
		for operator := range st.Condition {
			if _, known := compare(operator, "", false, nil); !known {
				return nil, fmt.Errorf("statement %q: the condition %s is not simulated", st.Sid, operator)
			}
		}
	}
	return document.Statement, nil
}

// admits is an error if the queue's policy keeps the sender from sending. Without a policy, a queue takes all:
// real queues take nothing from services then. A user or a role of the account needs no statement that allows
// it, because its own policies do; a service does.
func (q *queue) admits(arn string, from sender) error {
	if q.policy == nil || from == (sender{}) {
		return nil
	}
	applies := func(effect string) bool {
		return slices.ContainsFunc(q.policy, func(st queueStatement) bool {
			return st.Effect == effect && st.applies(arn, from)
		})
	}
	if applies("Deny") || from.service != "" && !applies("Allow") {
		text := fmt.Sprintf("User: %s%s is not authorized to perform: sqs:sendmessage on resource: %s with an explicit "+
			"deny in a resource-based policy", from.arn, from.service, arn)
		return forbidden("AccessDeniedException", text)
	}
	return nil
}

// applies reports whether the statement is about the sender's SendMessage.
func (st queueStatement) applies(arn string, from sender) bool {
	if !st.Principal.all && (from.service == "" || st.Principal.service != from.service) ||
		!slices.ContainsFunc(st.Action, func(p string) bool { return matches(p, "sqs:SendMessage") }) ||
		!slices.ContainsFunc(st.Resource, func(p string) bool { return matches(p, arn) }) {
		return false
	}
	keys := from.keys()
	for operator, conditions := range st.Condition {
		for key, wanted := range conditions {
			value, has := keys[key]
			if met, _ := compare(operator, value, has, wanted); !met {
				return false
			}
		}
	}
	return true
}

// compare reports whether a condition is met, and whether its operator is simulated. A key that the request
// lacks meets IfExists alone.
func compare(operator, value string, has bool, wanted []string) (met, known bool) {
	found := slices.ContainsFunc(wanted, func(w string) bool { return matches(w, value) })
	switch operator {
	case "Bool", "ArnEquals", "ArnLike":
		return has && found, true
	case "BoolIfExists":
		return !has || found, true
	case "ArnNotEqualsIfExists":
		return !has || !found, true
	}
	return false, false
}
