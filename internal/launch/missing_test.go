package launch

import (
	"strings"
	"testing"

	"github.com/caarlos0/env/v10"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain also has client-go make no pauses that depend on the real time of errors in other tests.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// defaults returns the configuration without any variable set.
func defaults(t *testing.T) Config {
	t.Helper()
	var cfg Config
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	return cfg
}

func TestValidate(t *testing.T) {
	for name, selector := range map[string]string{"no selector": "", "a selector": "app in (cni, csi)", "all": "all"} {
		if err := (Config{DaemonSetSelector: selector}).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := Config{DaemonSetSelector: "app in"}.Validate()
	if err == nil || !strings.HasPrefix(err.Error(), `LAUNCH_DAEMONSET_SELECTOR is "app in": `) {
		t.Errorf("an invalid selector: %v", err)
	}
	for _, tt := range []struct{ name, taints, want string }{
		{"none", "", ""},
		{"spaces between taints", "a/b, c", ""},
		{"an invalid taint", "a/b,c=d", `LAUNCH_STARTUP_TAINTS is "a/b,c=d": "c=d" is not a valid taint key: `},
		{"a star within a key", "a/*/c", `LAUNCH_STARTUP_TAINTS is "a/*/c": "a/*/c"`},
		{"only a star", "*", ""},
		{"several invalid taints", "=,a=b", `LAUNCH_STARTUP_TAINTS is "=,a=b": "="`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Config{StartupTaints: tt.taints}.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

const nodeName = "node-1"

// object returns a Node that is ready for pods, unless changed.
func object(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"os": "linux"}}}
	ready(corev1.ConditionTrue)(n)
	for _, change := range changes {
		change(n)
	}
	return n
}

func ready(s corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: s},
		}
	}
}

func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "x", Effect: effect})
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

// set returns a DaemonSet of kube-system that is critical and runs everywhere, unless changed.
func set(name string, changes ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name},
	}}
	priority("system-node-critical")(ds)
	ds.Status.NumberReady = 3
	for _, change := range changes {
		change(ds)
	}
	return ds
}

func tolerates(key string, effect corev1.TaintEffect) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		spec := &ds.Spec.Template.Spec
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
}

func selects(key, value string) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeSelector = map[string]string{key: value} }
}

func affinity(terms ...corev1.NodeSelectorTerm) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func term(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func onHostNetwork(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.HostNetwork = true }

func ignored(value string) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) { ds.Annotations = map[string]string{IgnoreAnnotation: value} }
}

func priority(class string) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.PriorityClassName = class }
}

func readyNowhere(ds *appsv1.DaemonSet) { ds.Status.NumberReady = 0 }

func deleted(ds *appsv1.DaemonSet) { now := metav1.Now(); ds.DeletionTimestamp = &now }

// podOf returns a Ready pod of the DaemonSet on the Node, unless changed.
func podOf(ds string, changes ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: ds + "-x", UID: types.UID(ds + "-x"),
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: ds, UID: types.UID(ds), Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: nodeName},
	}
	podReady(corev1.ConditionTrue)(p)
	for _, change := range changes {
		change(p)
	}
	return p
}

func podReady(s corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: s}} }
}

func podDeleted(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }

func podUnowned(p *corev1.Pod) { p.OwnerReferences = nil }

