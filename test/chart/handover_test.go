//go:build e2e

package chart_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/node-drainer/node-drainer/internal/handover/program"
	"github.com/node-drainer/node-drainer/test/chart"
)

const fromRegistry = "image.registry=registry.example.com"

// TestHandoverRenderings is TestRenderings for the chart of the program that has pods hand over.
func TestHandoverRenderings(t *testing.T) {
	t.Parallel()
	for name, file := range setupsOf(t, handover(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holdSetup(t, handover(t), "handover", name, file)
		})
	}
}

// TestHandoverEnvironment: the program takes the variables that the chart sets, and these are all that it has, but for
// the address, which is the port of the Service.
func TestHandoverEnvironment(t *testing.T) {
	t.Parallel()
	objects, err := chart.RenderHandover(t.Context(), "node-drainer-handover", "shop", "--values",
		setupsOf(t, handover(t))["full"])
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := chart.Find(objects, "Deployment", "step-down", &d); err != nil {
		t.Fatal(err)
	}
	set, environ := map[string]bool{"LISTEN_ADDRESS": true}, []string{"POD_NAMESPACE=shop"}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if set[e.Name] = true; e.ValueFrom == nil {
			environ = append(environ, e.Name+"="+e.Value)
		}
	}
	cfg, err := program.Read(environ)
	if err != nil || cfg.ListenAddress != ":8080" || !cfg.PasswordsInClear || !cfg.Surges || cfg.SurgeRecords != "step-down-surges" {
		t.Errorf("the configuration is %+v, %v", cfg, err)
	}
	for variable := range reflect.TypeFor[program.Config]().Fields() {
		name, _, _ := strings.Cut(variable.Tag.Get("env"), ",")
		if !set[name] {
			t.Errorf("the chart does not set %s", name)
		}
	}
}

// TestSurgeRecords: the chart gives the ConfigMap with the records of surges no data, which an upgrade would write. The
// program may change no other one, nor create any: on EKS, aws-auth makes administrators.
func TestSurgeRecords(t *testing.T) {
	t.Parallel()
	for surges, want := range map[string]bool{"true": true, "false": false} {
		objects, err := chart.RenderHandover(t.Context(), "x", "shop", "--set", fromRegistry+",surges="+surges)
		if err != nil {
			t.Fatal(err)
		}
		var records corev1.ConfigMap
		err = chart.Find(objects, "ConfigMap", "x-node-drainer-handover-surges", &records)
		if got := err == nil; got != want || records.Data != nil || records.BinaryData != nil {
			t.Errorf("surges=%s: %+v, %v", surges, records, err)
		}
		var role rbacv1.Role
		if err := chart.Find(objects, "Role", "x-node-drainer-handover", &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			if !slices.Contains(r.Resources, "configmaps") {
				continue
			}
			want := rbacv1.PolicyRule{
				APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{records.Name},
				Verbs: []string{"get", "update"},
			}
			if !reflect.DeepEqual(r, want) || surges == "false" {
				t.Errorf("surges=%s: the Role permits %+v", surges, r)
			}
		}
	}
}

// TestHandoverRefusals: what is wrong with values is said before anything is installed, with the path of the value.
func TestHandoverRefusals(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"": "image.registry is required",
		fromRegistry + ",serviceAccount.create=false":                    "set serviceAccount.name",
		fromRegistry + ",tolerations[0].operator=Exists":                 "tolerations[0] has no key",
		fromRegistry + ",tolerations[0].key=node-drainer.io/terminating": "tolerates the taint of terminating nodes",
		fromRegistry + ",secrets[0].name=redis":                          "at '/secrets/0': got object, want string",
		fromRegistry + ",networks[0]=10.0.0.1":                           "at '/networks/0': '10.0.0.1' does not match pattern",
		fromRegistry + ",surge=true":                                     "additional properties 'surge' not allowed",
	} {
		_, err := chart.RenderHandover(t.Context(), "x", "shop", "--set", set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
}

// TestEachValueOfHandoversIsUsed: to change a value, whichever it is, changes what the chart makes.
func TestEachValueOfHandoversIsUsed(t *testing.T) {
	t.Parallel()
	full := setupsOf(t, handover(t))["full"]
	values, set := readYAML(t, filepath.Join(handover(t), "values.yaml")), readYAML(t, full)
	delete(values["serviceAccount"].(map[string]any), "create") // It must not have annotations then.
	expectUsed(t, values, set, handover(t), "--values", full)
}
