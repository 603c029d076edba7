// Package rollouts simulates rollouts: the trigger itself replaces instances of groups that a seed generates, in a
// simulated AWS and in virtual time, while an operator, an autoscaler, other triggers and faults interfere. A judge
// knows of each instance whether it was outdated, and whose call has ended it. What package sim needs for triggers
// beside agents is not in tests. See docs/testing.md.
package rollouts

import (
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Options are the flags of the triggers.
type Options struct {
	Mode         refresh.Mode
	Surge        refresh.Amount
	Batch        refresh.Amount
	Step         refresh.Amount
	Order        refresh.Order
	Then         refresh.Then
	Between      time.Duration  `json:",omitempty"`
	RaiseMax     bool           `json:",omitempty"`
	Suspend      []string       `json:",omitempty"`
	Checkpoints  []int          `json:",omitempty"`
	MinHealthy   int            `json:",omitempty"` // In place of Surge, if it is not 0.
	Pin          refresh.Pin    `json:",omitempty"`
	AutoRollback bool           `json:",omitempty"`
	Force        bool           `json:",omitempty"` // mode nodegroup
	Newest       bool           `json:",omitempty"` // --launch-template-version '$Latest'; groups name a number.
	Alarm        bool           `json:",omitempty"` // A refresh fails while the alarm is on.
	OnConflict   plan.Conflict  `json:",omitempty"`
	Windows      bool           `json:",omitempty"`
	Gate         bool           `json:",omitempty"`
	Only         int            `json:",omitempty"` // So many instances are named.
	All          bool           `json:",omitempty"`
	MaxAge       time.Duration  `json:",omitempty"`
	Exclude      bool           `json:",omitempty"`
	Taint        cluster.Effect `json:",omitempty"`
	Together     refresh.Phase  `json:",omitempty"`
	Parallel     int            `json:",omitempty"`
	FailFast     bool           `json:",omitempty"`
	Autoscaler   bool           `json:",omitempty"` // The Cluster Autoscaler is paused.
	OnInterrupt  plan.Interrupt `json:",omitempty"`
	NoWait       bool           `json:",omitempty"`
	Until        plan.Until
	Stall        time.Duration
	Ready        time.Duration `json:",omitempty"`
	Timeout      time.Duration `json:",omitempty"`
	Poll         time.Duration
}

// Command is a command of the trigger.
type Command string

// The commands.
const (
	Trigger  Command = ""
	Watch    Command = "watch"
	Rollback Command = Command(rollout.ActRollback)
	Resume   Command = Command(rollout.ActResume)
	Cancel   Command = Command(rollout.ActCancel)
	Pause    Command = Command(rollout.ActPause)
)

// Config returns the configuration that package cli makes of the options, without a selection.
func (o Options) Config(holder string) plan.Config {
	cfg := plan.Config{
		Mode: o.Mode, MaxAge: o.MaxAge, All: o.All,
		Preferences: refresh.Preferences{
			SkipMatching: !o.All, Protected: "Ignore", Standby: "Ignore", Checkpoints: o.Checkpoints,
			AutoRollback: o.AutoRollback,
		},
		Pin: o.Pin, OnConflict: o.OnConflict,
		Pace: refresh.Pace{
			Batch: o.Batch, Between: o.Between, Order: o.Order, Then: o.Then,
		},
		Taint: o.Taint, Allow: []string{"hook-timeout", "no-terminating-hook"}, Suspend: o.Suspend, RaiseMax: o.RaiseMax,
		Wait: !o.NoWait, Until: o.Until, Timeout: o.Timeout, StallTimeout: o.Stall, ReadyTimeout: o.Ready,
		PollInterval: o.Poll, OnInterrupt: o.OnInterrupt, GateTimeout: 5 * time.Minute, Together: o.Together,
		Parallel: o.Parallel, FailFast: o.FailFast, Interval: 5 * time.Minute, Holder: holder,
	}
	o.addSurge(&cfg)
	if o.Newest {
		cfg.Version = "$Latest"
	}
	if o.Alarm {
		cfg.Preferences.Alarms = []string{alarm}
	}
	if o.Exclude {
		cfg.Exclude = []string{"keep"}
	}
	if len(o.Checkpoints) > 0 {
		cfg.Preferences.CheckpointDelay = new(10 * time.Minute)
	}
	for hour := 1; o.Windows && hour < 24; hour += 2 {
		cfg.Windows = append(cfg.Windows, window(hour))
	}
	return cfg
}

// addSurge adds the surge, which is of Auto Scaling in mode refresh.
func (o Options) addSurge(cfg *plan.Config) {
	switch o.Mode {
	case refresh.ModeRefresh:
		cfg.Surge = &o.Surge
		if o.MinHealthy > 0 {
			cfg.Surge, cfg.Preferences.MinHealthy = nil, &o.MinHealthy
		}
	case refresh.ModeUnhealthy:
		cfg.Pace.Surge, cfg.Pace.Step = o.Surge, o.Step
	case refresh.ModeStandby, refresh.ModeNodegroup:
	}
}

// alarm is the one of CloudWatch by which a refresh fails.
const alarm = "errors"

// InWindow reports whether a rollout may begin to replace instances at a time: at any, if there are no windows.
func (o Options) InWindow(at time.Time) bool {
	at = at.UTC()
	return !o.Windows || at.Hour()%2 == 1 && at.Minute() <= 30
}

// window is open in the first half of an hour.
func window(hour int) refresh.Window {
	w, err := refresh.ParseWindow(fmt.Sprintf("%02d:00-%02d:30 UTC", hour, hour))
	if err != nil {
		panic(err) // cannot happen
	}
	return w
}