func TestMissing(t *testing.T) {
	const noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	const preferNo = corev1.TaintEffectPreferNoSchedule
	const cilium, cni = "node.cilium.io/agent-not-ready", "DaemonSet kube-system/cni"
	// check gives the rules a Node that is ready for pods unless another one is given, and what they need to keep of it.
	check := func(name, want string, objects ...any) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			for _, keep := range []bool{true, false} {
				node, sets, pods := object(), []*appsv1.DaemonSet(nil), []*corev1.Pod(nil)
				for _, obj := range objects {
					switch one := obj.(type) {
					case *corev1.Node:
						node = one
					case *appsv1.DaemonSet:
						sets = append(sets, stripped(t, keep, stripDaemonSet, one))
					case *corev1.Pod:
						pods = append(pods, stripped(t, keep, strip, one))
					}
				}
				if node != nil {
					node = stripped(t, keep, strip, node)
				}
				if got := strings.Join(newRules(defaults(t)).missing(node, sets, pods), ", "); got != want {
					t.Errorf("whole objects %v: got %q, want %q", keep, got, want)
				}
			}
		})
	}
	check("nothing, for a Ready Node", "")
	check("the Node, before it is registered", "a registered Node", (*corev1.Node)(nil), set("cni"))
	check("Ready, while the condition is False", "Ready", object(ready(corev1.ConditionFalse)))
	check("Ready, while the condition is Unknown", "Ready", object(ready(corev1.ConditionUnknown)))
	check("Ready, without the condition", "Ready", object(func(n *corev1.Node) { n.Status.Conditions = nil }))
	check("schedulable, while cordoned", "schedulable", object(cordoned))

	check("a startup taint", "taint "+cilium, object(tainted(cilium, noExecute)))
	check("a startup taint of any effect", "taint ebs.csi.aws.com/agent-not-ready",
		object(tainted("ebs.csi.aws.com/agent-not-ready", preferNo)))
	check("a startup taint by the prefix of its key", "taint startup-taint.cluster-autoscaler.kubernetes.io/gpu",
		object(tainted("startup-taint.cluster-autoscaler.kubernetes.io/gpu", noSchedule)))
	check("a taint of the Node Readiness Controller", "taint readiness.k8s.io/network",
		object(tainted("readiness.k8s.io/network", noSchedule)))
	check("no taint with only the same prefix", "", object(tainted(cilium+"-x", noSchedule)))
	check("no other taint", "", object(tainted("nvidia.com/gpu", noSchedule)))
	check("everything, a taint with two effects once",
		"Ready, schedulable, taint "+cilium+", taint node.kubernetes.io/unreachable, "+cni+", DaemonSet kube-system/proxy",
		object(ready(corev1.ConditionFalse), cordoned, tainted("node.kubernetes.io/unreachable", noSchedule),
			tainted("node.kubernetes.io/unreachable", noExecute), tainted(cilium, noSchedule)), set("proxy"), set("cni"))

	check("a DaemonSet without a pod", cni, set("cni"))
	check("a DaemonSet whose pod is not Ready", cni, set("cni"), podOf("cni", podReady(corev1.ConditionFalse)))
	check("a DaemonSet whose pod is being deleted", cni, set("cni"), podOf("cni", podDeleted))
	check("a DaemonSet, in spite of pods of another", cni, set("cni"), podOf("proxy"), podOf("cni", podUnowned))
	check("no DaemonSet whose pod is Ready", "", set("cni"), podOf("cni"))
	check("no DaemonSet that has a Ready pod beside an old one", "", set("cni"), podOf("cni", podDeleted), podOf("cni"))
	check("no DaemonSet that is being deleted", "", set("cni", deleted))
	check("no DaemonSet with the annotation", "", set("cni", ignored("true")))
	check("no DaemonSet that is not critical for nodes", "", set("logs", priority("")), set("mesh", priority("system-cluster-critical")))
	check("a DaemonSet that is Ready nowhere", cni, set("cni", readyNowhere))
	check("a DaemonSet with the annotation set to false", cni, set("cni", ignored("false")))

	in, notIn := corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
	check("no DaemonSet that selects other nodes", "", set("cni", selects("os", "windows")))
	check("a DaemonSet that selects this node", cni, set("cni", selects("os", "linux")))
	check("no DaemonSet of another node's name", "",
		set("cni", func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeName = "other" }))
	check("no DaemonSet with an affinity to other nodes", "", set("cni", affinity(term("os", notIn, "linux"))))
	check("a DaemonSet with one matching and one invalid term", cni,
		set("cni", affinity(term("os", "Invalid"), term("os", in, "windows"), term("os", in, "linux"))))
	check("no DaemonSet with only an invalid term", "", set("cni", affinity(term("os", "Invalid"))))
	byName := corev1.NodeSelectorTerm{MatchFields: term("metadata.name", in, nodeName).MatchExpressions}
	check("a DaemonSet with an affinity to the name of the node", cni, set("cni", affinity(byName)))
	check("a DaemonSet with an affinity to pods, not to nodes", cni, set("cni", func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	}))

	gpu := object(tainted("nvidia.com/gpu", noSchedule))
	check("no DaemonSet that does not tolerate a NoSchedule taint", "", gpu, set("cni"))
	check("nor a NoExecute taint", "", object(tainted("nvidia.com/gpu", noExecute)), set("cni"))
	check("a DaemonSet that tolerates the taint", cni, gpu, set("cni", tolerates("nvidia.com/gpu", noSchedule)))
	check("a DaemonSet, in spite of a PreferNoSchedule taint", cni,
		object(tainted("nvidia.com/gpu", preferNo)), set("cni"))
	check("a DaemonSet, in spite of a taint that all of them tolerate", cni,
		object(tainted("node.kubernetes.io/disk-pressure", noSchedule)), set("cni"))
	check("a DaemonSet that does not tolerate the startup taint", "taint "+cilium+", "+cni,
		object(tainted(cilium, noSchedule)), set("cni"))
}

// stripped returns the object if it is kept whole, else what the informer keeps of it.
func stripped[T any](t *testing.T, whole bool, strip func(any) (any, error), obj T) T {
	t.Helper()
	kept, err := strip(obj)
	if err != nil {
		t.Fatal(err)
	}
	if whole {
		return obj
	}
	return kept.(T)
}

// TestDaemonSetSelector: it replaces the priority class.
func TestDaemonSetSelector(t *testing.T) {
	for selector, want := range map[string]string{
		"":                       "DaemonSet kube-system/cni",
		"app in (logs, csi)":     "DaemonSet kube-system/logs",
		"all":                    "DaemonSet kube-system/cni, DaemonSet kube-system/logs",
		"app,app notin (cni, x)": "DaemonSet kube-system/logs",
	} {
		cfg := defaults(t)
		cfg.DaemonSetSelector = selector
		sets := []*appsv1.DaemonSet{
			stripped(t, false, stripDaemonSet, set("cni")), stripped(t, false, stripDaemonSet, set("logs", priority(""))),
		}
		if got := strings.Join(newRules(cfg).missing(object(), sets, nil), ", "); got != want {
			t.Errorf("%q: got %q, want %q", selector, got, want)
		}
	}
}

// TestHostNetwork: pods on the network of the host come before there is another. The taint is no startup
// taint here: those are not looked at.
func TestHostNetwork(t *testing.T) {
	cfg := defaults(t)
	cfg.StartupTaints = ""
	node := object(tainted("node.kubernetes.io/network-unavailable", corev1.TaintEffectNoSchedule))
	got := newRules(cfg).missing(node, []*appsv1.DaemonSet{set("cni", onHostNetwork), set("logs")}, nil)
	if diff := cmp.Diff([]string{"DaemonSet kube-system/cni"}, got); diff != "" {
		t.Error(diff)
	}
}
