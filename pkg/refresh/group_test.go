package refresh

import (
	"slices"
	"testing"
	"time"
)

func TestGroup(t *testing.T) {
	t.Parallel()
	g := Group{
		Suspended: []string{"AZRebalance", "Terminate", "InstanceRefresh"},
		Tags:      map[string]string{SuspendedTag: "AZRebalance AlarmNotification", "eks:nodegroup-name": "ng"},
	}
	if got := g.Halted(); !slices.Equal(got, []string{"Terminate", "InstanceRefresh"}) {
		t.Errorf("halted by %v", got)
	}
	if got := SuspendedBy(g); !slices.Equal(got, []string{"AZRebalance", "AlarmNotification"}) || g.ManagedNodegroup() != "ng" {
		t.Errorf("suspended by the trigger: %v; node group %q", got, g.ManagedNodegroup())
	}
	for _, process := range Suspendable() {
		if slices.Contains((Group{Suspended: Suspendable()}).Halted(), process) {
			t.Errorf("a rollout needs %s", process)
		}
	}
}

func TestInstanceStates(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"InService": "in service", "Pending": "pending", "Pending:Wait": "pending", "Pending:Proceed": "pending",
		"Terminating": "terminating draining", "Terminating:Wait": "terminating draining", "Terminating:Proceed": "terminating",
		"Terminating:Retained": "terminating retained", "Terminated": "terminating", "Standby": "standby",
		"EnteringStandby": "standby", "Warmed:Stopped": "", "": "",
	} {
		i, got := instance(state(name)), ""
		for text, is := range map[string]bool{"in service": i.InService(), "pending": i.Pending(), "standby": i.Standby()} {
			if is {
				got += text
			}
		}
		if i.Terminating() {
			got += "terminating"
		}
		if i.Draining() {
			got += " draining"
		}
		if i.Retained() {
			got += " retained"
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestGlobalTimeout(t *testing.T) {
	t.Parallel()
	for heartbeat, want := range map[time.Duration]time.Duration{
		MinHeartbeatTimeout: 50 * time.Minute, DefaultHeartbeatTimeout: 48 * time.Hour,
	} {
		if got := GlobalTimeout(heartbeat); got != want {
			t.Errorf("a heartbeat timeout of %v allows %v, want %v", heartbeat, got, want)
		}
	}
}
