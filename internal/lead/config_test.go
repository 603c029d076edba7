package lead

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string // variables that the error names
	}{
		{"valid", func(*Config) {}, nil},
		{"the pod's namespace is the default", func(c *Config) { c.Namespace = "" }, nil},
		{"no election, no namespace", func(c *Config) { *c = Config{} }, nil},
		{"invalid namespace", func(c *Config) { c.Namespace = "a/b" }, []string{"LEADER_NAMESPACE"}},
		{"empty name", func(c *Config) { c.LeaseName = "" }, []string{"LEADER_LEASE_NAME"}},
		{"a lease of a fraction of a second", func(c *Config) { c.LeaseDuration = 15*time.Second + 1 }, []string{"LEADER_LEASE_DURATION"}},
		{"a lease of an hour", func(c *Config) { c.LeaseDuration = time.Hour }, []string{"LEADER_LEASE_DURATION"}},
		{"a deadline as long as the lease", func(c *Config) { c.RenewDeadline = 15 * time.Second }, []string{"LEADER_RENEW_DEADLINE"}},
		{"a deadline too short for a second attempt", func(c *Config) { c.RetryPeriod = 9 * time.Second }, []string{"LEADER_RENEW_DEADLINE"}},
		{"no pause between two attempts", func(c *Config) { c.RetryPeriod = 0 }, []string{"LEADER_RETRY_PERIOD"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := settings()
			tt.change(&cfg)
			expectErrors(t, cfg.Validate("agents"), tt.want)
		})
	}
	unset := settings()
	unset.Namespace = ""
	expectErrors(t, unset.Validate(""), []string{"LEADER_NAMESPACE"})
}

func expectErrors(t *testing.T, err error, want []string) {
	t.Helper()
	var lines []string
	if err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	if len(lines) != len(want) {
		t.Fatalf("got %q, want errors about %q", lines, want)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]+" is ") {
			t.Errorf("got %q, want an error about %s", line, want[i])
		}
	}
}
