package autoscaling

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := Config{ConfirmTimeout: time.Minute, Margin: 30 * time.Second}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"valid", func(*Config) {}, nil},
		{"the minimum of each", func(c *Config) { *c = Config{HeartbeatInterval: time.Second, ConfirmTimeout: time.Second} }, nil},
		{"the maximum of each", func(c *Config) {
			*c = Config{HeartbeatInterval: 2 * time.Hour, ConfirmTimeout: 10 * time.Minute, Margin: time.Hour}
		}, nil},
		{"heartbeats too often", func(c *Config) { c.HeartbeatInterval = time.Millisecond }, []string{"HOOK_HEARTBEAT_INTERVAL"}},
		{"a negative interval", func(c *Config) { c.HeartbeatInterval = -1 }, []string{"HOOK_HEARTBEAT_INTERVAL"}},
		{"heartbeats too rarely", func(c *Config) { c.HeartbeatInterval = 3 * time.Hour }, []string{"HOOK_HEARTBEAT_INTERVAL"}},
		{"no confirmation", func(c *Config) { c.ConfirmTimeout = 0 }, []string{"HOOK_CONFIRM_TIMEOUT"}},
		{"confirmation takes too long", func(c *Config) { c.ConfirmTimeout = time.Hour }, []string{"HOOK_CONFIRM_TIMEOUT"}},
		{"a negative margin", func(c *Config) { c.Margin = -time.Second }, []string{"HOOK_MARGIN"}},
		{"too long a margin", func(c *Config) { c.Margin = 2 * time.Hour }, []string{"HOOK_MARGIN"}},
		{"valid names", func(c *Config) { c.Names = []string{"a", "Z-9_x/y", strings.Repeat("n", 255)} }, nil},
		{"a space in a name", func(c *Config) { c.Names = []string{"drain", "a b"} }, []string{"HOOK_NAMES"}},
		{"an ARN for a name", func(c *Config) { c.Names = []string{"arn:aws:autoscaling"} }, []string{"HOOK_NAMES"}},
		{"an empty name", func(c *Config) { c.Names = []string{""} }, []string{"HOOK_NAMES"}},
		{"too long a name", func(c *Config) { c.Names = []string{strings.Repeat("n", 256)} }, []string{"HOOK_NAMES"}},
		{"all of them", func(c *Config) { *c = Config{HeartbeatInterval: -1, ConfirmTimeout: -1, Margin: -1} }, []string{
			"HOOK_HEARTBEAT_INTERVAL", "HOOK_CONFIRM_TIMEOUT", "HOOK_MARGIN",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			var lines []string
			if err := cfg.Validate(); err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want errors about %q", lines, tt.want)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, tt.want[i]+" is ") {
					t.Errorf("got %q, want an error about %s", line, tt.want[i])
				}
			}
		})
	}
}
