//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// release is the chart as helm installs it in a namespace of its own, whose pods run.
type release struct {
	*kubelet
	name   string
	base   string // a file of values that only a test needs
	before []string
}

// apply installs or upgrades the release, and waits until its agents are ready.
func (r *release) apply(verb string, values ...string) error {
	path, err := chart.Path()
	r.must(err)
	values = append([]string{"--values", r.base}, values...)
	_, err = r.helm(append([]string{verb, r.name, path, "--wait", "--timeout", waitTimeout.String()}, values...)...)
	return err
}

// waitAgents waits until so many agents run, and all of them have the setting and are ready, and returns them.
func (r *release) waitAgents(n int, setting string) (agents []*container) {
	r.t.Helper()
	eventually(r.t, waitTimeout, func() (wrong string) {
		agents = r.agents()
		ready := slices.DeleteFunc(slices.Clone(agents), func(a *container) bool {
			return !slices.Contains(a.process.Cmd.Env, setting) || !a.isReady(r.t.Context())
		})
		if len(agents) != n || len(ready) != n {
			return fmt.Sprintf("%d agents run, of which %d have %s and are ready, want %d", len(agents), len(ready), setting, n)
		}
		return ""
	})
	return agents
}

// leader waits until one of the agents holds the Lease, and returns it.
func (r *release) leader() (leader *agentProcess) {
	r.t.Helper()
	eventually(r.t, waitTimeout, func() (wrong string) {
		lease, err := r.cluster.Client().CoordinationV1().Leases(r.home).Get(r.ctx, r.fullName(), metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return fmt.Sprintf("the Lease has no holder: %v", err)
		}
		holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		for _, a := range r.agents() {
			if a.pod.Name == holder {
				leader = a.agent
				return ""
			}
		}
		return fmt.Sprintf("%q holds the Lease, which is no agent that runs", holder)
	})
	return leader
}

// fullName is how the chart calls what it makes.
func (r *release) fullName() string {
	if strings.Contains(r.name, "node-drainer") {
		return r.name
	}
	return r.name + "-node-drainer"
}

// idle returns a node, and its instance, that no agent runs on.
func (r *release) idle() (node, instance string) {
	r.t.Helper()
	for _, i := range r.serving() {
		node := cluster.NodeName(i.ID)
		if !slices.ContainsFunc(r.agents(), func(a *container) bool { return a.pod.Spec.NodeName == node }) {
			return node, i.ID
		}
	}
	r.t.Fatal("there is an agent on each node")
	return "", ""
}

// inventory is what is in the cluster without a namespace, or in the release's own, as kubectl names it. Events are left
// out, which go by themselves; so are nodes and namespaces, which no release makes.
func (r *release) inventory() []string {
	r.t.Helper()
	out, err := r.cluster.Kubectl(r.ctx, "api-resources", "--verbs=list,delete", "--output=name")
	r.must(err)
	kinds := slices.DeleteFunc(strings.Fields(out), func(kind string) bool {
		return slices.Contains([]string{"events", "events.events.k8s.io", "nodes", "namespaces"}, kind)
	})
	out, err = r.cluster.Kubectl(r.ctx, "get", strings.Join(kinds, ","), "--namespace", r.home, "--output=name")
	r.must(err)
	return strings.Fields(out)
}

// leftovers returns the objects that were not there before the release, except those that Kubernetes makes in each namespace.
func (r *release) leftovers() []string {
	r.t.Helper()
	given := append([]string{"configmap/kube-root-ca.crt", "serviceaccount/default"}, r.before...)
	return slices.DeleteFunc(r.inventory(), func(o string) bool { return slices.Contains(given, o) })
}

// credentials are what EKS gives a pod of the release to reach AWS, with the rights of deploy/iam, and where the AWS of
// this fixture is.
func (r *release) credentials(program, queue string) []corev1.EnvVar {
	key := program + "-" + r.name
	r.limit(program, key, r.aws.QueueARN(queue))
	return []corev1.EnvVar{
		{Name: "AWS_REGION", Value: "eu-central-1"},
		{Name: "AWS_ENDPOINT_URL", Value: r.aws.URL()},
		{Name: "AWS_ACCESS_KEY_ID", Value: key},
		{Name: "AWS_SECRET_ACCESS_KEY", Value: "test"},
		{Name: "AWS_EC2_METADATA_DISABLED", Value: "true"},
	}
}

// values is a file with the values.
func (r *release) values(values map[string]any) string {
	r.t.Helper()
	text, err := yaml.Marshal(values)
	r.must(err)
	file := filepath.Join(r.t.TempDir(), "values.yaml")
	r.must(os.WriteFile(file, text, 0o600))
	return file
}

// helm runs helm on the release's cluster and namespace.
func (r *release) helm(args ...string) (string, error) {
	return chart.Helm(r.ctx, []string{"KUBECONFIG=" + r.cluster.Kubeconfig()},
		append(args, "--namespace", r.home)...)
}

// assertAuthorized expects that neither program has sent a request that the release does not allow it.
func (r *release) assertAuthorized() {
	r.t.Helper()
	manifest, err := r.helm("get", "manifest", r.name)
	r.must(err)
	objects, err := chart.Parse(manifest)
	r.must(err)
	for _, account := range []string{r.fullName(), r.fullName() + "-trigger"} {
		user := cluster.UserName(r.home, account)
		rights, err := rightsOf(user, objects)
		r.must(err)
		requests, err := r.cluster.Requests(r.ctx, user)
		r.must(err)
		if len(rights) == 0 || len(requests) == 0 {
			r.t.Errorf("%s has %d rights and has sent %d requests", user, len(rights), len(requests))
		}
		r.must(judge(account, rights, requests, false))
	}
}

// defineMonitors makes the kinds known that the Prometheus Operator brings.
func defineMonitors(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	files, err := chart.Definitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "apply", "--server-side", "-f", strings.Join(files, ",")); err != nil {
		t.Fatal(err)
	}
	// Discovery lists them a little later, and not all at once.
	eventually(t, waitTimeout, func() string {
		known, err := c.Client().Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		if err != nil {
			return err.Error()
		}
		for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"} {
			if !slices.ContainsFunc(known.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
				return "discovery does not list the kind " + kind
			}
		}
		return ""
	})
}
