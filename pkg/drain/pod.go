package drain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// The annotations of a Pod about its eviction.
const (
	// DrainAnnotation is our own. Its value is wait, a duration from the start of the pod for which to wait, or
	// evict or restart, which override all other annotations and the configuration.
	DrainAnnotation = handover.DrainAnnotation
	// safeToEvict is cluster-autoscaler's: with false, or onCompletion, the pod is not evicted.
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// onCompletion is a value of safeToEvict since cluster-autoscaler 1.36: the pod blocks the removal of its node until
	// it has completed (PodSafeToEvictOnCompletionValue).
	onCompletion = "on-completion"
	// doNotDisrupt is Karpenter's: true, or a duration from the start of the pod
	// (https://karpenter.sh/docs/reference/annotations/).
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// defaultGrace is the grace period of a pod that sets none.
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// Environment is what a Drainer must know about nodes and about its own process.
type Environment struct {
	Taint       corev1.Taint               // that a node has while it is drained
	TaintValue  func(node string) string   // its value on the node, which names the event; may be empty, or nil
	Unreachable func(node string) bool     // reports whether the node is not Ready, or gone
	Dead        func(node string) bool     // reports whether its kubelet does not answer, or the node is gone; may be nil
	Untainted   func(node string) bool     // reports whether the watch shows the node without the taint
	NodeUID     func(node string) string   // of the Node that the watch shows; empty if it shows none; may be nil
	Controls    func(node string) Controls // that the watch shows; may be nil
	Self        string                     // NAMESPACE/NAME of the pod of this process; empty outside a cluster

	// Kinds ask pods before they are evicted, by the value of their annotation, and Leaving lists the nodes that are
	// being drained or not Ready. Without Kinds no pod is asked.
	Kinds   map[string]handover.Releaser
	Leaving func() []string
	// Restarter replaces pods of Deployments by rolling restarts. It may be nil.
	Restarter handover.Releaser
}

// rules classify pods by the configuration.
type rules struct {
	Environment
	Policy
	waitFor      labels.Selector
	waitIn       []string
	annotationIn []string
}

func newRules(policy Policy, env Environment) (r rules, err error) {
	r = rules{
		Environment: env, Policy: policy, waitFor: labels.Nothing(), waitIn: text.Split(policy.WaitNamespaces),
		annotationIn: text.Split(policy.AnnotationNamespaces),
	}
	if policy.WaitSelector != "" {
		r.waitFor, err = labels.Parse(policy.WaitSelector)
	}
	return r, err
}

// record is what a podWatch keeps of a pod.
type record struct {
	metav1.ObjectMeta // its name, UID, labels and resource version
	pod               Pod
	ignoresBudgets    bool // the API server does not check its budgets
	needsTaint        bool // its DaemonSet creates it again unless the node has our taint
	returns           bool // its controller may put it back on the node (mayReturn)
	created           time.Time
	owner             string   // its namespace, and the UID of its controller; empty if it does not return
	repelled          bool     // no scheduler that sees our taint binds it to the node
	claims            []string // PersistentVolumeClaims of a pod that stays, or may
	pace              pace
}

// transform is the informer's transform: it keeps only what a drain needs, to save memory.
func (r *rules) transform(obj any) (any, error) {
	if p, ok := obj.(*corev1.Pod); ok {
		return r.record(p), nil
	}
	return obj, nil // a tombstone, or a record already
}

func (r *rules) record(p *corev1.Pod) *record {
	kept := &record{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		},
		pod: r.pod(p), ignoresBudgets: ignoresBudgets(p), pace: paceOf(p),
	}
	leaves := kept.pod.StayReason == ""
	kept.needsTaint = leaves && isDaemon(p)
	if leaves && !isDaemon(p) {
		kept.owner, kept.created, kept.returns = ownerOf(p), p.CreationTimestamp.Time, r.mayReturn(p)
		kept.repelled = !kept.returns && r.Taint.Effect != corev1.TaintEffectPreferNoSchedule
	}
	if kept.needsTaint || kept.pod.StayReason == DaemonSet || kept.pod.StayReason == Mirror {
		kept.claims = claims(p)
	}
	if leaves && !kept.ignoresBudgets {
		kept.Labels = p.Labels
	}
	return kept
}

