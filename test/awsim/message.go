package awsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Transitions of a lifecycle hook, in the API's own words.
const (
	Launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	Terminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// Detail types of the events that this package makes.
const (
	LaunchAction        = "EC2 Instance-launch Lifecycle Action"
	TerminateAction     = "EC2 Instance-terminate Lifecycle Action"
	LaunchSuccessful    = "EC2 Instance Launch Successful"
	TerminateSuccessful = "EC2 Instance Terminate Successful"
	SpotWarning         = "EC2 Spot Instance Interruption Warning"
	RebalanceAdvice     = "EC2 Instance Rebalance Recommendation"
	StateChanged        = "EC2 Instance State-change Notification"
	HealthChanged       = "AWS Health Event"
	ReservationWarning  = "EC2 Capacity Reservation Instance Interruption Warning"
	AlarmChanged        = "CloudWatch Alarm State Change"
	BlockWarning        = "Capacity Block Reservation Expiration Warning"
)

// Envelope is the sender and the time of a message. Seed determines its ids and the order of its keys, which
// AWS does not define: one seed yields one message, byte for byte.
type Envelope struct {
	Account string
	Region  string
	At      time.Time
	Seed    uint64
}

// Notification is the content of a message about one lifecycle action.
type Notification struct {
	Token      string
	Group      string
	Hook       string
	InstanceID string
	Transition string
	// Action is what the group does to the instance; left out when it is empty, as in captures from before 2025.
	Action string
	// Metadata is left out of the message when it is empty, as AWS does.
	Metadata string
	// Origin and Destination are left out when they are empty: captures from before warm pools lack them.
	Origin      string
	Destination string
}

// DirectMessage is the notification as Auto Scaling puts it into a queue that is the hook's own target.
func DirectMessage(e Envelope, n Notification) string {
	r := e.rand()
	fields := n.fields()
	fields["Service"] = "AWS Auto Scaling"
	fields["Time"] = stamp(e.At)
	fields["RequestId"] = uuid(r)
	fields["AccountId"] = e.Account
	return jumble(r, fields)
}

// TestNotification is what PutLifecycleHook sends to the hook's target: it names neither token nor instance.
func TestNotification(e Envelope, group, groupARN string) string {
	r := e.rand()
	return jumble(r, map[string]any{
		"Service":              "AWS Auto Scaling",
		"Time":                 stamp(e.At),
		"RequestId":            uuid(r),
		"Event":                "autoscaling:TEST_NOTIFICATION",
		"AccountId":            e.Account,
		"AutoScalingGroupName": group,
		"AutoScalingGroupARN":  groupARN,
	})
}

// SNSMessage wraps a message as a topic does for a queue without raw message delivery.
func SNSMessage(e Envelope, topicARN, subject, inner string) string {
	r := e.rand()
	fields := map[string]any{
		"Type":             "Notification",
		"MessageId":        uuid(r),
		"TopicArn":         topicARN,
		"Message":          inner,
		"Timestamp":        stamp(e.At),
		"SignatureVersion": "1",
		"Signature":        "c2lnbmVkIGJ5IG5vYm9keQ==",
		"SigningCertURL":   fmt.Sprintf("https://sns.%s.amazonaws.com/SimpleNotificationService.pem", e.Region),
		"UnsubscribeURL": fmt.Sprintf("https://sns.%s.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=%s:%s",
			e.Region, topicARN, uuid(r)),
	}
	if subject != "" {
		fields["Subject"] = subject
	}
	return jumble(r, fields)
}

// EventBridgeMessage is the notification as an event of the account's bus.
func EventBridgeMessage(e Envelope, n Notification) string {
	detailType := TerminateAction
	if n.Transition == Launching {
		detailType = LaunchAction
	}
	return event(e, "aws.autoscaling", detailType, []string{e.groupARN(n.Group)}, n.fields())
}

// InstanceEvent is the event that an instance was launched or terminated; detailType is one of
// LaunchSuccessful and TerminateSuccessful.
func InstanceEvent(e Envelope, detailType, group, instanceID string) string {
	return event(e, "aws.autoscaling", detailType,
		[]string{e.groupARN(group), e.instanceARN(e.Region+":"+e.Account, instanceID)},
		map[string]any{
			"StatusCode":           "InProgress",
			"Description":          "Auto Scaling: " + detailType + ": " + instanceID,
			"AutoScalingGroupName": group,
			"EC2InstanceId":        instanceID,
			"StartTime":            stamp(e.At),
			"EndTime":              stamp(e.At),
		})
}

// SpotInterruption is the two-minute warning; action is terminate, stop or hibernate. Its resource ARN names
// the zone where others name the region, and no account.
func SpotInterruption(e Envelope, instanceID, zone, action string) string {
	return event(e, "aws.ec2", SpotWarning, []string{e.instanceARN(zone, instanceID)},
		map[string]any{"instance-id": instanceID, "instance-action": action})
}

// Rebalance is the advice that a Spot instance runs an elevated risk of interruption.
func Rebalance(e Envelope, instanceID, zone string) string {
	return event(e, "aws.ec2", RebalanceAdvice, []string{e.instanceARN(zone, instanceID)},
		map[string]any{"instance-id": instanceID})
}

// StateChange is the event that an instance is now pending, running, shutting-down, stopping, stopped or
// terminated.
func StateChange(e Envelope, instanceID, state string) string {
	return event(e, "aws.ec2", StateChanged, []string{e.instanceARN(e.Region+":"+e.Account, instanceID)},
		map[string]any{"instance-id": instanceID, "state": state})
}

// event takes any for resources, because AWS documents some of its events with a string there.
func event(e Envelope, source, detailType string, resources any, detail map[string]any) string {
	r := e.rand()
	return jumble(r, map[string]any{
		"version":     "0",
		"id":          uuid(r),
		"detail-type": detailType,
		"source":      source,
		"account":     e.Account,
		"time":        e.At.UTC().Format(time.RFC3339),
		"region":      e.Region,
		"resources":   resources,
		"detail":      json.RawMessage(jumble(r, detail)),
	})
}

func (n Notification) fields() map[string]any {
	fields := map[string]any{
		"LifecycleActionToken": n.Token,
		"AutoScalingGroupName": n.Group,
		"LifecycleHookName":    n.Hook,
		"EC2InstanceId":        n.InstanceID,
		"LifecycleTransition":  n.Transition,
	}
	for key, value := range map[string]string{
		"Action":               n.Action,
		"NotificationMetadata": n.Metadata,
		"Origin":               n.Origin,
		"Destination":          n.Destination,
	} {
		if value != "" {
			fields[key] = value
		}
	}
	return fields
}

func (e Envelope) rand() *rand.Rand { return rand.New(rand.NewPCG(e.Seed, 0)) }

func (e Envelope) instanceARN(place, instanceID string) string {
	return fmt.Sprintf("arn:aws:ec2:%s:instance/%s", place, instanceID)
}

// groupARN depends on the name of the group alone.
func (e Envelope) groupARN(group string) string {
	var seed uint64
	for _, b := range []byte(group) {
		seed = seed*31 + uint64(b)
	}
	return fmt.Sprintf("arn:aws:autoscaling:%s:%s:autoScalingGroup:%s:autoScalingGroupName/%s",
		e.Region, e.Account, uuid(rand.New(rand.NewPCG(seed, 2))), group)
}

func uuid(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(a>>32), uint16(a>>16), a&0xfff, 0x8000|(b>>48)&0x3fff, b&0xffffffffffff)
}

// stamp is the time as Auto Scaling and SNS write it: with milliseconds, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// jumble writes an object with its keys in an order that r decides, because AWS keeps none. It leaves out the escapes
// of <, > and & that only HTML needs: AWS sends none.
func jumble(r *rand.Rand, fields map[string]any) string {
	keys := sortedKeys(fields)
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encode := func(value any, then byte) {
		if err := encoder.Encode(value); err != nil {
			panic(fmt.Sprintf("awsim: design error: a message holds a value that JSON does not know: %v", err))
		}
		out.Bytes()[out.Len()-1] = then // In place of the encoder's end of line.
	}
	out.WriteByte('{')
	for _, key := range keys {
		encode(key, ':')
		encode(fields[key], ',')
	}
	out.Bytes()[out.Len()-1] = '}'
	return out.String()
}
