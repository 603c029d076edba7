package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/eventbridge"
	"github.com/node-drainer/node-drainer/internal/text"
)

// topics is the service principal of SNS.
const topics = "sns.amazonaws.com"

// need is a kind of events that the agent misses without an EventBridge rule.
type need struct {
	kind   event.Kind
	why    string // what depends on them, or ""
	status Status // of an installation without a rule
	fix    string
}

// judgeRules judges whether a rule of the default event bus sends each kind of events to the queue.
func judgeRules(f Facts) []Result {
	switch err := f.RulesErr; {
	case f.QueueErr != nil:
		return nil
	case cloud.IsDenied(err):
		return one(checkRules, NotChecked, "the EventBridge rules: AWS denies "+eventbridge.ActionList+" or "+
			eventbridge.ActionDescribe+", which only this check needs", listRules(f, f.Queue.ARN)+
			" lists those that send to the queue; to have them checked: "+
			grant(f, eventbridge.ActionList, eventbridge.ActionDescribe))
	case err != nil:
		return one(checkRules, NotChecked, err.Error()+"; only this check needs EventBridge", reach(f, "events"))
	}
	missing := slices.DeleteFunc(neededRules(f), func(n need) bool { return slices.ContainsFunc(f.Rules, n.isSentBy) })
	policy, err := parsePolicy(f.Queue.Policy)
	if len(missing) > 0 && err == nil && policy.allows(topics, f.Queue.ARN) {
		return append(topicRules(f, missing), foundRules(f)...)
	}
	results := foundRules(f)
	if len(missing) == 0 && len(results) == 0 {
		return one(checkRules, OK, "the configuration needs no EventBridge rule", "")
	}
	for _, n := range missing {
		results = append(results, noRule(f, n))
	}
	return results
}

// neededRules returns the kinds of events that need a rule: those that the configuration does not ignore, and the
// actions of hooks without a target.
func neededRules(f Facts) (needs []need) {
	for _, k := range event.Configured() {
		if f.Config.Event.Action(k) != event.Ignore {
			fix := putRule(f, k) + "; to ignore them: " + helm(f, "config.event."+camelCase(k)+"=ignore")
			needs = append(needs, need{k, "", Warning, fix})
		}
	}
	return append(needs, slices.Concat(
		hookNeeds(f, autoscaling.Terminating, event.LifecycleTerminating),
		hookNeeds(f, autoscaling.Launching, event.LifecycleLaunching))...)
}

// camelCase returns how the chart names the kind.
func camelCase(k event.Kind) (name string) {
	for i, word := range strings.Split(string(k), "-") {
		if i > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		name += word
	}
	return name
}

// hookNeeds returns the need of the hooks without a target for the transition.
func hookNeeds(f Facts, t autoscaling.Transition, k event.Kind) []need {
	n := need{kind: k}
	var hooks, fixes []string
	for _, g := range f.Groups {
		for _, h := range ownHooks(f, g, t) {
			if h.Target == "" {
				hooks = append(hooks, h.Name+" of group "+g.Name)
				fixes = append(fixes, directHook(f, g.Name, h.Name))
			}
		}
	}
	switch len(hooks) {
	case 0:
		return nil
	case 1:
		n.why = ", and the hook " + hooks[0] + " has no target"
	default:
		n.why = ", and these hooks have no target: " + text.First(hooks, mostNames)
	}
	n.status, n.fix = Failed, strings.Join(fixes, " && ")
	return []need{n}
}

// isSentBy reports whether an enabled rule sends such events.
func (n need) isSentBy(r eventbridge.Rule) bool { return r.Enabled && n.matches(r) }

// matches reports whether the pattern of a rule matches such events, by source and detail-type: other fields of a
// pattern are not evaluated. A rule without a pattern matches none.
func (n need) matches(r eventbridge.Rule) bool {
	var pattern struct {
		Source     []any `json:"source"`
		DetailType []any `json:"detail-type"`
	}
	if json.Unmarshal([]byte(r.Pattern), &pattern) != nil {
		return false
	}
	source, detailTypes, _ := n.kind.Source()
	return admits(pattern.Source, source) && admits(pattern.DetailType, detailTypes...)
}

// admits reports whether a field of a pattern admits one of the values. A field that is missing admits all. What is no
// value but a comparison, such as {"prefix": "aws."}, is taken to admit it.
func admits(wanted []any, values ...string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w any) bool {
		value, is := w.(string)
		return !is || slices.Contains(values, value)
	})
}

// noRule judges a kind of events that no enabled rule sends.
func noRule(f Facts, n need) Result {
	if i := slices.IndexFunc(f.Rules, n.matches); i >= 0 {
		name := f.Rules[i].Name
		message := fmt.Sprintf("the rule %s is disabled, and no other sends %s to the queue%s", name, n.kind.Events(), n.why)
		return Result{
			checkRules, n.status, message,
			fmt.Sprintf("aws events enable-rule --region %s --name %s", f.Region, name),
		}
	}
	return Result{checkRules, n.status, "no EventBridge rule sends " + n.kind.Events() + " to the queue" + n.why, n.fix}
}

// topicRules says which events only rules that send to a topic can send: these are not read.
func topicRules(f Facts, missing []need) []Result {
	events := make([]string, len(missing))
	for i, n := range missing {
		events[i] = n.kind.Events()
	}
	return one(checkRules, NotChecked, "no EventBridge rule sends "+strings.Join(events, ", ")+" to the queue itself; "+
		"SNS may send to the queue, and rules that send to a topic are not read", listRules(f, "TOPIC_ARN")+
		" lists those that send to a topic")
}

// foundRules names the rules that send to the queue, if there are any.
func foundRules(f Facts) []Result {
	var enabled, disabled []string
	for _, r := range f.Rules {
		if r.Enabled {
			enabled = append(enabled, r.Name)
		} else {
			disabled = append(disabled, r.Name)
		}
	}
	if len(enabled) == 0 {
		return nil
	}
	found := text.Plural(len(enabled), "EventBridge rule sends", "EventBridge rules send") + " to the queue: " +
		text.First(enabled, mostNames)
	if len(disabled) > 0 {
		found += "; disabled: " + text.First(disabled, mostNames)
	}
	return one(checkRules, OK, found, "")
}