// equalRecords reports whether two records of a pod lead to the same decisions.
func equalRecords(before, now any) bool {
	a, ok := before.(*record)
	b, too := now.(*record)
	return ok && too && a.ignoresBudgets == b.ignoresBudgets && a.needsTaint == b.needsTaint &&
		maps.Equal(a.Labels, b.Labels) && reflect.DeepEqual(a.pod, b.pod)
}

// pod returns what a decision needs to know of a pod, except its budgets and tries.
func (r *rules) pod(p *corev1.Pod) Pod {
	out := Pod{
		Namespace:  p.Namespace,
		Name:       p.Name,
		UID:        string(p.UID),
		StayReason: r.stayReason(p),
		Tier:       r.tier(p),
		Grace:      defaultGrace,
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		out.Grace = time.Duration(*g) * time.Second
	}
	if p.DeletionTimestamp != nil {
		out.GraceEndsAt, out.DeletedAt = p.DeletionTimestamp.Time, p.DeletionTimestamp.Time
		if g := p.DeletionGracePeriodSeconds; g != nil {
			out.DeletedAt = out.GraceEndsAt.Add(-time.Duration(*g) * time.Second)
		}
	}
	out.Ready, out.UnreadySince = podutils.IsPodReady(p), p.CreationTimestamp.Time
	if c := conditionOf(p, corev1.PodReady); c.Type != "" {
		out.UnreadySince = c.LastTransitionTime.Time
	}
	if p.Status.Phase != corev1.PodPending { // one that has never started can start elsewhere
		out.WaitReason, out.WaitUntil = r.waitReason(p)
	}
	out.Brief, out.Unmounts = isDaemon(p) && out.WaitReason == "", servesVolumes(p)
	out.HandOver, out.Coordination = r.handOver(p), CoordinationOf(p)
	return out
}

// conditionOf returns the condition of the pod; zero if it has none of this type.
func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// stayReason returns why a pod need not leave its node; empty if it must.
func (r *rules) stayReason(p *corev1.Pod) StayReason {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return Mirror
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return Finished
	}
	if isDaemon(p) && r.tolerates(p) {
		return DaemonSet
	}
	return ""
}

// ownerOf names what creates the next pod in place of this one. Pods without a controller count as those of one.
func ownerOf(p *corev1.Pod) string {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return p.Namespace + "/" + string(owner.UID)
	}
	return p.Namespace + "/"
}

// namesNode reports whether the pod was created with the name of its node, so that no scheduler has bound it. A binding
// is not recorded in managedFields (k8s.io/kubernetes/pkg/registry/core/pod/storage: setPodNodeAndMetadata).
func namesNode(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Spec struct {
				NodeName *struct{} `json:"f:nodeName"`
			} `json:"f:spec"`
		}
		if f.Subresource != "" || f.FieldsV1 == nil {
			return false
		}
		raw := f.FieldsV1.GetRawBytes()
		return bytes.Contains(raw, []byte(`"f:nodeName"`)) && // else it need not be parsed
			json.Unmarshal(raw, &fields) == nil && fields.Spec.NodeName != nil
	})
}

func isDaemon(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// tolerates reports whether a pod may be placed on the node in spite of our taint: the pod tolerates it, or the
// taint has no such effect. Of a DaemonSet's pod that means that it would be created again, since that controller
// honors NoSchedule and NoExecute, too (k8s.io/kubernetes/pkg/controller/daemon: NodeShouldRunDaemonPod).
func (r *rules) tolerates(p *corev1.Pod) bool {
	return r.Taint.Effect == corev1.TaintEffectPreferNoSchedule || r.toleratesTaint(p)
}

// mayReturn reports whether the controller of a pod may put the next one on the node, although the node is being
// drained: the pod names the node, or tolerates what keeps other pods away. That is our taint, or the cordon if the
// taint has no such effect (node.Config.Validate).
func (r *rules) mayReturn(p *corev1.Pod) bool {
	if r.Taint.Effect == corev1.TaintEffectPreferNoSchedule {
		cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
		return tolerates(p, cordon) || namesNode(p)
	}
	return r.toleratesTaint(p) || namesNode(p)
}

func (r *rules) toleratesTaint(p *corev1.Pod) bool {
	taint := r.Taint
	if r.TaintValue != nil {
		taint.Value = cmp.Or(r.TaintValue(p.Spec.NodeName), taint.Value)
	}
	return tolerates(p, taint)
}

func tolerates(p *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &taint, false)
	})
}

