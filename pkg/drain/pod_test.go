package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// newTestRules are the rules of the usual configuration.
func newTestRules(t *testing.T, change func(*Config)) *rules {
	t.Helper()
	d, err := New(fake.NewClientset(), withConfig(change), Environment{Taint: ourTaint, Self: "x/agent"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &d.rules
}

func usual(*Config) {}

// TestCoordination: who is to be asked about an eviction.
func TestCoordination(t *testing.T) {
	responders := func(p *corev1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:containers":{},"f:evictionResponders":{"k:{\"name\":\"x/y\"}":{}}}}`),
		}}
	}
	member := func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")} }
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   Coordination
	}{
		"with nobody":              {named, Coordination{}},
		"with eviction responders": {responders, Coordination{Responders: true}},
		"with its PodGroup":        {member, Coordination{PodGroup: "x/train"}},
	} {
		p := runningPod("a")
		tt.change(p)
		if got := newTestRules(t, usual).pod(p).Coordination; got != tt.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
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
		return func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, newVolume(source)) }
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

	// check compares StayReason, Tier, WaitReason and WaitUntil.
	check := func(name string, cfg func(*Config), want Pod, changes ...func(*corev1.Pod)) {
		t.Run(name, func(t *testing.T) {
			p := runningPod("a")
			p.CreationTimestamp, p.Status.StartTime = metav1.Time{Time: t0.Add(-time.Minute)}, &metav1.Time{Time: t0}
			for _, change := range changes {
				change(p)
			}
			got := newTestRules(t, cfg).pod(p)
			got = Pod{StayReason: got.StayReason, Tier: got.Tier, WaitReason: got.WaitReason, WaitUntil: got.WaitUntil}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	nothing := Pod{}
	check("a pod without anything special must leave", usual, nothing)

	// What stays.
	check("a mirror pod", usual, Pod{StayReason: Mirror}, annotated(corev1.MirrorPodAnnotationKey, "x"))
	check("a pod that has succeeded", usual, Pod{StayReason: Finished}, phase(corev1.PodSucceeded))
	check("a pod that has failed", usual, Pod{StayReason: Finished}, phase(corev1.PodFailed))
	check("a pod in phase Unknown must leave", usual, nothing, phase(corev1.PodUnknown))
	check("a finished pod of a DaemonSet is finished: its volumes are not in use",
		usual, Pod{StayReason: Finished, Tier: 4}, daemon, phase(corev1.PodFailed))
	check("a pod of a DaemonSet that does not tolerate our taint must leave, after all tiers", usual, Pod{Tier: 4}, daemon)
	check("whatever its priority", usual, Pod{Tier: 4}, daemon, priority(2_000_001_000))
	check("but before the node plugin of a CSI driver, which is one of a DaemonSet too", usual, Pod{Tier: 5}, daemon, path("/var/lib/kubelet/plugins_registry"))
	check("a pod of a DaemonSet that tolerates all taints stays",
		usual, Pod{StayReason: DaemonSet, Tier: 4}, daemon, tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}))
	check("a pod of a DaemonSet that tolerates our taint stays",
		usual, Pod{StayReason: DaemonSet, Tier: 4}, daemon,
		tolerating(corev1.Toleration{Key: ourTaint.Key, Operator: corev1.TolerationOpExists, Effect: "NoSchedule"}))
	check("a pod of a DaemonSet that tolerates another effect must leave",
		usual, Pod{Tier: 4}, daemon, tolerating(corev1.Toleration{Key: ourTaint.Key, Operator: corev1.TolerationOpExists, Effect: "NoExecute"}))
	check("a pod of a DaemonSet that tolerates other taints must leave",
		usual, Pod{Tier: 4}, daemon, tolerating(corev1.Toleration{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists}))
	check("a pod of another controller must leave, whatever it tolerates",
		usual, nothing, controlled(owners["ReplicaSet"]), tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}))

	// Tiers.
	check("a priority below the first tier is in the first tier", threeTiers, nothing, priority(-5))
	check("the last priority before the next tier", threeTiers, nothing, priority(999))
	check("the lowest priority of a tier", threeTiers, Pod{Tier: 1}, priority(1000))
	check("the last tier", threeTiers, Pod{Tier: 2}, priority(2_000_001_000))
	check("system-cluster-critical", usual, Pod{Tier: 1}, priority(2_000_000_000))
	check("system-node-critical", usual, Pod{Tier: 2}, priority(2_000_001_000))
	check("the node plugin of a CSI driver", usual, Pod{Tier: 5}, priority(2_000_001_000), path("/var/lib/kubelet/plugins_registry/"))
	check("the node plugin of a CSI driver, on Windows", usual, Pod{Tier: 5}, path(`C:\var\lib\kubelet\plugins_registry\`))
	check("the node plugin of a CSI driver, with another kubelet directory", usual, Pod{Tier: 5}, path("/data/kubelet/plugins_registry"))
	check("a pod that mounts another directory of the host", usual, nothing, path("/var/lib/kubelet/plugins_registry/own"), path("/var/log"))
	check("our own pod", usual, Pod{Tier: 6}, func(p *corev1.Pod) { p.Name = "agent" }, path("/var/lib/kubelet/plugins_registry"))
	check("a pod of the same name in another namespace", usual, nothing, func(p *corev1.Pod) { p.Name, p.Namespace = "agent", "y" })

	// Annotations.
	check("wait", usual, Pod{WaitReason: OptedOut}, annotated(DrainAnnotation, "wait"))
	check("wait, and it has never started", usual, nothing, annotated(DrainAnnotation, "wait"), phase(corev1.PodPending))
	check("a duration after the pod's start",
		usual, Pod{WaitReason: OptedOut, WaitUntil: at(90 * time.Minute)}, annotated(DrainAnnotation, "90m"))
	check("a duration after the pod's creation, before a kubelet has started it",
		usual, Pod{WaitReason: OptedOut, WaitUntil: at(89 * time.Minute)}, annotated(DrainAnnotation, "90m"),
		func(p *corev1.Pod) { p.Status.StartTime = nil })
	check("a duration of zero is ignored", usual, nothing, annotated(DrainAnnotation, "0s"))
	check("a negative duration is ignored", usual, nothing, annotated(DrainAnnotation, "-5m"))
	check("an unknown value is ignored", usual, nothing, annotated(DrainAnnotation, "never"))
	check("Karpenter's true", usual, Pod{WaitReason: OptedOut}, annotated(doNotDisrupt, "true"))
	check("Karpenter's duration", usual, Pod{WaitReason: OptedOut, WaitUntil: at(30 * time.Second)}, annotated(doNotDisrupt, "30s"))
	check("Karpenter's false", usual, nothing, annotated(doNotDisrupt, "false"))
	check("cluster-autoscaler's false", usual, Pod{WaitReason: OptedOut}, annotated(safeToEvict, "false"))
	check("cluster-autoscaler's on-completion", usual, Pod{WaitReason: OptedOut}, annotated(safeToEvict, "on-completion"))
	check("cluster-autoscaler's true", usual, nothing, annotated(safeToEvict, "true"))
	check("evict overrides other annotations and the configuration",
		func(c *Config) { c.BarePods, c.EmptyDirPods, c.WaitSelector = Wait, Wait, "app" }, nothing,
		annotated(DrainAnnotation, "evict"), annotated(doNotDisrupt, "true"), annotated(safeToEvict, "false"), disk)
	check("our own duration overrides theirs",
		usual, Pod{WaitReason: OptedOut, WaitUntil: at(time.Minute)}, annotated(DrainAnnotation, "1m"),
		annotated(doNotDisrupt, "true"), annotated(safeToEvict, "false"))
	check("an annotation overrides the configuration",
		bareWaits, Pod{WaitReason: OptedOut, WaitUntil: at(time.Minute)}, annotated(DrainAnnotation, "1m"))
	check("the configuration waits no less for a pod with an annotation",
		bareWaits, Pod{WaitReason: WaitedFor}, annotated(DrainAnnotation, "wait"))

	// The configuration.
	check("bare pods are evicted", usual, nothing)
	check("bare pods are waited for if so configured", bareWaits, Pod{WaitReason: WaitedFor})
	check("a pod with a controller is not bare", bareWaits, nothing, controlled(owners["ReplicaSet"]))
	check("a pod whose owner is not its controller is bare", bareWaits, Pod{WaitReason: WaitedFor}, controlled(owners["DaemonSet, no ctrl."]))
	check("pods with an emptyDir are evicted", usual, nothing, disk)
	check("pods with an emptyDir are waited for if so configured", dirsWait, Pod{WaitReason: WaitedFor}, disk)
	check("an emptyDir in memory does not count",
		dirsWait, nothing, with(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}))
	check("another volume does not count", dirsWait, nothing, path("/var/log"))
	check("pods of a Job are evicted by default", usual, nothing, controlled(owners["Job"]))
	check("pods of a Job are waited for if so configured", jobsWait, Pod{WaitReason: WaitedFor}, controlled(owners["Job"]))
	check("WAIT_FOR_JOBS does not apply to other controllers", jobsWait, nothing, controlled(owners["StatefulSet"]))
	check("WAIT_FOR_JOBS does not apply to bare pods", jobsWait, nothing)
	check("pods that a selector selects are waited for", func(c *Config) { c.WaitSelector = "app in (web, db)" }, Pod{WaitReason: WaitedFor})
	check("pods that the selector does not match are evicted", func(c *Config) { c.WaitSelector = "app!=web" }, nothing)
	check("an empty selector selects none", func(c *Config) { c.WaitSelector = "" }, nothing)
	check("WAIT_NAMESPACES without the pod's namespace",
		func(c *Config) { c.WaitForJobs, c.WaitSelector, c.WaitNamespaces = true, "app", "y, z" }, nothing, controlled(owners["Job"]))
	check("WAIT_NAMESPACES with the pod's namespace",
		func(c *Config) { c.WaitForJobs, c.WaitNamespaces = true, "y, x" }, Pod{WaitReason: WaitedFor}, controlled(owners["Job"]))
	check("WAIT_NAMESPACES does not apply to bare pods and those with an emptyDir",
		func(c *Config) { c.BarePods, c.EmptyDirPods, c.WaitNamespaces = Wait, Wait, "y" }, Pod{WaitReason: WaitedFor}, disk)
}

func TestDaemonSetPodsStayWithPreferNoSchedule(t *testing.T) {
	p := runningPod("a")
	p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]}
	r := newTestRules(t, usual)
	r.Taint.Effect = corev1.TaintEffectPreferNoSchedule
	if got := r.pod(p).StayReason; got != DaemonSet {
		t.Errorf("got %q: the DaemonSet would create the pod again", got)
	}
}

// TestTolerationOfOneKindOfEvent: whether a DaemonSet would create its pod again depends on the value of the taint that
// the node really has.
func TestTolerationOfOneKindOfEvent(t *testing.T) {
	p := runningPod("a")
	p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]}
	p.Spec.Tolerations = []corev1.Toleration{{Key: ourTaint.Key, Operator: corev1.TolerationOpEqual, Value: "spot-interruption"}}
	r := newTestRules(t, usual)
	r.Taint.Value = "lifecycle-terminating"
	for value, want := range map[string]StayReason{"spot-interruption": DaemonSet, "lifecycle-terminating": "", "": ""} {
		r.TaintValue = func(node string) string { return map[string]string{"n": value}[node] }
		if got := r.pod(p).StayReason; got != want {
			t.Errorf("on a node with the taint %q it stays as %q, want %q", value, got, want)
		}
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
		Namespace: "x", Name: "a", UID: "u", Ready: true, UnreadySince: at(-time.Second), Grace: 90 * time.Second, GraceEndsAt: t0, DeletedAt: t0,
	}
	if diff := cmp.Diff(want, newTestRules(t, usual).pod(p)); diff != "" {
		t.Error(diff)
	}
	p.Status.Conditions[1].Status = corev1.ConditionFalse
	want.Ready = false
	if diff := cmp.Diff(want, newTestRules(t, usual).pod(p)); diff != "" {
		t.Errorf("not Ready:\n%s", diff)
	}
	p.Status.Conditions = nil
	want.UnreadySince = at(-time.Hour)
	if diff := cmp.Diff(want, newTestRules(t, usual).pod(p)); diff != "" {
		t.Errorf("never Ready:\n%s", diff)
	}
	if diff := cmp.Diff(Pod{Grace: 30 * time.Second}, newTestRules(t, usual).pod(&corev1.Pod{})); diff != "" {
		t.Errorf("an empty pod (-want +got):\n%s", diff)
	}
}

func TestClaimsOfPodsThatStay(t *testing.T) {
	check := func(name string, want []string, change func(*corev1.Pod)) {
		t.Helper()
		p := runningPod("a")
		p.Spec.Volumes = []corev1.Volume{
			newVolume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}),
			newVolume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
			newVolume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		}
		change(p)
		if diff := cmp.Diff(want, newTestRules(t, usual).record(p).claims); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	check("a mirror pod", []string{"data", "a-v"}, func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	})
	check("a pod of a DaemonSet", []string{"data", "a-v"}, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]}
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	check("a finished pod: the kubelet has unmounted them", nil,
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	check("a pod that must leave", nil, func(*corev1.Pod) {})
}
