//go:build e2e

package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/node-drainer/node-drainer/test/agentrules"
	"github.com/node-drainer/node-drainer/test/chart"
)

const (
	queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"
	least    = "config.clusterName=prod,image.registry=registry.example.com,config.queue.url=" + queueURL
)

// render returns what the chart makes as the release node-drainer in the namespace agents.
func render(t *testing.T, args ...string) []unstructured.Unstructured {
	t.Helper()
	objects, err := chart.Render(t.Context(), "node-drainer", "agents", args...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestRenderings compares the objects and the notes of the chart with files, so that a review shows each change. Update
// them with make generate.
func TestRenderings(t *testing.T) {
	t.Parallel()
	for name, file := range setups(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holdSetup(t, ours(t), "", name, file)
		})
	}
}

// holdSetup compares what a chart makes of a values file with the files of that name in a folder of testdata.
func holdSetup(t *testing.T, path, folder, name, values string) {
	t.Helper()
	args := []string{filepath.Base(path), path, "--namespace", "agents", "--values", values}
	objects, err := chart.Helm(t.Context(), nil, append([]string{"template"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	hold(t, filepath.Join(folder, name+".yaml"), objects)
	installed, err := chart.Helm(t.Context(), nil, append([]string{"install", "--dry-run=client"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	_, notes, _ := strings.Cut(installed, "\nNOTES:\n")
	hold(t, filepath.Join(folder, name+".txt"), notes)
}

// hold compares with a file of testdata, or writes it.
func hold(t *testing.T, name, text string) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s (-want +got; update it with make generate):\n%s", name, diff)
	}
}

// makeDist runs a target that writes to the folder dist, as a release does.
func makeDist(t *testing.T, dist, target string, variables ...string) {
	t.Helper()
	root, err := chart.Root()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "make", append(variables, "-C", root, target, "DIST="+dist)...)
	run.Env = append(os.Environ(), "MAKEFLAGS=")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, out)
	}
}

// TestThePackedCharts: a release packs the charts with the registry and the digest of their image, so that they need no
// value for these.
func TestThePackedCharts(t *testing.T) {
	t.Parallel()
	dist, digest := t.TempDir(), "sha256:"+strings.Repeat("0123456789abcdef", 4)
	makeDist(t, dist, "chart", "REGISTRY=registry.example.com:5000/x", "DIGEST="+digest)
	image := regexp.MustCompile(`image: "registry\.example\.com:5000/x/node-drainer/node-drainer:[\d.]+@` + digest + `"`)
	for name, values := range map[string]string{
		"node-drainer": "config.clusterName=prod,config.queue.url=" + queueURL, "node-drainer-handover": "secrets={redis}",
	} {
		packed, err := filepath.Glob(filepath.Join(dist, name+"-[0-9]*.tgz"))
		if err != nil || len(packed) != 1 {
			t.Fatalf("make chart has packed %q; %v", packed, err)
		}
		out, err := chart.Helm(t.Context(), nil, "template", name, packed[0], "--set", values)
		if err != nil || !image.MatchString(out) {
			t.Errorf("the packed chart %s has no %s; %v", name, image, err)
		}
		metadata, err := chart.Helm(t.Context(), nil, "show", "chart", packed[0])
		if err != nil || !strings.Contains(metadata, "image: registry.example.com:5000/x/node-drainer/node-drainer:") {
			t.Errorf("the metadata of %s do not name the image; %v:\n%s", name, err, metadata)
		}
	}
}

// TestTheManifests: install.yaml has what Helm would install into kube-system, with words in capitals for what only the
// user knows.
func TestTheManifests(t *testing.T) {
	t.Parallel()
	dist := t.TempDir()
	makeDist(t, dist, "manifests", "REGISTRY=registry.example.com")
	text, err := os.ReadFile(filepath.Join(dist, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifests := strings.NewReplacer("YOUR-CLUSTER", "prod", "https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE", queueURL).
		Replace(string(text))
	installed, err := chart.Helm(t.Context(), nil, "template", "node-drainer", ours(t), "--namespace", "kube-system",
		"--no-hooks", "--set", "config.clusterName=prod,image.registry=registry.example.com,config.queue.url="+queueURL,
		"--set", "config.hook.names={node-drainer-terminating,node-drainer-launching}")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(installed, "\n"), strings.Split(manifests, "\n")); diff != "" {
		t.Errorf("(-helm install +install.yaml):\n%s", diff)
	}
}

// TestRules: the roles grant what the demo, the benchmark and the chaos test run agents and triggers with,
// which do without Helm.
func TestRules(t *testing.T) {
	t.Parallel()
	rules := func(kind, name string, args ...string) []rbacv1.PolicyRule {
		var role rbacv1.ClusterRole // It has all that a Role has.
		if err := chart.Find(render(t, append(args, "--set", least)...), kind, name, &role); err != nil {
			t.Fatal(err)
		}
		return role.Rules
	}
	const watching = "watch.enabled=true,watch.options.cluster=prod"
	for name, diff := range map[string]string{
		"agent": cmp.Diff(agentrules.All(), rules("ClusterRole", "node-drainer:agents")),
		"restarts": cmp.Diff(append(agentrules.All(), agentrules.Restarts()...),
			rules("ClusterRole", "node-drainer:agents", "--set", "config.drain.singleReplicas=restart")),
		"restarts by annotation": cmp.Diff(append(agentrules.All(), agentrules.Restarts()...),
			rules("ClusterRole", "node-drainer:agents", "--set", "rbac.restartDeployments=true")),
		"Lease": cmp.Diff(agentrules.Own(), rules("Role", "node-drainer")),
		"trigger": cmp.Diff(agentrules.Trigger(),
			rules("ClusterRole", "node-drainer-trigger:agents", "--set", "trigger.enabled=true")),
		"records of drains": cmp.Diff(agentrules.History(), rules("Role", "node-drainer-history")),
		"Leases of agents": cmp.Diff(agentrules.TriggerOwn(),
			rules("Role", "node-drainer-trigger", "--set", "trigger.enabled=true")),
		"watch": cmp.Diff(agentrules.Trigger(), rules("ClusterRole", "node-drainer-watch:agents", "--set", watching)),
		"Lease and Events of the watch": cmp.Diff(agentrules.Watch(),
			rules("Role", "node-drainer-watch", "--set", watching)),
		"taints of the watch": cmp.Diff(append(agentrules.Trigger(), agentrules.TriggerTaints()...),
			rules("ClusterRole", "node-drainer-watch:agents", "--set", watching+",watch.taintNodes=true")),
		"taints": cmp.Diff(append(agentrules.Trigger(), agentrules.TriggerTaints()...),
			rules("ClusterRole", "node-drainer-trigger:agents", "--set", "trigger.enabled=true,trigger.taintNodes=true")),
		"autoscaler": cmp.Diff(
			[]rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{"ca"}, Verbs: []string{"get", "patch"}}},
			rules("Role", "node-drainer-autoscaler:agents", "--set", "config.autoscalerDeployment=kube-system/ca")),
	} {
		if diff != "" {
			t.Errorf("%s (-agentrules +chart):\n%s", name, diff)
		}
	}
}

