package sim

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// nodeEvents are steps by which somebody changes a Node.
type nodeEvents struct{ *world }

func (w nodeEvents) change(id string, s Step) error {
	if s.Do == "annotate" {
		return w.annotate(id, s.For)
	}
	w.cordon(id)
	return nil
}

// cordon cordons a node as an administrator does, who finds nothing to do if it is cordoned already.
func (w nodeEvents) cordon(id string) {
	kube.Update(w.machines.find(id).cluster.server, nodeName(id), func(n *corev1.Node) {
		if !n.Spec.Unschedulable {
			n.Spec.Unschedulable = true
			w.facts.cordoned(id)
		}
	})
}

// annotate asks for the drain of a node by its annotation, and removes that after a time; never if the time is zero.
func (w nodeEvents) annotate(id string, during time.Duration) error {
	server := w.machines.find(id).cluster.server
	found := kube.Update(server, nodeName(id), func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[node.DrainRequestAnnotation] = id
		w.facts.announce(id, truth{kind: "annotated", from: time.Now()})
	})
	if !found {
		return errors.New("the node is gone")
	}
	if during == 0 {
		return nil
	}
	w.work.Go(func() {
		time.Sleep(during)
		w.log.add("step", "annotate ended", "node", id)
		kube.Update(server, nodeName(id), func(n *corev1.Node) { delete(n.Annotations, node.DrainRequestAnnotation) })
		w.facts.cancel(id, "annotated")
	})
	return nil
}
