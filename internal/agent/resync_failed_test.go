package agent_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
)

func (f observer) AutoScalingFailed(operation string, err error) {
	f.fact("Auto Scaling failed to %s: %v", operation, err)
}

// TestFailedResync: the failure is reported as one of Auto Scaling only if it is.
func TestFailedResync(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		given given
		fact  string
	}{
		"Auto Scaling": {func(f *fixture) { f.members = silent[map[string]autoscaling.Member](never, nil) }, "Auto Scaling failed to resync"},
		"EC2": {
			with(cordoned("spot-interruption", -time.Hour, never, never), ec2Says(silent(never, ec2.Instance{}))), "retrying to check whether",
		},
	} {
		each(t, name, tt.given, func(t *testing.T, f *fixture) {
			resync(t, f.agent(), time.Minute)
			all := f.observed("Auto Scaling failed to resync") + f.observed("retrying to check whether")
			if n := f.observed(tt.fact); n != all || n < 4 || n > 10 {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}
