package node

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/text"
)

// The annotations of a Node by which a person changes its drain while it runs. Whoever may annotate Nodes is trusted
// with them.
const (
	// HoldAnnotation is until when no pod is evicted, in the format of RFC 3339. Heartbeats continue, and so does the
	// deadline.
	HoldAnnotation = "node-drainer.io/hold"
	// DeadlineAnnotation is the deadline of the drain in place of the one that DRAIN_TIMEOUT sets, in the format of RFC
	// 3339. It cannot be later than AWS allows.
	DeadlineAnnotation = "node-drainer.io/deadline"
	// EndDrainAnnotation ends the drain, whatever is left. The value is the id of the instance: a new instance may get a
	// Node of the same name.
	EndDrainAnnotation = "node-drainer.io/end-drain"
)

// Controls are what a person asks of the drain of a Node.
type Controls struct {
	HoldUntil time.Time // zero if it does not pause
	Deadline  time.Time // zero if it is the configured one
	EndNow    bool
	Wrong     string // what is wrong with the annotations; empty if nothing is
}

// ControlsOf returns those of the Node, from the cache.
func ControlsOf(n *Nodes, name string) Controls {
	if current := cached(n.informer.GetStore(), name); current != nil {
		return controlsOf(current)
	}
	return Controls{}
}

func controlsOf(node *corev1.Node) (c Controls) {
	given := Annotations(node, HoldAnnotation, DeadlineAnnotation, EndDrainAnnotation)
	var wrong []string
	instant := func(key string) time.Time {
		value, ok := given[key]
		if !ok {
			return time.Time{}
		}
		t, err := time.Parse(time.RFC3339, value)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s is %q: must be a time such as 2026-01-02T15:04:05Z", key, excerpt(value)))
		}
		return t.UTC().Truncate(time.Second) // two of one instant are equal
	}
	c.HoldUntil, c.Deadline = instant(HoldAnnotation), instant(DeadlineAnnotation)
	id, asked := given[EndDrainAnnotation]
	if c.EndNow = asked && id == InstanceOf(node); asked && !c.EndNow {
		wrong = append(wrong, fmt.Sprintf("%s is %q: must be the id of the instance, %s", EndDrainAnnotation, excerpt(id),
			InstanceOf(node)))
	}
	_, mistakes := PolicyOf(node)
	c.Wrong = strings.Join(append(wrong, mistakes...), "; ")
	return c
}

// excerpt returns as much of a value as a message quotes.
func excerpt(value string) string {
	const longest = 64
	return text.Cut(text.Clean(value), longest)
}
