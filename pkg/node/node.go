// Package node finds the Kubernetes Node of an EC2 instance, marks it as going away, and takes the mark off
// again if the instance lives on.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/keymutex"

	"github.com/node-drainer/node-drainer/internal/batch"
)

// Node is what the agent needs to know of a Kubernetes Node.
type Node struct {
	Name       string
	UID        string
	InstanceID string
	Ready      bool
	Mark       Mark // zero if the agent has not marked the node
}

// When the exclude-from-external-load-balancers label is put on a node.
const (
	Early = "early" // with the taint, before the first eviction
	Late  = "late"  // after the last pod has gone
	Off   = "off"   // never
)

// Config is what a user can set, by environment variables that begin with NODE_.
type Config struct {
	TaintKey            string        `env:"TAINT_KEY" envDefault:"node-drainer.io/terminating" help:"Key of the taint on a node that is going away. Its value is the reason."`
	TaintEffect         string        `env:"TAINT_EFFECT" envDefault:"NoSchedule" values:"NoSchedule,PreferNoSchedule,NoExecute" help:"Effect of that taint: NoSchedule, PreferNoSchedule, or NoExecute. NoExecute lets Kubernetes delete pods at once, past every PodDisruptionBudget."`
	Cordon              bool          `env:"CORDON" envDefault:"true" help:"Whether the node is made unschedulable as well, for pods that tolerate every taint."`
	ExcludeFromLB       string        `env:"EXCLUDE_FROM_LOAD_BALANCERS" envDefault:"early" values:"early,late,off" help:"When the label node.kubernetes.io/exclude-from-external-load-balancers is put on the node: early (with the taint), late (after the last pod has gone), or off."`
	Selector            string        `env:"SELECTOR" envDefault:"" help:"Label selector of the Nodes that this agent looks after, as topology.kubernetes.io/region=eu-central-1. Empty: all. It is for clusters whose nodes are in several AWS accounts or Regions: each has an agent of its own."`
	RegistrationTimeout time.Duration `env:"REGISTRATION_TIMEOUT" envDefault:"5m" help:"How long a terminating instance of this cluster is held if no node has registered for it: it may be about to, and would then take pods."`
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if problems := validation.IsQualifiedName(c.TaintKey); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("NODE_TAINT_KEY is %q: %s", c.TaintKey, strings.Join(problems, "; ")))
	}
	switch corev1.TaintEffect(c.TaintEffect) {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, fmt.Errorf("NODE_TAINT_EFFECT is %q: must be NoSchedule, PreferNoSchedule or NoExecute",
			c.TaintEffect))
	}
	switch c.ExcludeFromLB {
	case Early, Late, Off:
	default:
		errs = append(errs, fmt.Errorf("NODE_EXCLUDE_FROM_LOAD_BALANCERS is %q: must be early, late or off",
			c.ExcludeFromLB))
	}
	if _, err := labels.Parse(c.Selector); err != nil {
		errs = append(errs, fmt.Errorf("NODE_SELECTOR is %q: %w", c.Selector, err))
	}
	if c.RegistrationTimeout < 0 || c.RegistrationTimeout > time.Hour {
		errs = append(errs, fmt.Errorf(
			"NODE_REGISTRATION_TIMEOUT is %v: must be from 0s to 1h", c.RegistrationTimeout))
	}
	return errors.Join(errs...)
}

// Nodes knows every Node of the cluster, by a watch. Make it with New, and Run it.
type Nodes struct {
	client   kubernetes.Interface
	cfg      Config
	informer cache.SharedIndexInformer

	conditions conditions
	lookups    batch.Batcher[string, Node]

	changing keymutex.KeyMutex
	written  sync.Map // by name: *corev1.Node, as our own last patch has left it

	mu      sync.Mutex
	waiting map[string][]chan struct{} // by instance id: closed when its Node registers
}

// changingAtOnce is how many Nodes may be changed side by side.
const changingAtOnce = 1024

// byInstance is the index of Nodes by EC2 instance id.
const byInstance = "instance"

// New returns Nodes that read from and write to client.
func New(client kubernetes.Interface, cfg Config) (*Nodes, error) {
	n := &Nodes{
		client: client, cfg: cfg, waiting: map[string][]chan struct{}{},
		changing:   keymutex.NewHashed(changingAtOnce),
		conditions: conditions{client: client, nodes: map[string]*shown{}},
	}
	n.lookups = batch.Batcher[string, Node]{Max: lookupMax, Window: lookupWindow, Call: n.lookup}
	n.informer = informers.NewFilteredNodeInformer(client, 0, cache.Indexers{byInstance: instanceIndex},
		func(o *metav1.ListOptions) { o.LabelSelector = cfg.Selector })
	if err := n.informer.SetTransform(strip); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	_, err := n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    n.registered,
		UpdateFunc: func(_, obj any) { n.registered(obj) },
		DeleteFunc: n.deleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return n, nil
}

