package drain

import (
	"context"
	"fmt"
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

// volumes knows what is attached to which node, by a watch, and wakes the drain of a node when that changes.
type volumes struct {
	informer cache.SharedIndexInformer
	seen     cache.ResourceEventHandlerRegistration

	mu   sync.Mutex
	runs map[string]*run // by node
}

// byNode is the index of VolumeAttachments by the node.
const byNode = "node"

func newVolumes(client kubernetes.Interface) (*volumes, error) {
	v := &volumes{runs: map[string]*run{}}
	v.informer = informers.NewVolumeAttachmentInformer(client, 0, cache.Indexers{byNode: nodeOf})
	if err := v.informer.SetTransform(trimAttachment); err != nil {
		return nil, fmt.Errorf("watch VolumeAttachments: %w", err)
	}
	var err error
	v.seen, err = v.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: v.detached})
	if err != nil {
		return nil, fmt.Errorf("watch VolumeAttachments: %w", err)
	}
	return v, nil
}

func (v *volumes) detached(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	a, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.runs[a.Spec.NodeName]; r != nil {
		r.wakeUp()
	}
}

func (v *volumes) subscribe(r *run) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.runs[r.Name] = r
}

func (v *volumes) unsubscribe(r *run) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.runs[r.Name] == r {
		delete(v.runs, r.Name)
	}
}

// attached names the PersistentVolumes that are attached to the node.
func (v *volumes) attached(node string) []string {
	if v == nil {
		return nil
	}
	objs, err := v.informer.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		return nil // the index is always there
	}
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
	a, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return nil, nil
	}
	return []string{a.Spec.NodeName}, nil
}

// trimAttachment keeps of a VolumeAttachment what this package reads.
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

// freed names the volumes attached to the node that no pod uses which stays there. Only if there are both
// does it ask the API server which volumes the claims of those pods are bound to.
func (r *run) freed(ctx context.Context) []string {
	attached := r.volumes.attached(r.Name)
	if len(attached) == 0 {
		return nil
	}
	for _, claim := range r.staying() {
		volume, known := r.bound[claim]
		if !known {
			volume = r.volumeOf(ctx, claim)
			r.bound[claim] = volume
		}
		attached = slices.DeleteFunc(attached, func(v string) bool { return v == volume })
	}
	return attached
}

// volumeOf returns the volume that a claim is bound to; empty if there is none, or it cannot be read: then
// the volume is waited for like the others, which costs the timeout at most.
func (r *run) volumeOf(ctx context.Context, claim string) string {
	namespace, name, _ := strings.Cut(claim, "/")
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pvc, err := r.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		r.observer.KubernetesFailed("read PersistentVolumeClaim "+claim, err)
		return ""
	}
	return pvc.Spec.VolumeName
}

// staying names the claims of the pods that stay on the node, as NAMESPACE/NAME.
func (r *run) staying() []string {
	var claims []string
	for _, obj := range r.pods.GetStore().List() {
		if kept, ok := obj.(*record); ok {
			for _, c := range kept.claims {
				claims = append(claims, kept.Namespace+"/"+c)
			}
		}
	}
	return claims
}

// emptied notes since when no pod is left that is worth waiting for.
func (r *run) emptied(step Step) {
	switch {
	case !step.Empty:
		r.emptyAt = time.Time{}
	case r.emptyAt.IsZero():
		r.emptyAt = time.Now()
	}
}
