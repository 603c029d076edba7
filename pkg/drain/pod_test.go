package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newTestRules are the rules of the usual configuration.
func newTestRules(t *testing.T, changes ...func(*Config)) rules {
	t.Helper()
	cfg := defaults
	for _, change := range changes {
		change(&cfg)
	}
	r, err := newRules(cfg, Environment{Taint: ourTaint, Self: "x/agent"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClassifyPods(t *testing.T) {
	controlled := func(by *metav1.OwnerReference) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{*by} }
	}
	daemon := controlled(owners["DaemonSet"])
	annotated := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
	}
	tolerating := func(t corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
	}
	priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
	with := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
		}
	}
	disk := with(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	path := func(p string) func(*corev1.Pod) {
		return with(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: p}})
	}
	phase := func(ph corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = ph } }
	bareWaits := func(c *Config) { c.BarePods = Wait }
	dirsWait := func(c *Config) { c.EmptyDirPods = Wait }
	jobsWait := func(c *Config) { c.WaitForJobs = true }
	// tiers of pods: below 0 and up to 999, 1000 to 1999, from 2000 on
	threeTiers := func(c *Config) { c.Tiers = "0,1000=5m,2000" }

	nothing := Pod{}
	tests := []struct {
		name    string
		changes []func(*corev1.Pod)
		cfg     func(*Config)
		want    Pod // its Stays, Tier, Waits and WaitUntil
	}{
		{name: "a pod without anything special must leave", want: nothing},

		// What stays.
		{name: "a mirror pod", changes: []func(*corev1.Pod){annotated(corev1.MirrorPodAnnotationKey, "x")}, want: Pod{StayReason: Mirror}},
		{name: "a pod that has succeeded", changes: []func(*corev1.Pod){phase(corev1.PodSucceeded)}, want: Pod{StayReason: Finished}},
		{name: "a pod that has failed", changes: []func(*corev1.Pod){phase(corev1.PodFailed)}, want: Pod{StayReason: Finished}},
		{name: "a pod in phase Unknown must leave", changes: []func(*corev1.Pod){phase(corev1.PodUnknown)}, want: nothing},
		{
			name:    "a finished pod of a DaemonSet is finished: its volumes are not in use",
			changes: []func(*corev1.Pod){daemon, phase(corev1.PodFailed)}, want: Pod{StayReason: Finished},
		},
		{name: "a pod of a DaemonSet that does not tolerate our taint must leave", changes: []func(*corev1.Pod){daemon}, want: nothing},
		{
			name: "a pod of a DaemonSet that tolerates all taints stays", want: Pod{StayReason: DaemonSet},
			changes: []func(*corev1.Pod){daemon, tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})},
		},
		{
			name: "a pod of a DaemonSet that tolerates our taint stays", want: Pod{StayReason: DaemonSet},
			changes: []func(*corev1.Pod){daemon, tolerating(corev1.Toleration{Key: ourTaint.Key, Operator: corev1.TolerationOpExists, Effect: "NoSchedule"})},
		},
		{
			name: "a pod of a DaemonSet that tolerates another effect must leave", want: nothing,
			changes: []func(*corev1.Pod){daemon, tolerating(corev1.Toleration{Key: ourTaint.Key, Operator: corev1.TolerationOpExists, Effect: "NoExecute"})},
		},
		{
			name: "a pod of a DaemonSet that tolerates other taints must leave", want: nothing,
			changes: []func(*corev1.Pod){daemon, tolerating(corev1.Toleration{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists})},
		},
		{
			name: "a pod of another controller must leave, whatever it tolerates", want: nothing,
			changes: []func(*corev1.Pod){controlled(owners["ReplicaSet"]), tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})},
		},

		// Tiers.
		{name: "a priority below the first tier is in the first tier", changes: []func(*corev1.Pod){priority(-5)}, cfg: threeTiers, want: nothing},
		{name: "the last priority before the next tier", changes: []func(*corev1.Pod){priority(999)}, cfg: threeTiers, want: nothing},
		{name: "the lowest priority of a tier", changes: []func(*corev1.Pod){priority(1000)}, cfg: threeTiers, want: Pod{Tier: 1}},
		{name: "the last tier", changes: []func(*corev1.Pod){priority(2_000_001_000)}, cfg: threeTiers, want: Pod{Tier: 2}},
		{name: "system-cluster-critical", changes: []func(*corev1.Pod){priority(2_000_000_000)}, want: Pod{Tier: 1}},
		{name: "system-node-critical", changes: []func(*corev1.Pod){priority(2_000_001_000)}, want: Pod{Tier: 2}},
		{
			name: "the node plugin of a CSI driver", want: Pod{Tier: 3},
			changes: []func(*corev1.Pod){priority(2_000_001_000), path("/var/lib/kubelet/plugins_registry/")},
		},
		{name: "the node plugin of a CSI driver, with another kubelet directory", changes: []func(*corev1.Pod){path("/data/kubelet/plugins_registry")}, want: Pod{Tier: 3}},
		{
			name: "a pod that mounts another directory of the host", want: nothing,
			changes: []func(*corev1.Pod){path("/var/lib/kubelet/plugins_registry/own"), path("/var/log")},
		},
		{
			name: "our own pod", want: Pod{Tier: 4},
			changes: []func(*corev1.Pod){func(p *corev1.Pod) { p.Name = "agent" }, path("/var/lib/kubelet/plugins_registry")},
		},
		{
			name: "a pod of the same name in another namespace", want: nothing,
			changes: []func(*corev1.Pod){func(p *corev1.Pod) { p.Name, p.Namespace = "agent", "y" }},
		},

		// Annotations.
		{name: "wait", changes: []func(*corev1.Pod){annotated(DrainAnnotation, "wait")}, want: Pod{WaitReason: OptedOut}},
		{
			name: "a duration after the pod's start", changes: []func(*corev1.Pod){annotated(DrainAnnotation, "90m")},
			want: Pod{WaitReason: OptedOut, WaitUntil: at(90 * time.Minute)},
		},
		{
			name: "a duration after the pod's creation, before a kubelet has started it", want: Pod{WaitReason: OptedOut, WaitUntil: at(89 * time.Minute)},
			changes: []func(*corev1.Pod){annotated(DrainAnnotation, "90m"), func(p *corev1.Pod) { p.Status.StartTime = nil }},
		},
		{name: "a duration of zero is ignored", changes: []func(*corev1.Pod){annotated(DrainAnnotation, "0s")}, want: nothing},
		{name: "a negative duration is ignored", changes: []func(*corev1.Pod){annotated(DrainAnnotation, "-5m")}, want: nothing},
		{name: "an unknown value is ignored", changes: []func(*corev1.Pod){annotated(DrainAnnotation, "never")}, want: nothing},
		{name: "Karpenter's true", changes: []func(*corev1.Pod){annotated(doNotDisrupt, "true")}, want: Pod{WaitReason: OptedOut}},
		{
			name: "Karpenter's duration", changes: []func(*corev1.Pod){annotated(doNotDisrupt, "30s")},
			want: Pod{WaitReason: OptedOut, WaitUntil: at(30 * time.Second)},
		},
		{name: "Karpenter's false", changes: []func(*corev1.Pod){annotated(doNotDisrupt, "false")}, want: nothing},
		{name: "cluster-autoscaler's false", changes: []func(*corev1.Pod){annotated(safeToEvict, "false")}, want: Pod{WaitReason: OptedOut}},
		{name: "cluster-autoscaler's true", changes: []func(*corev1.Pod){annotated(safeToEvict, "true")}, want: nothing},
		{
			name: "evict overrides other annotations and the configuration", want: nothing,
			cfg: func(c *Config) { c.BarePods, c.EmptyDirPods, c.WaitSelector = Wait, Wait, "app" },
			changes: []func(*corev1.Pod){
				annotated(DrainAnnotation, "evict"), annotated(doNotDisrupt, "true"), annotated(safeToEvict, "false"), disk,
			},
		},
		{
			name: "our own duration overrides theirs", want: Pod{WaitReason: OptedOut, WaitUntil: at(time.Minute)},
			changes: []func(*corev1.Pod){annotated(DrainAnnotation, "1m"), annotated(doNotDisrupt, "true"), annotated(safeToEvict, "false")},
		},
		{
			name: "an annotation overrides the configuration", want: Pod{WaitReason: OptedOut, WaitUntil: at(time.Minute)},
			cfg: bareWaits, changes: []func(*corev1.Pod){annotated(DrainAnnotation, "1m")},
		},

		// The configuration.
		{name: "bare pods are evicted", want: nothing},
		{name: "bare pods are waited for if so configured", cfg: bareWaits, want: Pod{WaitReason: WaitedFor}},
		{name: "a pod with a controller is not bare", cfg: bareWaits, changes: []func(*corev1.Pod){controlled(owners["ReplicaSet"])}, want: nothing},
		{
			name: "a pod whose owner is not its controller is bare", cfg: bareWaits, want: Pod{WaitReason: WaitedFor},
			changes: []func(*corev1.Pod){controlled(owners["DaemonSet, no ctrl."])},
		},
		{name: "pods with an emptyDir are evicted", changes: []func(*corev1.Pod){disk}, want: nothing},
		{name: "pods with an emptyDir are waited for if so configured", cfg: dirsWait, changes: []func(*corev1.Pod){disk}, want: Pod{WaitReason: WaitedFor}},
		{
			name: "an emptyDir in memory does not count", cfg: dirsWait, want: nothing,
			changes: []func(*corev1.Pod){with(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})},
		},
		{name: "another volume does not count", cfg: dirsWait, changes: []func(*corev1.Pod){path("/var/log")}, want: nothing},
		{name: "pods of a Job are evicted by default", changes: []func(*corev1.Pod){controlled(owners["Job"])}, want: nothing},
		{name: "pods of a Job are waited for if so configured", cfg: jobsWait, changes: []func(*corev1.Pod){controlled(owners["Job"])}, want: Pod{WaitReason: WaitedFor}},
		{name: "WAIT_FOR_JOBS does not apply to other controllers", cfg: jobsWait, changes: []func(*corev1.Pod){controlled(owners["StatefulSet"])}, want: nothing},
		{name: "WAIT_FOR_JOBS does not apply to bare pods", cfg: jobsWait, want: nothing},
		{name: "pods that a selector selects are waited for", cfg: func(c *Config) { c.WaitSelector = "app in (web, db)" }, want: Pod{WaitReason: WaitedFor}},
		{name: "pods that the selector does not match are evicted", cfg: func(c *Config) { c.WaitSelector = "app!=web" }, want: nothing},
		{name: "an empty selector selects none", cfg: func(c *Config) { c.WaitSelector = "" }, want: nothing},
		{
			name: "WAIT_NAMESPACES without the pod's namespace", want: nothing, changes: []func(*corev1.Pod){controlled(owners["Job"])},
			cfg: func(c *Config) { c.WaitForJobs, c.WaitSelector, c.WaitNamespaces = true, "app", "y, z" },
		},
		{
			name: "WAIT_NAMESPACES with the pod's namespace", want: Pod{WaitReason: WaitedFor}, changes: []func(*corev1.Pod){controlled(owners["Job"])},
			cfg: func(c *Config) { c.WaitForJobs, c.WaitNamespaces = true, "y, x" },
		},
		{
			name: "WAIT_NAMESPACES does not apply to bare pods and those with an emptyDir", want: Pod{WaitReason: WaitedFor}, changes: []func(*corev1.Pod){disk},
			cfg: func(c *Config) { c.BarePods, c.EmptyDirPods, c.WaitNamespaces = Wait, Wait, "y" },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := runningPod("a")
			p.CreationTimestamp, p.Status.StartTime = metav1.Time{Time: t0.Add(-time.Minute)}, &metav1.Time{Time: t0}
			for _, change := range tt.changes {
				change(p)
			}
			cfg := tt.cfg
			if cfg == nil {
				cfg = func(*Config) {}
			}
			got := newTestRules(t, cfg).pod(p)
			if diff := cmp.Diff(tt.want, Pod{StayReason: got.StayReason, Tier: got.Tier, WaitReason: got.WaitReason, WaitUntil: got.WaitUntil}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDaemonSetPodsStayWithPreferNoSchedule(t *testing.T) {
	p := runningPod("a")
	p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]}
	r := newTestRules(t)
	r.Taint.Effect = corev1.TaintEffectPreferNoSchedule
	if got := r.pod(p).StayReason; got != DaemonSet {
		t.Errorf("got %q: the DaemonSet would create the pod again", got)
	}
}

