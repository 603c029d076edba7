//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestStandby: the group has neither a maintenance policy nor a surge, and a new node is there before an old one is
// drained. With --then stop no hook drains it, but the agent does when the trigger asks for that.
func TestStandby(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args   []string
		expect func(f *fleet)
	}{
		"terminate": {nil, func(f *fleet) { f.assertRefreshed(3) }},
		"stop":      {[]string{"--then", "stop"}, func(f *fleet) { f.assertStopped() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, latest(3))
			f.launchHook(hookTimeout)
			before := f.serve(cluster.Pods{Stop: time.Second})
			lowest := f.watchReady("api")
			f.startAgent("RESYNC_INTERVAL=1s")
			f.outdate()
			args := []string{"--asg", group, "--mode", "standby", "--batch", "2", "--suspend", "AZRebalance"}
			f.tainting(append(args, tt.args...)...).waitExit(0, `3 instances replaced`)
			tt.expect(f)
			if n := lowest(); n < 5 {
				t.Errorf("only %d pods of api were ready at one time, its budget requires 5", n)
			}
			for _, pods := range before {
				for _, pod := range pods {
					if !slices.Contains(f.evicted(), pod) {
						t.Errorf("pod %s was not evicted", pod)
					}
				}
			}
		})
	}
}

// assertStopped expects that the old instances are in Standby, stopped and drained without a lifecycle hook.
func (f *fleet) assertStopped() {
	f.t.Helper()
	f.must(f.aws.WaitInstances(waits(f.t), group, func(all []awsim.Instance) bool {
		n := 0
		for _, i := range all {
			if old := slices.Contains(f.old, i.ID); old && i.State == "Standby" || !old && i.State == "InService" {
				n++
			}
		}
		return n == 2*len(f.old) && len(all) == n
	}))
	out, err := f.ec2().DescribeInstances(f.ctx, &ec2.DescribeInstancesInput{InstanceIds: f.old})
	f.must(err)
	for _, r := range out.Reservations {
		if state := r.Instances[0].State.Name; state != "stopped" && state != "stopping" {
			f.t.Errorf("instance %s is %s", *r.Instances[0].InstanceId, state)
		}
	}
	for _, a := range f.aws.Ledger() {
		if a.Transition == awsim.Terminating {
			f.t.Errorf("a hook was called for %s", a.InstanceID)
		}
	}
}
