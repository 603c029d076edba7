package awsim

import "time"

// The states of a CloudWatch alarm.
const (
	AlarmOK               = "OK"
	AlarmFires            = "ALARM"
	AlarmInsufficientData = "INSUFFICIENT_DATA"
)

// SetAlarm sets the state of a CloudWatch alarm. One whose state was not set is OK.
func (s AutoScaling) SetAlarm(name, state string) {
	s.asg.update(func() {
		s.asg.alarms[name] = state
		for _, g := range s.asg.groups {
			s.asg.capacity.reconcile(g)
		}
	})
}

// alarms are the states of CloudWatch alarms, by name. One that is not there is OK.
type alarms map[string]string

// in returns the first of the names whose alarm is in a state, or "".
func (a alarms) in(names []string, states ...string) string {
	for _, name := range names {
		if contains(states, a[name]) {
			return name
		}
	}
	return ""
}

// check refuses a refresh one of whose alarms is not OK. The text is a guess.
func (a alarms) check(names []string) error {
	if name := a.in(names, AlarmFires, AlarmInsufficientData); name != "" {
		return errorf("ValidationError", "The CloudWatch alarm %s is in the state %s. An instance refresh can start only "+
			"when all of its alarms are in the state OK.", name, a[name])
	}
	return nil
}

// mayContinue reports whether the alarms of the refresh let it continue. One that fires fails it, and one with
// insufficient data halts it. A rollback goes on. It needs mu.
func (a alarms) mayContinue(e refreshEngine, f *refresh) bool {
	if f.rollback != nil {
		return true
	}
	if name := a.in(f.prefs.alarms, AlarmFires); name != "" {
		e.fail(f, "the CloudWatch alarm "+name+" is in the state ALARM")
		return false
	}
	name := a.in(f.prefs.alarms, AlarmInsufficientData)
	if name != "" {
		f.paused, f.wakeAt = true, time.Time{}
		f.reason = "Waiting because the CloudWatch alarm " + name + " has insufficient data."
	}
	return name == ""
}
