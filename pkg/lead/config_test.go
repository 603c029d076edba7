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
		want   []string // variables that are complained about
	}{
		{"good", func(*Config) {}, nil},
		{"the namespace of the pod will do", func(c *Config) { c.Namespace = "" }, nil},
		{"nothing is asked of who does not elect", func(c *Config) { *c = Config{} }, nil},
		{"a namespace that is none", func(c *Config) { c.Namespace = "a/b" }, []string{"LEADER_NAMESPACE"}},
		{"a name that is none", func(c *Config) { c.LeaseName = "" }, []string{"LEADER_LEASE_NAME"}},
		{"a lease of half a second", func(c *Config) { c.LeaseDuration = 15*time.Second + 1 }, []string{"LEADER_LEASE_DURATION"}},
		{"a lease of an hour", func(c *Config) { c.LeaseDuration = time.Hour }, []string{"LEADER_LEASE_DURATION"}},
		{"a deadline as long as the lease", func(c *Config) { c.RenewDeadline = 15 * time.Second }, []string{"LEADER_RENEW_DEADLINE"}},
		{"a deadline with no room for a second look", func(c *Config) { c.RetryPeriod = 9 * time.Second }, []string{"LEADER_RENEW_DEADLINE"}},
		{"no pause between two looks", func(c *Config) { c.RetryPeriod = 0 }, []string{"LEADER_RETRY_PERIOD"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := settings()
			tt.change(&cfg)
			complains(t, cfg.Validate("agents"), tt.want)
		})
	}
	nowhere := settings()
	nowhere.Namespace = ""
	complains(t, nowhere.Validate(""), []string{"LEADER_NAMESPACE"})
}

func complains(t *testing.T, err error, want []string) {
	t.Helper()
	var lines []string
	if err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	if len(lines) != len(want) {
		t.Fatalf("got %q, want complaints about %q", lines, want)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]+" is ") {
			t.Errorf("got %q, want a complaint about %s", line, want[i])
		}
	}
}
