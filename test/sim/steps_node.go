package sim

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// nodeEvents are steps by which somebody cordons a node, asks for its drain, or changes that.
type nodeEvents struct{ *world }

func (w nodeEvents) change(id string, s Step) error {
	if w.machines.find(id).isReplaced(w.machines) {
		return errors.New("the node is that of another instance")
	}
	switch s.Do {
	case "hang":
		if w.machines.find(id).cluster.controllers.HangRuntime(id) {
			w.facts.hang(id)
		}
	case "rejoin":
		return w.rejoin(id, s)
	case "annotate": // As many as N others of the group are annotated at the same time.
		group := events(w)
		for _, other := range group.some(group.members(s.On), s.Node, s.N) {
			if other != id {
				_ = w.annotate(other, s.For) // It may be gone.
			}
		}
		return w.annotate(id, s.For)
	case "alarm":
		w.alarm(id, s)
	case "cordon":
		w.cordon(id)
	case "uncordon":
		w.uncordon(id)
	case "hold":
		return w.control(id, node.HoldAnnotation, s.For)
	case "extend":
		return w.control(id, node.DeadlineAnnotation, s.For)
	}
	return nil
}

// control changes how a node is drained: it pauses its drain for a time, or has it end after that.
func (w nodeEvents) control(id, annotation string, during time.Duration) error {
	found := kube.Update(w.machines.find(id).cluster.server, nodeName(id), func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[annotation] = time.Now().Add(during).UTC().Format(time.RFC3339)
	})
	if !found {
		return errors.New("the node is gone")
	}
	return nil
}

// phantom is an instance that is in no group, and whose Node has a name that another one had before.
const phantom = "i-0ffffffffffffffff"

// rejoin deletes a Node. After a while one of its name registers: that of the same instance, or, if N is 1, that of
// another one, which has got its address.
func (w nodeEvents) rejoin(id string, s Step) error {
	m := w.machines.find(id)
	server := m.cluster.server
	before, ok := kube.Get[*corev1.Node](server, nodeName(id))
	isDead := w.facts.hasFailed(id, time.Now()) || w.facts.isHung(id, time.Now())
	if !ok || !m.endedAt.IsZero() || s.N == 0 && isDead {
		return errors.New("the node is gone, or its kubelet is dead")
	}
	zone := before.Labels[corev1.LabelTopologyZone]
	after := newNode(m, zone, false)
	after.Status.NodeInfo.BootID = before.Status.NodeInfo.BootID
	if s.N == 1 {
		after.Spec.ProviderID = "aws:///" + zone + "/" + phantom
		after.Status.NodeInfo.BootID = newBootID()
	}
	kube.Remove[*corev1.Node](server, nodeName(id))
	w.work.Go(func() {
		time.Sleep(s.For)
		w.machines.mu.Lock()
		hasEnded := !m.endedAt.IsZero()
		m.replaced = s.N == 1
		w.machines.mu.Unlock()
		if s.N == 0 && (hasEnded || w.facts.hasFailed(id, time.Now())) {
			return
		}
		w.facts.replace(id, s.N == 1)
		w.log.add("step", "node registered again", "node", id, "instance", after.Spec.ProviderID)
		_ = server.Create(after) // It fails if there is one.
	})
	return nil
}

// alarm has a CloudWatch alarm on an instance go on for a time, or forges a message that says so.
func (w nodeEvents) alarm(id string, s Step) {
	name := "node-drainer-" + id
	if s.N > 0 {
		w.aws.Publish(awsim.AlarmChange(w.aws.Envelope(), name, id, awsim.AlarmFires))
		return
	}
	w.announce(id, "EVENT_ALARM")
	w.aws.SetInstanceAlarm(name, id, awsim.AlarmFires)
	w.work.Go(func() {
		time.Sleep(s.For)
		w.aws.SetInstanceAlarm(name, id, awsim.AlarmOK)
	})
}

// announce records that an instance is asked for, and what is to happen to its node, unless its install ignores that.
func (w nodeEvents) announce(id, variable string) {
	m := w.machines.find(id)
	for _, i := range m.cluster.Installs {
		for _, s := range i.Settings {
			if action, ok := strings.CutPrefix(s, variable+"="); ok && i.manages(m.group) && action != "ignore" {
				w.facts.announce(id, truth{kind: "asked to " + action, from: time.Now()})
			}
		}
	}
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

// uncordon uncordons a node as an administrator does, and removes the taints of agents, but not the mark.
func (w nodeEvents) uncordon(id string) {
	kube.Update(w.machines.find(id).cluster.server, nodeName(id), func(n *corev1.Node) {
		w.facts.uncordoned(id)
		n.Spec.Unschedulable = false
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isOfAgent)
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
