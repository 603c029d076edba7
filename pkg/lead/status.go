package lead

import (
	"errors"
	"fmt"
	"time"
)

// stopTime is how long the work of a leader may take to stop: SQS may have to be waited for.
const stopTime = time.Minute

// Role says for people what this replica does: it leads, or it stands by, and who leads instead.
func (e *Elector) Role() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.term != nil && e.lock.silence() != nil:
		return "leading, but the API server does not answer"
	case e.term != nil:
		return "leading"
	case e.holder == "" || e.holder == e.lock.Identity():
		return "standing by; no leader"
	}
	return "standing by; " + e.holder + " leads"
}

// Ready returns what keeps this replica from taking part in the election.
func (e *Elector) Ready() error {
	_, reached := e.lock.times()
	if !e.cfg.Election || time.Since(reached) < e.silence() {
		return nil
	}
	return fmt.Errorf("the Lease %s could not be reached: is the API server reachable, "+
		"and are leases allowed to be got, created and updated in that namespace?", e.lock.Describe())
}

// Healthy returns what only a new process can help: the election has stopped, or the work of a leader that is
// none any more does not end.
func (e *Elector) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != nil && !e.term.ended.IsZero() {
		if since := time.Since(e.term.ended); since > stopTime {
			return fmt.Errorf("the work has been told to stop, and has not for %v", since.Round(time.Second))
		}
		return nil // the election goes on when the work has stopped
	}
	tried, _ := e.lock.times()
	if !e.started.IsZero() && time.Since(tried) > e.silence() && time.Since(e.started) > e.silence() {
		return errors.New("the leader election stands still")
	}
	return nil
}

// silence is longer than any two calls of a working election are apart.
func (e *Elector) silence() time.Duration { return 2 * e.cfg.LeaseDuration }
