package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v10"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"the defaults", func(*Config) {}, nil},
		{"the shortest timeout", func(c *Config) { *c = Config{Timeout: time.Second, AtTimeout: Continue} }, nil},
		{"the longest timeout", func(c *Config) { c.Timeout = 48 * time.Hour }, nil},
		{"no timeout", func(c *Config) { c.Timeout = 0 }, []string{"LAUNCH_TIMEOUT is 0s"}},
		{"a timeout longer than a hook's", func(c *Config) { c.Timeout = 49 * time.Hour }, []string{"LAUNCH_TIMEOUT is 49h0m0s"}},
		{"an unknown end", func(c *Config) { c.AtTimeout = "retry" }, []string{`LAUNCH_AT_TIMEOUT is "retry"`}},
		{"spaces between taints", func(c *Config) { c.StartupTaints = "a/b, c" }, nil},
		{"an invalid taint", func(c *Config) { c.StartupTaints = "a/b,c=d" }, []string{`LAUNCH_STARTUP_TAINTS is "a/b,c=d": "c=d"`}},
		{"a star within a key", func(c *Config) { c.StartupTaints = "a/*/c" }, []string{"LAUNCH_STARTUP_TAINTS"}},
		{"only a star", func(c *Config) { c.StartupTaints = "*" }, nil},
		{"several errors", func(c *Config) { *c = Config{StartupTaints: "="} }, []string{"LAUNCH_TIMEOUT", "LAUNCH_AT_TIMEOUT", "LAUNCH_STARTUP"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := defaults(t)
			tt.change(&cfg)
			var lines []string
			if err := cfg.Validate(); err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want errors about %q", lines, tt.want)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, tt.want[i]) {
					t.Errorf("got %q, want %s", line, tt.want[i])
				}
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

// set returns a DaemonSet of kube-system that runs everywhere, unless changed.
func set(name string, changes ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID(name)}}
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
	const (
		noSchedule, noExecute, preferNo = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule
	)
	sets := func(s ...*appsv1.DaemonSet) []*appsv1.DaemonSet { return s }
	pods := func(p ...*corev1.Pod) []*corev1.Pod { return p }
	one := []string{"DaemonSet kube-system/cni"}
	for _, tt := range []struct {
		name string
		node *corev1.Node
		sets []*appsv1.DaemonSet
		pods []*corev1.Pod
		want []string
	}{
		{"nothing, for a Ready Node", object(), nil, nil, nil},
		{"the Node, before it is registered", nil, sets(set("cni")), nil, []string{"a registered Node"}},
		{"Ready, while the condition is False", object(ready(corev1.ConditionFalse)), nil, nil, []string{"Ready"}},
		{"Ready, while the condition is Unknown", object(ready(corev1.ConditionUnknown)), nil, nil, []string{"Ready"}},
		{"Ready, without the condition", object(func(n *corev1.Node) { n.Status.Conditions = nil }), nil, nil, []string{"Ready"}},
		{"schedulable, while cordoned", object(cordoned), nil, nil, []string{"schedulable"}},

		{"a startup taint", object(tainted("node.cilium.io/agent-not-ready", noExecute)), nil, nil, []string{"taint node.cilium.io/agent-not-ready"}},
		{"a startup taint of any effect", object(tainted("ebs.csi.aws.com/agent-not-ready", preferNo)), nil, nil, []string{"taint ebs.csi.aws.com/agent-not-ready"}},
		{
			"a startup taint by the prefix of its key", object(tainted("startup-taint.cluster-autoscaler.kubernetes.io/gpu", noSchedule)),
			nil, nil,
			[]string{"taint startup-taint.cluster-autoscaler.kubernetes.io/gpu"},
		},
		{"no taint with only the same prefix", object(tainted("node.cilium.io/agent-not-ready-x", noSchedule)), nil, nil, nil},
		{"no other taint", object(tainted("nvidia.com/gpu", noSchedule)), nil, nil, nil},
		{
			"everything, a taint with two effects once", object(
				ready(corev1.ConditionFalse), cordoned, tainted("node.kubernetes.io/unreachable", noSchedule),
				tainted("node.kubernetes.io/unreachable", noExecute), tainted("node.cilium.io/agent-not-ready", noSchedule)),
			sets(set("proxy"), set("cni")), nil,
			[]string{
				"Ready", "schedulable", "taint node.cilium.io/agent-not-ready", "taint node.kubernetes.io/unreachable",
				"DaemonSet kube-system/cni", "DaemonSet kube-system/proxy",
			},
		},

		{"a DaemonSet without a pod", object(), sets(set("cni")), nil, one},
		{"a DaemonSet whose pod is not Ready", object(), sets(set("cni")), pods(podOf("cni", podReady(corev1.ConditionFalse))), one},
		{"a DaemonSet whose pod is being deleted", object(), sets(set("cni")), pods(podOf("cni", podDeleted)), one},
		{"a DaemonSet, in spite of pods of another", object(), sets(set("cni")), pods(podOf("proxy"), podOf("cni", podUnowned)), one},
		{"no DaemonSet whose pod is Ready", object(), sets(set("cni")), pods(podOf("cni")), nil},
		{"no DaemonSet that has a Ready pod beside an old one", object(), sets(set("cni")), pods(podOf("cni", podDeleted), podOf("cni")), nil},
		{"no DaemonSet that is being deleted", object(), sets(set("cni", deleted)), nil, nil},
		{"no DaemonSet with the annotation", object(), sets(set("cni", ignored("true"))), nil, nil},
		{"a DaemonSet with the annotation set to false", object(), sets(set("cni", ignored("false"))), nil, one},

		{"no DaemonSet that selects other nodes", object(), sets(set("cni", selects("os", "windows"))), nil, nil},
		{"no DaemonSet that selects no node, which disables it", object(), sets(set("cni", selects("never", "true"))), nil, nil},
		{"a DaemonSet that selects this node", object(), sets(set("cni", selects("os", "linux"))), nil, one},
		{"no DaemonSet of another node's name", object(), sets(set("cni", func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeName = "other" })), nil, nil},
		{"no DaemonSet with an affinity to other nodes", object(), sets(set("cni", affinity(term("os", corev1.NodeSelectorOpNotIn, "linux")))), nil, nil},
		{
			"a DaemonSet with one matching term", object(),
			sets(set("cni", affinity(term("os", corev1.NodeSelectorOpIn, "windows"), term("gpu", corev1.NodeSelectorOpDoesNotExist)))), nil, one,
		},
		{
			"a DaemonSet with one matching and one invalid term", object(),
			sets(set("cni", affinity(term("os", "Invalid"), term("os", corev1.NodeSelectorOpExists)))), nil, one,
		},
		{"no DaemonSet with only an invalid term", object(), sets(set("cni", affinity(term("os", "Invalid")))), nil, nil},
		{
			"a DaemonSet with an affinity to the name of the node", object(),
			sets(set("cni", affinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName}},
			}}))), nil, one,
		},
		{
			"a DaemonSet that prefers other nodes", object(), sets(set("cni", func(ds *appsv1.DaemonSet) {
				ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term("os", corev1.NodeSelectorOpIn, "windows")}},
				}}
			})), nil, one,
		},

		{"no DaemonSet that does not tolerate a NoSchedule taint", object(tainted("nvidia.com/gpu", noSchedule)), sets(set("cni")), nil, nil},
		{"no DaemonSet that does not tolerate a NoExecute taint", object(tainted("nvidia.com/gpu", noExecute)), sets(set("cni")), nil, nil},
		{"a DaemonSet that tolerates the taint", object(tainted("nvidia.com/gpu", noSchedule)), sets(set("cni", tolerates("nvidia.com/gpu", noSchedule))), nil, one},
		{"a DaemonSet, in spite of a PreferNoSchedule taint", object(tainted("nvidia.com/gpu", preferNo)), sets(set("cni")), nil, one},
		{"a DaemonSet, in spite of a taint that all of them tolerate", object(tainted("node.kubernetes.io/disk-pressure", noSchedule)), sets(set("cni")), nil, one},
		{
			"a DaemonSet that does not tolerate the startup taint", object(tainted("node.cilium.io/agent-not-ready", noSchedule)),
			sets(set("cni")), nil,
			[]string{"taint node.cilium.io/agent-not-ready", "DaemonSet kube-system/cni"},
		},
		{
			"a DaemonSet whose status does not count the Node yet", object(),
			sets(set("cni", func(ds *appsv1.DaemonSet) { ds.Status.DesiredNumberScheduled = 0 })), nil, one,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := newRules(defaults(t)).missing(tt.node, tt.sets, tt.pods)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// The stripped objects give the same result.
			var node *corev1.Node
			var sets []*appsv1.DaemonSet
			var pods []*corev1.Pod
			if tt.node != nil {
				node = stripped(t, strip, tt.node)
			}
			for _, ds := range tt.sets {
				sets = append(sets, stripped(t, stripDaemonSet, ds))
			}
			for _, p := range tt.pods {
				pods = append(pods, stripped(t, strip, p))
			}
			if diff := cmp.Diff(got, newRules(defaults(t)).missing(node, sets, pods)); diff != "" {
				t.Errorf("of stripped objects (-all +stripped):\n%s", diff)
			}
		})
	}
}

func stripped[T any](t *testing.T, strip func(any) (any, error), obj T) T {
	t.Helper()
	kept, err := strip(obj)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(T)
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
