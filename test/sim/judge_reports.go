package sim

import (
	"strings"
	"time"
)

// mostRepeated is how often an agent may log the same line in repeatedIn, but for failures, which are retried with
// pauses.
const mostRepeated, repeatedIn = 12, 10 * time.Minute

// nothingRepeated: an agent does not say the same again and again.
func (j *judge) nothingRepeated() {
	said := map[string][]time.Time{}
	for _, l := range j.log.all() {
		if !strings.HasPrefix(l.text, "{") || strings.Contains(l.text, `"error":`) {
			continue
		}
		key := l.who + " " + l.text
		said[key] = append(said[key], l.at)
		if n := len(said[key]); n > mostRepeated && l.at.Sub(said[key][n-1-mostRepeated]) < repeatedIn {
			j.violate("nothing repeated", l.at, "%s logged so for the %d. time: %s", l.who, n, l.text)
			return
		}
	}
}
