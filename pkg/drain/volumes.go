package drain

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// volumeTracker knows which volumes are attached to which node, and wakes the drain of a node when one is
// detached.
type volumeTracker struct {
	informer cache.SharedIndexInformer
	listed   cache.ResourceEventHandlerRegistration

	mu      sync.Mutex
	waiters map[string]*waiter // by node
}

// byNode is the index of VolumeAttachments by node.
const byNode = "node"

func newVolumeTracker(client kubernetes.Interface) (*volumeTracker, error) {
	v := &volumeTracker{waiters: map[string]*waiter{}}
	v.informer = informers.NewVolumeAttachmentInformer(client, 0, cache.Indexers{byNode: nodeOf})
	var err error
	v.listed, err = setUp(v.informer, "VolumeAttachments", trimAttachment,
		cache.ResourceEventHandlerFuncs{DeleteFunc: v.detached})
	return v, err
}

func (v *volumeTracker) detached(obj any) {
	if a, ok := deleted[*storagev1.VolumeAttachment](obj); ok {
		v.wake(a.Spec.NodeName)
	}
}

// wake wakes the drain of the node, if there is one.
func (v *volumeTracker) wake(node string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w := v.waiters[node]; w != nil {
		w.wakeUp()
	}
}

// subscribe makes detached volumes, and changes of the Node, wake the drain until unsubscribe is called.
func (v *volumeTracker) subscribe(w *waiter) (unsubscribe func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiters[w.name] = w
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.waiters[w.name] == w {
			delete(v.waiters, w.name)
		}
	}
}

// attached returns the names of the PersistentVolumes that are attached to the node, sorted.
func (v *volumeTracker) attached(node string) []string {
	objs, _ := v.informer.GetIndexer().ByIndex(byNode, node) // the index exists
	var names []string
	for _, obj := range objs {
		if a, ok := obj.(*storagev1.VolumeAttachment); ok && a.Spec.Source.PersistentVolumeName != nil {
			names = append(names, *a.Spec.Source.PersistentVolumeName)
		}
	}
	slices.Sort(names)
	return names
}

func nodeOf(obj any) ([]string, error) {
	if a, ok := obj.(*storagev1.VolumeAttachment); ok {
		return []string{a.Spec.NodeName}, nil
	}
	return nil, nil
}

// trimAttachment is the informer's transform: it keeps only what this package reads, to save memory.
func trimAttachment(obj any) (any, error) {
	a, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return obj, nil
	}
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, UID: a.UID, ResourceVersion: a.ResourceVersion},
		Spec: storagev1.VolumeAttachmentSpec{
			NodeName: a.Spec.NodeName,
			Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: a.Spec.Source.PersistentVolumeName},
		},
	}, nil
}

// nodeVolumes are the volumes that one drain waits for.
type nodeVolumes struct {
	tracker *volumeTracker
	drainer *Drainer
	node    string
	bound   map[string]string // by NAMESPACE/NAME of a claim: its volume
	emptyAt time.Time         // when no pod was left that the drain waits for; zero if one is left
}

// attached returns the volumes that are attached to the node and are not of the claims, which are those of
// pods that stay. It reads these claims only if volumes are attached.
func (v *nodeVolumes) attached(ctx context.Context, claims []string) []string {
	attached := v.tracker.attached(v.node)
	if len(attached) == 0 {
		return nil
	}
	for _, claim := range claims {
		if _, known := v.bound[claim]; !known {
			v.bound[claim] = v.volumeOf(ctx, claim)
		}
		attached = slices.DeleteFunc(attached, func(name string) bool { return name == v.bound[claim] })
	}
	return attached
}

// volumeOf returns the volume that a claim is bound to. It is empty if there is none, or if the claim cannot
// be read: then the drain waits for that volume too, at most until VolumeTimeout.
func (v *nodeVolumes) volumeOf(ctx context.Context, claim string) string {
	namespace, name, _ := strings.Cut(claim, "/")
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pvc, err := v.drainer.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		v.drainer.observer.KubernetesFailed("read PersistentVolumeClaim "+claim, err)
		return ""
	}
	return pvc.Spec.VolumeName
}

// setEmpty records whether a pod is left that the drain waits for.
func (v *nodeVolumes) setEmpty(empty bool) {
	switch {
	case !empty:
		v.emptyAt = time.Time{}
	case v.emptyAt.IsZero():
		v.emptyAt = time.Now()
	}
}
