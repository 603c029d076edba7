//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// forecastSettings are the settings of the agent, and of a plan that knows them.
var forecastSettings = []string{"DRAIN_TIMEOUT=45s", "DRAIN_SETTLE=1s", "DRAIN_FORCE_SPACING=1s"}

// TestForecast: a plan says how the drains of outdated nodes would go, and so they go when their instances terminate.
func TestForecast(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(6))
	drained := f.old[:4]
	names := map[string]string{}
	for n, app := range []string{"quick", "one-by-one", "never", "slow"} {
		names[app] = cluster.NodeName(drained[n])
	}
	f.deploy("quick", names["quick"], 4, cluster.Pods{})
	f.deploy("one-by-one", names["one-by-one"], 4, cluster.Pods{Start: 4 * time.Second})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "one-by-one", "1"))
	f.deploy("never", names["never"], 2, cluster.Pods{GracePeriod: 10 * time.Second})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "never", "0"))
	f.deploy("slow", names["slow"], 2, cluster.Pods{Start: 10 * time.Second})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "slow", "1"))
	f.outdate()

	plan := f.runTrigger(append(forecastSettings, "KUBECONFIG="+f.viewer), "plan", "--asg", group)
	plan.waitExit(0, `(?m)^ +DRAIN OF +EXPECTED +AT MOST +WAITS FOR$`, names["never"]+` .*`+f.namespace+`/never, which never allows`,
		`by force at the end: `+f.namespace+`/never-`)
	for name, is := range f.drainAsForecast(drained) {
		if difference := (is.took - is.forecast).Abs(); difference > max(is.took/5, 3*time.Second) {
			t.Errorf("%s: the drain took %v, the forecast was %v", name, is.took, is.forecast)
		}
		if difference := (is.own - is.forecast).Abs(); difference > 2*time.Second {
			t.Errorf("%s: the drain expected to take %v, the plan %v", name, is.own, is.forecast)
		}
		if !slices.Equal(is.forced, is.expected) {
			t.Errorf("%s: removed by force %q, the forecast was %q", name, is.forced, is.expected)
		}
	}
}

var forecastNodes = flag.Int("forecast-nodes", 12, "how many nodes with generated pods are drained at once")

// TestForecasts: of the drains of nodes with generated pods, nine of ten take as long as a plan said, but for a fifth or
// two seconds, and of a hundred pods that it named two at most are not removed by force.
func TestForecasts(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	f := newFleet(t, latest(*forecastNodes+4))
	drained := f.old[:*forecastNodes]
	replicas := map[string]int{}
	for n, id := range drained {
		for m := range 1 + r.IntN(3) {
			app := fmt.Sprintf("app-%d-%d", n, m)
			replicas[app] = 1 + r.IntN(5)
			f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
				Namespace: f.namespace, Name: app, Replicas: int32(replicas[app]), Pods: cluster.Pods{
					Start: time.Duration(1+r.IntN(8)) * time.Second, GracePeriod: time.Duration(5+r.IntN(20)) * time.Second,
					Pool: f.namespace, Prefer: cluster.NodeName(id),
				},
			}))
			if most := r.IntN(7); most < 5 {
				f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, app, fmt.Sprint((most+1)/2)))
			}
		}
	}
	for app, n := range replicas {
		f.waitPodsReady(app, n)
	}
	f.outdate()
	near, ownNear, forecast, isWrong := 0, 0, 0, 0
	for name, is := range f.drainAsForecast(drained) {
		if (is.took - is.own).Abs() <= max(is.took/5, 2*time.Second) {
			ownNear++
		}
		if (is.took - is.forecast).Abs() <= max(is.took/5, 2*time.Second) {
			near++
		} else {
			t.Logf("%s: the drain took %v, the forecast was %v", name, is.took, is.forecast)
		}
		forecast += len(is.expected)
		for _, pod := range is.expected {
			if !slices.Contains(is.forced, pod) {
				isWrong++
			}
		}
	}
	t.Logf("%d of %d drains were near, %d by their own forecasts; of %d pods %d were not removed by force", near, len(drained),
		ownNear, forecast, isWrong)
	if min(near, ownNear)*10 < len(drained)*9 || isWrong*50 > forecast {
		t.Error("the forecasts are not good enough")
	}
}

