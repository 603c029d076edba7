//go:build e2e

package chart_test

import (
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
