package refresh

import (
	"fmt"
	"strconv"
	"strings"
)

// Strategy is which comes first, the new instance or the end of the old one.
type Strategy string

// The strategies.
const (
	LaunchFirst    Strategy = "launch-first"
	TerminateFirst Strategy = "terminate-first"
)

// Amount is a number of instances, or a share of them: "2" or "20%".
type Amount struct {
	N       int
	Percent bool
}

// ParseAmount reads "2" or "20%". Both must be positive, and a share is no more than 100%.
func ParseAmount(text string) (Amount, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 || percent && n > 100 {
		return Amount{}, fmt.Errorf("%q is neither a number of instances, like 2, nor a share, like 20%%", text)
	}
	return Amount{N: int(n), Percent: percent}, nil
}

// Of is how many of so many instances the amount is: one at least, and never more than there are. Shares are
// rounded down.
func (a Amount) Of(desired int) int {
	n := a.N
	if a.Percent {
		n = desired * a.N / 100
	}
	return min(max(n, 1), desired)
}

// Percentages are the least and the most percentage of healthy instances by which a refresh of so many
// instances launches surge of them beforehand (LaunchFirst: 100 and more than 100), or terminates them
// beforehand (TerminateFirst: less than 100, and 100). They never round the surge away, and stay within what
// the API allows: 0 to 100, 100 to 200, no more than 100 apart.
//
// AWS rounds the least number of instances up: so an earlier text of RefreshPreferences said. How it rounds
// the most is not documented. The surge comes out whole even if that is rounded down; if it is rounded up,
// one instance more may be launched. In groups of more than 100 one percent is more than one instance, so
// that the surge may be larger by less than one percent.
//
// TerminateFirst says 100 explicitly. RefreshPreferences has Auto Scaling launch first nevertheless if both
// bounds cannot be kept at once; here they can, since one instance at least may go. To leave it out would
// have the group's own maintenance policy decide.
func Percentages(desired int, surge Amount, strategy Strategy) (minHealthy, maxHealthy int) {
	desired = max(desired, 1)
	percent := percentFor(surge.Of(desired), desired)
	if surge.Percent {
		percent = min(max(percent, surge.N), 100)
	}
	if strategy == TerminateFirst {
		return 100 - percent, 100
	}
	return 100, 100 + percent
}

// percentFor is the least percentage that makes n of so many instances, or more, however it is rounded.
func percentFor(n, of int) int { return (n*100 + of - 1) / of }
