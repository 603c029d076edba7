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
		want   string // the variables that are wrong
	}{
		{"valid", func(*Config) {}, ""},
		{"the minimum of each", func(c *Config) { *c = Config{HeartbeatInterval: time.Second, ConfirmTimeout: time.Second} }, ""},
		{"the maximum of each", func(c *Config) {
			*c = Config{HeartbeatInterval: 2 * time.Hour, ConfirmTimeout: 10 * time.Minute, Margin: time.Hour}
		}, ""},
		{"heartbeats too often", func(c *Config) { c.HeartbeatInterval = time.Millisecond }, "HOOK_HEARTBEAT_INTERVAL"},
		{"a negative interval", func(c *Config) { c.HeartbeatInterval = -1 }, "HOOK_HEARTBEAT_INTERVAL"},
		{"heartbeats too rarely", func(c *Config) { c.HeartbeatInterval = 3 * time.Hour }, "HOOK_HEARTBEAT_INTERVAL"},
		{"no confirmation", func(c *Config) { c.ConfirmTimeout = 0 }, "HOOK_CONFIRM_TIMEOUT"},
		{"confirmation takes too long", func(c *Config) { c.ConfirmTimeout = time.Hour }, "HOOK_CONFIRM_TIMEOUT"},
		{"a negative margin", func(c *Config) { c.Margin = -time.Second }, "HOOK_MARGIN"},
		{"too long a margin", func(c *Config) { c.Margin = 2 * time.Hour }, "HOOK_MARGIN"},
		{"valid names", func(c *Config) { c.Names = []string{"a", "Z-9_x/y", strings.Repeat("n", 255)} }, ""},
		{"a space in a name", func(c *Config) { c.Names = []string{"drain", "a b"} }, "HOOK_NAMES"},
		{"an ARN for a name", func(c *Config) { c.Names = []string{"arn:aws:autoscaling"} }, "HOOK_NAMES"},
		{"an empty name", func(c *Config) { c.Names = []string{""} }, "HOOK_NAMES"},
		{"too long a name", func(c *Config) { c.Names = []string{strings.Repeat("n", 256)} }, "HOOK_NAMES"},
		{"all of them", func(c *Config) { *c = Config{HeartbeatInterval: -1, ConfirmTimeout: -1, Margin: -1} }, "HOOK_HEARTBEAT_INTERVAL HOOK_CONFIRM_TIMEOUT HOOK_MARGIN"},
	} {
		cfg := good
		tt.change(&cfg)
		var got []string
		if err := cfg.Validate(); err != nil {
			for line := range strings.Lines(err.Error()) {
				variable, _, _ := strings.Cut(line, " is ")
				got = append(got, variable)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got errors about %q, want %q", tt.name, got, tt.want)
		}
	}
}
