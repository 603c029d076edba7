package event

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action is how the agent handles the node of an event without a lifecycle hook.
type Action string

// The actions.
const (
	// Drain: the node is cordoned, and drained before the event's deadline.
	Drain Action = "drain"
	// Cordon: the node is cordoned; its pods stay.
	Cordon Action = "cordon"
	// Replace: the instance is marked unhealthy, so that its group replaces it and its hook drains it. An
	// instance without a group is drained, and so is one that cannot be marked. Replace is not allowed for
	// instances that are terminated within minutes: their group replaces them after that.
	Replace Action = "replace"
	// Ignore: the event is ignored.
	Ignore Action = "ignore"
)

// Config is set by environment variables that begin with EVENT_.
type Config struct {
	SpotInterruption      Action        `env:"SPOT_INTERRUPTION" envDefault:"drain" values:"drain,cordon,ignore" help:"Action when EC2 interrupts a Spot Instance in two minutes: drain, cordon or ignore."`
	Rebalance             Action        `env:"REBALANCE_RECOMMENDATION" envDefault:"ignore" values:"drain,cordon,replace,ignore" help:"Action when a Spot Instance is at elevated risk of interruption: drain, cordon, replace or ignore. With Capacity Rebalancing, the group itself replaces the instance, and its hook drains it."`
	ScheduledChange       Action        `env:"SCHEDULED_CHANGE" envDefault:"drain" values:"drain,cordon,replace,ignore" help:"Action when AWS Health announces maintenance of an instance: drain, cordon, replace or ignore."`
	StateChange           Action        `env:"STATE_CHANGE" envDefault:"drain" values:"drain,cordon,ignore" help:"Action when an instance is stopped or terminated bypassing its group: drain, cordon or ignore."`
	ReservationInterrupt  Action        `env:"CAPACITY_RESERVATION_INTERRUPTION" envDefault:"drain" values:"drain,cordon,ignore" help:"Action when EC2 reclaims an instance of an interruptible Capacity Reservation or a Capacity Block: drain, cordon or ignore."`
	CapacityBlockExpiring Action        `env:"CAPACITY_BLOCK_EXPIRATION" envDefault:"drain" values:"drain,cordon,ignore" help:"Action ten minutes before EC2 terminates the instances of a Capacity Block: drain, cordon or ignore."`
	Margin                time.Duration `env:"MARGIN" envDefault:"5s" help:"How long before the deadline of such an event a node must be drained. Grace periods of pods are shortened accordingly."`
}

// Action returns the action for events of a kind, Ignore for kinds that are not configured.
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
