package awsim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// kubelet is the node of an instance.
type kubelet struct {
	zone     string
	ready    bool
	since    time.Time // When ready was set; zero is long ago.
	cordoned bool
	labels   map[string]string
	pods     map[string]bool // By name, and whether a PodDisruptionBudget protects it.
}

// nodes are a cluster's nodes, which have the names of their instances. They are both what awsim creates nodes with and
// what EKS finds in the cluster. A node registers after a minute, with one pod.
type nodes struct {
	mu     sync.Mutex
	byID   map[string]*kubelet
	broken int      // The version of the launch template whose nodes do not become Ready.
	log    []string // What EKS did, with the seconds since the start.
	began  time.Time
}

func (n *nodes) did(what, node string) {
	n.log = append(n.log, fmt.Sprintf("%d %s %s", int(time.Since(n.began).Seconds()), what, node))
}

// lines returns what EKS did.
func (n *nodes) lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.log)
}

// change calls do with the node, which must exist.
func (n *nodes) change(node string, do func(k *kubelet)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.byID[node]
	if k == nil {
		return errors.New("no node " + node)
	}
	do(k)
	return nil
}

func (n *nodes) Launch(context.Context, string, string) error { return errors.New("it has a version") }

func (n *nodes) LaunchVersion(ctx context.Context, id, zone string, version int) error {
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byID[id] = &kubelet{
		zone: zone, ready: version != n.broken, labels: map[string]string{},
		pods: map[string]bool{"pod-" + id: false},
	}
	return nil
}

func (n *nodes) Terminate(_ context.Context, id string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.byID[id]
	delete(n.byID, id)
	if k == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(k.pods)), nil
}

func (n *nodes) Node(_ context.Context, id string) (awsim.ManagedNode, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.byID[id]
	if k == nil {
		return awsim.ManagedNode{}, nil
	}
	return awsim.ManagedNode{Name: id, Ready: k.ready, ReadySince: k.since, Labels: maps.Clone(k.labels)}, nil
}

func (n *nodes) Label(_ context.Context, node string, labels map[string]string) error {
	return n.change(node, func(k *kubelet) {
		maps.Copy(k.labels, labels)
		if labels["node.kubernetes.io/exclude-from-external-load-balancers"] == "true" {
			n.did("exclude", node)
		}
	})
}

func (n *nodes) Cordon(_ context.Context, node string) error {
	return n.change(node, func(k *kubelet) {
		if !k.cordoned {
			n.did("cordon", node)
		}
		k.cordoned = true
	})
}

func (n *nodes) list(node string) (pods []string) {
	_ = n.change(node, func(k *kubelet) { pods = slices.Sorted(maps.Keys(k.pods)) })
	return pods
}

func (n *nodes) ManagedPods(node string) (pods []awsim.ManagedPod) {
	for _, name := range n.list(node) {
		pods = append(pods, awsim.ManagedPod{Name: name, Namespace: node})
	}
	return pods
}

func (n *nodes) Evict(_ context.Context, pod awsim.ManagedPod) error {
	var err error
	gone := n.change(pod.Namespace, func(k *kubelet) {
		if k.pods[pod.Name] {
			err = awsim.ErrEvictionBlocked
			return
		}
		n.did("evict", pod.Namespace)
		delete(k.pods, pod.Name)
	})
	return errors.Join(gone, err)
}

func (n *nodes) Delete(_ context.Context, pod awsim.ManagedPod) error {
	return n.change(pod.Namespace, func(k *kubelet) {
		n.did("delete", pod.Namespace)
		delete(k.pods, pod.Name)
	})
}

// machinesOf are the nodes as awsim's Machines.
type machinesOf struct{ *nodes }

func (m machinesOf) Pods(_ context.Context, id string) ([]string, error) { return m.list(id), nil }

// kubernetesOf are the nodes as EKS sees them.
type kubernetesOf struct{ *nodes }

func (k kubernetesOf) Pods(_ context.Context, node string) ([]awsim.ManagedPod, error) {
	return k.ManagedPods(node), nil
}

