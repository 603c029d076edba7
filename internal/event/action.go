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
	SpotInterruption      Action        `env:"SPOT_INTERRUPTION" envDefault:"drain" values:"drain,cordon,ignore" help:"When EC2 interrupts a Spot Instance: drain, cordon or ignore."`
	Rebalance             Action        `env:"REBALANCE_RECOMMENDATION" envDefault:"ignore" values:"drain,cordon,replace,ignore" help:"When a Spot Instance is at elevated risk: drain, cordon, replace or ignore."`
	RebalanceTimeout      time.Duration `env:"REBALANCE_RECOMMENDATION_TIMEOUT" envDefault:"2h" min:"0s" max:"720h" help:"How long its node stays cordoned if the instance keeps running. 0s is for ever."`
	ScheduledChange       Action        `env:"SCHEDULED_CHANGE" envDefault:"drain" values:"drain,cordon,replace,ignore" help:"When AWS Health announces maintenance: drain, cordon, replace or ignore."`
	ScheduledChangeLead   time.Duration `env:"SCHEDULED_CHANGE_LEAD" envDefault:"24h" min:"1m" max:"720h" help:"How long before the start of maintenance its node is drained or cordoned."`
	StateChange           Action        `env:"STATE_CHANGE" envDefault:"drain" values:"drain,cordon,ignore" help:"When an instance is stopped or terminated bypassing its group: drain, cordon or ignore."`
	ReservationInterrupt  Action        `env:"CAPACITY_RESERVATION_INTERRUPTION" envDefault:"drain" values:"drain,cordon,ignore" help:"When EC2 reclaims an instance of an interruptible Capacity Reservation or a Capacity Block: drain, cordon or ignore."`
	CapacityBlockExpiring Action        `env:"CAPACITY_BLOCK_EXPIRATION" envDefault:"drain" values:"drain,cordon,ignore" help:"Ten minutes before EC2 terminates the instances of a Capacity Block: drain, cordon or ignore."`
	Alarm                 Action        `env:"ALARM" envDefault:"ignore" values:"drain,cordon,replace,ignore" help:"When a CloudWatch alarm on one instance goes into ALARM: drain, cordon, replace or ignore."`
	AlarmsPerHour         int           `env:"ALARM_MAX_PER_HOUR" envDefault:"4" min:"1" max:"1000" help:"Maximum number of alarms of one group that the agent acts on within an hour; others wait."`
	Margin                time.Duration `env:"MARGIN" envDefault:"5s" min:"0s" max:"1m" help:"How long before the deadline of a notice a node must be drained. Grace periods are shortened accordingly."`
}
