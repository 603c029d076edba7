// Package event parses notifications from AWS: bytes in, events out. It is pure: it makes no calls and keeps
// no state. A message that parses is well formed, but may be forged by whoever can write to the queue, so
// verify an event with Auto Scaling or EC2 before touching a node.
package event

import "time"

// Kind is what an event announces. Its values can be used as metric labels.
type Kind string

// The kinds of event. The first two belong to a lifecycle hook, which waits to be completed; TestNotification
// and Notice need no action. Each names one instance, except those two and CapacityBlockExpiration.
const (
	// LifecycleTerminating: the instance waits in Terminating:Wait, or returns to the warm pool, until its
	// hook is completed (transition autoscaling:EC2_INSTANCE_TERMINATING).
	LifecycleTerminating Kind = "lifecycle-terminating"
	// LifecycleLaunching: the instance waits in Pending:Wait until its hook is completed (transition
	// autoscaling:EC2_INSTANCE_LAUNCHING).
	LifecycleLaunching Kind = "lifecycle-launching"
	// SpotInterruption: EC2 interrupts the Spot instance in two minutes.
	SpotInterruption Kind = "spot-interruption"
	// RebalanceRecommendation: the Spot instance is at elevated risk of interruption.
	RebalanceRecommendation Kind = "rebalance-recommendation"
	// StateChange: the instance has reached Event.State.
	StateChange Kind = "state-change"
	// ScheduledChange: AWS Health announces maintenance of the instance; Event.Code is its type.
	ScheduledChange Kind = "scheduled-change"
	// ScheduledChangeCanceled: AWS Health reports that such a change of the instance has ended: it was canceled,
	// or completed.
	ScheduledChangeCanceled Kind = "scheduled-change-canceled"
	// CapacityReservationInterruption: EC2 reclaims the instance's capacity at Event.Deadline.
	CapacityReservationInterruption Kind = "capacity-reservation-interruption"
	// CapacityBlockExpiration: the Capacity Block Event.ReservationID ends, and all instances in it are
	// terminated. The event does not name them; EC2 does.
	CapacityBlockExpiration Kind = "capacity-block-expiration"
	// Alarm: the CloudWatch alarm Event.Alarm, whose metrics are those of the instance alone, is in the state ALARM.
	Alarm Kind = "alarm"
	// TestNotification is what Auto Scaling sends when a hook or a notification is configured.
	TestNotification Kind = "test-notification"
	// Notice is a notification from Auto Scaling, EC2 or Health that needs no action, such as "EC2 Instance
	// Terminate Successful" or the progress of an Instance Refresh.
	Notice Kind = "notice"
)

// DrainRequested is a kind that no message has: an annotation of the Node asks for its drain.
const DrainRequested Kind = "drain-requested"

// Kinds returns all kinds that messages have, so that a counter can start at zero for each.
func Kinds() []Kind {
	return []Kind{
		LifecycleTerminating, LifecycleLaunching, SpotInterruption, RebalanceRecommendation, StateChange,
		ScheduledChange, ScheduledChangeCanceled, CapacityReservationInterruption, CapacityBlockExpiration,
		Alarm, TestNotification, Notice,
	}
}

// SpotNotice is the time between the notice and the interruption of a Spot instance (EC2 user guide, "Spot
// Instance interruption notices"). A hook does not extend it.
const SpotNotice = 2 * time.Minute

// ReservationNotice is the time between the warning and the termination of an instance in an interruptible
// Capacity Reservation (EC2 user guide, "Monitor interruptible Capacity Reservations"). It applies to a
// warning without a termination time.
const ReservationNotice = 2 * time.Minute

// BlockLead is how long before the end of a Capacity Block EC2 starts to terminate its instances (EC2 user
// guide, "Monitor Capacity Blocks using EventBridge").
const BlockLead = 30 * time.Minute

// BlockNotice is the time between the warning that a Capacity Block ends and the termination of its instances. EC2
// sends the warning 40 minutes before the end (EC2 user guide, "Monitor Capacity Blocks using EventBridge").
const BlockNotice = 40*time.Minute - BlockLead

// Event is one fact about one instance, or about one Capacity Block. It can be compared with ==, except for
// its times, which need time.Time.Equal.
type Event struct {
	Kind Kind

	// ID is the EventBridge id or Auto Scaling's RequestId, for logs. It is not unique: one
	// lifecycle action may have many ids, and an id may be missing.
	ID string

	// InstanceID has the form i-[0-9a-f]{8,17}; it is empty for TestNotification, Notice and
	// CapacityBlockExpiration only.
	InstanceID string

	// ReservationID has the form cr-[0-9a-f]{8,17} for CapacityBlockExpiration; otherwise it is empty.
	ReservationID string

	// At is the event's time in UTC. Only Auto Scaling's direct form may have none; then it is zero.
	At time.Time

	// Found: the lifecycle action was found without a message that says when it began, or whose time is not believed.
	// Parse leaves it false.
	Found bool

	// Seen is when the agent first saw the event. Parse leaves it zero.
	Seen time.Time

	// Deadline is when the instance is terminated in any case: two minutes after At for SpotInterruption, the
	// start of the change for ScheduledChange; the termination time of CapacityReservationInterruption, or two
	// minutes after At; BlockLead before the end for CapacityBlockExpiration; otherwise zero. The timeout of a
	// hook is not in the message; read it from Auto Scaling.
	Deadline time.Time

	// Hook is that of the two lifecycle kinds; zero for the others.
	Hook Hook

	// State is the EC2 state of StateChange (pending, running, shutting-down, stopped, stopping, terminated)
	// and the instance-action of SpotInterruption (terminate, stop, hibernate) and
	// CapacityReservationInterruption (terminate), as sent.
	State string

	// Code is the eventTypeCode of the two kinds from AWS Health, for example
	// AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED, as sent; it may be empty.
	Code string

	// Alarm is the name of the CloudWatch alarm; empty for all kinds but Alarm.
	Alarm string

	// Origin and Destination show whether the instance comes from the warm pool or enters it. They are empty in
	// messages of Auto Scaling from before it had warm pools.
	Origin, Destination Place

	// Action is what Auto Scaling does to the instance, as sent: ReplaceRootVolume, or for example Launch. It is
	// empty in older messages.
	Action string

	// AccountID is the account that the message names as its sender.
	AccountID string

	// Region is empty unless the message came through EventBridge.
	Region string

	// Sender is the message's SenderId in SQS, for logs. Parse leaves it empty.
	Sender string
}

// Hook identifies one lifecycle action of one instance, as CompleteLifecycleAction and
// RecordLifecycleActionHeartbeat require: by group and name, and the token or the instance.
type Hook struct {
	// Group and Name are never empty and have at most 255 characters.
	Group, Name string

	// Token identifies the action. If it is empty, the instance id does. The direct and the EventBridge form of
	// one action have the same token.
	Token string

	// Metadata is the NotificationMetadata of the hook: text of the user, often JSON.
	Metadata string
}

// ReplaceRootVolume is the Event.Action of an instance that is not terminated after its terminating hook, but
// boots from a new root volume. A launching hook may hold it afterwards (EC2 Auto Scaling user guide, "Replace
// root volumes during instance refresh").
const ReplaceRootVolume = "ReplaceRootVolume"

// Place is the origin or the destination of an instance in a lifecycle action.
type Place string

// The places (EC2 Auto Scaling user guide, "Warm pool event types and event patterns").
const (
	PlaceEC2      Place = "EC2"
	PlaceGroup    Place = "AutoScalingGroup"
	PlaceWarmPool Place = "WarmPool"
)
