package refresh

import (
	"slices"
	"strings"
	"testing"
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
		i := instance(state(name))
		for text, is := range map[string]bool{
			"in service": i.InService(), "pending": i.Pending(), "standby": i.Standby(),
			"terminating": i.Terminating(), "draining": i.Draining(), "retained": i.Retained(),
		} {
			if is != strings.Contains(want, text) {
				t.Errorf("%s is %s: %t", name, text, is)
			}
		}
	}
}
