package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// line is what is read of a line of an agent's log.
type line struct {
	Time     time.Time
	Message  string
	Instance string
	Outcome  string
}

// handovers returns the longest time from the end of an agent until another one continued its drains, and
// from the end of the leader until another agent led, by how the agent was ended. Handovers during an outage
// of the API server are left out.
func handovers(dir string, f facts) (work, lead map[string]time.Duration, err error) {
	lives := f.Processes
	logs := map[string][]line{}
	for _, l := range lives {
		if logs[l.Name], err = readLog(filepath.Join(dir, l.Name+".log")); err != nil {
			return nil, nil, err
		}
	}
	work, lead = map[string]time.Duration{}, map[string]time.Duration{}
	for _, l := range lives {
		for instance := range inProgress(logs[l.Name]) {
			took := next(l, logs, func(one line) bool { return one.Instance == instance })
			if f.waits(instance, l.Signaled) && !f.hasOutage(l.Signaled, took) {
				work[l.Ended] = max(work[l.Ended], took)
			}
		}
		took := next(l, logs, func(one line) bool { return one.Message == leading })
		if led(logs[l.Name], l.Signaled) && !f.hasOutage(l.Signaled, took) {
			lead[l.Ended] = max(lead[l.Ended], took)
		}
	}
	return work, lead, nil
}

// The log messages of an agent that begins, and ceases, to lead.
const leading, following = "started leading", "stopped leading"

// led reports whether the agent led at a time.
func led(lines []line, at time.Time) (leads bool) {
	for _, l := range lines {
		if l.Time.Before(at) && (l.Message == leading || l.Message == following) {
			leads = l.Message == leading
		}
	}
	return leads
}

// next returns the time from the signal that ended an agent to the first such line in the log of another
// one, or zero.
func next(l processRecord, logs map[string][]line, is func(line) bool) (took time.Duration) {
	for name, lines := range logs {
		for _, one := range lines {
			after := one.Time.Sub(l.Signaled)
			if name != l.Name && after > 0 && is(one) {
				if took == 0 || after < took {
					took = after
				}
				break
			}
		}
	}
	return took
}

// waits reports whether an action of our hook was pending for an instance at a time.
func (f facts) waits(instanceID string, at time.Time) bool {
	return slices.ContainsFunc(f.Actions, func(a awsim.Action) bool {
		return a.InstanceID == instanceID && a.Hook == ourHook && a.StartedAt.Before(at) &&
			(a.ClosedAt.IsZero() || a.ClosedAt.After(at))
	})
}

// hasOutage reports whether the API server was down, or had just been started, in the time after an instant.
func (f facts) hasOutage(from time.Time, took time.Duration) bool {
	const back = 10 * time.Second // The watches recover later than the API server.
	return slices.ContainsFunc(f.Outages, func(s span) bool {
		return s.From.Before(from.Add(took)) && (s.To.IsZero() || s.To.Add(back).After(from))
	})
}

// inProgress returns the instances that an agent was draining when its log ended.
func inProgress(lines []line) map[string]bool {
	open := map[string]int{}
	for _, l := range lines {
		switch {
		case l.Message == "termination started":
			open[l.Instance]++
		case l.Message == "termination ended" && l.Outcome != "interrupted":
			open[l.Instance]--
		}
	}
	busy := map[string]bool{}
	for instance, n := range open {
		if n > 0 {
			busy[instance] = true
		}
	}
	return busy
}

func readLog(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []line
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		l := line{}
		if json.Unmarshal(scanner.Bytes(), &l) != nil {
			continue
		}
		if l.Instance != "" || l.Message == leading || l.Message == following {
			all = append(all, l)
		}
	}
	return all, scanner.Err()
}
