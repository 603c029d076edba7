// Package cluster reads what the trigger needs from Kubernetes: the nodes of instances, the pods to be
// evicted from them, and the budgets that block this. A View only reads, and only a Tainter writes.
// Kubernetes types stop here.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// Node is the Node of an instance.
type Node struct {
	Name    string            `json:"name"`
	UID     string            `json:"-"`
	Ready   bool              `json:"ready"`
	Labels  map[string]string `json:"-"`
	Marked  bool              `json:"marked,omitempty"`  // The agent has marked it: it is being terminated.
	Tainted bool              `json:"tainted,omitempty"` // It has OutdatedTaint.
	Drain   *Drain            `json:"drain,omitempty"`   // From its condition; nil if it has none.

	ReadySince time.Time `json:"-"` // Zero if it is not Ready.

	DrainRequested bool   `json:"drainRequested,omitempty"` // An annotation has the agent drain it.
	ScaleDownGroup string `json:"-"`                        // The group for whose rollout its scale-down is disabled.

	Policy node.Policy `json:"-"` // How it is drained in place of what is configured for all.
}

// Drain is the progress of a drain, from the Node condition node-drainer.io/Drained.
type Drain struct {
	Done    bool      `json:"done"`    // The condition is True.
	Reason  string    `json:"reason"`  // One word.
	Message string    `json:"message"` // How many pods are left, and what blocks them.
	Since   time.Time `json:"since,omitzero"`

	LeftBehind bool `json:"leftBehind,omitempty"` // It has ended, and pods are left.
}

// Load is what runs on a node.
type Load struct {
	Pods         int           `json:"pods"`               // Those that a drain would evict: no DaemonSet, mirror or finished pods.
	Blocking     []string      `json:"blocking,omitempty"` // namespace/name of budgets that allow no disruption of a pod there.
	LongestGrace time.Duration `json:"-"`

	Pinned     []string `json:"-"` // namespace/name of pods that no other node can have, the first maxBlocked of them.
	Responders []string `json:"-"` // namespace/name of pods with eviction responders, the first maxBlocked of them.
	PodGroups  []string `json:"-"` // namespace/name of the PodGroups of pods, the first maxBlocked of them.

	Blocked []BlockedPod `json:"-"` // Pods that Blocking blocks, the first maxBlocked of them.

	owned    map[types.UID][]string // namespace and name of the pods, by their controllers
	snapshot *drain.Snapshot        // nil if the View makes no forecasts
}

// BlockedPod is a pod that cannot be evicted now.
type BlockedPod struct {
	Pod     string   // namespace/name.
	Budgets []string // Those that allow no disruption: namespace/name.
}

// View is a cache of the nodes that a watch keeps up to date. Make it with New, and Run it.
type View struct {
	Namespace string        // In which the process runs; empty where that is no pod. It is set before Run.
	Drains    *drain.Config // How nodes are drained, for forecasts; nil is none. It is set before Loads.

	client   kubernetes.Interface
	informer cache.SharedIndexInformer
	synced   chan struct{} // Closed when the Nodes have been listed.

	mu       sync.Mutex
	watchErr error     // The latest failure of the watch; nil after it has delivered something.
	failing  time.Time // When the first such failure was.
	version  string    // The resource version at that time.
}

// byInstance is the index of Nodes by EC2 instance id.
const byInstance = "instance"

// New returns a View. It is empty until Run is called.
func New(client kubernetes.Interface) *View {
	return &View{
		client: client, synced: make(chan struct{}),
		informer: informers.NewNodeInformer(client, 0, cache.Indexers{byInstance: instanceIndex}),
	}
}

