//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// release makes the namespace, which takes only what the Pod Security Standard "restricted" allows. Its pods may read the
// queue.
func (f *fixture) release(name, home, queue string) *release {
	f.t.Helper()
	_, err := f.cluster.Client().CoreV1().Namespaces().Create(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: home, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	f.must(err)
	r := &release{name: name, kubelet: f.startKubelet(home)}
	r.before = r.inventory()
	r.base = r.values(map[string]any{
		"image":          map[string]any{"registry": "registry.example.com"}, // as a release has it
		"podAnnotations": leaveToKubelet, "extraEnv": r.credentials(harness.Agent, queue),
		"trigger": map[string]any{"podAnnotations": leaveToKubelet, "extraEnv": r.credentials(harness.Trigger, queue)},
	})
	return r
}

// roleARN is the IAM role that the agent takes by IRSA.
const roleARN = "arn:aws:iam::123456789012:role/node-drainer"

// How much an agent logs, as its environment says.
const (
	terse   = "LOG_LEVEL=info" // the default
	verbose = "LOG_LEVEL=debug"
)

// TestHelm is the life of a release: three values make an agent that drains; upgrade, rollback and uninstall lose no
// drain and leave nothing.
func TestHelm(t *testing.T) {
	t.Parallel()
	f := newFleetOn(t, ownCluster(t), latest(4))
	defineMonitors(t, f.cluster)
	r := f.release("node-drainer", "agents", f.queue)
	f.user = cluster.UserName("agents", "node-drainer")
	provoke(r.fullName()+"-trigger", "get nodes") // It would protect new nodes: the group has no launch hook.
	if err := r.apply("install", "--set", "config.queue.url="+f.queue); err == nil ||
		!strings.Contains(err.Error(), "config.clusterName is required") {
		t.Errorf("without a cluster's name the chart is installed, or does not say what it lacks: %v", err)
	}
	three := []string{
		"--set", "config.clusterName=demo", "--set", "config.queue.url=" + f.queue,
		"--set", "serviceAccount.roleARN=" + roleARN,
	}
	f.must(r.apply("install", three...))
	r.assertServes(2)
	r.passesItsTest()
	evicted := r.drains()

	nightly := map[string]any{"schedule": "0 2 * * *", "options": map[string]any{
		"asg": []string{group}, "surge": 1, "pollInterval": "500ms",
	}}
	evicted = append(evicted, r.drainsDuring(func() {
		f.must(r.apply("upgrade", append(three,
			"--set", "config.log.level=debug,config.node.cordon=false,replicas=3",
			"--set", "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true",
			"--values", r.values(map[string]any{"trigger": map[string]any{
				"enabled": true, "cronJobs": map[string]any{"nightly": nightly},
			}}))...))
		r.waitAgents(3, verbose)
	})...)
	f.assertEvicted(evicted)
	r.assertScraped()
	r.rollsOut("node-drainer-nightly")
	r.assertAuthorized()

	_, err := r.helm("rollback", r.name, "1", "--wait", "--timeout", waitTimeout.String())
	f.must(err)
	r.waitAgents(2, terse)

	r.assertSecondRelease()
	r.uninstalls()
	for _, i := range f.waitServing(2) {
		f.assertUnmarked(cluster.NodeName(i.ID))
	}
}

// passesItsTest expects that helm test succeeds, and fails without a permission.
func (r *release) passesItsTest() {
	r.t.Helper()
	test := func() (string, error) {
		return r.helm("test", r.name, "--timeout", waitTimeout.String())
	}
	if out, err := test(); err != nil {
		r.t.Errorf("helm test: %v\n%s", err, out)
	}
	restore := r.aws.Withdraw("", "autoscaling:DescribeLifecycleHooks", 0)
	defer restore()
	if out, err := test(); err == nil {
		r.t.Errorf("helm test succeeds without a permission:\n%s", out)
	}
	// The pod of a test that has failed stays for its log.
	r.must(r.cluster.Client().CoreV1().Pods(r.home).Delete(r.ctx, r.fullName()+"-check", metav1.DeleteOptions{}))
}

// assertSecondRelease expects that a second release, for another queue, works beside this one and can be uninstalled alone.
func (r *release) assertSecondRelease() {
	r.t.Helper()
	queue := r.aws.CreateQueue("spots", nil)
	other := r.release("spots", "agents-for-spots", queue)
	r.must(other.apply("install", "--set", "config.clusterName=demo", "--set", "config.queue.url="+queue))
	other.waitAgents(2, terse)
	other.leader()
	other.uninstalls()
	r.waitAgents(2, terse)
	r.leader()
}

// uninstalls expects that helm uninstall leaves no object that was not there before.
func (r *release) uninstalls() {
	r.t.Helper()
	_, err := r.helm("uninstall", r.name)
	r.must(err)
	eventually(r.t, waitTimeout, func() (wrong string) { return strings.Join(r.leftovers(), ", ") })
}

// assertServes expects that one agent leads, that probes and Service reach all of them, and that the namespace enforces
// its Pod Security Standard.
func (r *release) assertServes(replicas int) {
	r.t.Helper()
	if err := r.cluster.Pod(r.ctx, r.home, "root", cluster.Pods{}); !apierrors.IsForbidden(err) {
		r.t.Errorf("a pod that says nothing of its rights is not refused: %v", err)
	}
	account, err := r.cluster.Client().CoreV1().ServiceAccounts(r.home).Get(r.ctx, r.fullName(), metav1.GetOptions{})
	r.must(err)
	if role := account.Annotations["eks.amazonaws.com/role-arn"]; role != roleARN {
		r.t.Errorf("the ServiceAccount has the role %q", role)
	}
	agents := r.waitAgents(replicas, terse)
	eventually(r.t, waitTimeout, func() (wrong string) { // The Lease is had before the leader knows.
		leader := r.leader()
		for _, a := range agents {
			if leads := a.agent.metric("node_drainer_leader", "") == 1; leads != (a.agent == leader) {
				return fmt.Sprintf("agent %s: leads is %v by its metric, and not by the Lease", a.pod.Name, leads)
			}
		}
		return ""
	})
	var ips []string
	for _, a := range agents {
		ips = append(ips, a.ip)
		r.assertProbes(a)
	}
	slices.Sort(ips)
	eventually(r.t, waitTimeout, func() (wrong string) {
		got, port := r.endpoints()
		if !slices.Equal(got, ips) || port != agents[0].pod.Spec.Containers[0].Ports[0].ContainerPort {
			return fmt.Sprintf("the Service leads to port %d of %q, want %q", port, got, ips)
		}
		return ""
	})
}

// assertProbes expects that the paths and ports of the probes are those that the agent serves.
func (r *release) assertProbes(a *container) {
	r.t.Helper()
	c := a.pod.Spec.Containers[0]
	for name, probe := range map[string]*corev1.Probe{"readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if probe.HTTPGet.Port.String() != c.Ports[0].Name {
			r.t.Errorf("the %s probe uses port %v, and the container has %v", name, probe.HTTPGet.Port, c.Ports)
		}
		if code := a.answers(r.t.Context(), probe.HTTPGet.Path); code != 200 {
			r.t.Errorf("the agent answers the %s probe, %s, with %d", name, probe.HTTPGet.Path, code)
		}
	}
}

