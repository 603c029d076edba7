package lead

import (
	"fmt"
	"time"
)

// stopTime is how long the work of a leader may take to stop: it may have to wait for SQS.
const stopTime = time.Minute

// Role describes what this replica does: it leads, or it is a standby, and of which leader.
func (e *Elector) Role() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.term != nil && e.lock.read().outage != nil:
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
	if !e.cfg.Election || time.Since(e.lock.read().reachedAt) < e.cfg.longestGap() {
		return nil
	}
	return fmt.Errorf("the Lease %s has not been reached: check that the API server is reachable, and that "+
		"the Role allows to get, create and update leases in that namespace", e.lock.Describe())
}

// Healthy returns a failure that only a restart of the process can end: the election has stopped, or the work
// of a former leader does not return.
func (e *Elector) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != nil && !e.term.ended.IsZero() {
		if since := time.Since(e.term.ended); since > stopTime {
			return fmt.Errorf("the work of a former leader has not stopped for %v", since.Round(time.Second))
		}
		return nil // the election continues when the work has stopped
	}
	gap := e.cfg.longestGap()
	if !e.started.IsZero() && time.Since(e.lock.read().calledAt) > gap && time.Since(e.started) > gap {
		return fmt.Errorf("the leader election has not called the API server for %v", gap)
	}
	return nil
}

// longestGap is longer than the time between any two calls of a working election.
func (c Config) longestGap() time.Duration { return 2 * c.LeaseDuration }
