package drain

import (
	"testing"
	"time"
)

// TestPolicyOfATarget: what the target has replaces what is configured, and nothing else.
func TestPolicyOfATarget(t *testing.T) {
	t.Parallel()
	configured := Policy{Config: Config{AtDeadline: Delete, EvictionDelay: time.Minute, Timeout: time.Hour}}
	none, long := time.Duration(0), 10*time.Minute
	for _, tt := range []struct {
		target Target
		want   Config
	}{
		{Target{}, configured.Config},
		{Target{AtDeadline: "leave"}, Config{AtDeadline: "leave", EvictionDelay: time.Minute, Timeout: time.Hour}},
		{Target{EvictionDelay: &none}, Config{AtDeadline: Delete, Timeout: time.Hour}},
		{Target{AtDeadline: Delete, EvictionDelay: &long}, Config{AtDeadline: Delete, EvictionDelay: long, Timeout: time.Hour}},
	} {
		if got := configured.of(tt.target); got.Config != tt.want {
			t.Errorf("%+v: got %+v", tt.target, got.Config)
		}
	}
}
