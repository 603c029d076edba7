//go:build e2e

package e2e

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// The two know nothing of each other; what awsim asks for and does not find it does without.
var (
	_ awsim.Versioned = (*cluster.Machines)(nil)
	_ awsim.Stoppable = (*cluster.Machines)(nil)
)

// A refresh to machines that never join fails without any old node going, if their launch hook abandons them:
// here nobody answers it at all.
func TestRefreshToMachinesThatNeverJoin(t *testing.T) {
	c := cluster.Shared(t)
	machines := c.Machines(cluster.Node{Pool: c.Namespace(t)})
	s, err := awsim.New(awsim.Options{Machines: machines})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &world{t: t, ctx: t.Context(), aws: s, cluster: c}
	_, err = s.CreateLaunchTemplate("node", "ami-1")
	w.must(err)
	w.must(s.CreateGroup(awsim.Group{
		Name: "refreshed", Max: 2, Desired: 2, LaunchTemplate: "node", LaunchTemplateVersion: "1",
	}))
	old := s.Instances("refreshed")
	t.Cleanup(func() {
		for _, i := range old {
			_, _ = machines.Terminate(context.WithoutCancel(w.ctx), i.ID)
		}
	})
	for _, i := range old {
		w.must(s.WaitState(w.ctx, i.ID, "InService"))
	}
	w.must(s.PutHook("refreshed", awsim.Hook{
		Name: "ready", Transition: awsim.Launching, HeartbeatTimeout: 500 * time.Millisecond,
	}))
	s.SetDelays(awsim.Delays{RefreshGiveUp: 3 * time.Second})
	version, err := s.AddTemplateVersion("node", "ami-2")
	w.must(err)
	machines.Boot(version, cluster.BootLost)
	_, err = s.StartRefresh("refreshed", awsim.RefreshSpec{
		Version: strconv.Itoa(version), MinHealthy: 100, MaxHealthy: 150,
	})
	w.must(err)
	got, err := s.WaitRefresh(w.ctx, "refreshed", "Failed", "Successful")
	w.must(err)
	if got.Status != "Failed" || got.Percent != 0 {
		t.Errorf("the refresh is %+v", got)
	}
	for i, inst := range s.Instances("refreshed")[:2] {
		if inst.ID != old[i].ID || inst.State != "InService" {
			t.Errorf("an old instance went: %+v", inst)
		}
	}
}
