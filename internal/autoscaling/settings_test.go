package autoscaling

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestAccountPolicy: the account's setting is the policy of groups that have none. It is read once, and what cannot be
// read does not fail the call.
func TestAccountPolicy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		value  string
		denied bool
		policy bool // The group has one.
		want   string
	}{
		"disabled":               {value: "disabled", want: "terminates first"},
		"enabled":                {value: "enabled", want: "by the account"},
		"the group has a policy": {value: "enabled", policy: true, want: "launches first"},
		"denied":                 {value: "enabled", denied: true, want: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r, _ := simulateTrigger(t)
			s.SetAccountSetting(awsim.AccountSetting{Name: "launchBeforeTerminate", Value: tt.value})
			spec := awsim.Group{Name: groupName, Max: 3}
			if tt.policy {
				spec.MinHealthy, spec.MaxHealthy = 100, 120
			}
			must(t, s.CreateGroup(spec))
			if tt.denied {
				s.Withdraw("", ActionSettings, 0)
			}
			for range 2 {
				g, err := r.Group(bounded(t), groupName)
				must(t, err)
				if got := policyOf(g.Maintenance); got != tt.want {
					t.Errorf("got %s, want %s: %+v", got, tt.want, g.Maintenance)
				}
			}
			if n := s.Requests()["autoscaling.DescribeAccountSettings"]; n > 1 || n == 0 != tt.policy {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func policyOf(m refresh.Maintenance) string {
	switch {
	case cloud.IsDenied(m.Unknown):
		return "unknown"
	case m.Account && m.LaunchesFirst():
		return "by the account"
	case m.LaunchesFirst():
		return "launches first"
	default:
		return "terminates first"
	}
}

func TestInspectSettings(t *testing.T) {
	t.Parallel()
	s, client := simulate(t, func(o *sdk.Options) { o.RetryMaxAttempts = 1 })
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s.SetAccountSetting(awsim.AccountSetting{
		Name: "other", Value: "disabled", EnforcementType: "hard", EnforcedValue: "enabled", EnforcementDate: at,
	})
	got, err := NewInspector(newHooks(client, newAPI())).Settings(bounded(t))
	want := []AccountSetting{
		{Name: "launchBeforeTerminate", Value: "disabled"}, {Name: "other", Value: "disabled", Enforced: "enabled", EnforcedAt: at},
	}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, %v", got, err)
	}
}
