package event

// The sources of the events that AWS puts on the event bus.
const (
	sourceGroups = "aws.autoscaling"
	sourceEC2    = "aws.ec2"
	sourceHealth = "aws.health"
	sourceAlarms = "aws.cloudwatch"
)

// origin is how events of a kind name themselves.
type origin struct {
	source      string
	detailTypes []string
}

// Source returns the source of the events of EventBridge of a kind, and their detail-types, of which each event has
// one. It returns none for kinds that need no action.
func Source(k Kind) (source string, detailTypes []string) {
	o := map[Kind]origin{
		LifecycleTerminating:            {sourceGroups, []string{terminateAction}},
		LifecycleLaunching:              {sourceGroups, []string{launchAction}},
		SpotInterruption:                {sourceEC2, []string{spotWarning}},
		RebalanceRecommendation:         {sourceEC2, []string{rebalance, rebalanceSpot}},
		StateChange:                     {sourceEC2, []string{stateChange}},
		CapacityReservationInterruption: {sourceEC2, []string{reservationWarning, reservationWarningOld}},
		CapacityBlockExpiration:         {sourceEC2, []string{blockWarning, blockWarningOld}},
		ScheduledChange:                 {sourceHealth, []string{healthEvent}},
		ScheduledChangeCanceled:         {sourceHealth, []string{healthEvent}},
		Alarm:                           {sourceAlarms, []string{alarmChange}},
		Request:                         {requestSource, []string{requestType}},
	}[k]
	return o.source, o.detailTypes
}
