package awsim

import (
	"testing"
	"time"
)

// TestScheduledChangeReplaces: a group replaces an instance itself that has a scheduled event, when its time has come.
func TestScheduledChangeReplaces(t *testing.T) {
	const kept, replaced = "2 InService v1", "2 InService v1, 1 Terminating:Wait v1"
	for name, row := range map[string]struct {
		suspend string
		end     func(f fleet, change string) error
		want    string // after the time of the event
	}{
		"at the time of the event":     {want: replaced},
		"it was canceled":              {end: func(f fleet, change string) error { return f.s.CancelChange(change) }, want: kept},
		"it was completed":             {end: func(f fleet, change string) error { return f.s.CompleteChange(change) }, want: kept},
		"HealthCheck suspended":        {suspend: "HealthCheck", want: kept},
		"ReplaceUnhealthy suspended":   {suspend: "ReplaceUnhealthy", want: kept},
		"another process is suspended": {suspend: "AZRebalance", want: replaced},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 2}, drainHook)
			if row.suspend != "" {
				f.call("SuspendProcesses", "ScalingProcesses.member.1", row.suspend)
			}
			change, err := f.s.ScheduleChange("instance-retirement", time.Now().Add(time.Hour), f.ids(stateInService)[0])
			f.must(err)
			elapse(59 * time.Minute)
			f.want(kept)
			if row.end != nil {
				f.must(row.end(f, change))
			}
			elapse(2 * time.Minute)
			f.want(row.want)
			if row.suspend != "" {
				f.call("ResumeProcesses")
				f.want(replaced)
			}
		})
	}
}
