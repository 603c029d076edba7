package drain

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubectl "k8s.io/kubectl/pkg/drain"
)

// owners are the kinds of owner that a pod may have. The DaemonSets "daemons" exist, "missing" does not.
var owners = map[string]*metav1.OwnerReference{
	"nobody":              nil,
	"ReplicaSet":          owner("apps/v1", "ReplicaSet", "web", true),
	"StatefulSet":         owner("apps/v1", "StatefulSet", "db", true),
	"Job":                 owner("batch/v1", "Job", "job", true),
	"ReplicationCtl":      owner("v1", "ReplicationController", "old", true),
	"Node":                owner("v1", "Node", "n", true),
	"DaemonSet":           owner("apps/v1", "DaemonSet", "daemons", true),
	"missing DaemonSet":   owner("apps/v1", "DaemonSet", "missing", true),
	"custom controller":   owner("example.com/v1", "Database", "db", true),
	"custom DaemonSet":    owner("apps.kruise.io/v1alpha1", "DaemonSet", "daemons", true),
	"DaemonSet, no ctrl.": owner("apps/v1", "DaemonSet", "daemons", false),
}

func owner(version, kind, name string, controller bool) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: "o", Controller: &controller}
}

// A sample is a pod, and what it was made from.
type sample struct {
	owner  string
	mirror bool
	phase  corev1.PodPhase
	pod    *corev1.Pod
}

// samples returns a pod for each combination of what might matter.
func samples() []sample {
	var all []sample
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		for _, mirror := range []bool{false, true} {
			for _, phase := range []corev1.PodPhase{
				corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown,
			} {
				for bits := range 16 {
					s := sample{owner: owner, mirror: mirror, phase: phase}
					s.pod = build(s, len(all), bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0)
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func build(s sample, i int, emptyDir, deleted, system, important bool) *corev1.Pod {
	name := fmt.Sprintf("pod-%d", i)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"other": "x"},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: s.phase, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	if o := owners[s.owner]; o != nil {
		p.OwnerReferences = []metav1.OwnerReference{*o}
	}
	if s.mirror {
		p.Annotations[corev1.MirrorPodAnnotationKey] = "hash"
	}
	if emptyDir {
		p.Spec.Volumes = []corev1.Volume{{
			Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}}
	}
	if deleted {
		p.DeletionTimestamp = &metav1.Time{Time: t0}
	}
	if system {
		p.Namespace = metav1.NamespaceSystem
	}
	if important {
		priority, seconds := int32(systemCritical), int64(3)
		p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds = &priority, &seconds
	}
	return p
}

// A difference is a kind of pod that kubectl drain evicts and this package leaves alone.
type difference struct {
	why string
	is  func(sample) bool
}

var differences = []difference{
	{
		"nothing of a finished pod runs any more; its logs and its result go with the node, not before it",
		func(s sample) bool {
			return !s.mirror && (s.phase == corev1.PodSucceeded || s.phase == corev1.PodFailed)
		},
	},
	{
		"a pod of a DaemonSet that is gone is the garbage collector's, and costs kubectl one request for each pod",
		func(s sample) bool { return !s.mirror && s.owner == "missing DaemonSet" },
	},
	{
		"a DaemonSet of another API group puts its pods back on a tainted node as well: eviction would never end",
		func(s sample) bool { return !s.mirror && s.owner == "custom DaemonSet" },
	},
}

// TestSelectionAgreesWithKubectl compares the pods that must leave with those that kubectl drain
// --ignore-daemonsets --delete-emptydir-data --force evicts.
func TestSelectionAgreesWithKubectl(t *testing.T) {
	client := fake.NewClientset()
	for _, ns := range []string{"default", metav1.NamespaceSystem} {
		daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "daemons"}}
		if err := client.Tracker().Add(daemons); err != nil {
			t.Fatal(err)
		}
	}
	all := samples()
	for _, s := range all {
		if err := client.Tracker().Add(s.pod); err != nil {
			t.Fatal(err)
		}
	}
	helper := &kubectl.Helper{
		Ctx: t.Context(), Client: client, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, Force: true,
	}
	list, errs := helper.GetPodsForDeletion("n")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	theirs := map[types.UID]bool{}
	for _, p := range list.Pods() {
		theirs[p.UID] = true
	}
	used := make([]int, len(differences))
	for _, s := range all {
		i := slices.IndexFunc(differences, func(d difference) bool { return d.is(s) })
		ours, want := toPod(s.pod).Stays == "", theirs[s.pod.UID]
		if i >= 0 && want {
			used[i]++
			want = false
		}
		if ours != want {
			t.Errorf("%s, mirror %v, %s: ours %v, want %v", s.owner, s.mirror, s.phase, ours, want)
		}
	}
	for i, n := range used {
		if n == 0 {
			t.Errorf("no difference any more: %s", differences[i].why)
		}
	}
}

func TestStripKeepsWhatIsRead(t *testing.T) {
	for _, s := range samples() {
		stripped, err := strip(s.pod)
		if err != nil {
			t.Fatal(err)
		}
		kept, ok := stripped.(*corev1.Pod)
		if !ok {
			t.Fatalf("got %T", stripped)
		}
		if diff := cmp.Diff(toPod(s.pod), toPod(kept)); diff != "" {
			t.Fatalf("%s, mirror %v, %s:\n%s", s.owner, s.mirror, s.phase, diff)
		}
		if diff := cmp.Diff(s.pod.Labels, kept.Labels); diff != "" {
			t.Fatal(diff)
		}
		if len(kept.Spec.Containers)+len(kept.Spec.Volumes) > 0 || kept.ResourceVersion != "7" {
			t.Fatal("too much or too little is kept")
		}
	}
	if other, err := strip("not a pod"); err != nil || other != "not a pod" {
		t.Errorf("got %v, %v", other, err)
	}
}

func TestToPod(t *testing.T) {
	priority, seconds := int32(systemCritical), int64(90)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "x", Name: "a", UID: "u", DeletionTimestamp: &metav1.Time{Time: t0},
		},
		Spec: corev1.PodSpec{Priority: &priority, TerminationGracePeriodSeconds: &seconds},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	want := Pod{
		Namespace: "x", Name: "a", UID: "u", Critical: true, Ready: true, Grace: 90 * time.Second, GoneBy: t0,
	}
	if diff := cmp.Diff(want, toPod(p)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Pod{Grace: 30 * time.Second}, toPod(&corev1.Pod{})); diff != "" {
		t.Errorf("a pod that says nothing of itself:\n%s", diff)
	}
}
