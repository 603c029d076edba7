package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// concurrentPatches is how many Nodes may be patched at the same time.
	concurrentPatches = 1024
	// patchTimeout bounds a change. It is longer than the API server takes for all admission webhooks of a request
	// together (kube-apiserver --request-timeout, which is 1m0s): the end of a request in the client ends it in the API
	// server as well. A caller that has less time bounds its context.
	patchTimeout = 65 * time.Second
)

// ErrGone is returned when the Node does not exist, or another instance has its name now.
var ErrGone = errors.New("the node is gone")

// patch is a JSON merge patch (RFC 7386) of a Node.
type patch map[string]map[string]any

func newPatch() patch { return patch{"metadata": {}, "spec": {}} }

func (p patch) annotate(mark any) { p["metadata"]["annotations"] = map[string]any{Annotation: mark} }

func (p patch) label(value any) {
	p["metadata"]["labels"] = map[string]any{corev1.LabelNodeExcludeBalancers: value}
}

// patcher patches Nodes. The patches of one Node are sent one after the other, and each is guarded by the
// resource version of the Node that it was made for.
type patcher struct {
	client  kubernetes.Interface
	nodes   cache.Store // what the watch shows
	turns   turns
	written sync.Map // by name: the *corev1.Node that our last patch returned
}

// patch patches the Node with what build returns for its current state. It returns false if that is nil,
// which changes nothing. The current state is what our last patch returned or what the watch shows, whichever
// is newer. It is read from the API instead after a conflict, if the watch shows no such Node, and if
// according to the watch there is nothing to change: the watch may be behind.
func (p *patcher) patch(
	ctx context.Context, node Node, build func(*corev1.Node) patch,
) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	end, err := p.turns.wait(ctx, node.Name)
	if err != nil {
		return false, fmt.Errorf("wait for another change of node %s: %w", node.Name, err)
	}
	defer end()
	current, own := p.latest(node.Name)
	if current != nil && (string(current.UID) != node.UID || !own && build(current) == nil) {
		current = nil
	}
	err = retry.OnConflict(func() error {
		known := current
		current = nil
		changed, err = p.patchOnce(ctx, node, known, build)
		return err
	})
	switch {
	case isMissing(err):
		return false, fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return false, fmt.Errorf("change node %s: %w", node.Name, err)
	}
	return changed, nil
}

// turns have the changes of a Node wait for each other. A mutex would not do: a change that waits for one that the API
// server does not answer must end with its context.
type turns [concurrentPatches]chan struct{}

func newTurns() (t turns) {
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

// wait waits for the other changes of a Node, or those of one with the same hash. The caller calls end.
func (t *turns) wait(ctx context.Context, name string) (end func(), err error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	turn := t[hash.Sum32()%concurrentPatches]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// patchOnce patches the Node in the state current, or as the API returns it if current is nil.
func (p *patcher) patchOnce(
	ctx context.Context, node Node, current *corev1.Node, build func(*corev1.Node) patch,
) (changed bool, err error) {
	if current == nil {
		if current, err = p.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			return false, err
		}
	}
	if string(current.UID) != node.UID {
		return false, ErrGone
	}
	change := build(current)
	if change == nil {
		return false, nil
	}
	change["metadata"]["resourceVersion"] = current.ResourceVersion
	body, err := json.Marshal(change)
	if err != nil {
		return false, fmt.Errorf("encode the patch: %w", err)
	}
	after, err := p.client.CoreV1().Nodes().Patch(
		ctx, node.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err == nil {
		kept, _ := trim(after)
		p.written.Store(node.Name, kept)
	}
	return true, err
}

// latest returns the Node as our last patch returned it, if the watch does not show that yet (own is true),
// else as the watch shows it; nil if it shows none.
func (p *patcher) latest(name string) (latest *corev1.Node, own bool) {
	shown := cached(p.nodes, name)
	written, ok := p.written.Load(name)
	if shown == nil || !ok {
		return shown, false
	}
	ours := written.(*corev1.Node) //nolint:forcetypeassert // patchOnce stores Nodes
	if isNewer(ours, shown) {
		return ours, true
	}
	return shown, false
}

// observe forgets what our last patch returned when the watch shows it, or something newer.
func (p *patcher) observe(node *corev1.Node) {
	written, ok := p.written.Load(node.Name)
	if ok && !isNewer(written.(*corev1.Node), node) { //nolint:forcetypeassert // patchOnce stores Nodes
		p.written.CompareAndDelete(node.Name, written)
	}
}

// isNewer reports whether a is a later state of the Node than b.
func isNewer(a, b *corev1.Node) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0 && a.UID == b.UID
}
