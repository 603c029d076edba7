package drain

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	kubectl "k8s.io/kubectl/pkg/drain"
)

// owners are the kinds of owner that a pod may have. The DaemonSets "daemons" exist, "missing" does not.
var owners = map[string]*metav1.OwnerReference{
	"none":                nil,
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
	owner             string
	phase             corev1.PodPhase
	mirror, tolerates bool // our taint
	pod               *corev1.Pod
}

func (s sample) String() string {
	return fmt.Sprintf("%s, mirror %v, %s, tolerates %v", s.owner, s.mirror, s.phase, s.tolerates)
}

// allSamples returns a pod for each combination of what might matter.
func allSamples() []sample {
	var all []sample
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		for _, phase := range []corev1.PodPhase{
			corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown,
		} {
			for bits := range 64 {
				s := sample{owner: owner, phase: phase, mirror: bits&16 > 0, tolerates: bits&32 > 0}
				s.pod = newSamplePod(s, len(all), bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0)
				all = append(all, s)
			}
		}
	}
	return all
}

func newSamplePod(s sample, i int, emptyDir, deleted, system, important bool) *corev1.Pod {
	p := runningPod(fmt.Sprint("pod-", i))
	p.ResourceVersion, p.Annotations, p.Status.Phase = "7", map[string]string{"other": "x"}, s.phase
	if o := owners[s.owner]; o != nil {
		p.OwnerReferences = []metav1.OwnerReference{*o}
	}
	if s.mirror {
		p.Annotations[corev1.MirrorPodAnnotationKey] = "hash"
	}
	if s.tolerates {
		p.Spec.Tolerations = []corev1.Toleration{{Key: ourTaint.Key, Operator: corev1.TolerationOpExists}}
	}
	if emptyDir {
		p.Spec.Volumes = []corev1.Volume{newVolume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})}
	}
	if deleted {
		p.DeletionTimestamp = &metav1.Time{Time: t0}
	}
	if system {
		p.Namespace = metav1.NamespaceSystem
	}
	if important {
		p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds = new(int32(2_000_000_000)), nil
	}
	return p
}

func newVolume(source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: source}
}

// A difference is a kind of pod that kubectl drain evicts and this package leaves alone, or the reverse.
type difference struct {
	why  string
	ours bool // it is this package that evicts them
	is   func(sample) bool
}

var differences = []difference{
	{
		why: "no container of a finished pod runs any more; its logs and its result are kept until the node is deleted",
		is:  func(s sample) bool { return !s.mirror && finished(s) },
	},
	{
		why: "a pod of a DaemonSet that does not exist is left to the garbage collector; kubectl sends one request for each such pod",
		is:  func(s sample) bool { return !s.mirror && s.owner == "missing DaemonSet" && s.tolerates },
	},
	{
		why: "a DaemonSet of another API group creates its pods again on a tainted node as well: eviction would never end",
		is:  func(s sample) bool { return !s.mirror && s.owner == "custom DaemonSet" && s.tolerates },
	},
	{
		why: "a pod of a DaemonSet that does not tolerate our taint is not created again", ours: true,
		is: func(s sample) bool { return !s.mirror && !finished(s) && s.owner == "DaemonSet" && !s.tolerates },
	},
}

func finished(s sample) bool { return s.phase == corev1.PodSucceeded || s.phase == corev1.PodFailed }

// TestSelectionAgreesWithKubectl compares the pods that must leave with those that kubectl drain
// --ignore-daemonsets --delete-emptydir-data --force evicts.
func TestSelectionAgreesWithKubectl(t *testing.T) {
	client := fake.NewClientset()
	all := allSamples()
	for _, s := range all {
		if err := client.Tracker().Add(s.pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []string{"x", metav1.NamespaceSystem} {
		daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "daemons"}}
		if err := client.Tracker().Add(daemons); err != nil {
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
	r, used := newTestRules(t, usual), make([]int, len(differences))
	for _, s := range all {
		i := slices.IndexFunc(differences, func(d difference) bool { return d.is(s) })
		ours, want := r.pod(s.pod).StayReason == "", theirs[s.pod.UID]
		if i >= 0 && want != differences[i].ours {
			used[i]++
			want = differences[i].ours
		}
		if ours != want {
			t.Errorf("%s: ours %v, want %v", s, ours, want)
		}
	}
	for i, n := range used {
		if n == 0 {
			t.Errorf("no sample for the difference: %s", differences[i].why)
		}
	}
}

func TestTransformPods(t *testing.T) {
	r := newTestRules(t, usual)
	for _, s := range allSamples() {
		kept, err := r.transform(s.pod)
		if err != nil {
			t.Fatal(err)
		}
		got := kept.(*record)
		if diff := cmp.Diff(r.pod(s.pod), got.pod); diff != "" {
			t.Fatalf("%s:\n%s", s, diff)
		}
		want := metav1.ObjectMeta{Namespace: s.pod.Namespace, Name: s.pod.Name, UID: s.pod.UID, ResourceVersion: "7"}
		if free := s.phase == corev1.PodPending || s.pod.DeletionTimestamp != nil; got.ignoresBudgets != free {
			t.Fatalf("%s: free of budgets: got %v", s, got.ignoresBudgets)
		} else if !free && got.pod.StayReason == "" {
			want.Labels = s.pod.Labels
		}
		if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
			t.Fatalf("%s: what is kept (-want +got):\n%s", s, diff)
		}
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "x/a", Obj: &record{}}
	if other, err := r.transform(tombstone); err != nil || other != tombstone {
		t.Errorf("got %v, %v", other, err)
	}
}
