package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/node-drainer/node-drainer/internal/report"
)

// States returns that every alarm is OK, but for one that is named ALARM, and that alarms are unreadable for the name
// denied.
func (fakeReads) States(_ context.Context, names []string) (map[string]string, error) {
	states := map[string]string{}
	for _, name := range names {
		switch states[name] = "OK"; name {
		case "ALARM":
			states[name] = name
		case "denied":
			return nil, errors.New("access denied")
		}
	}
	return states, nil
}

// TestAlarmsAreChecked: a refresh is not started with an alarm that is on. If alarms cannot be read, AWS decides.
func TestAlarmsAreChecked(t *testing.T) {
	t.Parallel()
	for alarm, tt := range map[string]struct {
		want        report.Outcome
		calls, note string
	}{
		"errors": {report.Done, "Start", ""},
		"ALARM":  {report.Refused, "", ""},
		"denied": {report.Done, "Start", "warn: alarms: AWS starts a refresh only when"},
	} {
		t.Run(alarm, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, cfg := newFakeAWS(3), defaults()
				cfg.Preferences.Alarms = []string{alarm}
				a.script = func(reads int) { succeedAt(3)(a, reads) }
				g := runGroup(t.Context(), t, cfg, a, nil)
				expect(t, g, tt.want)
				a.expectCalls(t, tt.calls)
				if !strings.Contains(notes(g), tt.note) {
					t.Errorf("the notes lack %q:\n%s", tt.note, notes(g))
				}
			})
		})
	}
}
