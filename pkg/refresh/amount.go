package refresh

import (
	"fmt"
	"strconv"
	"strings"
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

// Of is the amount in instances, of a group that has so many: at least one, and at most all. Shares are
// rounded down.
func (a Amount) Of(desired int) int {
	n := a.N
	if a.Percent {
		n = desired * a.N / 100
	}
	return min(max(n, 1), desired)
}

// MaxHealthy is the MaxHealthyPercentage with which a refresh of so many instances launches surge of them before it
// terminates as many, if its MinHealthyPercentage is 100. It never rounds the surge to nothing, and is at most 200, as
// the API requires.
//
// How AWS rounds the maximum is not documented. The surge is complete even if AWS rounds down; if it rounds up, it may
// launch one instance more. In groups of more than 100 one percent is more than one instance, so that the surge may be
// larger by less than one percent.
func MaxHealthy(desired int, surge Amount) int {
	desired = max(desired, 1)
	percent := percentFor(surge.Of(desired), desired)
	if surge.Percent {
		percent = min(max(percent, surge.N), 100)
	}
	return 100 + percent
}

// percentFor is the smallest percentage that is at least n of so many instances, however AWS rounds.
func percentFor(n, of int) int { return (n*100 + of - 1) / of }
