//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// drainBound is how long after its deadline a drain may end: half a minute, and some seconds for a busy machine.
const drainBound = 30*time.Second + 15*time.Second

// assertEndsBy expects that the action ended after the timeout of the drain, and within the bound.
func (f *fixture) assertEndsBy(instance string, timeout time.Duration) {
	f.t.Helper()
	a := f.waitCompleted(instance)
	if took := a.ClosedAt.Sub(a.StartedAt); took > timeout+drainBound {
		f.t.Errorf("the action ended after %v, the drain had %v", took, timeout)
	}
}

// TestPodsThatReturn: workloads that put their pods back on the node are asked once, and do not hold the hook.
func TestPodsThatReturn(t *testing.T) {
	t.Parallel()
	everything := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	named := func(node string) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = node }
	}
	for name, deploy := range map[string]func(f *fixture, node string) error{
		"a Deployment that tolerates every taint": func(f *fixture, node string) error {
			return f.cluster.Deploy(f.ctx, cluster.Deployment{
				Namespace: f.namespace, Name: "op", Replicas: 1, Pods: cluster.Pods{Node: node, Tolerations: everything, Stop: time.Second},
			})
		},
		"a StatefulSet that tolerates every taint": func(f *fixture, node string) error {
			return f.cluster.StatefulSet(f.ctx, f.namespace, "op", 2, cluster.Pods{Node: node, Tolerations: everything, Stop: time.Second})
		},
		"a Deployment that names the node": func(f *fixture, node string) error {
			return f.cluster.Deploy(f.ctx, cluster.Deployment{
				Namespace: f.namespace, Name: "op", Replicas: 1, Pods: cluster.Pods{Change: named(node), Stop: time.Second},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			f.mayKill = true // what returns ends with the instance
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 2, cluster.Pods{Stop: 10 * time.Second}) // so that the controllers have the time to put pods back
			f.must(deploy(f, old))
			f.waitPodsReady("op", 1)
			agent := f.startAgent("DRAIN_TIMEOUT=45s")
			f.terminate(instance)
			f.assertEndsBy(instance, 45*time.Second)
			agent.waitLog("termination ended", "outcome", "drained")
			if n := len(f.evicted()); n > 2+2*2 { // of api, and of op as it was and returned
				t.Errorf("%d evictions: %q", n, f.evicted())
			}
			for _, p := range f.podsOf("api") {
				if f.bound()[p] == old {
					t.Errorf("%s is on the drained node", p)
				}
			}
			if strings.Contains(name, "StatefulSet") {
				return // its controller waits for the end of a pod before it creates the next one
			}
			agent.waitLog("controllers have put pods back on the node", "node", old)
			f.waitEvent("PodsReturned")
			if n := agent.metric("node_drainer_pods_left_total", "put-back"); n < 1 {
				t.Errorf("the metric counts %v pods", n)
			}
		})
	}
}

// admissionWebhook is a real HTTPS server that answers the API server about evictions and deletions of pods of a test.
func (f *fixture) admissionWebhook(policy admissionregistrationv1.FailurePolicyType, answer func(context.Context) *metav1.Status) {
	f.t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var refusal *metav1.Status
		if dryRun := review.Request.DryRun; review.Request.UserInfo.Username == f.user || dryRun != nil && *dryRun {
			refusal = answer(r.Context()) // not to the simulated kubelet, which deletes pods that have ended
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: refusal == nil, Result: refusal}
		_ = json.NewEncoder(w).Encode(review)
	}))
	f.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	seconds, none, path := int32(20), admissionregistrationv1.SideEffectClassNone, server.URL+"/"
	rule := func(operation admissionregistrationv1.OperationType, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}
	}
	hooks := f.cluster.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(f.ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: webhookName, FailurePolicy: &policy, TimeoutSeconds: &seconds, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &path, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule(admissionregistrationv1.Delete, "pods"), rule(admissionregistrationv1.Create, "pods/eviction"),
			},
		}},
	}, metav1.CreateOptions{})
	f.must(err)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		if err := hooks.Delete(ctx, f.namespace, metav1.DeleteOptions{}); err != nil {
			f.t.Error(err)
		}
	})
	f.awaitWebhook()
}

// awaitWebhook waits until the API server asks the webhook: it learns of it by a watch.
func (f *fixture) awaitWebhook() {
	f.t.Helper()
	f.must(f.cluster.Pod(f.ctx, f.namespace, "probe", cluster.Pods{Pool: f.namespace}))
	eventually(f.t, waitTimeout, func() string {
		ctx, cancel := context.WithTimeout(f.ctx, 200*time.Millisecond)
		defer cancel()
		err := f.cluster.Client().CoreV1().Pods(f.namespace).Delete(ctx, "probe", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return "the API server does not ask the webhook"
		}
		return ""
	})
	now := int64(0)
	f.must(f.cluster.Client().CoreV1().Pods(f.namespace).Delete(f.ctx, "probe", metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

const webhookName = "guard.node-drainer.test"

// hang answers nothing until the API server gives up.
func hang(ctx context.Context) *metav1.Status {
	<-ctx.Done()
	return nil
}

// TestWebhooksThatHang: a webhook that hangs and may be ignored delays an eviction. One that may not be ignored holds a
// drain to its bound.
func TestWebhooksThatHang(t *testing.T) {
	t.Parallel()
	for _, policy := range []admissionregistrationv1.FailurePolicyType{
		admissionregistrationv1.Ignore, admissionregistrationv1.Fail,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			f.mayKill = policy == admissionregistrationv1.Fail
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 1, cluster.Pods{Stop: time.Second, GracePeriod: 5 * time.Second})
			f.admissionWebhook(policy, hang)
			agent := f.startAgent("DRAIN_TIMEOUT=50s")
			if policy == admissionregistrationv1.Fail {
				f.assertLeftBehind(agent, old, instance, 50*time.Second)
				return
			}
			f.terminate(instance)
			f.assertEndsBy(instance, 50*time.Second)
			agent.waitLog("termination ended", "outcome", "drained")
		})
	}
}

