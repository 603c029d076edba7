package awsim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// ReservationInterruption warns that an instance in a Capacity Reservation is terminated at the given time.
// Its resources are one string, as in AWS's own sample. market is one of the capacity markets.
func ReservationInterruption(e Envelope, instanceID, zone string, market Market, at time.Time) string {
	detail := map[string]any{
		"instance-id":               instanceID,
		"instance-action":           "terminate",
		"instance-termination-time": at.UTC().Format(time.RFC3339),
	}
	if market == CapacityBlock {
		detail["instance-lifecycle"], detail["availability-zone-id"] = string(market), zone
	} else {
		detail["azId"] = zone
	}
	return event(e, "aws.ec2", ReservationWarning, e.instanceARN(e.Region+":"+e.Account, instanceID), detail)
}

// BlockExpiration warns that a Capacity Block ends. AWS sends it 40 minutes before, and begins to terminate
// the instances 10 minutes later.
func BlockExpiration(e Envelope, reservationID string, end time.Time) string {
	arn := fmt.Sprintf("arn:aws:ec2:%s:%s:capacity-reservation/%s", e.Region, e.Account, reservationID)
	return event(e, "aws.ec2", BlockWarning, []string{arn}, map[string]any{
		"capacity-reservation-id": reservationID,
		"end-date":                end.UTC().Format(time.RFC3339),
	})
}

// AlarmChange is the event that an alarm on a metric of the instance is in another state.
func AlarmChange(e Envelope, name, instanceID, state string) string {
	arn := fmt.Sprintf("arn:aws:cloudwatch:%s:%s:alarm:%s", e.Region, e.Account, name)
	return event(e, "aws.cloudwatch", AlarmChanged, []string{arn}, map[string]any{
		"alarmName": name,
		"configuration": map[string]any{"metrics": []map[string]any{{
			"id": uuid(rand.New(rand.NewPCG(e.Seed, 1))),
			"metricStat": map[string]any{
				"metric": map[string]any{
					"namespace": "AWS/EC2", "name": "StatusCheckFailed_Instance",
					"dimensions": map[string]string{"InstanceId": instanceID},
				},
				"period": 60, "stat": "Maximum",
			},
			"returnData": true,
		}}},
		"previousState": map[string]any{"value": "OK", "timestamp": stamp(e.At)},
		"state":         map[string]any{"value": state, "timestamp": stamp(e.At), "reason": "Threshold Crossed"},
	})
}

// MaintenanceEvent is AWS Health's event about a reboot of instances that is scheduled.
func MaintenanceEvent(e Envelope, start time.Time, instanceIDs ...string) string {
	code := changeCodes()["system-reboot"]
	return healthEvent(e, &scheduledChange{
		arn: e.healthARN(code), healthCode: code, start: start, instanceIDs: instanceIDs,
	})
}

// healthEvent is AWS Health's event with the current state of a scheduled change.
func healthEvent(e Envelope, change *scheduledChange) string {
	const layout = "Mon, 2 Jan 2006 15:04:05 GMT"
	status, entityStatus := "upcoming", "PENDING"
	if change.closed {
		status, entityStatus = "closed", "RESOLVED"
	}
	affected := make([]map[string]any, 0, len(change.instanceIDs))
	for _, id := range change.instanceIDs {
		affected = append(affected, map[string]any{
			"entityValue": id, "lastUpdatedTime": e.At.UTC().Format(layout), "status": entityStatus,
		})
	}
	return event(e, "aws.health", HealthChanged, change.instanceIDs, map[string]any{
		"eventArn":          change.arn,
		"service":           "EC2",
		"eventTypeCode":     change.healthCode,
		"eventTypeCategory": "scheduledChange",
		"eventScopeCode":    "ACCOUNT_SPECIFIC",
		"statusCode":        status,
		"eventRegion":       e.Region,
		"affectedAccount":   e.Account,
		"startTime":         change.start.UTC().Format(layout),
		"endTime":           change.start.UTC().Add(time.Hour).Format(layout),
		"lastUpdatedTime":   e.At.UTC().Format(layout),
		"page":              "1",
		"totalPages":        "1",
		"eventDescription": []map[string]any{
			{"language": "en_US", "latestDescription": "An instance is scheduled for maintenance."},
		},
		"affectedEntities": affected,
	})
}

func (e Envelope) healthARN(eventTypeCode string) string {
	return fmt.Sprintf("arn:aws:health:%s::event/EC2/%s/%s_%s",
		e.Region, eventTypeCode, eventTypeCode, uuid(rand.New(rand.NewPCG(e.Seed, 1))))
}
