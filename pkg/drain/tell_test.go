package drain

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatAHoldSays(t *testing.T) {
	for _, tt := range []struct {
		hold Hold
		want string
	}{
		{Hold{Budgeted, "x/b", 3}, "3 wait for PodDisruptionBudget x/b"},
		{Hold{Misconfigured, "x/b", 1}, "1 wait for PodDisruptionBudget x/b, which never allows a disruption"},
		{Hold{OptedOut, "", 2}, "2 ask by annotation not to be evicted"},
		{Hold{WaitedFor, "", 2}, "2 are waited for until they end"},
		{Hold{LaterTier, "", 2}, "2 are of a later tier"},
		{Hold{BackingOff, "", 2}, "2 wait for the API server"},
		{Hold{VolumesInUse, "", 2}, "2 volumes are still attached"},
		{Hold{Deregistering, "", 1}, "load balancers are given time to let the node go"},
	} {
		if got := tt.hold.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.hold.Reason, got, tt.want)
		}
		if !slices.Contains(HoldReasons(), tt.hold.Reason) {
			t.Errorf("%s is not listed", tt.hold.Reason)
		}
	}
	if n := len(HoldReasons()); n != 8 {
		t.Errorf("%d reasons are listed, and 8 are tested", n)
	}
	if got := strings.Join(Results(), " "); got != "drained by-force left-behind interrupted" {
		t.Errorf("results: %s", got)
	}
	if got := strings.Join(ForceReasons(), " "); got != "deadline unhealthy" {
		t.Errorf("reasons to force: %s", got)
	}
}
