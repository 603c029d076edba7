//go:build e2e

package chart_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/node-drainer/node-drainer/test/chart"
)

const watched = least + ",watch.enabled=true,watch.options.cluster=prod"

// TestMonitorsInAnotherNamespace: the ServiceMonitors of two releases of one name, in the namespace of Prometheus, have
// different names, and each selects the Services of its release's namespace.
func TestMonitorsInAnotherNamespace(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, namespace := range []string{"eu", "us"} {
		objects, err := chart.Render(t.Context(), "node-drainer", namespace, "--set", watched+
			",metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.namespace=monitoring")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.GetKind() == "ServiceMonitor" {
				selected, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "namespaceSelector", "matchNames")
				got[o.GetNamespace()+"/"+o.GetName()] = cmp.Diff([]string{namespace}, selected)
			}
		}
	}
	want := map[string]string{
		"monitoring/node-drainer.eu": "", "monitoring/node-drainer-watch.eu": "",
		"monitoring/node-drainer.us": "", "monitoring/node-drainer-watch.us": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ServiceMonitors and differences of their namespaces (-want +got):\n%s", diff)
	}
}

// TestPodMonitors: a PodMonitor selects the pods that the ServiceMonitor selects the Service of, scrapes them as that
// does, and its metrics have the job that the alerts ask for. There is no ServiceMonitor, which would scrape them twice.
func TestPodMonitors(t *testing.T) {
	t.Parallel()
	const values = watched + ",metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=30s," +
		"metrics.serviceMonitor.targetLabels[0]=team,metrics.serviceMonitor.relabelings[0].targetLabel=x"
	monitors := func(kind, labels, endpoints string, more ...string) map[string]any {
		specs := map[string]any{}
		for _, o := range render(t, append([]string{"--set", values}, more...)...) {
			if !slices.Contains([]string{"PodMonitor", "ServiceMonitor"}, o.GetKind()) {
				continue
			}
			if o.GetKind() != kind {
				t.Errorf("there is a %s, want a %s", o.GetKind(), kind)
			}
			spec := o.Object["spec"].(map[string]any)
			specs[o.GetName()] = map[string]any{
				"selector": spec["selector"], "labels": spec[labels], "endpoints": spec[endpoints],
			}
		}
		return specs
	}
	want := monitors("ServiceMonitor", "targetLabels", "endpoints")
	for name, spec := range want {
		endpoint := spec.(map[string]any)["endpoints"].([]any)[0].(map[string]any)
		job := map[string]any{"targetLabel": "job", "replacement": name}
		endpoint["relabelings"] = append([]any{job}, endpoint["relabelings"].([]any)...)
	}
	got := monitors("PodMonitor", "podTargetLabels", "podMetricsEndpoints", "--set", "metrics.podMonitor.enabled=true")
	if diff := cmp.Diff(want, got); len(got) != 2 || diff != "" {
		t.Errorf("the PodMonitors (-want +got):\n%s", diff)
	}
}
