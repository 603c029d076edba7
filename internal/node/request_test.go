package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/event"
)

// TestDrainRequests: a request is noticed when it appears or is withdrawn, and only then. It is one for the instance that
// it names.
func TestDrainRequests(t *testing.T) {
	t.Parallel()
	const id = "i-0123456789abcdef0"
	annotated := func(value string) *corev1.Node {
		n := &corev1.Node{}
		n.Spec.ProviderID, n.Annotations = "aws:///eu-central-1a/"+id, map[string]string{DrainRequestAnnotation: value}
		return n
	}
	marked := func(kind event.Kind) *corev1.Node {
		n := annotated("")
		n.Annotations[Annotation] = Mark{InstanceID: id, Reason: string(kind)}.encode()
		return n
	}
	tainted := func(n *corev1.Node) *corev1.Node {
		n.Spec.Taints = []corev1.Taint{{Key: "leaving", Effect: corev1.TaintEffectNoSchedule}}
		return n
	}
	for name, tt := range map[string]struct {
		before, now any
		want        bool
	}{
		"new, requested":        {nil, annotated(id), true},
		"new, not requested":    {nil, annotated(""), false},
		"requested":             {annotated(""), annotated(id), true},
		"withdrawn":             {annotated(id), annotated(""), true},
		"still requested":       {annotated(id), annotated(id), false},
		"for another instance":  {annotated(""), annotated("i-0fedcba9876543210"), false},
		"no instance of EC2":    {nil, &corev1.Node{}, false},
		"still of another one":  {annotated("x"), annotated("y"), false},
		"withdrawn from before": {annotated(id), annotated("x"), true},
		"marked afterwards":     {marked(event.Alarm), marked(event.DrainRequested), true},
		"still marked":          {marked(event.DrainRequested), marked(event.DrainRequested), false},
		"marked for another":    {annotated(""), tainted(marked(event.Alarm)), false},
		"the taint is removed":  {tainted(marked(event.Alarm)), marked(event.Alarm), true},
	} {
		r := requests{Config{TaintKey: "leaving", TaintEffect: "NoSchedule"}, make(chan struct{}, 1)}
		r.notice(tt.before, tt.now)
		r.notice(tt.before, tt.now)
		if got := len(r.ByHand()) == 1; got != tt.want {
			t.Errorf("%s: noticed %t", name, got)
		}
		trimmed, err := trim(tt.now)
		if n := trimmed.(*corev1.Node); err != nil || nodeOf(n).DrainRequested != IsDrainRequested(tt.now.(*corev1.Node)) {
			t.Errorf("%s: the annotation is lost: %v", name, err)
		}
	}
}
