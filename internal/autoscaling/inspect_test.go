package autoscaling

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestInspect: groups are found by the tags of their cluster or by their instances, with all that matters of their hooks.
func TestInspect(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::123456789012:role/hooks"
	s, hooks, _ := simulateHooks(t, awsim.Hook{
		Name: "drain", HeartbeatTimeout: time.Minute, DefaultResult: "CONTINUE", RoleARN: role,
	})
	target := s.QueueARN(s.CreateQueue("q", nil))
	must(t, s.CreateGroup(awsim.Group{Name: "other", Max: 3}))
	must(t, s.AddInstance("other", "i-other", ""))
	must(t, s.PutHook("other", awsim.Hook{Name: "go", NotificationTargetARN: target}))
	i := NewInspector(hooks)

	groups, err := i.Groups(t.Context(), "blue")
	must(t, err)
	want := []InspectedGroup{{
		Name: groupName, Tags: map[string]string{"kubernetes.io/cluster/blue": "owned", "team": "x"}, Clusters: []string{"blue"},
		Instances: []string{instanceID},
	}}
	if diff := cmp.Diff(want, groups); diff != "" {
		t.Errorf("groups of the cluster (-want +got):\n%s", diff)
	}
	groups, err = i.Others(t.Context(), []string{"i-other", "i-none"})
	must(t, err)
	if len(groups) != 1 || groups[0].Name != "other" || !slices.Equal(groups[0].Instances, []string{"i-other"}) {
		t.Errorf("groups of instances are %+v", groups)
	}
	found, err := i.Hooks(t.Context(), groupName)
	must(t, err)
	if diff := cmp.Diff([]InspectedHook{{
		Name: "drain", Transition: Terminating, RoleARN: role, Default: Continue,
		Timing: Timing{Heartbeat: time.Minute, Global: 100 * time.Minute},
	}}, found); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if found, err = i.Hooks(t.Context(), "other"); err != nil || len(found) != 1 || found[0].Target != target {
		t.Errorf("hooks of the other group: %+v, %v", found, err)
	}
}

// TestTry: a trial is denied if and only if the permission is missing, and changes nothing of the pending action.
func TestTry(t *testing.T) {
	t.Parallel()
	s, hooks, _ := simulateHooks(t, awsim.Hook{Name: "drain", HeartbeatTimeout: time.Hour})
	i := NewInspector(hooks)
	for _, action := range []string{
		ActionHeartbeat, ActionComplete, ActionTags, ActionInstances, ActionPool, ActionRefreshes,
	} {
		restore := s.Withdraw("", action, 0)
		if err := i.Try(t.Context(), action, groupName, "drain"); !cloud.IsDenied(err) {
			t.Errorf("%s without the permission: %v", action, err)
		}
		restore()
		if err := i.Try(t.Context(), action, groupName, "drain"); cloud.IsDenied(err) {
			t.Errorf("%s with the permission: %v", action, err)
		}
	}
	if err := i.Try(t.Context(), "autoscaling:Launch", groupName, "drain"); err == nil {
		t.Error("an unknown action was tried")
	}
	for _, a := range s.Ledger() {
		if !a.ClosedAt.IsZero() || len(a.Heartbeats)+len(a.Completions)+a.HeartbeatsAfterClose > 0 {
			t.Errorf("a trial changed the action: %+v", a)
		}
	}
}
