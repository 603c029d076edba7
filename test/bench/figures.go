package main

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// figures are the results of one contestant in one round of a scenario.
type figures struct {
	Scenario    string `json:"scenario"`
	Contestant  string `json:"contestant"`
	Round       int    `json:"round"`
	Nodes       int    `json:"nodes"`
	Pods        int    `json:"pods"` // On the nodes to drain, at the start.
	ClusterPods int    `json:"clusterPods"`

	Makespan float64 `json:"makespanSeconds"`
	ToLimit  float64 `json:"makespanToLimit,omitzero"`
	Finished float64 `json:"finishedSeconds"` // When the contestant reported to be done.
	Marked   float64 `json:"markedSeconds"`   // When the last node was cordoned.

	requestFigures
	releaseFigures
	usageFigures
}

// requestFigures count the requests of the contestant's user in the audit log.
type requestFigures struct {
	Requests        int            `json:"requests"`
	RequestsPerPod  float64        `json:"requestsPerPod"`
	RequestsBefore  int            `json:"requestsBeforeStart"` // Part of Requests.
	ByKind          map[string]int `json:"requestsByKind"`
	Evictions       int            `json:"evictions"`
	EvictionsPerPod float64        `json:"evictionsPerPod"`
	Refused         int            `json:"evictionsRefused"`
	RefusedShare    float64        `json:"evictionsRefusedShare"`
	Twice           int            `json:"podsEvictedTwice"`
}

// releaseFigures are the times from a budget that allows an eviction to the next eviction.
type releaseFigures struct {
	Releases      int     `json:"releases"`
	ReleaseMedian float64 `json:"releaseToEvictionMedianMs"`
	ReleaseMax    float64 `json:"releaseToEvictionMaxMs"`
}

// usageFigures are what the contestant's processes used.
type usageFigures struct {
	CPU       float64 `json:"cpuSeconds"`
	CPUPerPod float64 `json:"cpuMsPerPod"`
	PeakMiB   float64 `json:"peakMiB"`    // Of the biggest process; 0 if unknown.
	SumMiB    float64 `json:"peakSumMiB"` // Of all.
	BeforeMiB float64 `json:"peakBeforeStartMiB"`

	Calls          int     `json:"autoScalingCalls,omitzero"`
	CallsPerSecond float64 `json:"autoScalingCallsPerSecond,omitzero"` // At most, once each hook had its first heartbeat.
}

// countRequests returns the figures of the requests of a drain that was started at start.
func countRequests(requests []cluster.Request, start time.Time, pods int) requestFigures {
	f := requestFigures{Requests: len(requests), ByKind: map[string]int{}}
	accepted := 0
	for _, r := range requests {
		f.ByKind[kind(r)]++
		f.RequestsBefore += count(r.At.Before(start))
		if isEviction(r) {
			f.Evictions++
			f.Refused += count(r.Code == http.StatusTooManyRequests)
			accepted += count(isAccepted(r))
		}
	}
	f.Twice = max(0, accepted-pods)
	f.RequestsPerPod, f.EvictionsPerPod = share(f.Requests, pods), share(f.Evictions, pods)
	f.RefusedShare = share(f.Refused, f.Evictions)
	return f
}

// kind names requests as RBAC does.
func kind(r cluster.Request) string {
	resource := cmp.Or(r.Resource, "(discovery)")
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return r.Verb + " " + resource
}

func isEviction(r cluster.Request) bool {
	return r.Verb == "create" && r.Resource == "pods" && r.Subresource == "eviction"
}

func isAccepted(r cluster.Request) bool {
	return r.Code >= http.StatusOK && r.Code < http.StatusMultipleChoices
}

func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// releases returns, for each time that a budget began to allow an eviction, the time until the next accepted
// eviction under it, if one followed. apps has the budget of each pod.
//
// The watch of the budgets may lag by some milliseconds, so an eviction may appear to precede the release
// that allowed it. It counts as immediate: a closed budget accepts no eviction.
func releases(crossings []crossing, requests []cluster.Request, apps map[string]string) []time.Duration {
	accepted := map[string][]time.Time{}
	for _, r := range requests {
		if isEviction(r) && isAccepted(r) {
			accepted[apps[r.Name]] = append(accepted[apps[r.Name]], r.At)
		}
	}
	for _, at := range accepted {
		slices.SortFunc(at, time.Time.Compare)
	}
	closed, waits := map[string]time.Time{}, []time.Duration{}
	for i, c := range crossings {
		if !c.Open {
			closed[c.Budget] = c.At
			continue
		}
		next := slices.IndexFunc(accepted[c.Budget], func(at time.Time) bool { return at.After(closed[c.Budget]) })
		if next >= 0 && accepted[c.Budget][next].Before(closing(crossings[i+1:], c.Budget)) {
			waits = append(waits, max(0, accepted[c.Budget][next].Sub(c.At)))
		}
	}
	return waits
}

// closing returns when the budget next closed, or a time in the far future.
func closing(crossings []crossing, budget string) time.Time {
	for _, c := range crossings {
		if c.Budget == budget && !c.Open {
			return c.At
		}
	}
	return time.Unix(1<<40, 0)
}

func countReleases(waits []time.Duration) releaseFigures {
	if len(waits) == 0 {
		return releaseFigures{}
	}
	return releaseFigures{
		Releases:      len(waits),
		ReleaseMedian: milliseconds(median(waits)),
		ReleaseMax:    milliseconds(slices.Max(waits)),
	}
}

func countUsage(u usage, pods int) usageFigures {
	f := usageFigures{
		CPU: u.CPU.Seconds(), BeforeMiB: mebibytes(u.Before), Calls: u.Calls, CallsPerSecond: u.CallsPerSecond,
	}
	if pods > 0 {
		f.CPUPerPod = milliseconds(u.CPU) / float64(pods)
	}
	for _, peak := range u.Peaks {
		f.PeakMiB = max(f.PeakMiB, mebibytes(peak))
		f.SumMiB += mebibytes(peak)
	}
	return f
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// median is the value in the middle; of two in the middle the lower one, so that it is one of the values.
func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// medianRounds returns the round with the median makespan of each scenario and contestant, in the order of
// the input, and divides its makespan by the limit's.
func medianRounds(all []figures) []figures {
	type key struct{ scenario, contestant string }
	spans, shown := map[key][]float64{}, map[key]bool{}
	for _, f := range all {
		k := key{f.Scenario, f.Contestant}
		spans[k] = append(spans[k], f.Makespan)
	}
	var picked []figures
	for _, f := range all {
		k := key{f.Scenario, f.Contestant}
		if !shown[k] && f.Makespan == median(spans[k]) {
			shown[k] = true
			if limit := spans[key{f.Scenario, limitName}]; len(limit) > 0 && median(limit) > 0 {
				f.ToLimit = f.Makespan / median(limit)
			}
			picked = append(picked, f)
		}
	}
	return picked
}