// TestRulesOfHandovers: the program that has pods hand over has the rights in its namespace that it needs, and no others.
func TestRulesOfHandovers(t *testing.T) {
	t.Parallel()
	objects, err := chart.RenderHandover(t.Context(), "node-drainer-handover", "shop", "--set",
		"image.registry=registry.example.com,surges=true,secrets[0]=redis")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.Role
	if err := chart.Find(objects, "Role", "node-drainer-handover", &role); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(agentrules.Handover("redis"), role.Rules); diff != "" {
		t.Errorf("-agentrules +chart:\n%s", diff)
	}
	for _, o := range objects {
		if strings.HasPrefix(o.GetKind(), "ClusterRole") {
			t.Errorf("there is a %s", o.GetKind())
		}
	}
}

// TestAutoscalerOfTheWatch: the watch may pause the autoscaler, also where nothing else of the chart changes anything.
func TestAutoscalerOfTheWatch(t *testing.T) {
	t.Parallel()
	var binding rbacv1.RoleBinding
	objects := render(t, "--set", least+",config.dryRun=true,config.autoscalerDeployment=kube-system/ca,watch.enabled=true,"+
		"watch.options.cluster=prod,watch.options.pauseAutoscaler=kube-system/ca")
	if err := chart.Find(objects, "RoleBinding", "node-drainer-autoscaler:agents", &binding); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "node-drainer-watch", Namespace: "agents"}}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" {
		t.Error(diff)
	}
}

// TestADryRunOnlyLooks: it has the rights to read that the agent has, and no others.
func TestADryRunOnlyLooks(t *testing.T) {
	t.Parallel()
	objects := render(t, "--set", least+",config.dryRun=true")
	for _, o := range objects {
		if slices.Contains([]string{"Role", "RoleBinding", "Lease"}, o.GetKind()) {
			t.Errorf("there is a %s", o.GetKind())
		}
	}
	var role rbacv1.ClusterRole
	if err := chart.Find(objects, "ClusterRole", "node-drainer:agents", &role); err != nil {
		t.Fatal(err)
	}
	changes := func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }
	want := slices.DeleteFunc(agentrules.All(), func(r rbacv1.PolicyRule) bool { return slices.ContainsFunc(r.Verbs, changes) })
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("the ClusterRole (-want +got):\n%s", diff)
	}
}
