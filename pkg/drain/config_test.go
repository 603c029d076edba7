package drain

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseTiers(t *testing.T) {
	check := func(text string, want ...Tier) {
		t.Helper()
		if got, err := parseTiers(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	check("0", Tier{})
	check("0,2000000000,2000001000", Tier{}, Tier{From: 2_000_000_000}, Tier{From: 2_000_001_000})
	check("0=10m,2000000000", Tier{Bound: 10 * time.Minute}, Tier{From: 2_000_000_000})
	check(" -10 , 0=90s ", Tier{From: -10}, Tier{Bound: 90 * time.Second})
	check("-2147483648,2147483647", Tier{From: -2147483648}, Tier{From: 2147483647})
	for text, want := range map[string]string{
		"":           `priority "": must be a whole number from -2147483648 to 2147483647`,
		"0,":         `priority ""`,
		"0,critical": `priority "critical": must be a whole number`,
		"2147483648": `priority "2147483648": must be a whole number from`,
		"0,0":        "priorities must ascend: 0 comes after 0",
		"0,10,5":     "priorities must ascend: 5 comes after 10",
		"0=10":       `duration "10": must be positive and have a unit, for example 90s or 15m`,
		"0=":         `duration "": must be positive`,
		"0=0s":       `duration "0s": must be positive`,
		"0=-1m":      `duration "-1m": must be positive`,
	} {
		if _, err := parseTiers(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
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
