package drain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseTiers(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []Tier
		mistake    string
	}{
		{name: "one", text: "0", want: []Tier{{}}},
		{name: "the default", text: "0,2000000000,2000001000", want: []Tier{{}, {From: 2_000_000_000}, {From: 2_000_001_000}}},
		{name: "bounded", text: "0=10m,2000000000", want: []Tier{{Bound: 10 * time.Minute}, {From: 2_000_000_000}}},
		{name: "negative, with spaces", text: " -10 , 0=90s ", want: []Tier{{From: -10}, {Bound: 90 * time.Second}}},
		{name: "the extremes", text: "-2147483648,2147483647", want: []Tier{{From: -2147483648}, {From: 2147483647}}},
		{name: "nothing", text: "", mistake: `priority "": must be a whole number from -2147483648 to 2147483647`},
		{name: "a comma too many", text: "0,", mistake: `priority ""`},
		{name: "a word", text: "0,critical", mistake: `priority "critical": must be a whole number`},
		{name: "too large", text: "2147483648", mistake: `priority "2147483648": must be a whole number from`},
		{name: "twice the same", text: "0,0", mistake: "priorities must ascend: 0 comes after 0"},
		{name: "descending", text: "0,10,5", mistake: "priorities must ascend: 5 comes after 10"},
		{name: "a duration without a unit", text: "0=10", mistake: `duration "10": must be positive and have a unit, for example 90s or 15m`},
		{name: "no duration", text: "0=", mistake: `duration "": must be positive`},
		{name: "a zero duration", text: "0=0s", mistake: `duration "0s": must be positive`},
		{name: "a negative duration", text: "0=-1m", mistake: `duration "-1m": must be positive`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseTiers(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != (tt.mistake != "") || (err != nil && !strings.Contains(err.Error(), tt.mistake)) {
				t.Errorf("got %v, want %q in it", err, tt.mistake)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string // the mistakes, all at once
	}{
		{name: "the defaults", cfg: defaults},
		{name: "the minimum", cfg: Config{Timeout: time.Second, AtDeadline: Leave, Tiers: "0", BarePods: Wait, EmptyDirPods: Wait}},
		{name: "the maximum", cfg: withConfig(func(c *Config) {
			c.Timeout, c.ForceUnhealthy, c.StuckAfter = 48*time.Hour, 48*time.Hour, 48*time.Hour
			c.ForceSpacing, c.LoadBalancerWait, c.VolumeTimeout, c.BlockedAfter = time.Hour, time.Hour, time.Hour, time.Hour
			c.Settle, c.WaitSelector, c.WaitNamespaces, c.WaitForJobs = time.Minute, "app in (a, b),!c", "x, y", true
		})},
		{name: "all unset", want: []string{
			"DRAIN_TIMEOUT is 0s: must be from 1s to 48h, the longest that a hook can hold",
			`DRAIN_TIERS is "": priority "": must be a whole number from -2147483648 to 2147483647`,
			`DRAIN_AT_DEADLINE is "": must be delete or leave`,
			`DRAIN_BARE_PODS is "": must be evict or wait`,
			`DRAIN_EMPTYDIR_PODS is "": must be evict or wait`,
		}},
		{
			name: "everything wrong",
			cfg: Config{
				Timeout: 49 * time.Hour, AtDeadline: "kill", Tiers: "0,0", BarePods: "delete", EmptyDirPods: "WAIT",
				WaitSelector: "app in", ForceSpacing: 2 * time.Hour, ForceUnhealthy: -1, StuckAfter: 49 * time.Hour,
				Settle: 61 * time.Second, LoadBalancerWait: -time.Second, VolumeTimeout: 90 * time.Minute, BlockedAfter: -time.Hour,
			},
			want: []string{
				"DRAIN_TIMEOUT is 49h0m0s: must be from 1s to 48h",
				`DRAIN_TIERS is "0,0": priorities must ascend`,
				`DRAIN_WAIT_SELECTOR is "app in": `,
				`DRAIN_AT_DEADLINE is "kill": must be delete or leave`,
				`DRAIN_BARE_PODS is "delete": must be evict or wait`,
				`DRAIN_EMPTYDIR_PODS is "WAIT": must be evict or wait`,
				"DRAIN_FORCE_SPACING is 2h0m0s: must be from 0s to 1h",
				"DRAIN_FORCE_UNHEALTHY_AFTER is -1ns: must be from 0s to 48h",
				"DRAIN_STUCK_AFTER is 49h0m0s: must be from 0s to 48h",
				"DRAIN_SETTLE is 1m1s: must be from 0s to 1m",
				"DRAIN_LOAD_BALANCER_WAIT is -1s: must be from 0s to 1h",
				"DRAIN_VOLUME_TIMEOUT is 1h30m0s: must be from 0s to 1h",
				"DRAIN_BLOCKED_AFTER is -1h0m0s: must be from 0s to 1h",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %d mistakes", got, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got  %s\nwant %s", got[i], want)
				}
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	cfg := withConfig(func(c *Config) {
		c.Tiers, c.LoadBalancerWait, c.VolumeTimeout, c.ForceUnhealthy = "0=10m,5", time.Minute, 2*time.Minute, time.Hour
	})
	want := Policy{
		Force: true, Tiers: []time.Duration{10 * time.Minute, 0}, ForceSpacing: 30 * time.Second, ForceUnhealthy: time.Hour,
		StuckAfter: 5 * time.Minute, Settle: 5 * time.Second, LoadBalancerWait: time.Minute, VolumeTimeout: 2 * time.Minute,
	}
	if diff := cmp.Diff(want, cfg.policy()); diff != "" {
		t.Error(diff)
	}
	cfg.AtDeadline = Leave
	if cfg.policy().Force {
		t.Error("leave forces deletions")
	}
}