// Run watches the Nodes of the cluster until ctx ends.
func (n *Nodes) Run(ctx context.Context) { n.informer.RunWithContext(ctx) }

// Synced tells whether every Node has been seen once.
func (n *Nodes) Synced() bool { return n.informer.HasSynced() }

// WaitForSync returns nil when every Node has been seen once, or the cause of ctx's end.
func (n *Nodes) WaitForSync(ctx context.Context) error {
	if !cache.WaitFor(ctx, "", n.informer.HasSyncedChecker()) {
		return context.Cause(ctx)
	}
	return nil
}

// Find returns the Node of an EC2 instance. It asks no API.
func (n *Nodes) Find(instanceID string) (found Node, ok bool) {
	objs, err := n.informer.GetIndexer().ByIndex(byInstance, instanceID)
	if err != nil {
		return Node{}, false // the index is always there
	}
	for _, obj := range objs {
		one := toNode(obj.(*corev1.Node)) //nolint:forcetypeassert // the informer holds Nodes
		found, ok = one.or(found), true
	}
	return found, ok
}

// All returns every Node that is an EC2 instance. It asks no API.
func (n *Nodes) All() []Node {
	var all []Node
	for _, obj := range n.informer.GetStore().List() {
		one := toNode(obj.(*corev1.Node)) //nolint:forcetypeassert // the informer holds Nodes
		if one.InstanceID != "" {
			all = append(all, one)
		}
	}
	return all
}

// or returns which of two Nodes of one instance to believe in. An instance that has registered anew under
// another name leaves a Node behind that nobody speaks for.
func (n Node) or(other Node) Node {
	switch {
	case other.Name == "":
		return n
	case n.Ready == other.Ready && n.Name < other.Name, n.Ready && !other.Ready:
		return n
	}
	return other
}

// Unreachable tells whether nobody speaks for the Node: it is not Ready, or gone. It asks no API.
func (n *Nodes) Unreachable(name string) bool {
	current, err := n.cached(name)
	return err != nil || !isReady(current)
}

// Await returns the Node of an EC2 instance as soon as it has registered, or the cause of ctx's end.
func (n *Nodes) Await(ctx context.Context, instanceID string) (Node, error) {
	for {
		seen := n.subscribe(instanceID)
		if found, ok := n.Find(instanceID); ok {
			n.unsubscribe(instanceID, seen)
			return found, nil
		}
		select {
		case <-seen:
		case <-ctx.Done():
			n.unsubscribe(instanceID, seen)
			return Node{}, context.Cause(ctx)
		}
	}
}

func (n *Nodes) subscribe(instanceID string) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := make(chan struct{})
	n.waiting[instanceID] = append(n.waiting[instanceID], c)
	return c
}

// unsubscribe forgets c: an instance that never registers must not be remembered for ever.
func (n *Nodes) unsubscribe(instanceID string, c chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := slices.DeleteFunc(n.waiting[instanceID], func(o chan struct{}) bool { return o == c })
	if n.waiting[instanceID] = left; len(left) == 0 {
		delete(n.waiting, instanceID)
	}
}

func (n *Nodes) registered(obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	n.shown(node)
	id := instanceOf(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.waiting[id] {
		close(c)
	}
	delete(n.waiting, id)
}

func (n *Nodes) deleted(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if node, ok := obj.(*corev1.Node); ok {
		n.written.Delete(node.Name)
		n.conditions.forget(node.Name, string(node.UID))
	}
}

func instanceIndex(obj any) ([]string, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("%T is no Node", obj)
	}
	if id := instanceOf(node); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// instanceOf returns the EC2 instance id in the Node's provider id, which the AWS cloud provider writes as
// aws:///ZONE/INSTANCE. It is empty for other Nodes, as those of AWS Fargate.
func instanceOf(node *corev1.Node) string {
	if !strings.HasPrefix(node.Spec.ProviderID, "aws://") {
		return ""
	}
	last := node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:]
	if !strings.HasPrefix(last, "i-") {
		return ""
	}
	return last
}

// strip keeps of a Node what this package reads: a cluster of thousands costs little memory.
func strip(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			Labels:      only(node.Labels, corev1.LabelNodeExcludeBalancers),
			Annotations: only(node.Annotations, Annotation, scaleDownDisabled, ScaleDownOwner),
		},
		Spec: corev1.NodeSpec{
			ProviderID: node.Spec.ProviderID, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable,
		},
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady || c.Type == ConditionType {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	return kept, nil
}

// only returns what m has for the keys; nil if that is nothing.
func only(m map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if v, ok := m[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = v
		}
	}
	return kept
}

func toNode(node *corev1.Node) Node {
	out := Node{Name: node.Name, UID: string(node.UID), InstanceID: instanceOf(node), Ready: isReady(node)}
	out.Mark, _ = readMark(node)
	return out
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
