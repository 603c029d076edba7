package check_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/check"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/eventbridge"
)

// lifecycleRule is for the terminations of hooks without a target, as in docs/events.md.
func lifecycleRule() eventbridge.Rule {
	return eventbridge.Rule{Name: "node-drainer-lifecycle", Enabled: true, Pattern: `{"source": ["aws.autoscaling"],
		"detail-type": ["EC2 Instance-terminate Lifecycle Action"], "detail": {"AutoScalingGroupName": ["workers"]}}`}
}

func without(kinds ...event.Kind) func(f *check.Facts) {
	return func(f *check.Facts) {
		f.Rules = slices.DeleteFunc(f.Rules, func(r eventbridge.Rule) bool {
			return slices.Contains(kinds, event.Kind(r.Name))
		})
	}
}

// mistakesOfRules are mistakes of EventBridge rules.
func mistakesOfRules() []mistake {
	return []mistake{
		{
			"no rule for Spot interruptions", without(event.SpotInterruption),
			check.Warning, "rules",
			[]string{"no EventBridge rule sends Spot interruptions to the queue"},
			[]string{
				"aws events put-rule --region eu-central-1 --name node-drainer-spot ",
				`--event-pattern '{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}' && ` +
					"aws events put-targets --region eu-central-1 " +
					"--rule node-drainer-spot --targets Id=queue,Arn=" + queueARN + ";",
				"config.event.spotInterruption=ignore",
			},
		},
		{
			"disabled rule", func(f *check.Facts) { ruleOf(f, event.ScheduledChange).Enabled = false },
			check.Warning, "rules",
			[]string{"the rule scheduled-change is disabled, and no other sends maintenance to the queue"},
			[]string{"aws events enable-rule --region eu-central-1 --name scheduled-change"},
		},
		{
			"rule for other events of the service", func(f *check.Facts) {
				ruleOf(f, event.StateChange).Pattern = `{"source": ["aws.ec2"], "detail-type": ["EBS Volume Notification"]}`
			},
			check.Warning, "rules",
			[]string{"no EventBridge rule sends state changes of instances to the queue"},
			[]string{"--name node-drainer-state ", "config.event.stateChange=ignore"},
		},
		{
			"rule of another source", func(f *check.Facts) {
				ruleOf(f, event.CapacityBlockExpiration).Pattern = `{"source": ["aws.health"]}`
			},
			check.Warning, "rules",
			[]string{"sends ends of Capacity Blocks to the queue"},
			[]string{"--name node-drainer-block ", `"Capacity Block Reservation Expiration Warning"`},
		},
		{
			"rule with a schedule only", func(f *check.Facts) { ruleOf(f, event.CapacityReservationInterruption).Pattern = "" },
			check.Warning, "rules",
			[]string{"sends interruptions of Capacity Reservations to the queue"},
			[]string{"--name node-drainer-reservation "},
		},
		{
			"no rule for a hook without a target", func(f *check.Facts) { hookOf(f).Target = "" },
			check.Failed, "rules",
			[]string{"no EventBridge rule sends terminations to the queue, and the hook drain of group workers has no target"},
			[]string{"put-lifecycle-hook", "--auto-scaling-group-name workers --lifecycle-hook-name drain", "--notification-target-arn " + queueARN},
		},
		{
			"no rule for hooks without a target", func(f *check.Facts) {
				f.Groups[0].Hooks[0].Target, hookOf(f).Target = "", ""
			},
			check.Failed, "rules",
			[]string{"sends terminations to the queue, and these hooks have no target: drain of group spot, drain of group workers"},
			[]string{"--auto-scaling-group-name spot ", " && aws ", "--auto-scaling-group-name workers "},
		},
		{
			"disabled rule for a hook without a target", func(f *check.Facts) {
				r := lifecycleRule()
				r.Enabled, hookOf(f).Target = false, ""
				f.Rules = append(f.Rules, r)
			},
			check.Failed, "rules",
			[]string{"the rule node-drainer-lifecycle is disabled, and no other sends terminations to the queue"},
			[]string{"enable-rule --region eu-central-1 --name node-drainer-lifecycle"},
		},
		{
			"no rule for launches", func(f *check.Facts) {
				f.Rules = append(f.Rules, lifecycleRule())
				for i := range f.Groups {
					launch := f.Groups[i].Hooks[0]
					launch.Name, launch.Transition, launch.Target = "node-drainer-launching", autoscaling.Launching, ""
					f.Groups[i].Hooks = append(f.Groups[i].Hooks, launch)
				}
			},
			check.Failed, "rules",
			[]string{"sends launches to the queue, and these hooks have no target: node-drainer-launching of group spot, node"},
			[]string{"--lifecycle-hook-name node-drainer-launching --notification-target-arn"},
		},
		{
			"rules may not be read", func(f *check.Facts) { f.Rules, f.RulesErr = nil, refusal("AccessDeniedException") },
			check.NotChecked, "rules",
			[]string{"AWS denies events:ListRuleNamesByTarget or events:DescribeRule, which only this check needs"},
			[]string{
				"aws events list-rule-names-by-target --region eu-central-1 --target-arn " + queueARN,
				`"Action":["events:ListRuleNamesByTarget","events:DescribeRule"],"Resource":"*"`,
			},
		},
		{
			"EventBridge is not reached", func(f *check.Facts) { f.RulesErr = errors.New("no route") },
			check.NotChecked, "rules",
			[]string{"no route"},
			[]string{"https://events.eu-central-1.amazonaws.com"},
		},
		{
			"rules that send to a topic", func(f *check.Facts) {
				f.Queue.Policy = strings.Replace(policy, `"events.amazonaws.com"`, `["events.amazonaws.com", "sns.amazonaws.com"]`, 1)
				f.Rules = nil
			},
			check.NotChecked, "rules",
			[]string{"SNS may send to the queue", "Spot interruptions"},
			[]string{"aws events list-rule-names-by-target --region eu-central-1 --target-arn TOPIC_ARN"},
		},
	}
}

