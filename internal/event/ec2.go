package event

// The detail-types of source aws.ec2 that are parsed (EC2 user guide, "Automate Amazon EC2 using
// EventBridge", "Monitor interruptible Capacity Reservations", "Monitor Capacity Blocks using EventBridge").
// Three of them have been documented under two names; both are parsed.
const (
	spotWarning           = "EC2 Spot Instance Interruption Warning"
	rebalance             = "EC2 Instance Rebalance Recommendation"
	rebalanceSpot         = "EC2 Spot Instance Rebalance Recommended"
	stateChange           = "EC2 Instance State-change Notification"
	reservationWarning    = "EC2 Capacity Reservation Instance Interruption Warning"
	reservationWarningOld = "EC2 Interruptible Capacity Reservation Instance Interruption Warning"
	blockWarning          = "Capacity Block Expiration Warning"
	blockWarningOld       = "Capacity Block Reservation Expiration Warning"
)

// fromEC2 reads an event of source aws.ec2. The instance is taken from the detail, never from resources,
// where a Spot interruption has an ARN with a zone for a Region and without an account.
func fromEC2(detailType string, detail *fields, e Event) (Event, error) {
	switch detailType {
	case spotWarning:
		e.Kind = SpotInterruption
		e.State = detail.word("instance-action")
		e.Deadline = e.At.Add(SpotNotice)
	case reservationWarning, reservationWarningOld:
		e.Kind = CapacityReservationInterruption
		e.State = detail.word("instance-action")
		e.Deadline = detail.iso("instance-termination-time", e.At.Add(ReservationNotice))
	case rebalance, rebalanceSpot:
		e.Kind = RebalanceRecommendation
	case stateChange:
		e.Kind = StateChange
		e.State = detail.word("state")
	case blockWarning, blockWarningOld:
		return fromBlock(detail, e)
	default:
		return e, nil
	}
	e.InstanceID = detail.instance("instance-id")
	if detail.err != nil {
		return Event{}, detail.err
	}
	return e, nil
}

// fromBlock reads the warning that a Capacity Block ends. EC2 sends it 40 minutes before the end, which is 10
// minutes before it terminates the instances. So the end is known even if the warning does not name it.
func fromBlock(detail *fields, e Event) (Event, error) {
	e.Kind = CapacityBlockExpiration
	e.ReservationID = detail.id("capacity-reservation-id", "cr-")
	e.Deadline = detail.iso("end-date", e.At.Add(BlockNotice+BlockLead)).Add(-BlockLead)
	if detail.err != nil {
		return Event{}, detail.err
	}
	return e, nil
}
