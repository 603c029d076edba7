// Package node finds the Kubernetes Node of an EC2 instance, cordons it before the instance is terminated,
// and uncordons it if the instance is kept.
package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// Node is what the agent needs to know of a Kubernetes Node.
type Node struct {
	Name       string
	UID        string
	InstanceID string
	Zone       string // its Availability Zone; empty if unknown
	Ready      bool
	BootID     string // of the machine; it changes with each boot
	Unselected bool   // NODE_SELECTOR leaves the Node to another agent
	Manager    Manager
	Mark       Mark // zero if the agent has not marked the node
	// Uncordoned reports whether the Node has a mark, and somebody has removed the taint or the cordon.
	Uncordoned bool
	Policy     Policy
	// HasCondition reports whether the Node has the drain condition, whatever its status.
	HasCondition bool

	// DrainRequested reports whether the annotation DrainRequestAnnotation names the instance.
	DrainRequested bool

	// Maintenance is when announced maintenance of the instance starts; zero if none is announced.
	Maintenance time.Time
}

// AwaitsBoot reports whether the node was cordoned because its instance reboots, and has not booted since. It
// may still look ready: the API server notices a missing kubelet only after its grace period.
func (n Node) AwaitsBoot() bool { return n.Mark.BootID != "" && n.Mark.BootID == n.BootID }

// IsBooted reports the opposite of AwaitsBoot.
func (n Node) IsBooted() bool { return !n.AwaitsBoot() }

// Nodes watches every Node of the cluster, and changes those that NODE_SELECTOR selects. Create it with New,
// and start it with Run.
type Nodes struct {
	*maintenance
	requests
	managed

	// Conditions writes the drain conditions of these Nodes.
	Conditions *Conditions

	cfg      Config
	selector selector
	informer cache.SharedIndexInformer
	lookups  batch.Batcher[string, Node]
	patcher  *patcher

	changes func(name string) // see OnChange
}

// byInstance is the index of Nodes by EC2 instance id.
const byInstance = "instance"

// New returns Nodes that read from and write to client.
func New(client kubernetes.Interface, cfg Config) (*Nodes, error) {
	selector, err := newSelector(cfg.Selector)
	if err != nil {
		return nil, err
	}
	n := &Nodes{cfg: cfg, selector: selector, requests: requests{cfg, make(chan struct{}, 1)}, changes: func(string) {}}
	n.lookups = batch.Batcher[string, Node]{Max: lookupMax, Window: lookupWindow, Call: lookup(client, selector)}
	n.informer = informers.NewNodeInformer(client, 0, cache.Indexers{byInstance: instanceIndex})
	n.managed = managed{n.informer.GetStore(), selector}
	n.patcher = &patcher{
		client: client, nodes: n.informer.GetStore(), turns: newTurns(),
	}
	n.Conditions = newConditions(client, n.informer.GetStore())
	n.maintenance = &maintenance{nodes: n.informer.GetStore(), patcher: n.patcher, conditions: n.Conditions}
	n.changed.Store(new(make(chan struct{})))
	if err := n.informer.SetTransform(selector.trim); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	if _, err := n.informer.AddEventHandler(newHandler(n)); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return n, nil
}

// newHandler returns what keeps up to date what n derives from the watch.
func newHandler(n *Nodes) cache.ResourceEventHandler {
	shown := func(before, obj any) {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return
		}
		n.patcher.observe(node)
		close(*n.changed.Swap(new(make(chan struct{}))))
		last, ok := before.(*corev1.Node)
		if !ok || last.UID != node.UID || readyStatus(last) != readyStatus(node) || controlsOf(last) != controlsOf(node) {
			n.changes(node.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			n.notice(nil, obj)
			shown(nil, obj)
		},
		UpdateFunc: func(before, obj any) {
			n.notice(before, obj)
			shown(before, obj)
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				n.patcher.written.Delete(node.Name)
				n.Conditions.forget(node.Name, string(node.UID))
				n.changes(node.Name)
			}
		},
	}
}

// OnChange has f called with the name of each Node that registers while Run runs, also of one that replaces another one
// of the name, that becomes Ready or not, whose Controls change, or that is deleted. It must be called before Run. f
// must not block.
func (n *Nodes) OnChange(f func(name string)) { n.changes = f }

