package awsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// subscription is one queue that a topic delivers to.
type subscription struct {
	queue string
	raw   bool
}

// SubscribeTopic makes an SNS topic deliver to a queue, in SNS's envelope unless raw. A topic exists from
// its first subscription on.
func (s EventBridge) SubscribeTopic(topicARN, queueARN string, raw bool) {
	s.asg.update(func() {
		s.asg.topics[topicARN] = append(s.asg.topics[topicARN], subscription{queue: queueARN, raw: raw})
	})
}

// Publish sends an event, such as that of SpotInterruption, to the bus. It returns the number of messages.
func (s EventBridge) Publish(event string) int { return s.asg.bus.publish(event) }

// Envelope is one for a message of this account and region, at this moment, with a seed of its own.
func (s EventBridge) Envelope() Envelope {
	s.asg.mu.Lock()
	defer s.asg.mu.Unlock()
	return s.asg.bus.envelope()
}

// QueueARN is the ARN of the queue with the given URL.
func (s EventBridge) QueueARN(queueURL string) string {
	name := queueURL[strings.LastIndexByte(queueURL, '/')+1:]
	return fmt.Sprintf("arn:aws:sqs:%s:%s:%s", s.asg.server.opts.Region, s.asg.server.opts.Account, name)
}

// envelope needs mu.
func (a eventBus) envelope() Envelope {
	return Envelope{
		Account: a.server.opts.Account,
		Region:  a.server.opts.Region,
		At:      a.server.told(time.Now()),
		Seed:    a.rand.Uint64(),
	}
}

// publish sends an event to every rule that matches it, and returns the number of messages. It must be
// called without mu.
func (a eventBus) publish(event string) int {
	a.mu.Lock()
	rules := slices.Clone(a.rules)
	a.mu.Unlock()
	if len(rules) == 0 {
		return 0
	}
	var decoded map[string]any
	if err := json.Unmarshal([]byte(event), &decoded); err != nil {
		a.server.opts.Log("event not published", "err", err)
		return 0
	}
	sent := 0
	for _, r := range rules {
		if r.matches(decoded) {
			n, _ := a.deliver(r.target, "", event, a.fromRule(r))
			sent += n
		}
	}
	return sent
}

// fromRule is EventBridge for a rule.
func (a eventBus) fromRule(r rule) sender {
	return sender{service: "events.amazonaws.com", source: ruleARN(a.server.opts, r.name)}
}

// fromHook is Auto Scaling with the hook's role.
func (a eventBus) fromHook(h Hook) sender {
	return sender{arn: cmp.Or(h.RoleARN, "arn:aws:iam::"+a.server.opts.Account+":role/hooks")}
}

// deliver sends a message to a queue, or to all queues of a topic, and returns the number of copies. Topics have
// no policy here. It must be called without mu.
func (a eventBus) deliver(targetARN, subject, body string, from sender) (int, error) {
	if !strings.HasPrefix(targetARN, "arn:aws:sns:") {
		if err := a.server.sendMessage(targetARN, body, from); err != nil {
			a.server.opts.Log("message not delivered", "target", targetARN, "err", err)
			return 0, err
		}
		return 1, nil
	}
	a.mu.Lock()
	subscriptions := slices.Clone(a.topics[targetARN])
	wrapped := SNSMessage(a.envelope(), targetARN, subject, body)
	a.mu.Unlock()
	if len(subscriptions) == 0 {
		return 0, fmt.Errorf("awsim: topic %s has no subscription", targetARN)
	}
	sent := 0
	for _, sub := range subscriptions {
		out := wrapped
		if sub.raw {
			out = body
		}
		if err := a.server.sendMessage(sub.queue, out, sender{service: "sns.amazonaws.com", source: targetARN}); err != nil {
			a.server.opts.Log("message not delivered", "target", sub.queue, "err", err)
			continue
		}
		sent++
	}
	return sent, nil
}
