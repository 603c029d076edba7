package agent

import "time"

// starts is how often a step has started since a time, less than firstPause ago.
type starts struct {
	first time.Time
	n     int
}

// mostStarts is how often a step may start within firstPause. A step that ends without an error, and follows again from
// what is known, would else start without end.
const mostStarts = 10

// again counts one more start.
func (s starts) again() starts {
	if s.n == 0 {
		s.first = time.Now()
	}
	s.n++
	return s
}
