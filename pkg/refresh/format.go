package refresh

import (
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// list names the first five, and how many more there are.
func list(names []string) string { return text.First(names, 5) }

// days is a duration in days and hours, or more exactly if it is less than a day.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d < day {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
