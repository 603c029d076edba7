//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/redispods"
)

// The ServiceAccounts of a fixture, under whose rights the programs run. The chart makes them, and nothing grants them
// more: see judgeAccess.
const (
	agentAccount    = "agent"
	triggerAccount  = "trigger"
	taintingAccount = "tainting" // of a trigger that may taint nodes
	watchingAccount = "watching" // of trigger watch
	lookingAccount  = "looking"  // of an agent that may look and no more, for a dry run
	handoverAccount = "handover" // of the program that has pods hand over
)

// anyNamespace stands for a fixture's namespace in what is rendered once for all fixtures. It is the release's name as well, as
// the Lease of a fixture is called after the fixture.
const anyNamespace = "node-drainer-in-any-namespace"

var (
	renderAccess = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		return rolesOf(anyNamespace, "serviceAccount.name="+agentAccount, "trigger.serviceAccount.name="+triggerAccount,
			"config.autoscalerDeployment="+anyNamespace+"/"+autoscalerName, "rbac.restartDeployments=true")
	})
	renderHandover = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		objects, err := chart.RenderHandover(context.Background(), anyNamespace, anyNamespace, "--set", strings.Join([]string{
			"image.registry=registry.example.com", "fullnameOverride=" + handoverAccount, "surges=true",
			"secrets[0]=" + redispods.Secret,
		}, ","))
		return slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
			return !slices.Contains([]string{"ServiceAccount", "Role", "RoleBinding", "ConfigMap"}, o.GetKind())
		}), err
	})
	renderPolicy = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		objects, err := chart.Render(context.Background(), anyNamespace, anyNamespace,
			"--set", strings.Join([]string{
				"config.clusterName=demo", "config.queue.url=https://sqs.eu-central-1.amazonaws.com/1/q",
				"image.registry=registry.example.com", "serviceAccount.name=" + agentAccount, "rbac.restartDeployments=true",
				"config.autoscalerDeployment=" + anyNamespace + "/" + autoscalerName,
				"admissionPolicy.restartNamespaces[0]=" + anyNamespace,
			}, ","))
		return slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
			return o.GroupVersionKind().Group != "admissionregistration.k8s.io"
		}), err
	})
	renderTainting = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		return rolesOf(anyNamespace+"-tainting", "trigger.serviceAccount.name="+taintingAccount, "trigger.taintNodes=true",
			"history.enabled=false")
	})
	renderWatching = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		return rolesOf(anyNamespace+"-watching", "watch.enabled=true", "watch.options.cluster=demo",
			"watch.serviceAccount.name="+watchingAccount, "history.enabled=false")
	})
	renderLooking = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		return rolesOf(anyNamespace+"-looking", "serviceAccount.name="+lookingAccount, "config.dryRun=true")
	})
)

// rolesOf returns all that the chart renders of who may do what, and the ConfigMap for the records of drains.
func rolesOf(release string, values ...string) ([]unstructured.Unstructured, error) {
	values = append(values, "config.clusterName=demo", "config.queue.url=https://sqs.eu-central-1.amazonaws.com/1/q",
		"image.registry=registry.example.com", "trigger.enabled=true")
	objects, err := chart.Render(context.Background(), release, anyNamespace, "--set", strings.Join(values, ","))
	return slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
		kept := o.GetKind() == "ServiceAccount" || o.GetKind() == "ConfigMap"
		return !kept && o.GroupVersionKind().Group != rbacv1.GroupName
	}), err
}

// install makes what was rendered in the fixture, as it is but for the fixture's name.
func (f *fixture) install(render func() ([]unstructured.Unstructured, error)) {
	f.t.Helper()
	objects, err := render()
	f.must(err)
	text, err := json.Marshal(objects)
	f.must(err)
	var here []unstructured.Unstructured
	f.must(json.Unmarshal([]byte(strings.ReplaceAll(string(text), anyNamespace, f.namespace)), &here))
	f.must(f.cluster.Create(f.ctx, here...))
}

// token returns a kubeconfig of an account of the fixture.
func (f *fixture) token(account string) string {
	f.t.Helper()
	kubeconfig, err := f.cluster.Token(f.ctx, f.namespace, account)
	f.must(err)
	return kubeconfig
}
