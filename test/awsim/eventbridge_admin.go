package awsim

import (
	"context"
	"encoding/json"
	"slices"
)

// What an administrator does with the default event bus by the API: the commands of docs/events.md do.

type putRuleRequest struct{ Name, EventPattern string }

type putRuleAnswer struct{ RuleArn string }

// putRule creates a rule without a target, or changes the pattern of one.
func (a ruleAPI) putRule(_ context.Context, in input) (any, error) {
	r, err := decodeJSON[putRuleRequest](in)
	if err != nil {
		return nil, err
	}
	var pattern map[string]any
	err = json.Unmarshal([]byte(r.EventPattern), &pattern)
	if err == nil {
		err = checkPattern(pattern)
	}
	if err != nil {
		return nil, errorf("InvalidEventPatternException", "Event pattern is not valid. Reason: %v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.rules, func(known rule) bool { return known.name == r.Name })
	if i < 0 {
		a.rules = append(a.rules, rule{name: r.Name})
		i = len(a.rules) - 1
	}
	a.rules[i].pattern = pattern
	return putRuleAnswer{ruleARN(a.server.opts, r.Name)}, nil
}

type ruleTarget struct {
	ID  string `json:"Id"`
	Arn string
}

type ruleTargets struct {
	Rule    string `json:",omitempty"`
	Targets []ruleTarget
}

type putTargetsAnswer struct {
	FailedEntryCount int
	FailedEntries    []struct{}
}

// putTargets sets the target of a rule. A second target is not simulated.
func (a ruleAPI) putTargets(_ context.Context, in input) (any, error) {
	r, err := decodeJSON[ruleTargets](in)
	if err == nil && len(r.Targets) != 1 {
		err = errorf("ValidationException", "awsim has one target for each rule, not %d", len(r.Targets))
	}
	if err != nil {
		return nil, err
	}
	err = a.withRule(r.Rule, func(known *rule) { known.target = r.Targets[0].Arn })
	return putTargetsAnswer{FailedEntries: []struct{}{}}, err
}

// listTargetsByRule shows the target of a rule.
func (a ruleAPI) listTargetsByRule(_ context.Context, in input) (any, error) {
	r, err := decodeJSON[struct{ Rule string }](in)
	if err != nil {
		return nil, err
	}
	answer := ruleTargets{Targets: []ruleTarget{}}
	return &answer, a.withRule(r.Rule, func(known *rule) {
		if known.target != "" {
			answer.Targets = append(answer.Targets, ruleTarget{"queue", known.target})
		}
	})
}

// withRule calls do with a rule.
func (a ruleAPI) withRule(name string, do func(*rule)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.rules, func(known rule) bool { return known.name == name })
	if i < 0 {
		return errorf("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
	}
	do(&a.rules[i])
	return nil
}