// TestWebhooksThatDeny: a denial is one whatever its code. The drain ends by its bound, says so, and counts no pod as
// removed.
func TestWebhooksThatDeny(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{403, 404, 409, 429, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			f.mayKill = true
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 1, cluster.Pods{Stop: time.Second, GracePeriod: 2 * time.Second})
			f.admissionWebhook(admissionregistrationv1.Fail, func(context.Context) *metav1.Status {
				return &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "busy"}
			})
			agent := f.startAgent("DRAIN_TIMEOUT=15s")
			f.assertLeftBehind(agent, old, instance, 15*time.Second)
			agent.waitLog("eviction blocked", "because", "refused-by-webhook")
			if n := agent.Count("pod deleted at the deadline") + agent.Count("pod evicted"); n > 0 {
				t.Errorf("%d pods were logged as removed", n)
			}
		})
	}
}

// assertLeftBehind terminates the instance, and expects that its drain ends within its bound, and that the condition, an
// Event and the metric name the webhook that kept a pod. The node exists until the action is completed.
func (f *fixture) assertLeftBehind(agent *agentProcess, node, instance string, timeout time.Duration) {
	f.t.Helper()
	complete := f.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"})
	started := time.Now()
	f.terminate(instance)
	agent.waitLog("drain ended with pods left on the node", "node", node)
	if took := time.Since(started); took > timeout+drainBound {
		f.t.Errorf("the drain ended after %v, and had %v", took, timeout)
	}
	f.waitNode(node, func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "node-drainer.io/Drained" && c.Reason == "PodsLeftBehind" && strings.Contains(c.Message, webhookName)
		})
	})
	f.waitEvent("PodsLeftBehind")
	if n := agent.metric("node_drainer_pods_left_total", "refused-by-webhook"); n < 1 {
		f.t.Errorf("the metric counts %v pods", n)
	}
	complete()
	f.waitCompleted(instance)
	agent.waitLog("termination ended", "outcome", "left-behind")
}

// TestFleetLeftBehind: when the drains of many nodes end at the same time with many pods each, no node is without its
// Event, and each Event counts all pods of its node.
func TestFleetLeftBehind(t *testing.T) {
	const nodes, pods = 100, 3000
	f := newFixtureWithHook(t)
	f.mayKill = true
	var instances []string
	for range nodes {
		_, instance := f.node()
		instances = append(instances, instance)
	}
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
		Namespace: f.namespace, Name: "api", Replicas: pods, Pods: cluster.Pods{Pool: f.namespace, Change: spread},
	}))
	f.waitPodsReady("api", pods)
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "100%"))
	agent := f.startAgent("DRAIN_TIMEOUT=20s", "DRAIN_AT_DEADLINE=leave", "LOG_LEVEL=info")
	for _, instance := range instances {
		f.terminate(instance)
	}
	for _, instance := range instances {
		f.waitCompleted(instance)
	}
	agent.waitCount(nodes, "drain ended with pods left on the node")
	var events map[string]string
	eventually(t, waitTimeout, func() string {
		list, err := f.cluster.Client().CoreV1().Events("").List(f.ctx, metav1.ListOptions{FieldSelector: "reason=PodsLeftBehind"})
		f.must(err)
		events = map[string]string{}
		for _, e := range list.Items {
			if f.nodes[e.InvolvedObject.Name] {
				events[e.InvolvedObject.Name] = e.Message
			}
		}
		if len(events) < nodes {
			return fmt.Sprintf("%d of %d nodes have their Event", len(events), nodes)
		}
		return ""
	})
	left := 0
	for node, message := range events {
		var here, total int
		if _, err := fmt.Sscanf(message, "The drain ended with %d of %d pods", &here, &total); err != nil || here != total {
			t.Errorf("%s: %s", node, message)
		}
		left += here
	}
	if left != pods {
		t.Errorf("the Events count %d pods, want %d", left, pods)
	}
	counted := 0.0
	for _, reason := range []string{"misconfigured-budget", "blocked-by-budget", "terminating"} {
		counted += agent.metric("node_drainer_pods_left_total", reason)
	}
	if counted != pods {
		t.Errorf("the metric counts %v pods", counted)
	}
}

// spread has the scheduler spread the pods over all nodes of the test.
func spread(p *corev1.PodTemplateSpec) {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
	}}
}
