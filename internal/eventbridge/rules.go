// Package eventbridge reads EventBridge rules.
package eventbridge

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
)

// The permissions of Rules. AWS allows the first on all targets alone (Service Authorization Reference, Amazon
// EventBridge).
const (
	ActionList     = "events:ListRuleNamesByTarget"
	ActionDescribe = "events:DescribeRule"
)

// callTimeout bounds a call with its retries.
const callTimeout = 10 * time.Second

// API is the calls of Rules.
type API interface {
	ListRuleNamesByTarget(
		context.Context, *sdk.ListRuleNamesByTargetInput, ...func(*sdk.Options),
	) (*sdk.ListRuleNamesByTargetOutput, error)
	DescribeRule(context.Context, *sdk.DescribeRuleInput, ...func(*sdk.Options)) (*sdk.DescribeRuleOutput, error)
}

// Rule is a rule of the default event bus.
type Rule struct {
	Name    string
	Pattern string // of events, in JSON; empty for a rule with only a schedule
	Enabled bool
}

// Rules returns the rules of the default event bus of the account and Region of api that have the target. A custom bus
// gets no events of AWS services by itself. For R rules it makes R calls, and one more for each 100 of them.
func Rules(ctx context.Context, api API, targetARN string) ([]Rule, error) {
	names, err := namesOf(ctx, api, targetARN)
	if err != nil {
		return nil, fmt.Errorf("list the rules of %s: %w", targetARN, err)
	}
	rules := make([]Rule, len(names))
	for i, name := range names {
		if rules[i], err = describe(ctx, api, name); err != nil {
			return nil, fmt.Errorf("describe rule %s: %w", name, err)
		}
	}
	return rules, nil
}

func namesOf(ctx context.Context, api API, targetARN string) (names []string, err error) {
	for input := (&sdk.ListRuleNamesByTargetInput{TargetArn: &targetARN}); ; {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		out, err := api.ListRuleNamesByTarget(limited, input)
		cancel()
		if err != nil {
			return nil, err
		}
		names = append(names, out.RuleNames...)
		if aws.ToString(out.NextToken) == "" {
			return names, nil
		}
		input.NextToken = out.NextToken
	}
}

func describe(ctx context.Context, api API, name string) (Rule, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := api.DescribeRule(ctx, &sdk.DescribeRuleInput{Name: &name})
	if err != nil {
		return Rule{}, err
	}
	// The third state, ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS, is an enabled rule.
	return Rule{name, aws.ToString(out.EventPattern), out.State != types.RuleStateDisabled}, nil
}
