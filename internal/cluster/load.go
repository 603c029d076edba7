package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

const (
	// callTimeout bounds one call to the API server.
	callTimeout = 30 * time.Second
	// pageSize is how many objects one call lists.
	pageSize = 500
	// maxNodeLists is the most nodes whose pods are listed node by node. For more, all pods of the cluster are.
	maxNodeLists = 32
	// parallelLists bounds the lists that run concurrently.
	parallelLists = 8
	// maxBlocked is how many blocked pods of a node are kept.
	maxBlocked = 20
	// defaultGrace is the termination grace period of a pod that sets none.
	defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second
)

// Loads returns what runs on the nodes, by the node's name. A node without pods has a zero Load.
func (v *View) Loads(ctx context.Context, nodes []string) (map[string]Load, error) {
	if len(nodes) == 0 {
		return map[string]Load{}, nil
	}
	c, err := v.newCounter(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range nodes {
		c.loads[name] = &Load{}
	}
	selectors := []fields.Selector{fields.Everything()}
	if len(c.loads) <= maxNodeLists {
		selectors = nil
		for name := range c.loads {
			selectors = append(selectors, fields.OneTermEqualSelector("spec.nodeName", name))
		}
	}
	lists, ctx := errgroup.WithContext(ctx)
	lists.SetLimit(parallelLists)
	for _, selector := range selectors {
		options := metav1.ListOptions{FieldSelector: selector.String()}
		lists.Go(func() error { return eachPod(ctx, v.client, metav1.NamespaceAll, options, c.add) })
	}
	if err := lists.Wait(); err != nil {
		return nil, err
	}
	out := make(map[string]Load, len(c.loads))
	for name, load := range c.loads {
		slices.Sort(load.Blocking)
		load.snapshot = c.snapshot
		out[name] = *load
	}
	return out, nil
}

// budget is a PodDisruptionBudget that allows no disruption now.
type budget struct {
	name             string
	selects          labels.Selector
	unhealthyAllowed bool // It allows the eviction of pods that are not Ready.
}

// newCounter returns a counter that knows the budgets that allow no disruption. One that expects no pods blocks none.
func (v *View) newCounter(ctx context.Context) (*counter, error) {
	c := &counter{budgets: map[string][]budget{}, placement: newPlacement(v.nodes()), loads: map[string]*Load{}}
	if v.Drains != nil {
		var err error
		c.snapshot, err = drain.NewSnapshot(*v.Drains, corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoSchedule})
		if err != nil {
			return nil, err
		}
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		list, err := v.client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, options)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
		}
		for i := range list.Items {
			c.addBudget(&list.Items[i])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return c, nil
		}
	}
}

func toBudget(p *policyv1.PodDisruptionBudget) (budget, bool) {
	selects, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
	if err != nil || p.Status.DisruptionsAllowed > 0 || p.Status.ExpectedPods == 0 {
		return budget{}, false
	}
	policy := p.Spec.UnhealthyPodEvictionPolicy
	return budget{
		name: p.Namespace + "/" + p.Name, selects: selects,
		unhealthyAllowed: policy != nil && *policy == policyv1.AlwaysAllow,
	}, true
}

// blocks reports whether the budget blocks the eviction of the pod. The API server ignores the budgets of a
// pod that is pending or being deleted (k8s.io/kubernetes/pkg/registry/core/pod/storage: canIgnorePDB).
func (b budget) blocks(p *corev1.Pod) bool {
	switch {
	case p.Status.Phase == corev1.PodPending, p.DeletionTimestamp != nil:
		return false
	case b.unhealthyAllowed && !podutils.IsPodReady(p):
		return false
	}
	return b.selects.Matches(labels.Set(p.Labels))
}

// isEvictable reports whether a drain would evict the pod: not mirror pods, which the kubelet manages,
// finished pods, which do nothing any more, and those of DaemonSets, which are created again at once.
func isEvictable(p *corev1.Pod) bool {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	owner := metav1.GetControllerOf(p)
	return owner == nil || owner.Kind != "DaemonSet"
}

func grace(p *corev1.Pod) time.Duration {
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return defaultGrace
}

// counter counts pods by their node. Pods may be added concurrently.
type counter struct {
	budgets   map[string][]budget // by namespace
	placement placement

	mu       sync.Mutex
	loads    map[string]*Load
	snapshot *drain.Snapshot // nil if there are no forecasts
}

func (c *counter) addBudget(p *policyv1.PodDisruptionBudget) {
	if b, ok := toBudget(p); ok {
		c.budgets[p.Namespace] = append(c.budgets[p.Namespace], b)
	}
	if c.snapshot != nil {
		_ = c.snapshot.AddBudget(p) // The API server admits no selector that is an error.
	}
}

func (c *counter) add(p *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	load := c.loads[p.Spec.NodeName]
	if load == nil {
		return
	}
	if c.snapshot != nil {
		c.snapshot.AddPod(p)
	}
	if !isEvictable(p) {
		return
	}
	load.Pods++
	if owner := metav1.GetControllerOf(p); owner != nil {
		if load.owned == nil {
			load.owned = map[types.UID][]string{}
		}
		load.owned[owner.UID] = append(load.owned[owner.UID], p.Namespace+"/"+p.Name)
	}
	load.LongestGrace = max(load.LongestGrace, grace(p))
	load.coordinate(p)
	if len(load.Pinned) < maxBlocked && c.placement.isPinned(p) {
		load.Pinned = append(load.Pinned, p.Namespace+"/"+p.Name)
	}
	blocked := BlockedPod{Pod: p.Namespace + "/" + p.Name}
	for _, b := range c.budgets[p.Namespace] {
		if !b.blocks(p) {
			continue
		}
		blocked.Budgets = append(blocked.Budgets, b.name)
		if !slices.Contains(load.Blocking, b.name) {
			load.Blocking = append(load.Blocking, b.name)
		}
	}
	if len(blocked.Budgets) > 0 && len(load.Blocked) < maxBlocked {
		load.Blocked = append(load.Blocked, blocked)
	}
}

// coordinate adds with what the eviction of the pod should be coordinated.
func (l *Load) coordinate(p *corev1.Pod) {
	c := drain.CoordinationOf(p)
	if c.Responders && len(l.Responders) < maxBlocked {
		l.Responders = append(l.Responders, p.Namespace+"/"+p.Name)
	}
	if c.PodGroup != "" && len(l.PodGroups) < maxBlocked && !slices.Contains(l.PodGroups, c.PodGroup) {
		l.PodGroups = append(l.PodGroups, c.PodGroup)
	}
}
