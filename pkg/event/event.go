// Package event says what a notification from AWS tells: bytes in, events out. It is pure: it asks nobody,
// keeps nothing and trusts nothing. That a message parses says that it is well formed, not that it is true:
// whoever can write to the queue can forge one, so ask Auto Scaling or EC2 before a node is touched.
package event

import "time"

// Kind is what an event announces. Its values are fit for a metric label.
type Kind string

// The kinds of event. The first two belong to a lifecycle hook, which waits for an answer; TestNotification
// and Notice ask for nothing. Each names one instance, save those two and CapacityBlockExpiration.
const (
	// LifecycleTerminating: the instance waits in Terminating:Wait, or returns to the warm pool, until its
	// hook is completed (transition autoscaling:EC2_INSTANCE_TERMINATING).
	LifecycleTerminating Kind = "lifecycle-terminating"
	// LifecycleLaunching: the instance waits in Pending:Wait until its hook is completed (transition
	// autoscaling:EC2_INSTANCE_LAUNCHING).
	LifecycleLaunching Kind = "lifecycle-launching"
	// SpotInterruption: EC2 takes the Spot instance back within two minutes.
	SpotInterruption Kind = "spot-interruption"
	// RebalanceRecommendation: the Spot instance is at elevated risk of interruption.
	RebalanceRecommendation Kind = "rebalance-recommendation"
	// StateChange: the instance has reached Event.State.
	StateChange Kind = "state-change"
	// ScheduledChange: AWS Health announces maintenance of the instance, of the sort that Event.Code says.
	ScheduledChange Kind = "scheduled-change"
	// ScheduledChangeCanceled: AWS Health says that such a change of the instance is over: it was canceled, or
	// it has been done.
	ScheduledChangeCanceled Kind = "scheduled-change-canceled"
	// CapacityReservationInterruption: EC2 takes the instance's capacity back, at Event.Deadline.
	CapacityReservationInterruption Kind = "capacity-reservation-interruption"
	// CapacityBlockExpiration: the Capacity Block Event.ReservationID ends, and with it every instance in it.
	// Which ones these are only EC2 knows.
	CapacityBlockExpiration Kind = "capacity-block-expiration"
	// TestNotification is what Auto Scaling sends when a hook or a notification is configured.
	TestNotification Kind = "test-notification"
	// Notice is a notification from Auto Scaling, EC2 or Health that asks for nothing, such as "EC2 Instance
	// Terminate Successful" or the progress of an Instance Refresh.
	Notice Kind = "notice"
)

// Kinds returns every kind there is, so that a counter can start at zero for each.
func Kinds() []Kind {
	return []Kind{
		LifecycleTerminating, LifecycleLaunching, SpotInterruption, RebalanceRecommendation, StateChange,
		ScheduledChange, ScheduledChangeCanceled, CapacityReservationInterruption, CapacityBlockExpiration,
		TestNotification, Notice,
	}
}

// SpotNotice is how long before it interrupts a Spot instance EC2 says so (EC2 user guide, "Spot Instance
// interruption notices"). A hook does not lengthen it.
const SpotNotice = 2 * time.Minute

// ReservationNotice is how long before it terminates an instance in an interruptible Capacity Reservation EC2
// says so (EC2 user guide, "Monitor interruptible Capacity Reservations"). It goes for a warning that names
// no time.
const ReservationNotice = 2 * time.Minute

// BlockLead is how long before the end of a Capacity Block EC2 begins to terminate its instances (EC2 user
// guide, "Monitor Capacity Blocks using EventBridge").
const BlockLead = 30 * time.Minute

// Event is one fact about one instance, or about one Capacity Block. It compares with ==, save that instants
// want time.Time.Equal.
type Event struct {
	Kind Kind

	// ID is the EventBridge id or Auto Scaling's RequestId, for logs. It is no key: one lifecycle action may
	// be told under many ids, and an id may be missing.
	ID string

	// InstanceID has the form i-[0-9a-f]{8,17}; it is empty for TestNotification, Notice and
	// CapacityBlockExpiration, never else.
	InstanceID string

	// ReservationID has the form cr-[0-9a-f]{8,17} for CapacityBlockExpiration; else it is empty.
	ReservationID string

	// At is the event's own time in UTC; zero when the message has none, which only Auto Scaling's direct form
	// may lack.
	At time.Time

	// Deadline is when the instance goes whatever we do: two minutes after At for SpotInterruption, the start
	// of the change for ScheduledChange; the termination time of CapacityReservationInterruption, or two
	// minutes after At; BlockLead before the end for CapacityBlockExpiration; else zero. What a hook allows is
	// not in the message: ask Auto Scaling.
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

	// Origin and Destination tell a lifecycle action that passes the warm pool from one that does not. They
	// are empty in messages from before warm pools.
	Origin, Destination Place

	// AccountID is the account that sent the message, as the message says.
	AccountID string

	// Region is empty unless the message came through EventBridge.
	Region string
}

// Hook names one lifecycle action of one instance, as CompleteLifecycleAction and
// RecordLifecycleActionHeartbeat want it: group and name, and the token or else the instance.
type Hook struct {
	// Group and Name are never empty and have at most 255 characters.
	Group, Name string

	// Token is the action's; it may be empty, then the instance id takes its place. The direct and the
	// EventBridge form of one action carry the same token.
	Token string

	// Metadata is the NotificationMetadata that the hook was made with: the user's own text, often JSON.
	Metadata string
}

// Place is where an instance comes from or goes to in a lifecycle action.
type Place string

// The places (EC2 Auto Scaling user guide, "Warm pool event types and event patterns").
const (
	PlaceEC2      Place = "EC2"
	PlaceGroup    Place = "AutoScalingGroup"
	PlaceWarmPool Place = "WarmPool"
)
