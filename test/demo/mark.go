package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// confirmation is the call by which the agent makes sure that a message is no forgery.
const confirmation = "autoscaling.DescribeAutoScalingInstances"

// marked shows what the agent has put on the node, as the API server has it.
func (s *story) marked(ctx context.Context, l logLine) error {
	n, err := s.cluster.Client().CoreV1().Nodes().Get(ctx, s.node(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s.aws.RequestsBy(agentKey)[confirmation] == 0 {
		return fmt.Errorf("%w Auto Scaling was never asked to confirm the termination", errUnmarked)
	}
	s.tell(l.At, ours, "Auto Scaling confirms it: %s, to be empty by %s",
		s.screen.bold("node out of service"), l.Deadline.Local().Format("15:04:05"))
	const margin = "                    "
	for _, mark := range []struct{ what, text string }{
		{"taint", taint(n)}, {"cordon", cordon(n)}, {"label", label(n)},
	} {
		if mark.text == "" {
			return fmt.Errorf("%w it has no %s", errUnmarked, mark.what)
		}
		s.screen.line("%s%-7s %s", margin, mark.what, s.screen.yellow(mark.text))
	}
	return nil
}

func taint(n *corev1.Node) string {
	for _, t := range n.Spec.Taints {
		if strings.HasPrefix(t.Key, "node-drainer.io/") {
			return t.ToString()
		}
	}
	return ""
}

func cordon(n *corev1.Node) string {
	if n.Spec.Unschedulable {
		return "spec.unschedulable=true"
	}
	return ""
}

func label(n *corev1.Node) string {
	if value, ok := n.Labels[corev1.LabelNodeExcludeBalancers]; ok {
		return corev1.LabelNodeExcludeBalancers + "=" + value
	}
	return ""
}

// errUnmarked is what marked says of a node that new pods could come to.
var errUnmarked = errors.New("the agent says that the node is out of service, but")
