//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/node-drainer/node-drainer/test/chart"
)

// The ServiceAccounts of a world, under whose rights the programs run. The chart makes them, and nothing grants them
// more: see judgeAccess.
const (
	agentAccount    = "agent"
	triggerAccount  = "trigger"
	taintingAccount = "tainting" // of a trigger that may taint nodes
	lookingAccount  = "looking"  // of an agent that may look and no more, for a dry run
)

// anyWorld stands for a world's namespace in what is rendered once for all worlds. It is the release's name as well, as
// the Lease of a world is called after the world.
const anyWorld = "node-drainer-in-any-world"

var (
	renderAccess = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		return rolesOf(anyWorld, "serviceAccount.name="+agentAccount, "trigger.serviceAccount.name="+triggerAccount)
	})
	renderTainting = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		return rolesOf(anyWorld+"-tainting", "trigger.serviceAccount.name="+taintingAccount, "trigger.taintNodes=true")
	})
	renderLooking = sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		return rolesOf(anyWorld+"-looking", "serviceAccount.name="+lookingAccount, "config.dryRun=true")
	})
)

// rolesOf returns all that the chart renders of who may do what.
func rolesOf(release string, values ...string) ([]unstructured.Unstructured, error) {
	values = append(values, "config.clusterName=demo", "config.queue.url=https://sqs.eu-central-1.amazonaws.com/1/q",
		"image.registry=registry.example.com", "trigger.enabled=true")
	objects, err := chart.Render(context.Background(), release, anyWorld, "--set", strings.Join(values, ","))
	return slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
		return o.GetKind() != "ServiceAccount" && o.GroupVersionKind().Group != rbacv1.GroupName
	}), err
}

// install makes what was rendered in the world, as it is but for the world's name.
func (w *world) install(render func() ([]unstructured.Unstructured, error)) {
	w.t.Helper()
	objects, err := render()
	w.must(err)
	text, err := json.Marshal(objects)
	w.must(err)
	var here []unstructured.Unstructured
	w.must(json.Unmarshal([]byte(strings.ReplaceAll(string(text), anyWorld, w.namespace)), &here))
	w.must(w.cluster.Create(w.ctx, here...))
}

// token returns a kubeconfig of an account of the world.
func (w *world) token(account string) string {
	w.t.Helper()
	kubeconfig, err := w.cluster.Token(w.ctx, w.namespace, account)
	w.must(err)
	return kubeconfig
}

// without takes a verb of a resource from what the agent may do.
func (w *world) without(verb, resource string) {
	w.t.Helper()
	roles := w.cluster.Client().RbacV1().ClusterRoles()
	role, err := roles.Get(w.ctx, w.namespace+":"+w.namespace, metav1.GetOptions{})
	w.must(err)
	for i, rule := range role.Rules {
		if slices.Contains(rule.Resources, resource) {
			role.Rules[i].Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == verb })
		}
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 })
	_, err = roles.Update(w.ctx, role, metav1.UpdateOptions{})
	w.must(err)
	w.must(w.cluster.WaitAllowed(w.ctx, w.user,
		authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}, false))
}
