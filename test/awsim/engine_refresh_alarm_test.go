package awsim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A refresh starts only when its alarms are OK. One that fires later fails it, and rolls it back if that was asked for;
// one with insufficient data halts it.
func TestRefreshWithAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, launchHook)
		withAlarm := []string{"AlarmSpecification.Alarms.member.1", "errors", "SkipMatching", "true", "MinHealthyPercentage", "50"}
		for _, state := range []string{AlarmFires, AlarmInsufficientData} {
			f.s.SetAlarm("errors", state)
			if _, err := f.try("StartInstanceRefresh", "Preferences.AlarmSpecification.Alarms.member.1", "errors"); err == nil {
				t.Errorf("started although the alarm is in the state %s", state)
			}
		}
		f.s.SetAlarm("errors", AlarmOK)
		f.s.SetAlarm("others", AlarmFires)
		f.refresh(withAlarm...)
		f.s.SetAlarm("errors", AlarmInsufficientData)
		f.answer("Pending:Wait", "ready", resume)
		elapse(3 * time.Hour)
		if got := f.now(); got.Status != refreshInProgress || !strings.Contains(got.Reason, "errors has insufficient data") {
			t.Errorf("halted: %+v", got)
		}
		f.s.SetAlarm("errors", AlarmFires)
		if got := f.ends(refreshFailed); !strings.Contains(got.Reason, "errors is in the state ALARM") {
			t.Errorf("failed: %+v", got)
		}
	})
}
