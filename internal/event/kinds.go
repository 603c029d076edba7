package event

import "time"

// The sources of the events that AWS puts on the event bus.
const (
	sourceGroups = "aws.autoscaling"
	sourceEC2    = "aws.ec2"
	sourceHealth = "aws.health"
	sourceAlarms = "aws.cloudwatch"
)

// traits are all that is to be known of a kind of event that AWS puts on the event bus, besides how it is parsed.
type traits struct {
	source      string
	detailTypes []string       // each event has one
	detail      map[string]any // that a rule for them requires besides
	events      string         // what they are called
	says        string         // what one says of the instance %s
	// action is what is configured for events that no lifecycle hook waits for.
	action func(Config) Action
	// irrevocable: EC2 takes the instance whatever happens. It withdraws no event of this kind.
	irrevocable bool
	// notice is how long before it takes the instance AWS sends an event at least; zero if it sends none before, or the
	// event can be compared with AWS's own schedule.
	notice time.Duration
}

// kinds are those that require an action.
var kinds = map[Kind]traits{ //nolint:gochecknoglobals // Nothing changes it.
	LifecycleTerminating: {source: sourceGroups, detailTypes: []string{terminateAction}, events: "terminations"},
	LifecycleLaunching:   {source: sourceGroups, detailTypes: []string{launchAction}, events: "launches"},
	SpotInterruption: {
		source: sourceEC2, detailTypes: []string{spotWarning},
		events: "Spot interruptions", says: "EC2 interrupts Spot Instance %s",
		action: func(c Config) Action { return c.SpotInterruption }, irrevocable: true, notice: SpotNotice,
	},
	RebalanceRecommendation: {
		source: sourceEC2, detailTypes: []string{rebalance, rebalanceSpot},
		events: "rebalance recommendations", says: "Spot Instance %s is at elevated risk of interruption",
		action: func(c Config) Action { return c.Rebalance },
	},
	StateChange: {
		source: sourceEC2, detailTypes: []string{stateChange},
		detail: map[string]any{"state": []string{"stopping", "stopped", "shutting-down", "terminated"}},
		events: "state changes of instances", says: "Instance %s is being stopped or terminated",
		action: func(c Config) Action { return c.StateChange }, irrevocable: true,
	},
	ScheduledChange: {
		source: sourceHealth, detailTypes: []string{healthEvent},
		detail: map[string]any{"service": []string{"EC2"}, "eventTypeCategory": []string{"scheduledChange"}},
		events: "maintenance", says: "AWS has scheduled maintenance of instance %s",
		action: func(c Config) Action { return c.ScheduledChange },
	},
	ScheduledChangeCanceled: {source: sourceHealth, detailTypes: []string{healthEvent}},
	CapacityReservationInterruption: {
		source: sourceEC2, detailTypes: []string{reservationWarning, reservationWarningOld},
		events: "interruptions of Capacity Reservations", says: "EC2 reclaims the Capacity Reservation of instance %s",
		action: func(c Config) Action { return c.ReservationInterrupt }, irrevocable: true, notice: ReservationNotice,
	},
	CapacityBlockExpiration: {
		source: sourceEC2, detailTypes: []string{blockWarning, blockWarningOld},
		events: "ends of Capacity Blocks", says: "The Capacity Block of instance %s ends",
		action: func(c Config) Action { return c.CapacityBlockExpiring }, irrevocable: true, notice: BlockNotice,
	},
	Alarm: {
		source: sourceAlarms, detailTypes: []string{alarmChange},
		detail: map[string]any{
			"alarmName": []any{map[string]string{"prefix": "node-drainer-"}},
			"state":     map[string]any{"value": []string{"ALARM"}},
		},
		events: "alarms", says: "A CloudWatch alarm of instance %s is on",
		action: func(c Config) Action { return c.Alarm },
	},
	DrainRequested: {says: "An annotation of its Node asks for the drain of instance %s"},
}

// IsIrrevocable reports whether EC2 takes the instance whatever happens: it withdraws no event of this kind.
func (k Kind) IsIrrevocable() bool { return kinds[k].irrevocable }

// ShortestNotice returns how long before it takes the instance AWS sends an event of the kind at least; zero if it
// sends none before, or the event can be compared with AWS's own schedule.
func (k Kind) ShortestNotice() time.Duration { return kinds[k].notice }

// Source returns the source of the events of EventBridge of a kind, their detail-types, of which each event has one,
// and what a rule requires of their detail besides. It returns none for kinds that need no action.
func (k Kind) Source() (source string, detailTypes []string, detail map[string]any) {
	return kinds[k].source, kinds[k].detailTypes, kinds[k].detail
}

// Events returns what events of the kind are called, such as "Spot interruptions".
func (k Kind) Events() string { return kinds[k].events }

// Says returns a format of what an event of the kind says of an instance, whose id is the argument; empty for a kind of
// which nothing can be said.
func (k Kind) Says() string { return kinds[k].says }

// Configured returns the kinds for which Config has an action, in the order of Kinds.
func Configured() (all []Kind) {
	for _, k := range Kinds() {
		if kinds[k].action != nil {
			all = append(all, k)
		}
	}
	return all
}

// Action returns the action for events of a kind, Ignore for kinds that are not configured.
func (c Config) Action(k Kind) Action {
	if action := kinds[k].action; action != nil {
		return action(c)
	}
	return Ignore
}