// endpoints are the addresses that the release's Service leads to, in order, and their port.
func (r *release) endpoints() (ips []string, port int32) {
	r.t.Helper()
	slicesOf, err := r.cluster.Client().DiscoveryV1().EndpointSlices(r.home).List(r.ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + r.fullName(),
	})
	r.must(err)
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ips = append(ips, e.Addresses...)
			}
		}
		for _, p := range s.Ports {
			port = *p.Port
		}
	}
	return slices.Sorted(slices.Values(ips)), port
}

// assertScraped expects that the ServiceMonitor selects the Service, and the port on which the agents listen.
func (r *release) assertScraped() {
	r.t.Helper()
	out, err := r.cluster.Kubectl(r.ctx, "get", "servicemonitors,prometheusrules", r.fullName(), "-n", r.home, "-o", "yaml")
	r.must(err)
	var made struct {
		Items []struct {
			Spec struct {
				Selector  metav1.LabelSelector
				Endpoints []struct{ Port string }
			}
		}
	}
	r.must(yaml.Unmarshal([]byte(out), &made))
	if len(made.Items) != 2 || len(made.Items[0].Spec.Endpoints) != 1 {
		r.t.Fatalf("the release has made %s", out)
	}
	monitor := made.Items[0].Spec
	services, err := r.cluster.Client().CoreV1().Services("").List(r.ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(&monitor.Selector),
	})
	r.must(err)
	if len(services.Items) != 1 || services.Items[0].Spec.Ports[0].Name != monitor.Endpoints[0].Port {
		r.t.Errorf("the ServiceMonitor %+v leads to %+v", monitor, services.Items)
	}
}

