package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

// result is the outcome, as the control plane and the simulated AWS report it.
type result struct {
	Pods    view
	Stayed  bool // The DaemonSet's pod, until the machine went.
	Min     int  // minAvailable.
	Forced  int  // Pods deleted bypassing their budget.
	Action  awsim.Action
	Tainted time.Duration // These are times since the scale-in.
	Drained time.Duration
	Whole   time.Duration

	Requests *realnodes.Account // Those of clients, if the containers run.

	Kubernetes map[string]int // The agent's requests, by verb.
	Evictions  int            // Of those.
	Refused    int            // Evictions that a budget refused.
	AWS        map[string]int // The agent's calls, by action.
}

// result collects what is known at the end.
func (d *drain) result(ctx context.Context) (result, error) {
	r := result{
		Pods: d.pods.view(), Stayed: d.stayed, Min: minAvailable, Forced: d.forced,
		Tainted: d.taintedAt.Sub(d.startedAt), Drained: d.drainedAt.Sub(d.startedAt),
		Whole:      time.Since(d.startedAt),
		Kubernetes: map[string]int{}, AWS: d.aws.RequestsBy(agentKey),
	}
	for _, a := range d.aws.Ledger() {
		if a.InstanceID == d.instance {
			r.Action = a
		}
	}
	if d.load != nil {
		account := d.load.Stop()
		r.Requests = &account
	}
	requests, err := d.cluster.Requests(ctx, cluster.UserName(agentNamespace, "agent"))
	for _, q := range requests {
		r.Kubernetes[q.Verb]++
		if q.Resource == "pods" && q.Subresource == "eviction" {
			r.Evictions++
			if q.Code == http.StatusTooManyRequests {
				r.Refused++
			}
		}
	}
	return r, err
}

// row is one line of the table. An empty fault is a check that passed.
type row struct{ what, seen, fault string }

func (r result) rows() []row {
	a := r.Action
	rows := []row{
		{"pods moved", fmt.Sprintf("%d of %d", r.Pods.Gone, r.Pods.Total), unless(r.Pods.Gone == r.Pods.Total,
			"pods are left on the node")},
		{"pods killed", fmt.Sprint(len(a.Killed)+r.Forced) + some(a.Killed), unless(len(a.Killed)+r.Forced == 0,
			"pods were killed, or deleted bypassing their budget")},
		{
			"fewest pods ready", fmt.Sprintf("%d; the PodDisruptionBudget's minimum is %d", r.Pods.Fewest, r.Min),
			unless(r.Pods.Fewest >= r.Min, "the PodDisruptionBudget was violated"),
		},
		{"DaemonSet's pod", until(r.Stayed), unless(r.Stayed, "the DaemonSet's pod was evicted")},
		{"heartbeats", fmt.Sprintf("%d; the hook times out %v after the last one", len(a.Heartbeats),
			heartbeatTimeout), unless(len(a.Heartbeats) > 0, "no heartbeat was sent")},
		{"hook completed by", completedBy(a), r.completion()},
	}
	if q := r.Requests; q != nil {
		rows = append(rows, row{
			"requests", fmt.Sprintf("%d of clients, %d failed", q.Sent, len(q.Failures)),
			unless(q.Sent > 0 && len(q.Failures) == 0, "requests of clients failed"),
		})
	}
	return rows
}

// measures are the lines without a check.
func (r result) measures() []row {
	return []row{
		{"times", fmt.Sprintf("to taint %s, to drain %s, to terminate %s",
			seconds(r.Tainted), seconds(r.Drained), seconds(r.Whole)), ""},
		{"Kubernetes requests", fmt.Sprintf("%s; evictions %d, refused %d of them",
			counts(r.Kubernetes), r.Evictions, r.Refused), ""},
		{"AWS requests", counts(r.families()), ""},
	}
}

// completion returns what is wrong with the end of the lifecycle action.
func (r result) completion() string {
	a := r.Action
	switch {
	case a.ClosedBy != awsim.ByCompletion:
		return fmt.Sprintf("the hook was not completed: it ended by %s", a.ClosedBy)
	case a.Result != "CONTINUE":
		return "the hook was completed with " + a.Result
	case a.PodsError != "":
		return "the pods on the node are not known: " + a.PodsError
	case len(a.PodsAtClose) > 0:
		return "the hook was completed with pods on the node:" + some(a.PodsAtClose)
	}
	return ""
}

// families adds the calls up by service.
func (r result) families() map[string]int {
	sums := map[string]int{}
	for call, n := range r.AWS {
		service, _, _ := strings.Cut(call, ".")
		sums[service] += n
	}
	return sums
}

// table shows the result, with "ok" or "BAD" for each check.
func (r result) table(s *screen) string {
	var text strings.Builder
	for _, row := range r.rows() {
		mark := s.green("ok ")
		if row.fault != "" {
			mark = s.red("BAD")
		}
		fmt.Fprintf(&text, "  %s  %-20s %s\n", mark, row.what, row.seen)
	}
	for _, row := range r.measures() {
		fmt.Fprintf(&text, "       %-20s %s\n", row.what, row.seen)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// check returns an error that lists every check that failed.
func (r result) check() error {
	var errs []error
	for _, row := range r.rows() {
		if row.fault != "" {
			errs = append(errs, fmt.Errorf("%s (%s: %s)", row.fault, row.what, row.seen))
		}
	}
	return errors.Join(errs...)
}

func unless(good bool, fault string) string {
	if good {
		return ""
	}
	return fault
}

func until(terminated bool) string {
	if terminated {
		return "stayed until the instance was terminated"
	}
	return "deleted before the instance was terminated"
}

func completedBy(a awsim.Action) string {
	if a.ClosedBy != awsim.ByCompletion || len(a.Completions) == 0 {
		return "no call: " + string(a.ClosedBy)
	}
	return fmt.Sprintf("the agent, with %s, naming the %s", a.Result, a.Completions[len(a.Completions)-1].By)
}

func some(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " " + strings.Join(names, ", ")
}

// counts formats numbers by name, in the order of the names.
func counts(numbers map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return strings.Join(parts, ", ")
}
