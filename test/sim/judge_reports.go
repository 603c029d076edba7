package sim

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// mostRepeated is how often an agent may say the same in repeatedIn, but for failures, which are retried with pauses.
const mostRepeated, repeatedIn = 12, 10 * time.Minute

// repetitions finds what is said again and again.
type repetitions map[string][]time.Time

// add adds what is said, and reports whether that is too often.
func (r repetitions) add(said string, at time.Time) (tooOften bool) {
	r[said] = append(r[said], at)
	n := len(r[said])
	return n > mostRepeated && at.Sub(r[said][n-1-mostRepeated]) < repeatedIn
}

// nothingRepeated: an agent does not say the same again and again, in its log or in Events.
func (j *judge) nothingRepeated() {
	said := repetitions{}
	for _, l := range j.log.all() {
		isOfAgent := strings.HasPrefix(l.text, "{") && !strings.Contains(l.text, `"error":`)
		if isOfAgent && said.add(l.who+" "+l.text, l.at) {
			j.violate("nothing repeated", l.at, "%s logs again and again: %s", l.who, l.text)
			return
		}
	}
	for _, c := range j.clusters {
		for _, change := range c.of("events") {
			e, ok := change.New.(*corev1.Event)
			if !ok {
				continue
			}
			text := fmt.Sprintf("%s %s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
			if said.add(text, change.At) {
				j.violate("nothing repeated", change.At, "%s writes the same Event again and again: %s", change.Actor, text)
				return
			}
		}
	}
}
