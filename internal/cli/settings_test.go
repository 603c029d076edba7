package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestConfig: flags and variables make up the configuration of package rollout.
func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		args    string
		environ []string
		want    func(*plan.Config)
	}{
		{"defaults", "--asg workers", nil, func(*plan.Config) {}},
		{"list of groups", "--asg workers,batch --asg gpu", nil, func(c *plan.Config) {
			c.Selection.Names = []string{"workers", "batch", "gpu"}
		}},
		{"cluster and tags", "--cluster prod --tag role=worker,team --asg=workers", nil, func(c *plan.Config) {
			c.Selection.Cluster, c.Selection.Tags = "prod", map[string]string{"role": "worker", "team": ""}
		}},
		{"key of a tag alone and with a value", "--tag role=worker,role --asg workers", nil, func(c *plan.Config) {
			c.Selection.Tags = map[string]string{"role": "worker"}
		}},
		{"equals sign in the value of a tag", "--tag a=b=c --asg workers", nil, func(c *plan.Config) {
			c.Selection.Tags = map[string]string{"a": "b=c"}
		}},
		{"variables instead of flags", "", []string{"TRIGGER_ASG=workers", "TRIGGER_WARMUP=90s"}, func(c *plan.Config) {
			c.Preferences.Warmup = new(90 * time.Second)
		}},
		{"flag overrides variable", "--asg workers --until replaced", []string{"TRIGGER_ASG=batch,gpu", "TRIGGER_UNTIL=terminated"}, func(c *plan.Config) {
			c.Until = plan.Replaced
		}},
		{"false flag overrides true variable", "--asg workers --fail-fast=false", []string{"TRIGGER_FAIL_FAST=true"}, func(*plan.Config) {}},
		{"empty variable counts as not set", "--asg workers", []string{"TRIGGER_MODE=", "TRIGGER_WARMUP="}, func(*plan.Config) {}},
		{"last value of a repeated flag", "--asg workers --until replaced --until terminated", nil, func(c *plan.Config) {
			c.Until = plan.Terminated
		}},
		{"percentages instead of surge", "--asg workers --min-healthy 90 --max-healthy 150", nil, func(c *plan.Config) {
			c.Surge, c.Preferences.MinHealthy, c.Preferences.MaxHealthy = nil, new(90), new(150)
		}},
		{"minimum percentage alone", "--asg workers --min-healthy 0", nil, func(c *plan.Config) {
			c.Surge, c.Preferences.MinHealthy = nil, new(0)
		}},
		{"surge as a number", "--asg workers --surge 2", nil, func(c *plan.Config) {
			c.Surge = &refresh.Amount{N: 2}
		}},
		{"surge as a percentage", "--asg workers --surge 20%", nil, func(c *plan.Config) {
			c.Surge = &refresh.Amount{N: 20, Percent: true}
		}},
		{"all preferences of a refresh", "--asg workers --warmup 2m --checkpoints 1,10 --checkpoints 100 --checkpoint-delay 0s --bake 1h " +
			"--alarm a,b --auto-rollback --protected wait --standby Terminate --on-conflict cancel --launch-template-version $Latest", nil, func(c *plan.Config) {
			c.Preferences = refresh.Preferences{
				Warmup: new(2 * time.Minute), Checkpoints: []int{1, 10, 100}, CheckpointDelay: new(time.Duration(0)), Bake: new(time.Hour),
				Alarms: []string{"a", "b"}, AutoRollback: true, SkipMatching: true, Protected: "Wait", Standby: "Terminate",
			}
			c.OnConflict, c.Version = plan.CancelActive, "$Latest"
		}},
		{"names with commas", "--asg workers", []string{`TRIGGER_ALARM="High CPU, prod", b`}, func(c *plan.Config) {
			c.Preferences.Alarms = []string{"High CPU, prod", "b"}
		}},
		{"no desired configuration", "--asg workers --pin=false", nil, func(c *plan.Config) { c.Pin = refresh.PinNever }},
		{"all instances", "--asg workers --all", nil, func(c *plan.Config) { c.All, c.Preferences.SkipMatching = true, false }},
		{"defaults of mode unhealthy", "--asg workers --mode unhealthy", nil, func(c *plan.Config) { c.Mode, c.Surge = refresh.ModeUnhealthy, nil }},
		{"surge as a percentage in mode unhealthy", "--asg workers --mode unhealthy --surge 100%", nil, func(c *plan.Config) {
			c.Mode, c.Surge, c.Pace.Surge = refresh.ModeUnhealthy, nil, refresh.Amount{N: 100, Percent: true}
		}},
		{
			"all flags of mode unhealthy", "--asg workers --mode unhealthy --surge 2 --batch 25% --between 1m --order zone --max-age 720h " +
				"--instance i-0a,i-0b --exclude-node-label pet,team=data --on-interrupt cancel", nil, func(c *plan.Config) {
				c.Mode, c.Surge, c.MaxAge = refresh.ModeUnhealthy, nil, 720*time.Hour
				c.Pace = refresh.Pace{Batch: refresh.Amount{N: 25, Percent: true}, Between: time.Minute, Order: refresh.ByZone, Then: refresh.ThenTerminate, Surge: refresh.Amount{N: 2}}
				c.Only, c.Exclude, c.OnInterrupt = []string{"i-0a", "i-0b"}, []string{"pet", "team=data"}, plan.Cancel
			},
		},
		{"all flags of following", "--asg workers --until terminated --timeout 3h --stall-timeout 0s --poll-interval 200ms --parallel-asgs 0 --fail-fast --on-interrupt rollback", nil, func(c *plan.Config) {
			c.Until, c.Timeout, c.StallTimeout, c.PollInterval = plan.Terminated, 3*time.Hour, 0, 200*time.Millisecond
			c.Parallel, c.FailFast, c.OnInterrupt = 0, true, plan.Rollback
		}},
		{"groups that are checked apart", "--asg workers --together none", nil, func(c *plan.Config) { c.Together = refresh.NoPhase }},
		{"a surge in steps", "--asg workers --mode unhealthy --surge 100% --surge-step 10", nil, func(c *plan.Config) {
			c.Mode, c.Surge = refresh.ModeUnhealthy, nil
			c.Pace.Surge, c.Pace.Step = refresh.Amount{N: 100, Percent: true}, refresh.Amount{N: 10}
		}},
		{"a gate", "--asg workers --gate-command ./check --gate-url https://a/b --gate-timeout 1m", nil, func(c *plan.Config) {
			c.Gate, c.GateTimeout = gate.Gate{Command: "./check", URL: "https://a/b"}, time.Minute
		}},
		{"phases in any order", "--asg workers --together taint,check", nil, func(c *plan.Config) { c.Together = refresh.PhaseTaint }},
		{"taints in mode unhealthy", "--asg workers --mode unhealthy --taint-outdated hard", nil, func(c *plan.Config) {
			c.Mode, c.Surge, c.Taint = refresh.ModeUnhealthy, nil, cluster.HardTaint
		}},
		{"a limit for new nodes", "--asg workers --ready-timeout 10m", nil, func(c *plan.Config) { c.ReadyTimeout = 10 * time.Minute }},
		{"taints by variable", "--asg workers", []string{"TRIGGER_TAINT_OUTDATED=soft"}, func(c *plan.Config) { c.Taint = cluster.SoftTaint }},
		{"no wait", "--asg workers --no-wait --allow managed-nodegroup,hook-timeout", nil, func(c *plan.Config) {
			c.Wait, c.Allow = false, []string{"managed-nodegroup", "hook-timeout"}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _, stderr := read(t, tt.environ, strings.Fields(tt.args)...)
			if s == nil {
				t.Fatal(stderr)
			}
			want := newSettings().Config
			want.Preferences.SkipMatching = true
			want.Selection.Tags = map[string]string{}
			want.Selection.Names, want.Surge, want.Wait = []string{"workers"}, &refresh.Amount{N: 10, Percent: true}, true
			tt.want(&want)
			want.Order = want.Selection.Names
			if diff := cmp.Diff(want, s.config()); diff != "" {
				t.Errorf("the configuration (-want +got):\n%s", diff)
			}
		})
	}
}
