package event

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action is what is done about the node of an event that no lifecycle hook waits for.
type Action string

// The actions.
const (
	// Drain: the node is taken out of service and emptied before the event's deadline.
	Drain Action = "drain"
	// Cordon: the node is taken out of service; its pods stay.
	Cordon Action = "cordon"
	// Replace: Auto Scaling is told that the instance is unhealthy, so that the group replaces it; its hook
	// drains it. An instance of no group is drained, and so is one whose group cannot be told. There is no such
	// action for instances that go in some minutes: the group replaces them when they have gone.
	Replace Action = "replace"
	// Ignore: nothing is done.
	Ignore Action = "ignore"
)

// Config is what a user can set, by environment variables that begin with EVENT_.
type Config struct {
	SpotInterruption      Action        `env:"SPOT_INTERRUPTION" envDefault:"drain" values:"drain,cordon,ignore" help:"What is done when EC2 takes a Spot Instance back in two minutes: drain, cordon or ignore."`
	Rebalance             Action        `env:"REBALANCE_RECOMMENDATION" envDefault:"ignore" values:"drain,cordon,replace,ignore" help:"What is done when a Spot Instance is at elevated risk of interruption: drain, cordon, replace or ignore. With Capacity Rebalancing on, the group itself replaces the instance, and its hook drains it."`
	ScheduledChange       Action        `env:"SCHEDULED_CHANGE" envDefault:"drain" values:"drain,cordon,replace,ignore" help:"What is done when AWS Health announces maintenance of an instance: drain, cordon, replace or ignore."`
	StateChange           Action        `env:"STATE_CHANGE" envDefault:"drain" values:"drain,cordon,ignore" help:"What is done when an instance is stopped or terminated past its group: drain, cordon or ignore."`
	ReservationInterrupt  Action        `env:"CAPACITY_RESERVATION_INTERRUPTION" envDefault:"drain" values:"drain,cordon,ignore" help:"What is done when EC2 takes an instance of an interruptible Capacity Reservation or a Capacity Block back: drain, cordon or ignore."`
	CapacityBlockExpiring Action        `env:"CAPACITY_BLOCK_EXPIRATION" envDefault:"drain" values:"drain,cordon,ignore" help:"What is done ten minutes before EC2 terminates the instances of a Capacity Block: drain, cordon or ignore."`
	Margin                time.Duration `env:"MARGIN" envDefault:"5s" help:"How long before the deadline of such an event a node must be empty. Grace periods of pods are cut to fit."`
}

// Action is what is done about events of a kind; Ignore for kinds that are no such events.
func (c Config) Action(k Kind) Action {
	switch k {
	case SpotInterruption:
		return c.SpotInterruption
	case RebalanceRecommendation:
		return c.Rebalance
	case ScheduledChange:
		return c.ScheduledChange
	case StateChange:
		return c.StateChange
	case CapacityReservationInterruption:
		return c.ReservationInterrupt
	case CapacityBlockExpiration:
		return c.CapacityBlockExpiring
	}
	return Ignore
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, set := range []struct {
		name    string
		action  Action
		allowed []Action
	}{
		{"SPOT_INTERRUPTION", c.SpotInterruption, []Action{Drain, Cordon, Ignore}},
		{"REBALANCE_RECOMMENDATION", c.Rebalance, []Action{Drain, Cordon, Replace, Ignore}},
		{"SCHEDULED_CHANGE", c.ScheduledChange, []Action{Drain, Cordon, Replace, Ignore}},
		{"STATE_CHANGE", c.StateChange, []Action{Drain, Cordon, Ignore}},
		{"CAPACITY_RESERVATION_INTERRUPTION", c.ReservationInterrupt, []Action{Drain, Cordon, Ignore}},
		{"CAPACITY_BLOCK_EXPIRATION", c.CapacityBlockExpiring, []Action{Drain, Cordon, Ignore}},
	} {
		if !slices.Contains(set.allowed, set.action) {
			errs = append(errs, fmt.Errorf("EVENT_%s is %q: must be %s", set.name, set.action, oneOf(set.allowed)))
		}
	}
	if c.Margin < 0 || c.Margin > time.Minute {
		errs = append(errs, fmt.Errorf("EVENT_MARGIN is %v: must be from 0s to 1m", c.Margin))
	}
	return errors.Join(errs...)
}

func oneOf(actions []Action) string {
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = string(a)
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
