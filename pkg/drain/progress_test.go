package drain

import (
	"slices"
	"strings"
	"testing"
)

func TestWaitCountString(t *testing.T) {
	for _, tt := range []struct {
		hold WaitCount
		want string
	}{
		{WaitCount{BlockedByBudget, "x/b", 3}, "3 wait for PodDisruptionBudget x/b"},
		{WaitCount{Misconfigured, "x/b", 1}, "1 wait for PodDisruptionBudget x/b, which never allows a disruption"},
		{WaitCount{OptedOut, "", 2}, "2 have an annotation against eviction"},
		{WaitCount{WaitedFor, "", 2}, "2 may run until they finish"},
		{WaitCount{LaterTier, "", 2}, "2 are in a later tier"},
		{WaitCount{BackingOff, "", 2}, "2 wait for the API server"},
		{WaitCount{VolumesAttached, "", 2}, "2 volumes are still attached"},
		{WaitCount{Deregistering, "", 1}, "waiting for load balancers to deregister the node"},
	} {
		if got := tt.hold.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.hold.Reason, got, tt.want)
		}
		if !slices.Contains(WaitReasons(), tt.hold.Reason) {
			t.Errorf("%s is not listed", tt.hold.Reason)
		}
	}
	if n := len(WaitReasons()); n != 8 {
		t.Errorf("%d reasons are listed, and 8 are tested", n)
	}
	if got := strings.Join(Results(), " "); got != "drained by-force left-behind node-lost interrupted" {
		t.Errorf("results: %s", got)
	}
	if got := strings.Join(ForceReasons(), " "); got != "deadline unhealthy" {
		t.Errorf("reasons to force: %s", got)
	}
}
