package refresh

import (
	"fmt"
	"math"
	"testing"
)

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Amount{
		"1": {N: 1}, "20": {N: 20}, "1%": {N: 1, Percent: true}, "20%": {N: 20, Percent: true}, "100%": {N: 100, Percent: true},
	} {
		if got, err := ParseAmount(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "0%", "-1", "+1", "1.5", "%", "101%", "2 %", " 2", "two", "2%%", "4294967296"} {
		if got, err := ParseAmount(text); err == nil || got != (Amount{}) {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestAmountOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		amount  Amount
		desired int
		want    int
	}{
		{"a number", Amount{N: 2}, 6, 2},
		{"never more than there are", Amount{N: 9}, 6, 6},
		{"a share is rounded down", Amount{N: 20, Percent: true}, 9, 1},
		{"a share that is a whole number", Amount{N: 20, Percent: true}, 10, 2},
		{"one at least", Amount{N: 1, Percent: true}, 6, 1},
		{"all", Amount{N: 100, Percent: true}, 7, 7},
		{"of nothing", Amount{N: 2}, 0, 0},
		{"no amount is one", Amount{}, 6, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.amount.Of(tt.desired); got != tt.want {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestPercentages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		desired  int
		surge    Amount
		strategy Strategy
		min, max int
	}{
		{"one of six", 6, Amount{N: 1}, LaunchFirst, 100, 117},
		{"one of six, terminated first", 6, Amount{N: 1}, TerminateFirst, 83, 100},
		{"one of one is not rounded away", 1, Amount{N: 1}, LaunchFirst, 100, 200},
		{"10% of one is one", 1, Amount{N: 10, Percent: true}, LaunchFirst, 100, 200},
		{"the only instance may be terminated first", 1, Amount{N: 1}, TerminateFirst, 0, 100},
		{"a share is sent as it is where it is enough", 6, Amount{N: 20, Percent: true}, LaunchFirst, 100, 120},
		{"a share of less than one is one", 3, Amount{N: 10, Percent: true}, LaunchFirst, 100, 134},
		{"more than there are is all", 3, Amount{N: 5}, LaunchFirst, 100, 200},
		{"more than there are is all, terminated first", 3, Amount{N: 5}, TerminateFirst, 0, 100},
		{"one of a thousand is one percent at least", 1000, Amount{N: 1}, LaunchFirst, 100, 101},
		{"a group of none", 0, Amount{N: 1}, LaunchFirst, 100, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if low, high := Percentages(tt.desired, tt.surge, tt.strategy); low != tt.min || high != tt.max {
				t.Errorf("got %d to %d", low, high)
			}
		})
	}
}

// TestPercentagesOfAllGroups: every surge of every group of up to a thousand is complete, within the API's limits, and no
// larger than whole percentages make it.
func TestPercentagesOfAllGroups(t *testing.T) {
	t.Parallel()
	for desired := 1; desired <= 1000; desired++ {
		for n := 1; n <= desired+1; n++ {
			checkPercentages(t, desired, Amount{N: n})
		}
		for n := 1; n <= 100; n++ {
			checkPercentages(t, desired, Amount{N: n, Percent: true})
		}
		if t.Failed() {
			return
		}
	}
}

func checkPercentages(t *testing.T, desired int, surge Amount) {
	t.Helper()
	want := surge.Of(desired)
	for _, strategy := range []Strategy{LaunchFirst, TerminateFirst} {
		low, high := Percentages(desired, surge, strategy)
		name := func() string {
			return fmt.Sprintf("%+v of %d, %s: %d to %d", surge, desired, strategy, low, high)
		}
		if low < 0 || low > 100 || high < 100 || high > 200 || high-low > 100 {
			t.Errorf("%s: the API does not allow that", name())
		}
		ahead := desired*high/100 - desired                                 // rounded down
		gone := desired - int(math.Ceil(float64(desired)*float64(low)/100)) // rounded up, as was documented
		got, other := ahead, gone
		if strategy == TerminateFirst {
			got, other = gone, ahead
		}
		if got < want || other != 0 || got > want+desired/100 && !surge.Percent {
			t.Errorf("%s: %d first, want %d; and %d on the other side", name(), got, want, other)
		}
	}
}
