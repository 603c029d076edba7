package trigger

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/harness"
)

// nodes is an API server that has a Ready node for each instance in service. Nodes can be tainted.
type nodes struct {
	account *account
	groups  []string

	mu     sync.Mutex
	taints map[string]corev1.NodeSpec // by the names of the nodes
}

// cluster returns the kubeconfig of an API server for the groups.
func (a *account) cluster(groups ...string) (file string) {
	a.t.Helper()
	n := &nodes{account: a, groups: groups, taints: map[string]corev1.NodeSpec{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			n.watch(w, r)
			return
		}
		n.list(w, r)
	})
	mux.HandleFunc("GET /api/v1/nodes/{name}", func(w http.ResponseWriter, r *http.Request) { answer(w, n.node(r.PathValue("name"))) })
	mux.HandleFunc("PATCH /api/v1/nodes/{name}", func(w http.ResponseWriter, r *http.Request) {
		var patch struct{ Spec corev1.NodeSpec }
		_ = json.NewDecoder(r.Body).Decode(&patch)
		n.mu.Lock()
		n.taints[r.PathValue("name")] = patch.Spec
		n.mu.Unlock()
		answer(w, n.node(r.PathValue("name")))
	})
	server := httptest.NewServer(mux)
	a.t.Cleanup(server.Close)
	return kubeconfig(a.t, server.URL)
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// node returns the Node of an instance, which has its name.
func (n *nodes) node(instance string) corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: instance, ResourceVersion: "1"},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/" + instance, Taints: n.taints[instance].Taints},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// now returns all nodes, by their names.
func (n *nodes) now() map[string]corev1.Node {
	all := map[string]corev1.Node{}
	for _, group := range n.groups {
		for _, i := range n.account.Instances(group) {
			if i.State == "InService" {
				all[i.ID] = n.node(i.ID)
			}
		}
	}
	return all
}

func (n *nodes) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("sendInitialEvents") {
		http.Error(w, "not simulated", http.StatusBadRequest)
		return
	}
	answer(w, corev1.NodeList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: slices.Collect(maps.Values(n.now())),
	})
}

// watch reports nodes that are new or have other taints, and those that are gone, every 50 ms.
func (n *nodes) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("sendInitialEvents") {
		http.Error(w, "not simulated", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	known, version := map[string]corev1.Node{}, 1
	send := func(kind string, node corev1.Node) {
		version++
		node.ResourceVersion = strconv.Itoa(version)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": node})
	}
	for ticker := time.NewTicker(50 * time.Millisecond); ; {
		now := n.now()
		for name, node := range now {
			if before, is := known[name]; !is || len(before.Spec.Taints) != len(node.Spec.Taints) {
				send("MODIFIED", node)
			}
		}
		for name, node := range known {
			if _, stays := now[name]; !stays {
				send("DELETED", node)
			}
		}
		known = now
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			ticker.Stop()
			return
		}
	}
}

// kubeconfig returns the kubeconfig for an API server.
func kubeconfig(t testing.TB, url string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := harness.WriteKubeconfig(file, url); err != nil {
		t.Fatal(err)
	}
	return file
}
