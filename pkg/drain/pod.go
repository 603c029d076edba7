package drain

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/text"
)

// The annotations of a Pod that say how it wants to be drained.
const (
	// DrainAnnotation is our own: wait, a duration after the pod's start for which to wait, or evict, which
	// overrules all else that would have the pod waited for.
	DrainAnnotation = "node-drainer.io/drain"
	// safeToEvict is cluster-autoscaler's: false asks not to evict the pod.
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// doNotDisrupt is Karpenter's: true, or a duration after the pod's start
	// (https://karpenter.sh/docs/reference/annotations/).
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// defaultGrace is the grace of a pod that names none (corev1.DefaultTerminationGracePeriodSeconds).
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// Environment is what a Drainer must know of the nodes that it drains, and of itself.
type Environment struct {
	Taint       corev1.Taint           // that a node has while it is drained
	Unreachable func(node string) bool // whether the node does not answer, or is gone
	Self        string                 // NAMESPACE/NAME of the pod that this process runs in; empty outside a cluster
}

// rules say what a pod is to a drain.
type rules struct {
	Environment
	tiers      []Tier
	waitFor    labels.Selector
	waitIn     []string
	waitJobs   bool
	bare, dirs bool // such pods are waited for
}

// newRules returns what the configuration, which is valid, says of pods.
func newRules(cfg Config, around Environment) (rules, error) {
	r := rules{
		Environment: around, waitFor: labels.Nothing(), waitIn: text.Split(cfg.WaitNamespaces),
		waitJobs: cfg.WaitForJobs, bare: cfg.BarePods == Wait, dirs: cfg.EmptyDirPods == Wait,
	}
	var err error
	if r.tiers, err = parseTiers(cfg.Tiers); err != nil {
		return rules{}, err
	}
	if cfg.WaitSelector != "" {
		r.waitFor, err = labels.Parse(cfg.WaitSelector)
	}
	return r, err
}

// record is what is kept of a pod of a draining node.
type record struct {
	metav1.ObjectMeta // its name, labels and resource version
	pod               Pod
	ignoresBudgets    bool     // no budget holds it
	claims            []string // PersistentVolumeClaims, of a pod that stays
}

// transform is the transform of the informer: it keeps of a pod what a drain needs.
func (r rules) transform(obj any) (any, error) {
	if p, ok := obj.(*corev1.Pod); ok {
		return r.record(p), nil
	}
	return obj, nil // the tombstone of a deletion, or kept already
}

func (r rules) record(p *corev1.Pod) *record {
	kept := &record{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		},
		pod: r.pod(p), ignoresBudgets: ignoresBudgets(p),
	}
	switch {
	case kept.pod.StayReason == DaemonSet, kept.pod.StayReason == Mirror:
		kept.claims = claims(p)
	case kept.pod.StayReason == "" && !kept.ignoresBudgets:
		kept.Labels = p.Labels
	}
	return kept
}

// same tells whether two records of a pod say the same.
func same(before, now any) bool {
	a, ok := before.(*record)
	b, too := now.(*record)
	return ok && too && a.ignoresBudgets == b.ignoresBudgets && maps.Equal(a.Labels, b.Labels) && reflect.DeepEqual(a.pod, b.pod)
}

// pod returns what a decision needs to know of a pod, save its budgets and tries.
func (r rules) pod(p *corev1.Pod) Pod {
	out := Pod{
		Namespace:  p.Namespace,
		Name:       p.Name,
		UID:        string(p.UID),
		StayReason: r.stays(p),
		Tier:       r.tier(p),
		Grace:      defaultGrace,
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		out.Grace = time.Duration(*g) * time.Second
	}
	if p.DeletionTimestamp != nil {
		out.GraceEndsAt = p.DeletionTimestamp.Time
	}
	out.UnreadySince = p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready = c.Status == corev1.ConditionTrue
			out.UnreadySince = c.LastTransitionTime.Time
		}
	}
	out.WaitReason, out.WaitUntil = r.waits(p)
	return out
}

// stays tells why a pod need not leave its node; empty if it must.
func (r rules) stays(p *corev1.Pod) StayReason {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return Mirror
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return Finished
	}
	if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "DaemonSet" && r.returns(p) {
		return DaemonSet
	}
	return ""
}

// returns tells whether a DaemonSet would put its pod back on the node: it tolerates our taint, or the taint
// keeps no pod of a DaemonSet away. The DaemonSet controller heeds NoSchedule and NoExecute
// (k8s.io/kubernetes/pkg/controller/daemon: NodeShouldRunDaemonPod).
func (r rules) returns(p *corev1.Pod) bool {
	if r.Taint.Effect == corev1.TaintEffectPreferNoSchedule {
		return true
	}
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &r.Taint, false)
	})
}

// tier is the index of the pod's tier. Behind those of the configuration come the pods that serve the others'
// volumes, and then the pod of this very process.
func (r rules) tier(p *corev1.Pod) int {
	switch {
	case r.Self == p.Namespace+"/"+p.Name:
		return len(r.tiers) + 1
	case servesVolumes(p):
		return len(r.tiers)
	}
	priority := int32(0)
	if p.Spec.Priority != nil {
		priority = *p.Spec.Priority
	}
	i := 0
	for i+1 < len(r.tiers) && priority >= r.tiers[i+1].From {
		i++
	}
	return i
}

// servesVolumes tells whether the pod is the node part of a CSI driver: it registers with the kubelet through
// this folder (https://kubernetes-csi.github.io/docs/node-driver-registrar.html). Pods cannot unmount their
// volumes without it.
func servesVolumes(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && strings.HasSuffix(strings.TrimRight(v.HostPath.Path, "/"), "/plugins_registry")
	})
}

// waits tells why a pod is to be waited for instead of evicted, and until when; a zero time is the deadline.
func (r rules) waits(p *corev1.Pod) (WaitReason, time.Time) {
	own := p.Annotations[DrainAnnotation]
	if own == Evict {
		return "", time.Time{}
	}
	for _, wish := range []string{own, p.Annotations[doNotDisrupt]} {
		if wish == Wait || wish == "true" {
			return OptedOut, time.Time{}
		}
		if d, err := time.ParseDuration(wish); err == nil && d > 0 {
			return OptedOut, started(p).Add(d)
		}
	}
	switch {
	case p.Annotations[safeToEvict] == "false":
		return OptedOut, time.Time{}
	case r.waitsFor(p):
		return WaitedFor, time.Time{}
	}
	return "", time.Time{}
}

// waitsFor tells whether the configuration asks to wait for the pod's end.
func (r rules) waitsFor(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	switch {
	case r.bare && owner == nil, r.dirs && hasEmptyDir(p):
		return true
	case len(r.waitIn) > 0 && !slices.Contains(r.waitIn, p.Namespace):
		return false
	}
	return r.waitFor.Matches(labels.Set(p.Labels)) || (r.waitJobs && owner != nil && owner.Kind == "Job")
}

func hasEmptyDir(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
	})
}

func started(p *corev1.Pod) time.Time {
	if p.Status.StartTime != nil {
		return p.Status.StartTime.Time
	}
	return p.CreationTimestamp.Time
}

// ignoresBudgets tells whether the API server evicts the pod whatever its budgets
// (k8s.io/kubernetes/pkg/registry/core/pod/storage: canIgnorePDB).
func ignoresBudgets(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodPending || p.DeletionTimestamp != nil
}

// claims names the PersistentVolumeClaims of a pod, those made for it alone included
// (https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming).
func claims(p *corev1.Pod) []string {
	var names []string
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}
