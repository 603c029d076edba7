package awsim

import (
	"math/rand/v2"
	"time"
)

// Disturbance is what happens to messages on their way into a queue and out of it. Lose, Duplicate and Delay are
// probabilities for each message; Rand decides, and nothing else may use it while the queue is disturbed. The same
// source and the same messages make the same disturbance.
type Disturbance struct {
	Rand *rand.Rand
	// Lose drops a message, as SQS itself does not; what sends to it may.
	Lose float64
	// Duplicate delivers a message twice: two copies with one id, each of which has to be deleted.
	Duplicate float64
	// Delay delivers a copy late, by up to MaxDelay.
	Delay    float64
	MaxDelay time.Duration
	// Reorder delivers messages in any order.
	Reorder bool
}

// Disturb disturbs a queue from now on; the zero Disturbance ends that. What Duplicate, Lose, Reorder and Delay set
// happens as well.
func (s SQS) Disturb(url string, d Disturbance) {
	s.sqs.with(url, func(_ time.Time, q *queue) { q.disturbance = d })
}

// copies returns the delay of each copy of a message; none if it is lost. It draws the same number of times for
// each message and copy, whatever the probabilities are.
func (d Disturbance) copies() (delays []time.Duration) {
	if d.Rand == nil {
		return []time.Duration{0}
	}
	lost, twice := d.Rand.Float64() < d.Lose, d.Rand.Float64() < d.Duplicate
	n := 1
	if twice {
		n = 2
	}
	for range n {
		late, share := d.Rand.Float64() < d.Delay, d.Rand.Float64()
		delay := time.Duration(0)
		if late {
			delay = time.Duration(share * float64(d.MaxDelay))
		}
		delays = append(delays, delay)
	}
	if lost {
		return nil
	}
	return delays
}
