package trigger

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestPlanOfAThousandGroups counts the calls and the time of a plan for 1,000 groups with 50,000 instances. The calls
// themselves take no time here. DescribeInstanceRefreshes stays at two calls a second, also when all groups are outdated.
func TestPlanOfAThousandGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
	const groups, size = 1000, 50
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range groups {
			name := fmt.Sprintf("workers-%04d", n)
			w.must(w.CreateGroup(awsim.Group{
				Name: name, Max: size, LaunchTemplate: template, LaunchTemplateVersion: "$Latest",
				Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
			}))
			for i := range size {
				w.must(w.AddInstance(name, fmt.Sprintf("i-%017x", n*size+i), ""))
			}
		}
		cfg := flags(refresh.ModeRefresh)
		for _, tt := range []struct {
			name     string
			outdated int
			calls    int
			takes    time.Duration
		}{{"up-to-date", 0, 12, 0}, {"outdated", groups, 2012, 499500 * time.Millisecond}} {
			if tt.outdated > 0 {
				w.newVersion(2)
			}
			began := time.Now()
			reader, _ := w.clients(tt.name)
			plans, err := plan.NewPlanner(cfg, reader, nil).Plan(t.Context(), func(int, int) {})
			w.must(err)
			took := time.Since(began)
			outdated := len(slices.DeleteFunc(plans, func(p report.Plan) bool { return p.Outdated == 0 }))
			if calls := w.total(tt.name); outdated != tt.outdated || calls != tt.calls || took != tt.takes {
				t.Errorf("%s: %d groups are outdated, by %d calls in %v: %v", tt.name, outdated, calls, took,
					w.RequestsBy(tt.name))
			}
		}
		w.must(w.Close())
	})
}

func (w *world) total(name string) (n int) {
	for _, calls := range w.RequestsBy(name) {
		n += calls
	}
	return n
}
