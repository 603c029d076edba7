// Package cluster runs a real Kubernetes control plane for tests and the demo: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler as processes on this machine, and kwok, which simulates
// the kubelets. Evictions, disruption budgets, scheduling and RBAC are real; only containers do not run.
//
// A test package starts at most one, in its TestMain, and gives each test its own namespace and nodes:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
//
//	func TestDrain(t *testing.T) {
//		c := cluster.Shared(t)
//		ns := c.Namespace(t)
//		node := c.Node(t, cluster.Node{Pool: ns})
//		...
//	}
//
// The binaries are downloaded, or built from Go modules, once and kept in the user's cache (see Binaries). A cold build
// takes longer than go test's own timeout, so run "make cluster" before the first tests.
package cluster
