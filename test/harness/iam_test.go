package harness

import (
	"slices"
	"testing"
)

func TestCompareActions(t *testing.T) {
	t.Parallel()
	allowed := actionsOf([]string{`{"Action": ["sqs:ReceiveMessage", "ec2:DescribeInstances"]}`, `{"Action": "autoscaling:DescribeTags"}`})
	called := map[string]bool{"sqs:ReceiveMessage": true, "ec2:DescribeInstances": true, "autoscaling:DescribeTags": true}
	if faults := compareActions("agent", allowed, called); len(faults) > 0 {
		t.Errorf("everything that is allowed is called, and the faults are %q", faults)
	}
	delete(allowed, "sqs:ReceiveMessage")
	delete(called, "autoscaling:DescribeTags")
	want := []string{
		"deploy/iam allows the agent autoscaling:DescribeTags, and no test has it call that",
		"the agent has called sqs:ReceiveMessage, which deploy/iam does not allow",
	}
	if faults := compareActions("agent", allowed, called); !slices.Equal(faults, want) {
		t.Errorf("%q, want %q", faults, want)
	}
}
