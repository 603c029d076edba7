package autoscaling

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// TestState classifies every state that the SDK knows, so that one that a new SDK adds fails the test.
func TestState(t *testing.T) {
	terminating := []State{
		"Terminating", "Terminating:Wait", "Warmed:Terminating", "Warmed:Terminating:Wait",
		"Warmed:Pending", "Warmed:Pending:Wait", // out of service, back into the warm pool
		"ReplacingRootVolume", "ReplacingRootVolume:Wait",
	}
	gone := []State{
		"Terminating:Proceed", "Terminating:Retained", "Terminated",
		"Warmed:Pending:Proceed", "Warmed:Pending:Retained", "Warmed:Stopped", "Warmed:Running", "Warmed:Hibernated",
		"Warmed:Terminating:Proceed", "Warmed:Terminating:Retained", "Warmed:Terminated",
		"ReplacingRootVolume:Proceed", "RootVolumeReplaced",
	}
	rebooting := []State{ // a launching hook comes after these
		"ReplacingRootVolume", "ReplacingRootVolume:Wait", "ReplacingRootVolume:Proceed", "RootVolumeReplaced",
	}
	others := []State{ // no terminating hook holds these
		"Pending", "Pending:Wait", "Pending:Proceed", "Quarantined", "InService",
		"Detaching", "Detached", "EnteringStandby", "Standby", // the instance runs on outside of the group
	}
	launching := []State{"Pending", "Pending:Wait", "Warmed:Pending", "Warmed:Pending:Wait"}
	waiting := []State{
		"Pending:Wait", "Terminating:Wait", "Warmed:Pending:Wait", "Warmed:Terminating:Wait", "ReplacingRootVolume:Wait",
	}
	all := slices.Concat(terminating, gone, others)
	for _, value := range types.LifecycleState("").Values() {
		if !slices.Contains(all, State(value)) {
			t.Errorf("%s is new: add it here, and to State", value)
		}
	}
	if n := len(types.LifecycleState("").Values()); n != len(all) {
		t.Errorf("the SDK knows %d states, this test %d", n, len(all))
	}
	for _, s := range append(all, "", "Terminating:Someday") {
		for name, is := range map[string]struct{ got, want bool }{
			"terminating":           {s.Terminating(), slices.Contains(terminating, s)},
			"gone":                  {s.Gone(), slices.Contains(gone, s)},
			"launching":             {s.Launching(), slices.Contains(launching, s)},
			"waiting":               {s.Waiting(), slices.Contains(waiting, s)},
			"warmed":                {s.Warmed(), strings.HasPrefix(string(s), "Warmed:")},
			"unknown":               {s.Unknown(), s == ""},
			"a pending launch":      {Action{Launch: true}.pending(s), slices.Contains(launching, s)},
			"replacing root volume": {s.ReplacingRootVolume(), slices.Contains(rebooting, s)},
			"a finished launch": {
				Action{Launch: true}.over(s), s != "" && !slices.Contains(slices.Concat(launching, rebooting), s),
			},
			"a pending termination":  {Action{}.pending(s), slices.Contains(terminating, s)},
			"a finished termination": {Action{}.over(s), slices.Contains(gone, s)},
		} {
			if is.got != is.want {
				t.Errorf("%q: %s: %v, want %v", s, name, is.got, is.want)
			}
		}
	}
}
