//go:build e2e

package cluster_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func TestServiceAccountMayDoWhatItIsGrantedAndIsCounted(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	path, err := c.ServiceAccount(ctx, ns, "agent", []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"},
	}}, []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"},
	}})
	must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	config.UserAgent = "the-agent"
	agent, err := kubernetes.NewForConfig(config)
	must(t, err)

	for range 3 {
		_, err = agent.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		must(t, err)
	}
	watch, err := agent.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	must(t, err)
	watch.Stop()
	for namespace, allowed := range map[string]bool{ns: true, "default": false} {
		_, err = agent.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
		if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("listing leases in %s: %v", namespace, err)
		}
	}
	if err := agent.CoreV1().Pods(ns).Delete(ctx, "p", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting a pod: %v, want it refused", err)
	}

	requests, err := c.Requests(ctx, cluster.UserName(ns, "agent"))
	must(t, err)
	for _, row := range []struct {
		verb, resource string
		want           int
	}{
		{"list", "nodes", 3},
		{"watch", "nodes", 1},
		{"delete", "pods", 1},
		{"list", "leases", 2},
		{"", "", 7},
		{"list", "pods", 0},
	} {
		if n := cluster.Count(requests, row.verb, row.resource); n != row.want {
			t.Errorf("%q %q: %d requests, want %d; all: %v", row.verb, row.resource, n, row.want, requests)
		}
	}
	last := requests[len(requests)-1]
	if last.User != cluster.UserName(ns, "agent") || last.Group != "" ||
		last.Path != "/api/v1/namespaces/"+ns+"/pods/p" || last.Code != 403 || last.Namespace != ns || last.Name != "p" || last.UserAgent != "the-agent" ||
		last.At.IsZero() {
		t.Errorf("the refused request reads %+v", last)
	}
}