func TestReadGracePeriodAndReadiness(t *testing.T) {
	seconds := int64(90)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "x", Name: "a", UID: "u", DeletionTimestamp: &metav1.Time{Time: t0},
			CreationTimestamp: metav1.Time{Time: at(-time.Hour)},
		},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &seconds},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: at(-time.Minute)}},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: at(-time.Second)}},
		}},
	}
	want := Pod{
		Namespace: "x", Name: "a", UID: "u", Ready: true, UnreadySince: at(-time.Second), Grace: 90 * time.Second, GraceEndsAt: t0,
	}
	if diff := cmp.Diff(want, newTestRules(t).pod(p)); diff != "" {
		t.Error(diff)
	}
	p.Status.Conditions[1].Status = corev1.ConditionFalse
	want.Ready = false
	if diff := cmp.Diff(want, newTestRules(t).pod(p)); diff != "" {
		t.Errorf("not Ready:\n%s", diff)
	}
	p.Status.Conditions = nil
	want.UnreadySince = at(-time.Hour)
	if diff := cmp.Diff(want, newTestRules(t).pod(p)); diff != "" {
		t.Errorf("never Ready:\n%s", diff)
	}
	if diff := cmp.Diff(Pod{Grace: 30 * time.Second}, newTestRules(t).pod(&corev1.Pod{})); diff != "" {
		t.Errorf("an empty pod (-want +got):\n%s", diff)
	}
}

func TestClaimsOfPodsThatStay(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []string
	}{
		{"a mirror pod", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, []string{"data", "a-scratch"}},
		{"a pod of a DaemonSet", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]}
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, []string{"data", "a-scratch"}},
		{"a finished pod: the kubelet has unmounted them", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, nil},
		{"a pod that must leave", func(*corev1.Pod) {}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := runningPod("a")
			p.Spec.Volumes = []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			}
			tt.change(p)
			if diff := cmp.Diff(tt.want, newTestRules(t).record(p).claims); diff != "" {
				t.Error(diff)
			}
		})
	}
}
