package observe_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// watchMetrics are the metrics of a watch whose groups are looked at a minute after its start, in a form that is short.
func watchMetrics(t *testing.T, do func(w *observe.Watch)) (metrics map[string]float64, events []string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	w := observe.NewWatch(registry, 5*time.Minute, []string{"done", "failed"}, func(reason, message string, warning bool) {
		events = append(events, fmt.Sprint(reason, " ", message, " ", warning))
	})
	time.Sleep(time.Minute)
	do(w)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metrics = map[string]float64{}
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "node_drainer_watch_")
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			if ours {
				metrics[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return metrics, events
}

func TestWatchMetrics(t *testing.T) {
	t.Parallel()
	looked := func(w *observe.Watch) {
		w.LeadershipStarted()
		w.Looked([]refresh.Watched{{Group: "batch", Failed: true, Outdated: 2}, {Group: "web", Refused: true, Outdated: 1}}, true)
	}
	for _, tt := range []struct {
		name   string
		do     func(w *observe.Watch)
		want   map[string]float64 // those that matter; -1 is none
		events string
	}{
		{"nothing has happened", func(*observe.Watch) {}, map[string]float64{
			"leader": 0, "interval_seconds": 300, "last_success_timestamp_seconds": 0, "rounds_total failed": 0, "outdated_instances web": -1,
		}, ""},
		{"a look", looked, map[string]float64{
			"leader": 1, "outdated_instances batch": 2, "outdated_instances web": 1, "failed_target batch": 1, "failed_target web": 0,
			"refused batch": 0, "refused web": 1, "window_open": 1, "last_success_timestamp_seconds": 60, "rollouts_total web failed": 0,
		}, ""},
		{"a group is selected no more", func(w *observe.Watch) { looked(w); w.Looked(nil, false) }, map[string]float64{
			"outdated_instances web": -1, "failed_target batch": -1, "window_open": 0,
		}, ""},
		{"another replica leads", func(w *observe.Watch) { looked(w); w.LeadershipEnded() }, map[string]float64{
			"leader": 0, "outdated_instances web": -1, "failed_target batch": -1,
		}, ""},
		{"a round", func(w *observe.Watch) { w.RoundEnded(nil) }, map[string]float64{
			"rounds_total completed": 1, "rounds_total failed": 0, "last_success_timestamp_seconds": 60,
		}, ""},
		{"a round fails", func(w *observe.Watch) { w.RoundEnded(errors.New("throttled")) }, map[string]float64{
			"rounds_total completed": 0, "rounds_total failed": 1, "last_success_timestamp_seconds": 0,
		}, ""},
		{"a rollout starts", func(w *observe.Watch) { w.RolloutStarted("web", 3, "version 7") }, map[string]float64{
			"rollouts_active": 1,
		}, "RolloutStarted web: 3 outdated instances are replaced: version 7 false"},
		{"a rollout ends", func(w *observe.Watch) {
			w.RolloutStarted("web", 3, "version 7")
			w.RolloutEnded("web", "done", "3 instances replaced", true, false)
		}, map[string]float64{"rollouts_active": 0, "rollouts_total web done": 1}, "RolloutFinished web: done: 3 instances replaced false"},
		{"a rollout fails", func(w *observe.Watch) {
			w.RolloutStarted("web", 3, "version 7")
			w.RolloutEnded("web", "failed", "no progress", true, true)
		}, map[string]float64{"rollouts_active": 0, "rollouts_total web failed": 1}, "RolloutFailed web: failed: no progress true"},
		{"a rollout does not start", func(w *observe.Watch) { w.RolloutEnded("web", "refused", "no hook", false, true) }, map[string]float64{
			"rollouts_active": 0, "rollouts_total web refused": 1,
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := float64(time.Now().Unix())
				got, events := watchMetrics(t, tt.do)
				got["last_success_timestamp_seconds"] -= start
				for name, want := range tt.want {
					if value, is := got[name]; value != want && (is || want != -1) {
						t.Errorf("%s is %v, want %v", name, value, want)
					}
				}
				if last := strings.Join(events[max(len(events)-1, 0):], ""); last != tt.events {
					t.Errorf("the last Event is %q, want %q", last, tt.events)
				}
			})
		})
	}
}
