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

// line is what we read of a line of an agent's log.
type line struct {
	Time     time.Time
	Message  string
	Instance string
	Outcome  string
}

// handOvers tells how long it took at most from when we ended an agent until another one worked on what it
// had in hand, and from when we ended the one that led until another one led.
// What the API server's absence has made longer is left out.
func handOvers(dir string, f facts) (work, lead map[string]time.Duration, err error) {
	lives := f.Lives
	logs := map[string][]line{}
	for _, l := range lives {
		if logs[l.Name], err = readLog(filepath.Join(dir, l.Name+".log")); err != nil {
			return nil, nil, err
		}
	}
	work, lead = map[string]time.Duration{}, map[string]time.Duration{}
	for _, l := range lives {
		for instance := range inHand(logs[l.Name]) {
			took := next(l, logs, func(one line) bool { return one.Instance == instance })
			if f.waits(instance, l.Asked) && !f.hampered(l.Asked, took) {
				work[l.Ended] = max(work[l.Ended], took)
			}
		}
		took := next(l, logs, func(one line) bool { return one.Message == leading })
		if led(logs[l.Name], l.Asked) && !f.hampered(l.Asked, took) {
			lead[l.Ended] = max(lead[l.Ended], took)
		}
	}
	return work, lead, nil
}

// What an agent says when it begins to lead, and when it does so no longer.
const leading, following = "started leading", "stopped leading"

// led tells whether the agent led at a time.
func led(lines []line, at time.Time) (leads bool) {
	for _, l := range lines {
		if l.Time.Before(at) && (l.Message == leading || l.Message == following) {
			leads = l.Message == leading
		}
	}
	return leads
}

// next is how long it took, from when we ended an agent, until there was such a line in the log of another
// one; zero if there was none.
func next(l life, logs map[string][]line, is func(line) bool) (took time.Duration) {
	for name, lines := range logs {
		for _, one := range lines {
			after := one.Time.Sub(l.Asked)
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

// waits tells whether one of our hooks held an instance at a time.
func (f facts) waits(instanceID string, at time.Time) bool {
	return slices.ContainsFunc(f.Actions, func(a awsim.Action) bool {
		return a.InstanceID == instanceID && a.Hook == ourHook && a.StartedAt.Before(at) &&
			(a.ClosedAt.IsZero() || a.ClosedAt.After(at))
	})
}

// hampered tells whether the API server was away, or had just come back, in the time after an instant.
func (f facts) hampered(from time.Time, took time.Duration) bool {
	const back = 10 * time.Second // The watches come back later than the API server.
	return slices.ContainsFunc(f.Outages, func(s span) bool {
		return s.From.Before(from.Add(took)) && (s.To.IsZero() || s.To.Add(back).After(from))
	})
}

// inHand are the instances that an agent was busy with when its log ended.
func inHand(lines []line) map[string]bool {
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
