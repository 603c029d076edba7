package awsim

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
)

// eventsName is EventBridge in permissions and ARNs.
const eventsName = "events"

// eventsService is EventBridge, which speaks JSON 1.1.
func eventsService(a *engine) *service {
	api := ruleAPI{a}
	return &service{
		name:        eventsName,
		contentType: "application/x-amz-json-1.1",
		actions: map[string]actionFunc{
			"ListRuleNamesByTarget": api.listRuleNamesByTarget,
			"DescribeRule":          api.describeRule,
			"PutRule":               api.putRule,
			"PutTargets":            api.putTargets,
			"ListTargetsByRule":     api.listTargetsByRule,
		},
		encode: encodeJSON,
		fail: func(_ http.Header, _ string, err *Error) []byte {
			body, _ := json.Marshal(map[string]string{"__type": err.Code, "message": err.Message})
			return body
		},
	}
}

// ruleAPI are the actions of the API of EventBridge that are simulated, for the default event bus.
type ruleAPI struct{ *engine }

type listRuleNamesRequest struct {
	TargetArn string
	NextToken string
}

type listRuleNamesAnswer struct {
	RuleNames []string
	NextToken string `json:",omitempty"`
}

// rulesOnPage is how many names a page has at most. The real one has 100 unless Limit says otherwise; fewer here show
// whether clients read all pages.
const rulesOnPage = 2

// listRuleNamesByTarget lists the names of the rules that have the target, in order.
func (a ruleAPI) listRuleNamesByTarget(_ context.Context, in input) (any, error) {
	r, err := decodeJSON[listRuleNamesRequest](in)
	if err != nil {
		return nil, err
	}
	if r.TargetArn == "" {
		return nil, errorf("ValidationException", "TargetArn is required")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := listRuleNamesAnswer{RuleNames: []string{}}
	for _, rule := range a.rules {
		if rule.target == r.TargetArn && rule.name > r.NextToken {
			answer.RuleNames = append(answer.RuleNames, rule.name)
		}
	}
	slices.Sort(answer.RuleNames)
	answer.RuleNames = slices.Compact(answer.RuleNames)
	if len(answer.RuleNames) > rulesOnPage {
		answer.RuleNames = answer.RuleNames[:rulesOnPage]
		answer.NextToken = answer.RuleNames[rulesOnPage-1]
	}
	return answer, nil
}

type describeRuleRequest struct{ Name string }

type describeRuleAnswer struct {
	Name         string
	Arn          string
	EventPattern string
	State        string
	EventBusName string
}

// describeRule shows a rule.
func (a ruleAPI) describeRule(_ context.Context, in input) (any, error) {
	r, err := decodeJSON[describeRuleRequest](in)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.rules, func(rule rule) bool { return rule.name == r.Name })
	if i < 0 {
		return nil, errorf("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", r.Name)
	}
	pattern, err := json.Marshal(a.rules[i].pattern)
	if err != nil {
		return nil, err
	}
	state := "ENABLED"
	if a.rules[i].disabled {
		state = "DISABLED"
	}
	return describeRuleAnswer{r.Name, ruleARN(a.server.opts, r.Name), string(pattern), state, "default"}, nil
}

// ruleARN is the ARN of a rule of the default event bus.
func ruleARN(o Options, name string) string {
	return "arn:aws:" + eventsName + ":" + o.Region + ":" + o.Account + ":rule/" + name
}

// ruleName returns the rule that a call names. What is no JSON names none, and is refused by the action.
func ruleName(in input) string {
	var named describeRuleRequest
	_ = json.Unmarshal(in.Body, &named)
	return named.Name
}