// Run watches the nodes until ctx ends. It returns an error if they cannot be listed within the timeout.
// After that it retries a watch that fails, also if it is forbidden: see Stale. It must be called once.
func (v *View) Run(ctx context.Context, timeout time.Duration) error {
	err := v.watch(ctx, timeout)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (v *View) watch(ctx context.Context, timeout time.Duration) error {
	if err := v.probe(ctx, timeout); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := v.prepare(); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { retry.Watch(ctx, v.informer) })
	defer running.Wait()
	syncing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if cache.WaitFor(syncing, "", v.informer.HasSyncedChecker()) {
		close(v.synced)
	} else {
		stop(fmt.Errorf("list nodes within %v: %w", timeout, v.failure()))
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// probe lists one Node, and starts a watch, to find out at once whether the API server answers and allows that.
func (v *View) probe(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := v.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return accessError("list", timeout, err)
	}
	watching, err := v.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return accessError("watch", timeout, err)
	}
	watching.Stop()
	return nil
}

// accessError is the error of the first request with the verb.
func accessError(verb string, timeout time.Duration, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s nodes (check the ClusterRole of the trigger): %w", verb, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s nodes (get new credentials for the cluster): %w", verb, err)
	}
	return fmt.Errorf("%s nodes within %v (is it the right cluster, and can this host reach it?): %w", verb, timeout, err)
}

// prepare configures the informer.
func (v *View) prepare() error {
	received := func(obj any) (any, error) {
		v.mu.Lock()
		v.watchErr = nil
		v.mu.Unlock()
		return strip(obj)
	}
	return errors.Join(v.informer.SetTransform(received), v.informer.SetWatchErrorHandlerWithContext(
		func(_ context.Context, _ *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				err = fmt.Errorf("watch nodes (check the ClusterRole of the trigger): %w", err)
			}
			v.fail(err)
		}))
}

// fail records a failure of the watch.
func (v *View) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watchErr == nil {
		v.failing, v.version = time.Now(), v.informer.LastSyncResourceVersion()
	}
	v.watchErr = err
}

func (v *View) failure() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return cmp.Or(v.watchErr, errors.New("the API server does not answer"))
}

// staleAfter is for how long the watch may fail before the view is stale. It is longer than the API server takes to
// send a bookmark to a watch without events, about a minute. Source: "Watch bookmarks" in the documentation of the
// Kubernetes API.
const staleAfter = 2 * time.Minute

// Stale returns why the nodes may have changed since the view has seen them: the watch has failed for minutes. It
// returns nil if it works.
func (v *View) Stale() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watchErr == nil || time.Since(v.failing) < staleAfter || v.informer.LastSyncResourceVersion() != v.version {
		return nil
	}
	return v.watchErr
}

// Synced returns a channel that is closed when the Nodes have been listed. Until then Node finds none.
func (v *View) Synced() <-chan struct{} { return v.synced }

// Node returns the Node of an instance, from the cache.
func (v *View) Node(instanceID string) (Node, bool) {
	objs, _ := v.informer.GetIndexer().ByIndex(byInstance, instanceID) // The index is always there.
	var best *corev1.Node
	for _, obj := range objs {
		if n, ok := obj.(*corev1.Node); ok {
			best = node.Preferred(best, n)
		}
	}
	if best == nil {
		return Node{}, false
	}
	return toNode(best), true
}

// nodes returns all Nodes of the cache.
func (v *View) nodes() (all []*corev1.Node) {
	for _, obj := range v.informer.GetStore().List() {
		if n, ok := obj.(*corev1.Node); ok {
			all = append(all, n)
		}
	}
	return all
}

// InstanceOf returns the instance that a node runs on, from the cache, or empty if that is not known.
func (v *View) InstanceOf(name string) string {
	obj, _, err := v.informer.GetStore().GetByKey(name)
	if n, ok := obj.(*corev1.Node); ok && err == nil {
		return node.InstanceOf(n)
	}
	return ""
}

// Self returns the name of the node that the named pod runs on, which is the one of this process. It returns
// empty if there is no such pod.
func (v *View) Self(ctx context.Context, namespace, pod string) (string, error) {
	if namespace == "" || pod == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	own, err := v.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read pod %s/%s, which runs this process: %w", namespace, pod, err)
	}
	return own.Spec.NodeName, nil
}
