package refresh

import (
	"testing"
	"time"
)

// TestConfirm: of a surge from 4 to 6, only what calls have added to the capacity is left to take back.
func TestConfirm(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	change := func(after time.Duration, from, to int, by ChangedBy) CapacityChange {
		return CapacityChange{noon.Add(after), from, to, by}
	}
	set := func(after time.Duration, from, to int) CapacityChange { return change(after, from, to, BySetDesired) }
	settled, doubted := Surge{From: 4, To: 6}, Surge{From: 4, To: 6, Raising: true, Before: 4, Since: noon}
	for name, tt := range map[string]struct {
		surge   Surge
		changes []CapacityChange
		left    int
	}{
		"raised":                          {settled, []CapacityChange{set(0, 4, 6)}, 2},
		"raised in steps":                 {settled, []CapacityChange{set(0, 4, 5), set(time.Hour, 5, 6)}, 2},
		"raised, and another client more": {settled, []CapacityChange{set(0, 4, 6), set(time.Hour, 6, 9)}, 2},
		"raised from less, and to more":   {settled, []CapacityChange{set(0, 2, 9)}, 2},
		"a part was raised":               {settled, []CapacityChange{set(0, 2, 5)}, 1},
		"named twice":                     {settled, []CapacityChange{set(0, 4, 5), set(0, 4, 5)}, 1},
		"by a policy":                     {settled, []CapacityChange{change(0, 4, 6, "")}, 0},
		"from Standby":                    {settled, []CapacityChange{change(0, 4, 5, ByExitStandby), change(0, 5, 6, ByExitStandby)}, 2},
		"a forged tag":                    {settled, nil, 0},
		"a tag of an earlier surge, which has ended":   {settled, []CapacityChange{set(0, 4, 6), change(time.Hour, 6, 4, "")}, 0},
		"of which a part has ended":                    {settled, []CapacityChange{set(0, 4, 6), change(time.Hour, 6, 5, "")}, 1},
		"and a policy has raised it again":             {settled, []CapacityChange{set(0, 4, 6), set(1, 6, 4), change(time.Hour, 4, 6, "")}, 0},
		"and it was raised again":                      {settled, []CapacityChange{set(0, 4, 6), set(1, 6, 4), set(2, 4, 6)}, 2},
		"all that there is":                            {Surge{From: 0, To: 1 << 30}, []CapacityChange{change(0, 0, 3, ""), set(1, 3, 4)}, 1},
		"the last call was made":                       {doubted, []CapacityChange{set(time.Second, 4, 6)}, 2},
		"and lowered after":                            {doubted, []CapacityChange{set(time.Second, 4, 6), set(time.Minute, 6, 5)}, 1},
		"by another client":                            {doubted, []CapacityChange{set(time.Second, 4, 7)}, 0},
		"to the same, in two steps":                    {doubted, []CapacityChange{set(time.Second, 4, 5), set(time.Minute, 5, 6)}, 0},
		"the same, long after":                         {doubted, []CapacityChange{set(time.Hour, 4, 6)}, 0},
		"the same, long before":                        {doubted, []CapacityChange{set(-time.Hour, 4, 6), set(-time.Hour, 6, 4), set(time.Minute, 4, 7)}, 0},
		"the clock is ahead":                           {doubted, []CapacityChange{set(-time.Minute, 4, 6), set(time.Minute, 6, 7)}, 2},
		"the second of two steps, which was not made":  {Surge{From: 4, To: 8, Raising: true, Before: 6, Since: noon}, []CapacityChange{set(-time.Hour, 4, 6), set(time.Hour, 6, 7)}, 2},
		"one that moves an instance out of Standby":    {doubted, []CapacityChange{change(time.Second, 4, 5, ByExitStandby)}, 1},
		"which another client has done long before it": {doubted, []CapacityChange{change(-time.Hour, 4, 5, ByExitStandby)}, 0},
	} {
		got := tt.surge.Confirm(tt.changes)
		if got.To-got.From != tt.left {
			t.Errorf("%s: %+v, want %d", name, got, tt.left)
		}
		if again := got.Confirm(tt.changes); again != got {
			t.Errorf("%s: %+v, and %+v when it is confirmed again", name, got, again)
		}
	}
	for _, desired := range []int{5, 6, 7} {
		if !doubted.InDoubt(desired) || doubted.InDoubt(4) || doubted.Left(Group{Desired: desired}) != 0 {
			t.Errorf("%d desired: in doubt: %t, left: %d", desired, doubted.InDoubt(desired), doubted.Left(Group{Desired: desired}))
		}
	}
}