// TestIgnoredKinds: kinds that the configuration ignores need no rule. Those that it does not ignore each need one.
func TestIgnoredKinds(t *testing.T) {
	t.Parallel()
	all := []string{
		"SPOT_INTERRUPTION", "REBALANCE_RECOMMENDATION", "SCHEDULED_CHANGE", "STATE_CHANGE",
		"CAPACITY_RESERVATION_INTERRUPTION", "CAPACITY_BLOCK_EXPIRATION", "ALARM",
	}
	for action, want := range map[string]int{"ignore": 0, "cordon": len(all)} {
		var variables []string
		for _, name := range all {
			variables = append(variables, "EVENT_"+name+"="+action)
		}
		f := good(t)
		f.Config, f.Rules = configOf(t, variables...), nil
		if wrong := wrongOf(check.Judge(f)); len(wrong) != want {
			t.Errorf("with %s wrong is %+v, want %d", action, wrong, want)
		}
		f.Rules = append(f.Rules, goodRules(t)...)
		if wrong := wrongOf(check.Judge(f)); len(wrong) > 0 {
			t.Errorf("with %s and all rules wrong is %+v", action, wrong)
		}
	}
}

// TestOneRuleForAll: rules that match more than the patterns of the documentation are rules for these kinds too.
func TestOneRuleForAll(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{
		"any event of the account": `{"account": ["123456789012"]}`,
		"a prefix":                 `{"source": [{"prefix": "aws."}], "detail-type": [{"exists": true}]}`,
		"values": `{"source": ["aws.ec2", "aws.health"], "detail-type": ["EC2 Spot Instance Interruption Warning",
			"AWS Health Event", "EC2 Instance State-change Notification", "Capacity Block Reservation Expiration Warning",
			"EC2 Interruptible Capacity Reservation Instance Interruption Warning"]}`,
	} {
		f := good(t)
		f.Rules = []eventbridge.Rule{{Name: "all", Pattern: pattern, Enabled: true}}
		if wrong := wrongOf(check.Judge(f)); len(wrong) > 0 {
			t.Errorf("%s: wrong is %+v", name, wrong)
		}
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// TestFoundRules: the result names the rules that send to the queue, and those that are disabled.
func TestFoundRules(t *testing.T) {
	t.Parallel()
	f := good(t)
	f.Rules = append([]eventbridge.Rule{{Name: "all", Pattern: `{"source": [{"prefix": "aws."}]}`, Enabled: true}}, f.Rules...)
	ruleOf(&f, event.Alarm).Enabled = false
	found := ""
	for _, r := range check.Judge(f) {
		if r.Check == "rules" {
			found += string(r.Status) + " " + r.Found
		}
	}
	const want = "ok 7 EventBridge rules send to the queue: all, capacity-block-expiration, " +
		"capacity-reservation-interruption, rebalance-recommendation, scheduled-change and 2 more; disabled: alarm"
	if found != want {
		t.Errorf("found %q, want %q", found, want)
	}
}

// TestFixesOfRules: for each kind with a pattern in deploy/events, the fix has that pattern, and the name of a rule that
// the policy of the queue admits.
func TestFixesOfRules(t *testing.T) {
	t.Parallel()
	f := good(t)
	f.Config = configOf(t, "EVENT_REBALANCE_RECOMMENDATION=drain", "EVENT_ALARM=drain")
	f.Rules = nil
	wrong := wrongOf(check.Judge(f))
	policy, err := deploy.Fill("iam/queue", deploy.Example())
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range deploy.Names("events/") {
		text, err := deploy.Read(document)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(wrong, func(r check.Result) bool {
			_, pattern, has := strings.Cut(r.Fix, "--event-pattern '")
			pattern, _, _ = strings.Cut(pattern, "'")
			return has && cmp.Equal(decode(t, pattern), decode(t, text))
		})
		if i < 0 {
			t.Fatalf("no fix has the pattern of %s", document)
		}
		_, rest, _ := strings.Cut(wrong[i].Fix, " --name ")
		name, _, _ := strings.Cut(rest, " ")
		if !strings.Contains(policy, `:rule/`+name+`"`) {
			t.Errorf("the policy of the queue does not admit the rule %s", name)
		}
	}
}
