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

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/redispods"
)

// TestSecrets: under the rights of the chart the agent reads a Secret that handOver.secrets lists, and no other one. An
// Event says what to do about that. The agent asks for Secrets that pods name, and for nothing else of Secrets.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const listed, unlisted = redispods.Secret, "unlisted"
	provoke(agentAccount, "get secrets")
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
		f.pod("with-"+name, node, member(handover.RedisKind, handover.PortAnnotation, port, handover.SecretAnnotation, name))
		f.setAddress("with-"+name, ip)
	}
	f.pod("without", node, cluster.Pods{Stop: time.Second})
	f.startAgent("DRAIN_HAND_OVER_NETWORKS=127.0.0.0/8", "DRAIN_HAND_OVER_TIMEOUT=2s")
	f.terminate(instance)
	f.waitHandled(instance)
	f.assertEvictedOnce([]string{"with-" + listed, "with-" + unlisted, "without"})
	f.waitEventText("HandOverFailed", "no replica")
	f.waitEventText("HandOverFailed", fmt.Sprintf("read the Secret %s/%s (is it listed in handOver.secrets of the chart?): "+
		"secrets %q is forbidden", f.namespace, unlisted, unlisted))

	got := f.requestsBy(func(r cluster.Request) bool { return r.Resource == "secrets" })
	want := []string{
		fmt.Sprintf("get %s/%s: %d", f.namespace, listed, http.StatusOK),
		fmt.Sprintf("get %s/%s: %d", f.namespace, unlisted, http.StatusForbidden),
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests for Secrets:\n%q\nwant\n%q", got, want)
	}
}

// requestsBy returns the requests of the agent to the API server that match, in order, each once.
func (f *fixture) requestsBy(matches func(cluster.Request) bool) (all []string) {
	f.t.Helper()
	requests, err := f.cluster.Requests(f.ctx, f.user)
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
	f.startAgent("DRAIN_HAND_OVER_NETWORKS=127.0.0.0/8")
	f.terminate(instance)
	f.waitHandled(instance)
	f.assertEvictedOnce([]string{"redis-0"})
	isExtra := func(r cluster.Request) bool {
		return slices.Contains([]string{"secrets", "deployments", "statefulsets"}, r.Resource) ||
			r.Resource == "pods" && r.Verb == "list" && r.Namespace != ""
	}
	if extra := f.requestsBy(isExtra); len(extra) > 0 {
		t.Errorf("requests that only a hand-over needs: %q", extra)
	}
	if n := redis.connections.Load(); n > 0 {
		t.Errorf("the agent has connected %d times to a pod without an annotation", n)
	}
}