// TestForecastOfARollout: a rollout takes as long as its plan said, in each mode that replaces instances itself or has AWS
// do so.
func TestForecastOfARollout(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string][]string{
		"in batches": {"--mode", "unhealthy", "--batch", "1"},
		"with surge": {"--mode", "unhealthy", "--surge", "1"},
		"standby":    {"--mode", "standby", "--batch", "2"},
		"refresh":    {"--min-healthy", "50"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, launchingFirst(4))
			f.serve(cluster.Pods{Start: 4 * time.Second})
			f.outdate()
			f.startAgent(forecastSettings...)
			args := append([]string{"--asg", group}, mode...)
			is := f.readPlan(append(forecastSettings, "KUBECONFIG="+f.viewer), args...).Duration
			if is == nil {
				t.Fatal("the plan has no duration")
			}
			began := time.Now()
			f.trigger(append(args, "--allow", "hook-timeout")...).waitExit(0, `4 instances replaced`)
			took := time.Since(began)
			t.Logf("the rollout took %v, expected were %d to %d s", took, is.Shortest, is.Longest)
			if shortest, longest := time.Duration(is.Shortest)*time.Second, time.Duration(is.Longest)*time.Second; took < shortest*4/5 ||
				took > longest*6/5+10*time.Second {
				t.Errorf("the rollout took %v, expected were %v to %v", took, shortest, longest)
			}
		})
	}
}

// readPlan returns the plan for a group.
func (f *fleet) readPlan(environ []string, args ...string) report.Plan {
	f.t.Helper()
	run := f.runTrigger(environ, append([]string{"plan", "-o", "json"}, args...)...)
	run.waitExit(0)
	var out struct{ Groups []report.Plan }
	f.must(json.Unmarshal([]byte(run.Output()), &out))
	return out.Groups[0]
}

// asForecast is what a drain did, and what its forecast said: that of the plan, and that of the drain itself.
type asForecast struct {
	took, forecast   time.Duration
	own              time.Duration
	forced, expected []string
}

// drainAsForecast reads the forecasts for the instances, terminates them at once, and returns what became of their nodes.
func (f *fleet) drainAsForecast(ids []string) map[string]asForecast {
	f.t.Helper()
	plan := f.readPlan(append(forecastSettings, "KUBECONFIG="+f.viewer), "--asg", group)
	f.startAgent(append(forecastSettings, "HISTORY_CONFIGMAP="+f.historyName(), "POD_NAMESPACE="+f.namespace)...)
	for _, id := range ids {
		f.terminate(id)
	}
	for _, id := range ids {
		f.waitClosed(id)
	}
	all := map[string]asForecast{}
	for _, i := range plan.Instances {
		if !slices.Contains(ids, i.ID) {
			continue
		}
		record := f.recordOf(i.Node.Name)
		one := asForecast{
			took: record.Ended.Sub(record.Began), forecast: time.Duration(i.Drain.Expected) * time.Second, expected: i.Drain.Forced,
			own: record.Expected.Sub(record.Began),
		}
		for _, p := range record.Details {
			if p.Why != "" {
				one.forced = append(one.forced, p.Name)
			}
		}
		slices.Sort(one.forced)
		all[i.Node.Name] = one
	}
	return all
}

// recordOf returns the record of the node's drain once it has been written.
func (f *fixture) recordOf(node string) (found history.Drain) {
	f.t.Helper()
	eventually(f.t, waitTimeout, func() string {
		r := &triggerRun{Process: harness.NewProcess(f.withoutAWS([]string{
			"KUBECONFIG=" + f.viewer, "TRIGGER_CONFIGMAP=" + f.namespace + "/" + f.historyName(),
		}, "history", "-o", "json")), t: f.t}
		r.start()
		r.waitExit(0)
		var out struct{ Drains []history.Drain }
		f.must(json.Unmarshal([]byte(r.Output()), &out))
		i := slices.IndexFunc(out.Drains, func(d history.Drain) bool { return d.Node == node })
		if i < 0 {
			return "there is no record of the drain of " + node
		}
		found = out.Drains[i]
		return ""
	})
	return found
}
