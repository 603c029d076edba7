package refresh

import (
	"fmt"
	"strings"
	"time"
)

// count is a number of things, in words.
func count(n int, thing string) string { return number(n, thing, thing+"s") }

// number is a number of things, in the words for one and for many.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// listed joins what is to be read by people, and leaves out what would be too much.
func listed(words []string) string {
	const most = 5
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}

// days is a duration in days and hours, or more exactly if it is less than a day.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d < day {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
