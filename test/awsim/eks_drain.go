package awsim

import (
	"context"
	"errors"
	"time"
)

// nodeWork is what EKS does with the node of one instance. Its methods must be called without mu.
type nodeWork struct {
	*engine
	cluster *eksCluster
	inst    *instance
}

// work returns the work on an instance of the node group.
func (a eksEngine) work(ng *nodegroup, inst *instance) nodeWork {
	return nodeWork{a.engine, ng.cluster, inst}
}

// try calls the API server until it answers, or ctx ends.
func (w nodeWork) try(ctx context.Context, what string, call func() error) {
	for err := call(); err != nil && ctx.Err() == nil; err = call() {
		w.server.opts.Log("EKS's call failed", "call", what, "instance", w.inst.id, "err", err)
		wait(ctx, w.cluster.times.Poll)
	}
}

// node returns the node of the instance; its Name is empty if there is none, or ctx ends.
func (w nodeWork) node(ctx context.Context) (node ManagedNode) {
	w.try(ctx, "node", func() (err error) {
		node, err = w.cluster.kubernetes.Node(ctx, w.inst.id)
		return err
	})
	return node
}

// register labels the node of the instance as soon as it has registered, unless the instance ends before.
func (w nodeWork) register(ng *nodegroup) {
	for {
		w.mu.Lock()
		labels, ended := ng.nodeLabels(w.inst), w.inst.isTerminating() || w.inst.group == nil
		w.mu.Unlock()
		if ended {
			return
		}
		if node := w.node(w.ctx); node.Name != "" {
			w.try(w.ctx, "label", func() error { return w.cluster.kubernetes.Label(w.ctx, node.Name, labels) })
			return
		}
		if !w.pause(w.cluster.times.Poll) {
			return
		}
	}
}

// exclude makes the node unschedulable, and takes it off load balancers.
func (w nodeWork) exclude() {
	if node := w.node(w.ctx); node.Name != "" {
		w.cordon(w.ctx, node.Name)
		w.try(w.ctx, "label", func() error {
			return w.cluster.kubernetes.Label(w.ctx, node.Name, map[string]string{labelExclude: "true"})
		})
	}
}

func (w nodeWork) cordon(ctx context.Context, node string) {
	w.try(ctx, "cordon", func() error { return w.cluster.kubernetes.Cordon(ctx, node) })
}

// drain cordons the node and evicts its pods until they have left it. It reports the pods that have not after the
// time. An instance without a node is drained.
func (w nodeWork) drain(lasts time.Duration) (node string, left []ManagedPod) {
	ctx, cancel := context.WithTimeout(w.ctx, lasts)
	defer cancel()
	if node = w.node(ctx).Name; node == "" {
		return "", nil
	}
	w.cordon(ctx, node)
	for {
		pods, err := w.cluster.kubernetes.Pods(ctx, node)
		if err == nil {
			if left = pods; len(left) == 0 {
				return node, nil
			}
			w.evict(ctx, pods)
		}
		if !wait(ctx, w.cluster.times.Poll) {
			return node, left
		}
	}
}

// evict evicts the pods that are not terminating yet. One that cannot be evicted now stays.
func (w nodeWork) evict(ctx context.Context, pods []ManagedPod) {
	for _, pod := range pods {
		if pod.Deleted {
			continue
		}
		err := w.cluster.kubernetes.Evict(ctx, pod)
		if err != nil && !errors.Is(err, ErrEvictionBlocked) && ctx.Err() == nil {
			w.server.opts.Log("EKS's eviction failed", "pod", pod.Namespace+"/"+pod.Name, "err", err)
		}
	}
}

// deletePods deletes the pods.
func (w nodeWork) deletePods(pods []ManagedPod) {
	for _, pod := range pods {
		w.try(w.ctx, "delete", func() error { return w.cluster.kubernetes.Delete(w.ctx, pod) })
	}
}