// TestScaleIn: EKS drains a node that Auto Scaling terminates, for a quarter of an hour at most.
func TestScaleIn(t *testing.T) {
	for name, tt := range map[string]struct {
		guarded bool
		took    time.Duration
		did     string
	}{
		"a pod that leaves": {false, 5 * time.Second, "cordon evict"},
		"a pod that stays":  {true, 15 * time.Minute, "cordon"},
	} {
		inUpdates(t, name, awsim.Nodegroup{}, func(r *rolled) {
			id := r.old[0]
			must(r.t, r.change(id, func(k *kubelet) { k.pods["pod-"+id] = tt.guarded }))
			must(r.t, r.AutoScaling.Terminate(id, true))
			must(r.t, r.WaitState(r.t.Context(), id, "Terminated"))
			if took := time.Since(r.start); took != tt.took {
				r.t.Errorf("it took %s", took)
			}
			r.wantDid(id, tt.did)
		})
	}
}

// TestSpotNodes: EKS replaces a node before EC2 takes it, if it can.
func TestSpotNodes(t *testing.T) {
	spot := awsim.Nodegroup{Market: awsim.Spot}
	inUpdates(t, "a recommendation", spot, func(r *rolled) {
		must(r.t, r.Recommend(r.old[0]))
		must(r.t, r.Recommend(r.old[0]))
		time.Sleep(30 * time.Second)
		if now := r.live(); len(now) != 4 || len(r.lines()) > 0 {
			r.t.Errorf("before the replacement is Ready, the group has %q and EKS did %q", now, r.lines())
		}
		must(r.t, r.WaitState(r.t.Context(), r.old[0], "Terminated"))
		r.wantDid(r.old[0], "cordon evict")
		if len(r.live()) != 3 {
			r.t.Errorf("then the group has %q", r.live())
		}
	})
	inUpdates(t, "an interruption", spot, func(r *rolled) {
		must(r.t, r.Recommend(r.old[0]))
		must(r.t, r.Interrupt(r.old[0], 30*time.Second))
		time.Sleep(10 * time.Second)
		r.wantDid(r.old[0], "cordon evict")
		must(r.t, r.WaitState(r.t.Context(), r.old[0], "Terminated"))
		if took := time.Since(r.start); took != 30*time.Second {
			r.t.Errorf("the instance went after %s", took)
		}
		time.Sleep(5 * time.Minute)
		if len(r.live()) != 3 {
			r.t.Errorf("then the group has %q", r.live())
		}
	})
	inUpdates(t, "on demand", awsim.Nodegroup{}, func(r *rolled) {
		must(r.t, r.Recommend(r.old[0]))
		time.Sleep(time.Hour)
		if now := r.live(); !slices.Equal(now, r.old) || len(r.lines()) > 0 {
			r.t.Errorf("the group has %q and EKS did %q", now, r.lines())
		}
	})
}

// TestNodeRepair: a node that is not Ready for half an hour is replaced, if the node group has node auto repair, and not
// many other such nodes.
func TestNodeRepair(t *testing.T) {
	for name, tt := range map[string]struct {
		enabled        bool
		nodes, unready int
		repairs        bool
	}{
		"disabled":       {false, 3, 1, false},
		"all of five":    {true, 5, 5, true},
		"a sixth":        {true, 6, 1, true},
		"a third of six": {true, 6, 2, false},
	} {
		inUpdates(t, name, awsim.Nodegroup{Desired: tt.nodes, NodeRepair: tt.enabled}, func(r *rolled) {
			for _, id := range r.old[:tt.unready] {
				must(r.t, r.change(id, func(k *kubelet) { k.ready, k.since = false, time.Now() }))
			}
			time.Sleep(29 * time.Minute)
			if now := r.live(); !slices.Equal(now, r.old) {
				r.t.Errorf("after 29 minutes the group has %q", now)
			}
			time.Sleep(5 * time.Minute)
			if now := r.live(); slices.Contains(now, r.old[0]) == tt.repairs || len(now) != tt.nodes {
				r.t.Errorf("after 34 minutes the group has %q", now)
			}
		})
	}
}
