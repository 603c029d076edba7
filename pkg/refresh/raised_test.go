package refresh

import (
	"testing"
	"time"
)

// TestConfirm: of a surge from 4 to 6 that was being raised at noon, only the change that the trigger meant to make is
// left to take back.
func TestConfirm(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	change := func(after time.Duration, from, to int) CapacityChange {
		return CapacityChange{noon.Add(after), from, to}
	}
	for name, tt := range map[string]struct {
		desired int
		changes []CapacityChange
		want    Surge
	}{
		"raised":                                       {6, []CapacityChange{change(time.Second, 4, 6)}, Surge{From: 4, To: 6}},
		"raised, and changed after":                    {7, []CapacityChange{change(time.Second, 4, 6), change(time.Minute, 6, 7)}, Surge{From: 4, To: 6}},
		"raised, and lowered after":                    {5, []CapacityChange{change(time.Second, 4, 6), change(time.Minute, 6, 5)}, Surge{From: 4, To: 6}},
		"raised by another client":                     {7, []CapacityChange{change(time.Second, 4, 7)}, Surge{From: 4, To: 4}},
		"to the same, in two steps":                    {6, []CapacityChange{change(time.Second, 4, 5), change(time.Minute, 5, 6)}, Surge{From: 4, To: 4}},
		"to the same, by a termination":                {6, []CapacityChange{change(time.Second, 4, 7)}, Surge{From: 4, To: 4}},
		"the same, long after":                         {6, []CapacityChange{change(time.Hour, 4, 6)}, Surge{From: 4, To: 4}},
		"the same, long before":                        {7, []CapacityChange{change(-time.Hour, 4, 6), change(time.Minute, 4, 7)}, Surge{From: 4, To: 4}},
		"the clock is ahead":                           {7, []CapacityChange{change(-time.Minute, 4, 6), change(time.Minute, 6, 7)}, Surge{From: 4, To: 6}},
		"raised, and AWS names none":                   {6, nil, Surge{From: 4, To: 6}},
		"changed, and AWS names none, as for a policy": {7, nil, Surge{From: 4, To: 4}},
	} {
		s := Surge{From: 4, To: 6, Raising: true, Before: 4, Since: noon}
		if !s.InDoubt(tt.desired) || s.InDoubt(4) || s.Left(Group{Desired: tt.desired}) != 0 {
			t.Errorf("%s: in doubt: %t, left: %d", name, s.InDoubt(tt.desired), s.Left(Group{Desired: tt.desired}))
		}
		if got := s.Confirm(tt.desired, tt.changes); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	step := Surge{From: 4, To: 8, Raising: true, Before: 6, Since: noon}
	if got := step.Confirm(7, nil); got != (Surge{From: 4, To: 6}) {
		t.Errorf("a second step that was not made: %+v", got)
	}
}