// Run watches the Nodes of the cluster until ctx ends.
func (n *Nodes) Run(ctx context.Context) { retry.Watch(ctx, n.informer) }

// Synced reports whether every Node has been listed once.
func (n *Nodes) Synced() bool { return n.informer.HasSynced() }

// WaitForSync returns nil when every Node has been listed once, or the cause of ctx's end.
func (n *Nodes) WaitForSync(ctx context.Context) error {
	if !cache.WaitFor(ctx, "", n.informer.HasSyncedChecker()) {
		return context.Cause(ctx)
	}
	return nil
}

// Find returns the Node of an EC2 instance. It returns false if there is none, and if it is another agent's,
// which is then Unselected. It reads the cache only.
func (n *Nodes) Find(instanceID string) (found Node, ok bool) {
	objs, _ := n.informer.GetIndexer().ByIndex(byInstance, instanceID) // the index exists
	var best *corev1.Node
	for _, obj := range objs {
		node := obj.(*corev1.Node) //nolint:forcetypeassert // the informer holds Nodes
		if n.selector.selects(node) || !isUninitialized(node) {
			best = Preferred(best, node)
		}
	}
	if best == nil {
		return Node{}, false
	}
	found = n.selector.nodeOf(best)
	found.Uncordoned = n.cfg.isUncordoned(best)
	return found, !found.Unselected
}

// All returns the Node that Find returns of each EC2 instance, if it is selected. It reads the cache only.
func (n *Nodes) All() []Node {
	var all []Node
	for _, instanceID := range n.informer.GetIndexer().ListIndexFuncValues(byInstance) {
		if one, ok := n.Find(instanceID); ok {
			all = append(all, one)
		}
	}
	return all
}

// Preferred returns the Node to use of two that claim an instance; one may be nil. An instance that has registered
// again under another name leaves a Node behind that is not Ready any more. A kubelet can claim the instance of another
// Node when it registers: that one is there already.
func Preferred(a, b *corev1.Node) *corev1.Node {
	switch {
	case a == nil || b == nil:
		return cmp.Or(a, b)
	case isReady(a) != isReady(b):
		if isReady(a) {
			return a
		}
		return b
	case cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0:
		return a
	}
	return b
}

// Unreachable reports whether the Node is not Ready, or does not exist: then no kubelet reports the end of
// its pods. It reads the cache only.
func (n *Nodes) Unreachable(name string) bool {
	current := cached(n.informer.GetStore(), name)
	return current == nil || !isReady(current)
}

// IsDead reports whether the kubelet of the Node does not answer, or the Node does not exist: then nothing counts the
// grace periods of its pods. The kubelet of a Node that is only not Ready does
// (https://kubernetes.io/docs/reference/node/node-status/#condition). It reads the cache only.
func IsDead(n *Nodes, name string) bool {
	current := cached(n.informer.GetStore(), name)
	if current == nil {
		return true
	}
	return readyStatus(current) == corev1.ConditionUnknown
}

// UIDOf returns the UID of the Node; empty if there is none. It reads the cache only.
func UIDOf(n *Nodes, name string) string {
	if current := cached(n.informer.GetStore(), name); current != nil {
		return string(current.UID)
	}
	return ""
}

// Untainted reports whether the Node exists without our taint. It reads the cache only.
func Untainted(n *Nodes, name string) bool {
	current := cached(n.informer.GetStore(), name)
	return current != nil && !slices.ContainsFunc(current.Spec.Taints, n.cfg.isTaint)
}

// TaintValue returns the value of our taint on the Node: the kind of the event that it was first cordoned for. It is
// empty if the Node does not have the taint. It reads the cache, and what was written since.
func TaintValue(n *Nodes, name string) string {
	current, _ := n.patcher.latest(name)
	if current == nil {
		return ""
	}
	if i := slices.IndexFunc(current.Spec.Taints, n.cfg.isTaint); i >= 0 {
		return current.Spec.Taints[i].Value
	}
	return ""
}

// Leaving returns the names of the Nodes that are not Ready, or that somebody drains: they are unschedulable, or have
// the mark of an agent, which may use another taint than this one, or a taint of Karpenter or the Cluster Autoscaler.
// It reads the cache only.
func Leaving(n *Nodes) (names []string) {
	for _, one := range n.informer.GetStore().List() {
		if current, ok := one.(*corev1.Node); ok && leaves(n, current) {
			names = append(names, current.Name)
		}
	}
	slices.Sort(names)
	return names
}