// drains terminates an instance, and expects that its node is drained. It returns the pods that were evicted.
func (r *release) drains() (evicted []string) {
	r.t.Helper()
	node, instance := r.idle()
	r.deploy("api", node, 3, cluster.Pods{Stop: time.Second})
	evicted = r.podsOn(node)
	r.terminate(instance)
	r.waitHandled(instance)
	r.assertEvictedOnce(evicted)
	leader := r.leader()
	leader.waitLog("node drained", "node", node)
	if n := leader.Count("pod evicted"); n > 0 {
		r.t.Errorf("%d lines of level debug were logged, and the level is info", n)
	}
	return evicted
}

// drainsDuring expects that a drain continues while the release changes, and that no new agent is scheduled to the node.
// It returns the pods that were evicted.
func (r *release) drainsDuring(change func()) (evicted []string) {
	r.t.Helper()
	node, instance := r.idle()
	r.deploy("db", node, 2, cluster.Pods{Stop: time.Second})
	r.must(r.cluster.MinAvailable(r.ctx, r.namespace, "db", "2"))
	evicted = r.podsOn(node)
	r.terminate(instance)
	r.leader().waitLog("node cordoned", "node", node)
	// Only the taint should keep the agents away. An old agent may lead during the change and cordon the node again.
	_, err := r.cluster.Client().CoreV1().Nodes().Patch(r.ctx, node, types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":null}}`), metav1.PatchOptions{})
	r.must(err)

	change()
	going := r.getNode(node)
	if !isMarked(going) {
		r.t.Errorf("no taint keeps agents off node %s: %+v", node, going.Spec)
	}
	for _, a := range r.agents() {
		if a.pod.Spec.NodeName == node {
			r.t.Errorf("agent %s is on node %s, which is terminating", a.pod.Name, node)
		}
	}
	leader := r.leader() // one of after the change, which alone is to evict
	r.must(r.cluster.RemoveBudget(r.ctx, r.namespace, "db"))
	r.waitHandled(instance)
	leader.waitLog("pod evicted") // at the level that it has been given
	return evicted
}

// rollsOut runs the CronJob at once, and expects that all nodes are replaced, also those of the agents and the trigger.
func (r *release) rollsOut(cronJob string) {
	r.t.Helper()
	size := len(r.serving())
	_, err := r.aws.AddTemplateVersion(launchTemplate, "ami-2")
	r.must(err)
	_, err = r.cluster.Kubectl(r.ctx, "create", "job", "at-once", "--from=cronjob/"+cronJob, "--namespace", r.home)
	r.must(err)
	var job *batchv1.Job
	eventually(r.t, rolloutTimeout, func() (wrong string) {
		job, err = r.cluster.Client().BatchV1().Jobs(r.home).Get(r.ctx, "at-once", metav1.GetOptions{})
		r.must(err)
		for _, c := range job.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("the rollout has not ended: %+v", job.Status)
	})
	if job.Status.Succeeded != 1 {
		r.t.Errorf("the Job ended with %+v", job.Status)
	}
	now := r.serving()
	if len(now) != size || slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.Version != 2 }) {
		r.t.Errorf("after the rollout of %d instances there are %+v", size, now)
	}
}

// serving are the instances of the group that are in service.
func (f *fixture) serving() []awsim.Instance {
	return slices.DeleteFunc(f.aws.Instances(group), func(i awsim.Instance) bool { return i.State != "InService" })
}

// TestKubectlTakesTheChart: the API server admits every object of the chart, and knows each of its fields.
func TestKubectlTakesTheChart(t *testing.T) {
	t.Parallel()
	path, err := chart.Path()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(path, "ci", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no values to try: %v", err)
	}
	c := shared(t)
	defineMonitors(t, c)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			namespace := c.Namespace(t)
			objects, err := chart.Render(t.Context(), "drainer", namespace, "--values", file, "--no-hooks",
				"--set", "config.leader.namespace=")
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
			if err != nil {
				t.Fatal(err)
			}
			manifest := filepath.Join(t.TempDir(), "chart.json")
			if err := os.WriteFile(manifest, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-f", manifest); err != nil {
				t.Error(err)
			}
		})
	}
}
