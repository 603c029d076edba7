package refresh

import (
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// listed names the first five words, and how many more there are.
func listed(words []string) string { return text.First(words, 5) }

// days is a duration in days and hours, or more exactly if it is less than a day.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d < day {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
