package awsim

import (
	"strconv"
	"time"
)

// Detail types of the events of an Instance Refresh.
const (
	RefreshStarted           = "EC2 Auto Scaling Instance Refresh Started"
	RefreshSucceeded         = "EC2 Auto Scaling Instance Refresh Succeeded"
	RefreshFailed            = "EC2 Auto Scaling Instance Refresh Failed"
	RefreshCancelled         = "EC2 Auto Scaling Instance Refresh Cancelled"
	RefreshCheckpoint        = "EC2 Auto Scaling Instance Refresh Checkpoint Reached"
	RefreshRollbackStarted   = "EC2 Auto Scaling Instance Refresh Rollback Started"
	RefreshRollbackSucceeded = "EC2 Auto Scaling Instance Refresh Rollback Succeeded"
	RefreshRollbackFailed    = "EC2 Auto Scaling Instance Refresh Rollback Failed"
)

// RefreshEvent is the event about an Instance Refresh; detailType is one of those above.
func RefreshEvent(e Envelope, detailType, group, refreshID string) string {
	return event(e, "aws.autoscaling", detailType, []string{e.groupARN(group)},
		map[string]any{"InstanceRefreshId": refreshID, "AutoScalingGroupName": group})
}

// CheckpointEvent is the event that a refresh has replaced a percentage of the instances, and pauses. AWS
// writes both numbers as strings.
func CheckpointEvent(e Envelope, group, refreshID string, percentage int, delay time.Duration) string {
	return event(e, "aws.autoscaling", RefreshCheckpoint, []string{e.groupARN(group)}, map[string]any{
		"InstanceRefreshId":    refreshID,
		"AutoScalingGroupName": group,
		"CheckpointPercentage": strconv.Itoa(percentage),
		"CheckpointDelay":      strconv.Itoa(seconds(delay)),
	})
}

// publishRefresh needs mu.
func (a eventBus) publishRefresh(f *refresh, detailType string) {
	message := RefreshEvent(a.envelope(), detailType, f.group.name, f.id)
	a.later(func() { a.publish(detailType, message) })
}

// publishCheckpoint needs mu.
func (a eventBus) publishCheckpoint(f *refresh, percentage int) {
	message := CheckpointEvent(a.envelope(), f.group.name, f.id, percentage, f.prefs.delay)
	a.later(func() { a.publish(RefreshCheckpoint, message) })
}
