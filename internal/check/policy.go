package check

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// eventBridge is the service principal of EventBridge.
const eventBridge = "events.amazonaws.com"

// queuePolicy is what is read of the policy of a queue: statements about SendMessage.
type queuePolicy struct{ Statement oneOrMore[statement] }

type statement struct {
	Effect    string
	Principal principal
	Action    oneOrMore[string]
	Resource  oneOrMore[string]
	Condition map[string]map[string]oneOrMore[string]
}

// oneOrMore is one value or a list of them, as in policies.
type oneOrMore[T any] []T

// UnmarshalJSON reads either.
func (l *oneOrMore[T]) UnmarshalJSON(data []byte) error {
	var single T
	if json.Unmarshal(data, &single) == nil {
		*l = oneOrMore[T]{single}
		return nil
	}
	return json.Unmarshal(data, (*[]T)(l))
}

// principal is * or lists by kind: AWS, Service.
type principal map[string]oneOrMore[string]

// UnmarshalJSON reads either; * becomes the kind *.
func (p *principal) UnmarshalJSON(data []byte) error {
	if string(data) == `"*"` {
		*p = principal{"*": nil}
		return nil
	}
	return json.Unmarshal(data, (*map[string]oneOrMore[string])(p))
}

// parsePolicy reads the policy of a queue; an empty text is one without statements.
func parsePolicy(text string) (p queuePolicy, err error) {
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("parse the policy: %w", err)
	}
	return p, nil
}

// allows reports whether a statement lets the service send to the queue. Conditions are not evaluated: which rules a
// condition admits is a matter of these rules.
func (p queuePolicy) allows(service, queueARN string) bool {
	return slices.ContainsFunc(p.Statement, func(s statement) bool {
		_, everyone := s.Principal["*"]
		return s.Effect == "Allow" && s.sends() && (everyone || slices.Contains(s.Principal["Service"], service)) &&
			(len(s.Resource) == 0 || slices.ContainsFunc(s.Resource, func(r string) bool { return matches(r, queueARN) }))
	})
}

// denies reports whether a statement denies everyone to send but principals among which the role is not. Other
// conditions for a denial are not evaluated.
func (p queuePolicy) denies(roleARN string) bool {
	return slices.ContainsFunc(p.Statement, func(s statement) bool {
		if s.Effect != "Deny" || !s.sends() {
			return false
		}
		for operator, keys := range s.Condition {
			exempt, ok := keys["aws:PrincipalArn"]
			if ok && strings.HasPrefix(operator, "ArnNot") {
				return !slices.ContainsFunc(exempt, func(e string) bool { return matches(e, roleARN) })
			}
		}
		return false
	})
}

func (s statement) sends() bool {
	return slices.ContainsFunc(s.Action, func(a string) bool {
		return matches(strings.ToLower(a), "sqs:sendmessage")
	})
}

// matches reports whether the text fits a pattern of IAM, with * and ?.
func matches(pattern, text string) bool {
	flat := strings.NewReplacer("/", "\x00", "[", "\x01")
	ok, err := path.Match(flat.Replace(pattern), flat.Replace(text))
	return err == nil && ok
}
