//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/redispods"
)

// TestSecrets: under the rights of its chart the program reads a Secret that the value secrets lists, and no other one.
// An Event says what to do about that. It asks for Secrets that pods name, and for nothing else of Secrets; the agent
// for none.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const listed, unlisted = redispods.Secret, "unlisted"
	provoke(handoverAccount, "get secrets")
	f := newFixtureWithHook(t)
	node, instance := f.node()
	for _, name := range []string{listed, unlisted} {
		_, err := f.cluster.Client().CoreV1().Secrets(f.namespace).Create(f.ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": "of-" + name},
		}, metav1.CreateOptions{})
		f.must(err)
		ip, port := f.serveConnections(replies{
			"AUTH": "-WRONGPASS\r\n", "AUTH of-" + listed: "+OK\r\n", "INFO replication": "role:master\r\n",
		}.serve)
		f.pod("with-"+name, node, redisMember(workload.PortAnnotation, port, workload.SecretAnnotation, name))
		f.setAddress("with-"+name, ip)
	}
	f.pod("without", node, cluster.Pods{Stop: time.Second})
	f.startHandover()
	f.startAgent("DRAIN_HAND_OVER_TIMEOUT=2s")
	f.terminate(instance)
	f.waitHandled(instance)
	f.assertEvictedOnce([]string{"with-" + listed, "with-" + unlisted, "without"})
	f.waitEventText("HandOverFailed", "no replica")
	f.waitEventText("HandOverFailed", fmt.Sprintf("read the Secret %s/%s (is it listed in secrets of the chart?): "+
		"secrets %q is forbidden", f.namespace, unlisted, unlisted))

	ofSecrets := func(r cluster.Request) bool { return r.Resource == "secrets" }
	if got := f.requestsBy(f.user, ofSecrets); len(got) > 0 {
		t.Errorf("requests of the agent for Secrets: %q", got)
	}
	got := f.requestsBy(cluster.UserName(f.namespace, handoverAccount), ofSecrets)
	want := []string{
		fmt.Sprintf("get %s/%s: %d", f.namespace, listed, http.StatusOK),
		fmt.Sprintf("get %s/%s: %d", f.namespace, unlisted, http.StatusForbidden),
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests for Secrets:\n%q\nwant\n%q", got, want)
	}
}

// requestsBy returns the requests of a user to the API server that match, in order, each once.
func (f *fixture) requestsBy(user string, matches func(cluster.Request) bool) (all []string) {
	f.t.Helper()
	requests, err := f.cluster.Requests(f.ctx, user)
	f.must(err)
	for _, r := range requests {
		if matches(r) {
			all = append(all, fmt.Sprintf("%s %s/%s: %d", r.Verb, r.Namespace, r.Name, r.Code))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestNoAnnotationNoCall: a drain of pods without annotations costs no request that a hand-over needs, and no
// connection to them.
func TestNoAnnotationNoCall(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	node, instance := f.node()
	redis := f.foreign()
	pods := cluster.Pods{Stop: time.Second, Change: namePort("redis", redis.port)}
	f.pod("redis-0", node, pods)
	f.setAddress("redis-0", redis.ip)
	f.startAgent()
	f.terminate(instance)
	f.waitHandled(instance)
	f.assertEvictedOnce([]string{"redis-0"})
	isExtra := func(r cluster.Request) bool {
		return slices.Contains([]string{"secrets", "services", "deployments", "statefulsets"}, r.Resource) ||
			r.Resource == "pods" && r.Verb == "list" && r.Namespace != ""
	}
	if extra := f.requestsBy(f.user, isExtra); len(extra) > 0 {
		t.Errorf("requests that only a hand-over needs: %q", extra)
	}
	if n := redis.connections.Load(); n > 0 {
		t.Errorf("the agent has connected %d times to a pod without an annotation", n)
	}
}
