//go:build e2e

package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/test/chart"
)

// environment returns the literal variables of the agent, and from where the others come.
func environment(t *testing.T, args ...string) (literal, from map[string]string) {
	t.Helper()
	var d appsv1.Deployment
	if err := chart.Find(render(t, args...), "Deployment", "node-drainer", &d); err != nil {
		t.Fatal(err)
	}
	literal, from = map[string]string{}, map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if _, twice := literal[e.Name]; twice {
			t.Errorf("%s is there twice", e.Name)
		}
		switch {
		case e.ValueFrom == nil:
			literal[e.Name] = e.Value
		case e.ValueFrom.FieldRef != nil:
			from[e.Name] = e.ValueFrom.FieldRef.FieldPath
		case e.ValueFrom.ResourceFieldRef != nil:
			from[e.Name] = e.ValueFrom.ResourceFieldRef.Resource
		case e.ValueFrom.SecretKeyRef != nil:
			from[e.Name] = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		}
	}
	return literal, from
}

// TestTheDefaults: with the least that must be set the agent is configured as by the least of variables.
func TestTheDefaults(t *testing.T) {
	t.Parallel()
	literal, from := environment(t, "--set", least)
	want := map[string]string{
		"POD_NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name", "NODE_NAME": "spec.nodeName",
	}
	if diff := cmp.Diff(want, from); diff != "" {
		t.Errorf("the downward API (-want +got):\n%s", diff)
	}
	if got := literal["GOMEMLIMIT"]; got != "483183820" {
		t.Errorf("GOMEMLIMIT is %q, want 90 %% of 512Mi", got)
	}
	read := func(variables map[string]string) config.Agent {
		environ := []string{"POD_NAMESPACE=agents", "POD_NAME=p", "NODE_NAME=n"}
		for name, value := range variables {
			environ = append(environ, name+"="+value)
		}
		c, err := config.ReadAgent(environ)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	empty := map[string]string{"CLUSTER_NAME": "prod", "QUEUE_URL": queueURL, "HISTORY_CONFIGMAP": "node-drainer-history"}
	if diff := cmp.Diff(read(empty), read(literal)); diff != "" {
		t.Errorf("the configuration (-of the variables' defaults +of the chart's):\n%s", diff)
	}
}

// TestMemoryLimit: the Go runtime collects garbage before the container reaches its limit, however that is written.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{
		"1Gi": "966367641", "0.5Gi": "483183820", "300M": "270000000", "256000k": "230400000", "1e9": "900000000", "null": "",
		"1Pi": "limits.memory",
	} {
		literal, from := environment(t, "--set", least+",resources.limits.memory="+limit)
		if got := literal["GOMEMLIMIT"] + from["GOMEMLIMIT"]; got != want {
			t.Errorf("with the limit %s GOMEMLIMIT is %q, want %q", limit, got, want)
		}
	}
}

// another returns a value that is not the default, as values have it and as the variable has it.
func another(t *testing.T, v config.Variable) (value any, variable string) {
	t.Helper()
	switch {
	case v.Type == reflect.TypeFor[time.Duration]():
		return "61s", "61s"
	case v.Type.Kind() == reflect.Bool:
		return v.Default != "true", fmt.Sprint(v.Default != "true")
	case v.Type.Kind() == reflect.Int:
		return 1_234_567, "1234567" // which a float would write as 1.234567e+06
	case v.Type.Kind() == reflect.Slice:
		return []string{"a", "b"}, "a,b"
	case len(v.Values) > 0:
		other := v.Values[0]
		if other == v.Default {
			other = v.Values[1]
		}
		return other, other
	case v.Name == "LISTEN_ADDRESS":
		return "[::1]:9090", "[::1]:9090"
	}
	return "true", "true" // which YAML would read as no text, were it not quoted
}

// TestEachValueIsItsVariable: what is set below config is what the variable has, and all variables are there.
func TestEachValueIsItsVariable(t *testing.T) {
	t.Parallel()
	values, want := map[string]any{}, map[string]string{}
	for _, v := range configured() {
		at, into := path(v), values
		if len(at) > 1 {
			if values[at[0]] == nil {
				values[at[0]] = map[string]any{}
			}
			into = values[at[0]].(map[string]any)
		}
		into[at[len(at)-1]], want[v.Name] = another(t, v)
	}
	got, _ := environment(t, "--set", "replicas=1,image.registry=registry.example.com", "--values", write(t, map[string]any{"config": values}))
	want["GOMEMLIMIT"] = got["GOMEMLIMIT"] // See TestMemoryLimit.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the variables (-want +got):\n%s", diff)
	}
}

// TestTwoReleases: two, in one namespace or in two, make nothing of the same name.
func TestTwoReleases(t *testing.T) {
	t.Parallel()
	for name, two := range map[string][2]struct{ release, namespace string }{
		"in one namespace":                {{"spot", "agents"}, {"demand", "agents"}},
		"of one name":                     {{"node-drainer", "eu"}, {"node-drainer", "us"}},
		"whose names read alike together": {{"node-drainer", "eu-prod"}, {"node-drainer-eu", "prod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := map[string]bool{}
			for _, r := range two {
				objects, err := chart.Render(t.Context(), r.release, r.namespace, "--set", least+",trigger.enabled=true")
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range objects {
					id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
					if made[id] {
						t.Errorf("both make %s", id)
					}
					made[id] = true
				}
			}
		})
	}
}

// TestTheLease: that of a release is called after it, and the release may use no other.
func TestTheLease(t *testing.T) {
	t.Parallel()
	objects, err := chart.Render(t.Context(), "spot", "agents", "--set", least)
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"name":"LEADER_LEASE_NAME","value":"spot-node-drainer"}`, `"resourceNames":["spot-node-drainer"]`,
	} {
		if !strings.Contains(string(all), want) {
			t.Errorf("the release does not have %s", want)
		}
	}
}

// TestNotifications: the URL, the headers and the template come from a Secret, and the template is there once.
func TestNotifications(t *testing.T) {
	t.Parallel()
	const prefix = "notify.existingSecret."
	for _, tt := range []struct{ set, url, headers, template, literal string }{
		{set: "config.notify.when=failed", literal: `{"text": {{json .Text}}}`},
		{set: prefix + "name=slack", url: "slack/url", literal: `{"text": {{json .Text}}}`},
		{
			set: prefix + "name=pagerduty," + prefix + "key=address," + prefix + "headersKey=headers," + prefix + "templateKey=body",
			url: "pagerduty/address", headers: "pagerduty/headers", template: "pagerduty/body",
		},
	} {
		literal, from := environment(t, "--set", least+","+tt.set)
		got := []string{from["NOTIFY_URL"], from["NOTIFY_HEADERS"], from["NOTIFY_TEMPLATE"], literal["NOTIFY_TEMPLATE"]}
		if diff := cmp.Diff([]string{tt.url, tt.headers, tt.template, tt.literal}, got); diff != "" {
			t.Errorf("%s: the variables (-want +got):\n%s", tt.set, diff)
		}
	}
}

// write returns a values file with these values.
func write(t *testing.T, values map[string]any) string {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