// returnedTier is the tier of pods that their controllers have put back on the node, and volumeTier that of the pods
// that unmount the volumes of others.
func (p Policy) returnedTier() int { return len(p.TierList) }
func (p Policy) volumeTier() int   { return len(p.TierList) + 2 }

// tier returns the index of the pod's tier. After those of the configuration, and that of pods that have returned, come
// the pods of DaemonSets, which serve the others until they end and do not return, then those that unmount the volumes
// of the others, and then the pod of this process.
func (r *rules) tier(p *corev1.Pod) int {
	switch {
	case r.Self == p.Namespace+"/"+p.Name:
		return r.volumeTier() + 1
	case servesVolumes(p):
		return r.volumeTier()
	case isDaemon(p):
		return r.returnedTier() + 1
	}
	priority := int32(0)
	if p.Spec.Priority != nil {
		priority = *p.Spec.Priority
	}
	i := 0
	for i+1 < len(r.TierList) && priority >= r.TierList[i+1].From {
		i++
	}
	return i
}

// servesVolumes reports whether the pod is the node plugin of a CSI driver, without which no volume can be
// unmounted. It registers with the kubelet through this directory
// (https://kubernetes-csi.github.io/docs/node-driver-registrar.html).
func servesVolumes(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		if v.HostPath == nil {
			return false
		}
		path := strings.ReplaceAll(v.HostPath.Path, `\`, "/") // on Windows
		return strings.HasSuffix(strings.TrimRight(path, "/"), "/plugins_registry")
	})
}

// waitReason returns why the drain waits for the end of the pod instead of evicting it, and until when; a
// zero time is the deadline.
func (r *rules) waitReason(p *corev1.Pod) (WaitReason, time.Time) {
	if own := r.drainAnnotation(p); own == Evict || own == handover.Restart {
		return "", time.Time{}
	}
	until, isOut := optOut(p)
	isOut = isOut && r.mayDelay(p)
	switch isWaitedFor := r.isWaitedFor(p); {
	case isOut && (!isWaitedFor || !until.IsZero()): // else the configuration waits for longer
		return OptedOut, until
	case isWaitedFor:
		return WaitedFor, time.Time{}
	}
	return "", time.Time{}
}

// drainAnnotation returns the value of DrainAnnotation; empty if it does not count. Anyone may ask for an eviction.
func (r *rules) drainAnnotation(p *corev1.Pod) string {
	if own := p.Annotations[DrainAnnotation]; own == Evict || r.mayDelay(p) {
		return own
	}
	return ""
}

// mayDelay reports whether the configuration lets annotations of the pod delay its eviction.
func (r *rules) mayDelay(p *corev1.Pod) bool {
	return r.AnnotationTimeout > 0 && (len(r.annotationIn) == 0 || slices.Contains(r.annotationIn, p.Namespace))
}

// optOut reports whether an annotation of the pod asks to wait for its end, and until when.
func optOut(p *corev1.Pod) (until time.Time, ok bool) {
	for _, value := range []string{p.Annotations[DrainAnnotation], p.Annotations[doNotDisrupt]} {
		if value == Wait || value == "true" {
			return time.Time{}, true
		}
		if d, err := time.ParseDuration(value); err == nil && d > 0 {
			return started(p).Add(d), true
		}
	}
	own := p.Annotations[safeToEvict]
	return time.Time{}, own == "false" || own == onCompletion
}

// isWaitedFor reports whether the configuration says to wait for the end of the pod.
func (r *rules) isWaitedFor(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	switch {
	case r.BarePods == Wait && owner == nil, r.EmptyDirPods == Wait && hasEmptyDir(p):
		return true
	case len(r.waitIn) > 0 && !slices.Contains(r.waitIn, p.Namespace):
		return false
	}
	return r.waitFor.Matches(labels.Set(p.Labels)) || (r.WaitForJobs && owner != nil && owner.Kind == "Job")
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

// ignoresBudgets reports whether the API server evicts the pod without checking its budgets
// (k8s.io/kubernetes/pkg/registry/core/pod/storage: canIgnorePDB).
func ignoresBudgets(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodPending || p.DeletionTimestamp != nil
}

// claims returns the names of the PersistentVolumeClaims of a pod, including those of ephemeral volumes
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
