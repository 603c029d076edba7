//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestAdmissionPolicy: who has the agent's token can change nothing of Nodes and Deployments but what the agent changes,
// and the agent can change that.
func TestAdmissionPolicy(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	f.install(renderPolicy)
	node, instance := f.node()
	f.deploy("api", node, 1, cluster.Pods{Stop: 3 * time.Second})
	f.addDeployment(f.namespace, "web")
	outside := f.cluster.Namespace(t)
	f.addDeployment(outside, "web")
	f.addDeployment(f.namespace, autoscalerName)
	thief := f.thief()
	eventually(t, waitTimeout, func() string { // The API server begins to enforce a policy after a moment.
		return thief.try("nodes", `{"metadata":{"labels":{"probe":"x"}}}`, node, "", true)
	})
	for _, patch := range []string{
		`{"metadata":{"labels":{"topology.kubernetes.io/zone":"elsewhere"}}}`,
		`{"metadata":{"labels":{"node-restriction.kubernetes.io/tier":"secret"}}}`,
		`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`,
		`{"metadata":{"labels":{"kubernetes.io/hostname":null}}}`,
		`{"metadata":{"labels":{"node-drainer.io/pool":"x"}}}`,
		`{"metadata":{"annotations":{"csi.volume.kubernetes.io/nodeid":"{}"}}}`,
		`{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"9"}}}`,
		`{"metadata":{"annotations":{"cluster.x-k8s.io/machine":"x"}}}`,
		`{"metadata":{"annotations":{"kwok.x-k8s.io/node":null}}}`,
		`{"metadata":{"finalizers":["example.com/never"]}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"0"}]}}`,
		`{"spec":{"taints":[{"key":"example.com/mine","effect":"NoExecute"}]}}`,
		`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`,
		`{"spec":{"taints":[{"key":"node-drainer.io/terminating","effect":"NoSchedule"},{"key":"a","effect":"NoSchedule"}]}}`,
		`{"spec":{"podCIDR":"10.9.0.0/24","podCIDRs":["10.9.0.0/24"]}}`,
	} {
		thief.expect("nodes", patch, node, "", true)
	}
	for _, patch := range []string{
		`{"status":{"addresses":[{"type":"InternalIP","address":"10.6.6.6"}]}}`,
		`{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":6666}}}}`,
		`{"status":{"allocatable":{"cpu":"1000"}}}`,
		`{"status":{"capacity":{"cpu":"1000"}}}`,
		`{"status":{"nodeInfo":{"kubeletVersion":"v0.0.1"}}}`,
		`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
		`{"status":{"conditions":[{"type":"Mine","status":"True"}]}}`,
		`{"status":{"volumesInUse":["a"]}}`,
		`{"metadata":{"labels":{"a":"b"}}}`,
	} {
		thief.expect("nodes", patch, node, "status", true)
	}
	for _, patch := range []string{
		`{"spec":{"template":{"spec":{"serviceAccountName":"other"}}}}`,
		`{"spec":{"template":{"spec":{"hostNetwork":true}}}}`,
		`{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`,
		`{"spec":{"replicas":0}}`,
		`{"spec":{"paused":true}}`,
		`{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`,
		`{"metadata":{"labels":{"a":"b"}}}`,
		`{"metadata":{"annotations":{"a":"b"}}}`,
	} {
		thief.expect("deployments/"+f.namespace, patch, "web", "", true)
	}
	const restart = `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}}}`
	thief.expect("deployments/"+outside, restart, "web", "", true)
	thief.expect("deployments/"+f.namespace, restart, "web", "", false)
	thief.expect("deployments/"+f.namespace, `{"metadata":{"annotations":{"node-drainer.io/paused":"x"}},"spec":{"replicas":0}}`,
		autoscalerName, "", false)

	agent := f.startAgent()
	f.terminate(instance)
	f.waitNode(node, func(n *corev1.Node) bool { return condition(n) != nil })
	f.waitCompleted(instance)
	agent.waitLog("termination ended", "instance", instance, "outcome", "drained")
}

// addDeployment creates a Deployment without pods, which no node could run.
func (f *fixture) addDeployment(namespace, name string) {
	f.t.Helper()
	labels := map[string]string{"app": name}
	_, err := f.cluster.Client().AppsV1().Deployments(namespace).Create(f.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "a", Image: "a"}},
				},
			},
		},
	}, metav1.CreateOptions{})
	f.must(err)
}

// thief has the agent's token.
type thief struct {
	*fixture
	client kubernetes.Interface
}

func (f *fixture) thief() *thief {
	f.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	f.must(err)
	client, err := kubernetes.NewForConfig(cfg)
	f.must(err)
	return &thief{f, client}
}

// expect expects that a patch is denied by the policy, or is not.
func (t *thief) expect(resource, patch, name, subresource string, denied bool) {
	t.t.Helper()
	if wrong := t.try(resource, patch, name, subresource, denied); wrong != "" {
		t.t.Error(wrong)
	}
}

// try returns what is wrong, or "". The resource is nodes, or deployments/NAMESPACE. No patch is carried out.
func (t *thief) try(resource, patch, name, subresource string, denied bool) string {
	o := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	var err error
	if _, namespace, namespaced := strings.Cut(resource, "/"); namespaced {
		_, err = t.client.AppsV1().Deployments(namespace).Patch(t.ctx, name, types.MergePatchType, []byte(patch), o)
	} else {
		_, err = t.client.CoreV1().Nodes().Patch(t.ctx, name, types.MergePatchType, []byte(patch), o, subresources...)
	}
	isDenied := apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	if isDenied != denied || !denied && err != nil {
		return fmt.Sprintf("%s %s %s: %v, want denied: %t", resource, subresource, patch, err, denied)
	}
	return ""
}