func leaves(n *Nodes, current *corev1.Node) bool {
	_, marked := MarkOf(current)
	return marked || !isReady(current) || current.Spec.Unschedulable || !Untainted(n, current.Name) ||
		hasTaint(current, disrupted, toBeDeleted)
}

// Await returns the Node of an EC2 instance as soon as it has registered and accept returns true for it, or the
// cause of ctx's end. A nil accept accepts every Node. The error is ErrUnselected if the Node is another
// agent's.
func (n *Nodes) Await(ctx context.Context, instanceID string, accept func(Node) bool) (Node, error) {
	for {
		changed := *n.changed.Load()
		found, ok := n.Find(instanceID)
		if found.Unselected || ok && (accept == nil || accept(found)) {
			return found, found.check()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Node{}, context.Cause(ctx)
		}
	}
}

// cached returns the Node as the watch shows it; nil if the watch shows none.
func cached(nodes cache.Store, name string) *corev1.Node {
	obj, _, _ := nodes.GetByKey(name) // which never fails
	node, _ := obj.(*corev1.Node)
	return node
}

func instanceIndex(obj any) ([]string, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("index by instance: %T is not a Node", obj)
	}
	if id := InstanceOf(node); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// InstanceOf returns the EC2 instance id in the Node's provider id, which the AWS cloud provider writes as
// aws:///ZONE/INSTANCE. It is empty for other Nodes, such as those of AWS Fargate.
func InstanceOf(node *corev1.Node) string {
	if !strings.HasPrefix(node.Spec.ProviderID, "aws://") {
		return ""
	}
	last := node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:]
	if !strings.HasPrefix(last, "i-") {
		return ""
	}
	return last
}

// trim keeps only what this package reads of a Node, and the labels with these keys, to save memory.
func trim(obj any, labels ...string) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			CreationTimestamp: node.CreationTimestamp,
			Labels: only(node.Labels, append(append(labels, corev1.LabelNodeExcludeBalancers, computeType,
				nodePool), PolicyKeys()...)...),
			Annotations: Annotations(node, append(PolicyKeys(), Annotation, MaintenanceAnnotation, DrainRequestAnnotation,
				scaleDownDisabled, ScaleDownOwner, HoldAnnotation, DeadlineAnnotation, EndDrainAnnotation)...),
		},
		Spec: corev1.NodeSpec{
			ProviderID: node.Spec.ProviderID, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable,
		},
	}
	kept.Status.NodeInfo.BootID = node.Status.NodeInfo.BootID
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady || c.Type == ConditionType {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	return kept, nil
}

// longestAnnotation is how many bytes an annotation can have that is read. A kubelet may write 256 KiB on its Node.
const longestAnnotation = 4 << 10

// Annotations returns those of the Node with these keys, and no text of one that is longer than any of ours; nil if
// there is none.
func Annotations(node *corev1.Node, keys ...string) map[string]string {
	kept := only(node.Annotations, keys...)
	for key, value := range kept {
		if len(value) > longestAnnotation {
			kept[key] = ""
		}
	}
	return kept
}

// only returns the entries of m with these keys; nil if there is none.
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

func nodeOf(node *corev1.Node) Node {
	out := Node{
		Name: node.Name, UID: string(node.UID), InstanceID: InstanceOf(node), Zone: zoneOf(node), Ready: isReady(node),
	}
	out.BootID, out.Manager = node.Status.NodeInfo.BootID, managerOf(node)
	out.HasCondition = conditionOf(node, ConditionType) != nil
	out.Mark, _ = MarkOf(node)
	out.Policy, _ = PolicyOf(node)
	out.Maintenance, out.DrainRequested = maintenanceOf(node), IsDrainRequested(node)
	return out
}

func isReady(node *corev1.Node) bool { return readyStatus(node) == corev1.ConditionTrue }

// readyStatus returns the status of the condition Ready; empty if the Node does not have it.
func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	if c := conditionOf(node, corev1.NodeReady); c != nil {
		return c.Status
	}
	return ""
}

func conditionOf(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	_, condition := nodeutil.GetNodeCondition(&node.Status, kind)
	return condition
}
