package event

import "time"

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
	RebalanceTimeout      time.Duration `env:"REBALANCE_RECOMMENDATION_TIMEOUT" envDefault:"2h" min:"0s" max:"720h" help:"How long after a rebalance recommendation its node stays cordoned if the instance is not interrupted, and keeps running. 0s is for ever."`
	ScheduledChange       Action        `env:"SCHEDULED_CHANGE" envDefault:"drain" values:"drain,cordon,replace,ignore" help:"Action when AWS Health announces maintenance of an instance: drain, cordon, replace or ignore."`
	ScheduledChangeLead   time.Duration `env:"SCHEDULED_CHANGE_LEAD" envDefault:"24h" min:"1m" max:"720h" help:"How long before the start of announced maintenance its node is drained or cordoned. Until then the node is not cordoned. The drain has until the start, also beyond DRAIN_TIMEOUT."`
	StateChange           Action        `env:"STATE_CHANGE" envDefault:"drain" values:"drain,cordon,ignore" help:"Action when an instance is stopped or terminated bypassing its group: drain, cordon or ignore."`
	ReservationInterrupt  Action        `env:"CAPACITY_RESERVATION_INTERRUPTION" envDefault:"drain" values:"drain,cordon,ignore" help:"Action when EC2 reclaims an instance of an interruptible Capacity Reservation or a Capacity Block: drain, cordon or ignore."`
	CapacityBlockExpiring Action        `env:"CAPACITY_BLOCK_EXPIRATION" envDefault:"drain" values:"drain,cordon,ignore" help:"Action ten minutes before EC2 terminates the instances of a Capacity Block: drain, cordon or ignore."`
	Alarm                 Action        `env:"ALARM" envDefault:"ignore" values:"drain,cordon,replace,ignore" help:"Action when a CloudWatch alarm on metrics of one instance goes into the state ALARM: drain, cordon, replace or ignore."`
	AlarmsPerHour         int           `env:"ALARM_MAX_PER_HOUR" envDefault:"4" min:"1" max:"1000" help:"Maximum number of alarms on instances of one Auto Scaling group that the agent acts on within an hour, one after the other. Another one waits."`
	Margin                time.Duration `env:"MARGIN" envDefault:"5s" min:"0s" max:"1m" help:"How long before the deadline of such an event a node must be drained. Grace periods of pods are shortened accordingly."`
}
