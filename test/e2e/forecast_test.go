//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// TestForecast: a plan says how the drains of outdated nodes would go, and so they go when their instances terminate.
func TestForecast(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(6))
	settings := []string{"DRAIN_TIMEOUT=45s", "DRAIN_SETTLE=1s", "DRAIN_FORCE_SPACING=1s"}
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

	plan := f.runTrigger(append(settings, "KUBECONFIG="+f.viewer), "plan", "--asg", group)
	plan.waitExit(0, `(?m)^ +DRAIN OF +EXPECTED +AT MOST +WAITS FOR$`, names["never"]+` .*`+f.namespace+`/never, which never allows`,
		`by force at the end: `+f.namespace+`/never-`)
	plan = f.runTrigger(append(settings, "KUBECONFIG="+f.viewer), "plan", "--asg", group, "-o", "json")
	plan.waitExit(0)
	forecasts := map[string]*report.Forecast{}
	var out struct{ Groups []report.Plan }
	f.must(json.Unmarshal([]byte(plan.Output()), &out))
	for _, i := range out.Groups[0].Instances {
		forecasts[i.Node.Name] = i.Drain
	}

	f.startAgent(append(settings, "HISTORY_CONFIGMAP="+f.historyName(), "POD_NAMESPACE="+f.namespace)...)
	for _, id := range drained {
		f.terminate(id)
	}
	for _, id := range drained {
		f.waitClosed(id)
	}
	for app, name := range names {
		record, expected := f.recordOf(name), forecasts[name]
		took, forecast := record.Ended.Sub(record.Began), time.Duration(expected.Expected)*time.Second
		t.Logf("%s: the drain took %v, the forecast was %v", app, took, forecast)
		if difference := (took - forecast).Abs(); difference > max(took/5, 3*time.Second) {
			t.Errorf("%s: the drain took %v, the forecast was %v", app, took, forecast)
		}
		var forced []string
		for _, p := range record.Details {
			if p.Why != "" {
				forced = append(forced, p.Name)
			}
		}
		if slices.Sort(forced); !slices.Equal(forced, expected.Forced) {
			t.Errorf("%s: removed by force %q, the forecast was %q", app, forced, expected.Forced)
		}
	}
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
