//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
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
		"keep, and roll back": {[]string{"--then", "keep"}, func(f *fleet) {
			f.rollBack().waitExit(0, `3 instances are from Standby in service again`)
			f.assertReturnedFromStandby()
		}},
		"stop, and roll back where desired is the maximum": {[]string{"--then", "stop"}, func(f *fleet) {
			f.limitMax(3)
			f.rollBack().waitExit(1, `use --raise-max`)
			f.rollBack("--raise-max").waitExit(0, `maximum size restored from 6 to 3`)
			f.assertReturnedFromStandby()
		}},
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

// rollBack starts trigger rollback, with the rights that tainting has installed.
func (f *fleet) rollBack(args ...string) *triggerRun {
	f.t.Helper()
	env := []string{"KUBECONFIG=" + f.token(taintingAccount), "TRIGGER_POLL_INTERVAL=500ms"}
	return f.runTrigger(env, append([]string{"rollback", "--asg", group}, args...)...)
}

// limitMax sets the maximum size of the group.
func (f *fleet) limitMax(most int32) {
	f.t.Helper()
	_, err := f.api().UpdateAutoScalingGroup(f.ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(group), MaxSize: aws.Int32(most),
	})
	f.must(err)
}

// assertReturnedFromStandby expects that the old instances alone are in service, with nothing left on their nodes, and
// that the new ones were drained by their hook.
func (f *fleet) assertReturnedFromStandby() {
	f.t.Helper()
	for _, i := range f.waitServing(len(f.old)) {
		if !slices.Contains(f.old, i.ID) {
			f.t.Errorf("instance %s is new", i.ID)
		}
	}
	for _, node := range nodesOf(f.old) {
		f.assertUnmarked(node)
	}
	drained := 0
	for _, a := range f.aws.Ledger() {
		if a.Transition == awsim.Terminating && !slices.Contains(f.old, a.InstanceID) {
			drained++
		}
	}
	if drained != len(f.old) {
		f.t.Errorf("%d new instances were drained by their hook", drained)
	}
	f.waitPodsReady("api", 2*len(f.old))
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
