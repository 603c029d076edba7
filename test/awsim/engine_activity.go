package awsim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// history is what has happened to a group: the activities, oldest first, and the causes that none of them names yet.
type history struct {
	activities []activity
	causes     []string
}

// activity is a launch or a termination, to reach the desired capacity.
type activity struct {
	description string
	cause       string
	started     time.Time
}

// changed records a cause. The sentences are those of examples in the documentation of AWS: "Verify a scaling activity
// for an Auto Scaling group" in the user guide, and Get-ASScalingActivity. That an activity names every change since
// Auto Scaling looked at the group last, and not only the last one, is an assumption. So is that it names no change
// that was undone before an instance was launched or terminated.
func (h *history) changed(format string, args ...any) {
	at := time.Now().UTC().Format(time.RFC3339)
	h.causes = append(h.causes, fmt.Sprintf("At "+at+" "+format+".", args...))
}

// began records an activity, whose cause ends with the given sentence. Causes end after 1,023 characters: Activity in
// the API reference.
func (h *history) began(description, format string, args ...any) {
	before := h.causes
	h.changed(format, args...)
	cause := strings.Join(h.causes, "  ")
	h.causes = before
	h.activities = append(h.activities, activity{description, cause[:min(len(cause), 1023)], time.Now()})
}

// resized records the activity of one instance by which a call of a user has changed the desired capacity. The
// sentences are those of examples in the API reference: EnterStandby, ExitStandby, TerminateInstanceInAutoScalingGroup.
func (h *history) resized(description, format string, args ...any) {
	now := time.Now()
	cause := fmt.Sprintf("At "+now.UTC().Format(time.RFC3339)+" "+format+".", args...)
	h.activities = append(h.activities, activity{description, cause, now})
}

// describeScalingActivities lists the activities of a group, the newest first, all of them on one page. Of the filters,
// only the one for the earliest start is simulated.
func (a groupAPI) describeScalingActivities(r *reader) (any, error) {
	since := time.Time{}
	for _, f := range r.filters() {
		t, err := time.Parse(time.RFC3339, strings.Join(f.values, ","))
		if f.name != "StartTimeLowerBound" || err != nil {
			r.fail(errorf("ValidationError", "awsim does not simulate the filter %s=%q", f.name, f.values))
		}
		since = t
	}
	return r.viewGroup(a.engine, func(g *group) (any, error) {
		var out activitiesXML
		for _, one := range slices.Backward(g.activities) {
			if !one.started.Before(since) {
				out.Activities = append(out.Activities, activityXML{
					g.name, one.description, one.cause, one.started.UTC().Format(time.RFC3339Nano),
				})
			}
		}
		return out, nil
	})
}
