package launch

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/node-drainer/node-drainer/internal/text"
)

// IgnoreAnnotation is the annotation of DaemonSets that launches do not wait for. Its value is "true".
const IgnoreAnnotation = "node-drainer.io/ignore-at-launch"

// systemNodeCritical is the priority class of pods that a node cannot do without (Kubernetes documentation,
// "Guaranteed Scheduling For Critical Add-On Pods").
const systemNodeCritical = "system-node-critical"

// Unregistered is what is missing of an instance that has no Node yet.
const Unregistered = "a registered Node"

// Unbooted is what is missing of an instance whose Node is that of the boot before.
const Unbooted = "a boot from the new root volume"

// rules decide whether a Node is ready for pods.
type rules struct {
	startup    []string        // keys of taints, or prefixes with a * at the end
	daemonSets labels.Selector // that are waited for; nil: those that are critical for nodes
}

func newRules(cfg Config) rules {
	selector, _ := cfg.selector() // which was validated
	return rules{startup: text.Split(cfg.StartupTaints), daemonSets: selector}
}

// missing returns what the Node still needs to be ready for pods, for people to read: its condition first,
// then taints, then DaemonSets by name. sets are all of the cluster, pods those of the Node.
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
	return append(out, namesOf(r.missingDaemonSets(later, sets, pods))...)
}

// startupTaints names the startup taints of the Node, and returns the Node as it will be without them, when
// DaemonSets can run there that do not tolerate them.
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
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		return key == pattern || isPrefix && strings.HasPrefix(key, prefix)
	})
}

// readyNowhere names those of the missing DaemonSets of which no node runs a Ready pod: the new node is not what
// is wrong.
func (r rules) readyNowhere(node *corev1.Node, sets []*appsv1.DaemonSet, pods []*corev1.Pod) []string {
	_, later := r.startupTaints(node)
	return namesOf(slices.DeleteFunc(r.missingDaemonSets(later, sets, pods), func(ds *appsv1.DaemonSet) bool {
		return ds.Status.NumberReady > 0
	}))
}

// namesOf names DaemonSets for people, sorted.
func namesOf(sets []*appsv1.DaemonSet) []string {
	var out []string
	for _, ds := range sets {
		out = append(out, "DaemonSet "+ds.Namespace+"/"+ds.Name)
	}
	slices.Sort(out)
	return out
}

// missingDaemonSets returns the DaemonSets that should run on the Node and have no Ready pod there.
func (r rules) missingDaemonSets(
	node *corev1.Node, sets []*appsv1.DaemonSet, pods []*corev1.Pod,
) (missing []*appsv1.DaemonSet) {
	hasPod := map[types.UID]bool{}
	for _, p := range pods {
		owner := metav1.GetControllerOf(p)
		if owner != nil && p.DeletionTimestamp == nil && podutils.IsPodReady(p) {
			hasPod[owner.UID] = true
		}
	}
	for _, ds := range sets {
		if !hasPod[ds.UID] && r.isRequired(ds) && belongs(ds, node) {
			missing = append(missing, ds)
		}
	}
	return missing
}

// isRequired reports whether launches wait for the DaemonSet: by default if the kubelet's node cannot do without
// it, such as the network plugin, kube-proxy and CSI drivers. Its status does not matter:
// desiredNumberScheduled is 0 for the first node that it matches, until its controller has seen that node.
func (r rules) isRequired(ds *appsv1.DaemonSet) bool {
	if ds.DeletionTimestamp != nil || ds.Annotations[IgnoreAnnotation] == "true" {
		return false
	}
	if r.daemonSets != nil {
		return r.daemonSets.Matches(labels.Set(ds.Labels))
	}
	return ds.Spec.Template.Spec.PriorityClassName == systemNodeCritical
}

// belongs reports whether the DaemonSet should run on the Node, as its controller decides: by the name of the
// node, node selector and required node affinity, and by the taints that its pods tolerate (Kubernetes
// documentation, "DaemonSet", "How Daemon Pods are scheduled").
func belongs(ds *appsv1.DaemonSet, node *corev1.Node) bool {
	spec := ds.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != node.Name {
		return false
	}
	fits, _ := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}).Match(node)
	if !fits { // an invalid term does not matter if another one matches
		return false
	}
	_, repelled := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints,
		append(tolerations(spec.HostNetwork), spec.Tolerations...),
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, true)
	return !repelled
}

// tolerations returns those that the DaemonSet controller adds to every pod (Kubernetes documentation,
// "DaemonSet", "Taints and tolerations").
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
