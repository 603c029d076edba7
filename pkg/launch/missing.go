package launch

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/node-drainer/node-drainer/internal/text"
)

// IgnoreAnnotation on a DaemonSet, with the value "true", has launches not wait for it.
const IgnoreAnnotation = "node-drainer.io/ignore-at-launch"

// Unregistered is what an instance lacks that is no Node yet.
const Unregistered = "a registered Node"

// rules say what a Node must have to serve.
type rules struct {
	startup []string // keys of taints, or beginnings with a * at the end
}

func newRules(cfg Config) rules { return rules{startup: text.Split(cfg.StartupTaints)} }

// missing says what the Node lacks to serve, for people to read: its condition first, then taints, then
// DaemonSets by name. It is empty if the Node can serve. sets are all of the cluster, pods those of the Node.
func (r rules) missing(node *corev1.Node, sets []*appsv1.DaemonSet, pods []*corev1.Pod) []string {
	if node == nil {
		return []string{Unregistered}
	}
	var out []string
	if !isReady(node) {
		out = append(out, "Ready")
	}
	if node.Spec.Unschedulable {
		out = append(out, "schedulable")
	}
	taints, later := r.startupTaints(node)
	out = append(out, taints...)
	return append(out, r.unserved(later, sets, pods)...)
}

// startupTaints names the startup taints of the Node, and returns the Node as it will be without them: then
// DaemonSets come that do not bear them.
func (r rules) startupTaints(node *corev1.Node) (names []string, later *corev1.Node) {
	later = &corev1.Node{ObjectMeta: node.ObjectMeta}
	for _, t := range node.Spec.Taints {
		if r.isStartup(t.Key) {
			names = append(names, "taint "+t.Key)
		} else {
			later.Spec.Taints = append(later.Spec.Taints, t)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), later
}

func (r rules) isStartup(key string) bool {
	return slices.ContainsFunc(r.startup, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return key == pattern || open && strings.HasPrefix(key, prefix)
	})
}

// unserved names the DaemonSets that the Node should run and has no Ready pod of.
func (rules) unserved(node *corev1.Node, sets []*appsv1.DaemonSet, pods []*corev1.Pod) []string {
	served := map[types.UID]bool{}
	for _, p := range pods {
		owner := metav1.GetControllerOf(p)
		if owner != nil && p.DeletionTimestamp == nil && podutils.IsPodReady(p) {
			served[owner.UID] = true
		}
	}
	var out []string
	for _, ds := range sets {
		if !served[ds.UID] && counts(ds) && belongs(ds, node) {
			out = append(out, "DaemonSet "+ds.Namespace+"/"+ds.Name)
		}
	}
	slices.Sort(out)
	return out
}

// counts tells whether a DaemonSet is to be waited for at all. How many pods its status asks for says
// nothing: for the first node that it fits that is zero until its controller has seen the node.
func counts(ds *appsv1.DaemonSet) bool {
	return ds.DeletionTimestamp == nil && ds.Annotations[IgnoreAnnotation] != "true"
}

// belongs tells whether the DaemonSet should run on the Node, as its controller decides: by the name of the
// node, node selector and required node affinity, and by the taints that its pods bear (Kubernetes
// documentation, "DaemonSet", "How Daemon Pods are scheduled").
func belongs(ds *appsv1.DaemonSet, node *corev1.Node) bool {
	spec := ds.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != node.Name {
		return false
	}
	fits, _ := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}).Match(node)
	if !fits { // that a term cannot be read is no matter if another fits
		return false
	}
	_, refused := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints,
		append(tolerations(spec.HostNetwork), spec.Tolerations...),
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, true)
	return !refused
}

// tolerations are those that the DaemonSet controller gives every pod (Kubernetes documentation, "DaemonSet",
// "Taints and tolerations").
func tolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	out := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		out = append(out, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return out
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
