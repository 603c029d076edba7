package refresh

import (
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
		name          string
		amount        Amount
		desired, want int
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
		if got := tt.amount.Of(tt.desired); got != tt.want {
			t.Errorf("%s: got %d", tt.name, got)
		}
	}
}

func TestMaxHealthy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		desired int
		surge   Amount
		want    int
	}{
		{"one of six", 6, Amount{N: 1}, 117},
		{"a share is sent as it is where it is enough", 6, Amount{N: 20, Percent: true}, 120},
		{"a share of less than one is one", 3, Amount{N: 10, Percent: true}, 134},
		{"a group of none", 0, Amount{N: 1}, 200},
	} {
		if got := MaxHealthy(tt.desired, tt.surge); got != tt.want {
			t.Errorf("%s: got %d", tt.name, got)
		}
	}
}

// TestMaxHealthyOfAllGroups: every surge of every group of up to a thousand is complete, within the API's limits, and no
// larger than whole percentages make it.
func TestMaxHealthyOfAllGroups(t *testing.T) {
	t.Parallel()
	for desired := 1; desired <= 1000 && !t.Failed(); desired++ {
		for n := 1; n <= max(desired+1, 100); n++ {
			checkMaxHealthy(t, desired, Amount{N: n})
			checkMaxHealthy(t, desired, Amount{N: min(n, 100), Percent: true})
		}
	}
}

func checkMaxHealthy(t *testing.T, desired int, surge Amount) {
	t.Helper()
	want, most := surge.Of(desired), MaxHealthy(desired, surge)
	got := desired*most/100 - desired // rounded down
	if most <= 100 || most > 200 || got < want || got > want+desired/100 && !surge.Percent {
		t.Errorf("%+v of %d: %d %%: %d more, want %d", surge, desired, most, got, want)
	}
}
