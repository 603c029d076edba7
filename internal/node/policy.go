package node

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The keys of annotations and labels of a Node that change how it is drained. The annotation counts, if there are both:
// labels come from the node group, or from the kubelet.
const (
	TimeoutKey       = "node-drainer.io/drain-timeout"
	AtDeadlineKey    = "node-drainer.io/at-deadline"
	EvictionDelayKey = "node-drainer.io/eviction-delay"
)

// PolicyKeys are all of them.
func PolicyKeys() []string { return []string{TimeoutKey, AtDeadlineKey, EvictionDelayKey} }

// Policy is how a Node is drained in place of what is configured for all. The zero value changes nothing.
type Policy struct {
	Timeout       time.Duration // in place of DRAIN_TIMEOUT; zero is that
	AtDeadline    string        // "delete" or "leave", in place of DRAIN_AT_DEADLINE; empty is that
	EvictionDelay time.Duration // in place of DRAIN_EVICTION_DELAY, if HasDelay
	HasDelay      bool
}

// PolicyOf returns the policy of the Node, and what is wrong with values that do not count.
func PolicyOf(node *corev1.Node) (p Policy, wrong []string) {
	get := func(key string) (value string, ok bool) {
		if value, ok = Annotations(node, key)[key]; ok {
			return value, true
		}
		value, ok = node.Labels[key]
		return value, ok
	}
	duration := func(key string, least, most time.Duration) (d time.Duration, ok bool) {
		value, ok := get(key)
		if !ok {
			return 0, false
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < least || d > most {
			wrong = append(wrong, fmt.Sprintf("%s is %q: must be a duration from %v to %v", key, excerpt(value), least, most))
			return 0, false
		}
		return d, true
	}
	p.Timeout, _ = duration(TimeoutKey, time.Second, 48*time.Hour)
	p.EvictionDelay, p.HasDelay = duration(EvictionDelayKey, 0, time.Hour)
	switch value, ok := get(AtDeadlineKey); {
	case value == "delete", value == "leave":
		p.AtDeadline = value
	case ok:
		wrong = append(wrong, fmt.Sprintf("%s is %q: must be delete or leave", AtDeadlineKey, excerpt(value)))
	}
	return p, wrong
}
