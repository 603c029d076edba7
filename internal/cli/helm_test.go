//go:build e2e

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/docs"
)

// pausable is the Deployment that the chart permits to pause.
const pausable = "kube-system/cluster-autoscaler"

// sample returns a value that the option takes, as the chart's values have it.
func sample(o *option) any {
	var one any = "i-0123456789abcdef0" // which is a name, and a key, and an id
	switch {
	case len(o.values) > 0:
		one = o.values[0]
	case o.kind == "":
		one = true
	case o.kind == "DURATION":
		one = "5m"
	case o.name == "kubernetes-version":
		one = "1.34"
	case o.kind == "N" || o.kind == "VERSION":
		one = 3
	case strings.HasPrefix(o.kind, "PERCENT"):
		one = 100
	case o.kind == "N|N%":
		one = "20%"
	case o.kind == "ARN":
		one = "arn:aws:iam::123456789012:role/rollouts"
	case o.kind == "PROCESS":
		one = "AZRebalance"
	case o.kind == "URL":
		one = "https://example.com/healthy"
	case o.kind == "REGION":
		one = "eu-central-1"
	case o.kind == "NAMESPACE/NAME":
		one = pausable
	}
	if o.many {
		return []any{one}
	}
	return one
}

// cronJob returns the CronJob that the chart renders for options.
func cronJob(t *testing.T, options map[string]any) batchv1.CronJob {
	t.Helper()
	values, err := json.Marshal(map[string]any{
		"config": map[string]any{
			"clusterName": "prod", "queue": map[string]any{"url": "https://sqs.example.com/1/q"}, "autoscalerDeployment": pausable,
		},
		"image": map[string]any{"registry": "registry.example.com"},
		"trigger": map[string]any{
			"enabled": true, "taintNodes": true,
			"cronJobs": map[string]any{"x": map[string]any{"schedule": "@daily", "options": options}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.json")
	if err := os.WriteFile(file, values, 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(t.Context(), "node-drainer", "agents", "--values", file)
	if err != nil {
		t.Fatal(err)
	}
	var made batchv1.CronJob
	if err := chart.Find(objects, "CronJob", "node-drainer-x", &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestChartOptionsSetVariables: an option of a CronJob sets the variable of its flag, in a valid form, also
// if it is false or 0.
func TestChartOptionsSetVariables(t *testing.T) {
	t.Parallel()
	options, want := map[string]any{}, map[string]bool{}
	p := newProgram(nil, nil, nil)
	for _, o := range p.options(opRun) {
		options[camel(o.name)] = sample(o)
		want[o.variable()] = true
	}
	options["pin"], options["parallelAsgs"] = false, 0
	got, environ := map[string]bool{}, map[string]string{}
	for _, e := range cronJob(t, options).Spec.JobTemplate.Spec.Template.Spec.Containers[0].Env {
		if strings.HasPrefix(e.Name, prefix) {
			got[e.Name], environ[e.Name] = true, e.Value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the variables (-want +got):\n%s", diff)
	}
	for _, o := range p.options(opRun) {
		if err := o.parse(environ); err != nil || o.source != o.variable() {
			t.Errorf("%s=%s: %v", o.variable(), environ[o.variable()], err)
		}
	}
	if environ["TRIGGER_PIN"] != "false" || environ["TRIGGER_PARALLEL_ASGS"] != "0" {
		t.Errorf("false or 0 is lost: %q", environ)
	}
}

// TestChartExitCodes: every exit code of a rollout fails the Job at once, except that of an interrupt: that
// pod is started again.
func TestChartExitCodes(t *testing.T) {
	t.Parallel()
	var want []int32
	for _, m := range regexp.MustCompile(`(?m)^ *([0-9]+)  `).FindAllStringSubmatch(report.ExitCodes(), -1) {
		code, err := strconv.ParseInt(m[1], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		if code != 0 && code != int64(report.Interrupted.ExitCode()) {
			want = append(want, int32(code))
		}
	}
	policy := cronJob(t, map[string]any{"cluster": "prod"}).Spec.JobTemplate.Spec.PodFailurePolicy
	if diff := cmp.Diff(want, policy.Rules[1].OnExitCodes.Values); diff != "" {
		t.Errorf("the codes that fail a Job (-the trigger's +the chart's):\n%s", diff)
	}
}

// TestDocsWatch: the variables of the Deployments of the watch of the pages are valid, as are those of the chart's own.
func TestDocsWatch(t *testing.T) {
	t.Parallel()
	found := 0
	for _, install := range docs.Installs(t) {
		var watch appsv1.Deployment
		if chart.Find(install.Objects, "Deployment", "node-drainer-watch", &watch) == nil {
			found++
			accepted(t, install.Page, docs.Environment(watch.Spec.Template.Spec), watch.Spec.Template.Spec.Containers[0].Command[1:])
		}
	}
	if found == 0 {
		t.Error("no page has a watch")
	}
}

// TestDocsCronJobs: the variables of the CronJobs of the pages are valid.
func TestDocsCronJobs(t *testing.T) {
	t.Parallel()
	found := 0
	for _, install := range docs.Installs(t) {
		for _, o := range install.Objects {
			var job batchv1.CronJob
			if o.GetKind() != "CronJob" {
				continue
			} else if err := chart.Find(install.Objects, "CronJob", o.GetName(), &job); err != nil {
				t.Fatal(err)
			}
			found++
			accepted(t, install.Page, docs.Environment(job.Spec.JobTemplate.Spec.Template.Spec), nil)
		}
	}
	if found == 0 {
		t.Error("no CronJob was found")
	}
}
