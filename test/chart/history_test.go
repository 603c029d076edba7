//go:build e2e

package chart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/test/chart"
)

// TestHistory: the chart gives the ConfigMap with the records of drains no data, which an upgrade would write. The agent
// may change no other one, nor create any, and the trigger may read this one: on EKS, aws-auth makes administrators. In a
// dry run, and without history, there is none of it.
func TestHistory(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]bool{"": true, ",history.enabled=false": false, ",config.dryRun=true": false} {
		args := []string{"--set", least + ",trigger.enabled=true" + set}
		var kept corev1.ConfigMap
		objects, name := render(t, args...), "node-drainer-history"
		err := chart.Find(objects, "ConfigMap", name, &kept)
		if got := err == nil; got != want || kept.Data != nil || got && kept.Labels[history.Label] == "" {
			t.Errorf("%q: %+v, %v", set, kept, err)
		}
		if literal, _ := environment(t, args...); (literal["HISTORY_CONFIGMAP"] == name) != want {
			t.Errorf("%q: HISTORY_CONFIGMAP is %q", set, literal["HISTORY_CONFIGMAP"])
		}
		permitted := map[string]string{}
		for _, o := range objects {
			var role rbacv1.ClusterRole // It has all that a Role has.
			if !strings.HasSuffix(o.GetKind(), "Role") || chart.Find(objects, o.GetKind(), o.GetName(), &role) != nil {
				continue
			}
			for _, r := range role.Rules {
				if slices.Contains(r.Resources, "configmaps") {
					permitted[o.GetKind()+" "+o.GetName()] = fmt.Sprint(r.Verbs, r.ResourceNames)
				}
			}
		}
		rights := map[string]string{
			"Role node-drainer-history": "[get update] [" + name + "]", "Role node-drainer-trigger": "[get] [" + name + "]",
		}
		if !want {
			rights = map[string]string{}
		}
		if diff := cmp.Diff(rights, permitted); diff != "" {
			t.Errorf("%q (-want +got):\n%s", set, diff)
		}
	}
}
