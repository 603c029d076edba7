package trigger

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestStandbyRefuses: the preflight of mode standby.
func TestStandbyRefuses(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	_, err := a.autoScaling().SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{"Launch"},
	})
	a.must(err)
	a.trigger("--mode", "standby").waitExit(1, `nothing was changed: suspended: suspended: Launch`)
	for call := range a.changes() {
		if !strings.Contains(call, "Tags") {
			t.Errorf("the trigger called %s", call)
		}
	}
}

// TestStandby: each batch is drained and stopped when as many others are in service, and stays in Standby. Trigger
// rollback starts them again, and gives as many new instances back.
func TestStandby(t *testing.T) {
	t.Parallel()
	inWorld(t, "stopped, and returned", 5, untagged(group), func(w *world) {
		w.newVersion(2)
		cfg := flags(refresh.ModeStandby)
		cfg.Pace.Batch, cfg.Pace.Then, cfg.Suspend = refresh.Amount{N: 2}, refresh.ThenStop, []string{"AZRebalance"}
		if got := w.run(cfg); got[group] != report.Done {
			w.Errorf("the trigger ended with %v", got)
		}
		old := w.inState("Standby", 1)
		if current := w.inState("InService", 2); len(old) != 5 || len(current) != 5 || w.calls("EnterStandby") != 3 {
			w.Errorf("%d are in Standby, by %d calls, and %d new ones in service", len(old), w.calls("EnterStandby"), len(current))
		}
		for _, id := range old {
			if node, _ := w.Node(id); !node.DrainRequested || !node.Drain.Done || w.machine(id) != "stopped" {
				w.Errorf("%s is %s, its node is %+v", id, w.machine(id), node)
			}
		}
		w.act(cfg, rollout.ActRollback)
		elapse(5 * time.Minute)
		for _, id := range w.inState("InService", 1) {
			if node, _ := w.Node(id); node.DrainRequested || w.machine(id) != "running" {
				w.Errorf("%s is %s, its node is %+v", id, w.machine(id), node)
			}
		}
		w.waitVersion(group, 1)
		w.expectAsBefore(0)
	})
}

// inState are the instances of the group in a state, of a version of the launch template.
func (w *world) inState(state string, version int) (ids []string) {
	for _, i := range w.Instances(group) {
		if i.State == state && i.Version == version {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// machine is the state of an instance in EC2.
func (w *world) machine(id string) string {
	w.Helper()
	out, err := ec2.NewFromConfig(w.config("test")).DescribeInstances(w.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	return string(out.Reservations[0].Instances[0].State.Name)
}
