// Package cluster says what Kubernetes knows of instances: their nodes, what is left to move on them and what
// holds it up. A View only reads; only a Tainter writes. Kubernetes types stop here.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Node is the Node of an instance.
type Node struct {
	Name    string            `json:"name"`
	UID     string            `json:"-"`
	Ready   bool              `json:"ready"`
	Labels  map[string]string `json:"-"`
	Marked  bool              `json:"marked,omitempty"`  // The agent has marked it: it is going away.
	Tainted bool              `json:"tainted,omitempty"` // It bears OutdatedTaint.
	Drain   *Drain            `json:"drain,omitempty"`   // What its condition tells of its drain, or nil.
}

// Drain is how far the drain of a node is, from the Node condition node-drainer.io/Drained.
type Drain struct {
	Done    bool      `json:"done"`    // The condition is True.
	Reason  string    `json:"reason"`  // One word.
	Message string    `json:"message"` // How many pods are left, and what holds them up.
	Since   time.Time `json:"since"`
}

// Load is what runs on a node, for a plan.
type Load struct {
	Pods         int           `json:"pods"`               // That a drain would move: no DaemonSet, mirror or finished pods.
	Blocking     []string      `json:"blocking,omitempty"` // namespace/name of budgets that allow no disruption of a pod there.
	LongestGrace time.Duration `json:"-"`
}

// View is a picture of the nodes that keeps itself up to date by a watch. Make it with New, and Run it.
type View struct {
	client   kubernetes.Interface
	informer cache.SharedIndexInformer
	synced   chan struct{} // Closed when every Node has been seen once.

	mu   sync.Mutex
	lost error // The latest failure of the watch.
}

// byInstance is the index of Nodes by EC2 instance id.
const byInstance = "instance"

// New returns a View. Run must be called before it is asked.
func New(client kubernetes.Interface) *View {
	return &View{
		client: client, synced: make(chan struct{}),
		informer: informers.NewNodeInformer(client, 0, cache.Indexers{byInstance: instanceIndex}),
	}
}

// Run watches the nodes until ctx ends. It returns an error if they cannot be listed at all within the
// timeout: no access. The watch itself is tried again for as long as it takes; only that it is forbidden is
// an error at any time. It must be called once.
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
	if err := v.prepare(stop); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { v.informer.RunWithContext(ctx) })
	defer running.Wait()
	if !v.sync(ctx, timeout) {
		stop(fmt.Errorf("the nodes cannot be listed within %v: %w", timeout, v.failure()))
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// probe lists one Node: whether the API server answers, and allows that, is known at once.
func (v *View) probe(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := v.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not allow to list nodes: %w", err)
	case err != nil:
		return fmt.Errorf("the nodes cannot be listed within %v: %w", timeout, err)
	}
	return nil
}

// prepare sets the informer up. A watch that is forbidden ends it all: the picture would get old.
func (v *View) prepare(stop context.CancelCauseFunc) error {
	return errors.Join(v.informer.SetTransform(strip), v.informer.SetWatchErrorHandlerWithContext(
		func(_ context.Context, _ *cache.Reflector, err error) {
			v.mu.Lock()
			v.lost = err
			v.mu.Unlock()
			if apierrors.IsForbidden(err) {
				stop(fmt.Errorf("the API server does not allow to watch nodes: %w", err))
			}
		}))
}

// sync waits until every Node has been seen. It is false if the time is over, or ctx.
func (v *View) sync(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !cache.WaitFor(ctx, "", v.informer.HasSyncedChecker()) {
		return false
	}
	close(v.synced)
	return true
}

func (v *View) failure() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost == nil {
		return errors.New("the API server does not answer")
	}
	return v.lost
}

// Synced returns a channel that is closed when every Node has been seen once: before, Node knows none.
func (v *View) Synced() <-chan struct{} { return v.synced }

// Node returns the Node of an instance. It asks no API.
func (v *View) Node(instanceID string) (Node, bool) {
	objs, err := v.informer.GetIndexer().ByIndex(byInstance, instanceID)
	if err != nil {
		return Node{}, false // The index is always there.
	}
	var best Node
	for _, obj := range objs {
		if n, ok := obj.(*corev1.Node); ok {
			best = toNode(n).or(best)
		}
	}
	return best, best.Name != ""
}

// InstanceOf returns the instance that a node runs on, or empty if that is not known. It asks no API.
func (v *View) InstanceOf(node string) string {
	obj, _, err := v.informer.GetStore().GetByKey(node)
	if n, ok := obj.(*corev1.Node); ok && err == nil {
		return instanceOf(n)
	}
	return ""
}

// Self returns the name of the node that this process runs on, if it is a pod: from the pod's name and
// namespace. Empty if that is not known.
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
		return "", fmt.Errorf("read the own pod %s/%s: %w", namespace, pod, err)
	}
	return own.Spec.NodeName, nil
}
