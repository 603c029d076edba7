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
	owner     string
	mirror    bool
	phase     corev1.PodPhase
	tolerates bool // our taint
	pod       *corev1.Pod
}

// allSamples returns a pod for each combination of what might matter.
func allSamples() []sample {
	var all []sample
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		for _, mirror := range []bool{false, true} {
			for _, phase := range []corev1.PodPhase{
				corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown,
			} {
				for bits := range 32 {
					s := sample{owner: owner, mirror: mirror, phase: phase, tolerates: bits&16 > 0}
					s.pod = newSamplePod(s, len(all), bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0)
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func newSamplePod(s sample, i int, emptyDir, deleted, system, important bool) *corev1.Pod {
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
	if s.tolerates {
		p.Spec.Tolerations = []corev1.Toleration{{Key: ourTaint.Key, Operator: corev1.TolerationOpExists}}
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
		priority, seconds := int32(2_000_000_000), int64(3)
		p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds = &priority, &seconds
	}
	return p
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
		why:  "a pod of a DaemonSet that does not tolerate our taint is not created again",
		ours: true,
		is:   func(s sample) bool { return !s.mirror && !finished(s) && s.owner == "DaemonSet" && !s.tolerates },
	},
}

func finished(s sample) bool { return s.phase == corev1.PodSucceeded || s.phase == corev1.PodFailed }

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
	all := allSamples()
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
	r, used := newTestRules(t), make([]int, len(differences))
	for _, s := range all {
		i := slices.IndexFunc(differences, func(d difference) bool { return d.is(s) })
		ours, want := r.pod(s.pod).StayReason == "", theirs[s.pod.UID]
		if i >= 0 && want != differences[i].ours {
			used[i]++
			want = differences[i].ours
		}
		if ours != want {
			t.Errorf("%s, mirror %v, %s, tolerates %v: ours %v, want %v", s.owner, s.mirror, s.phase, s.tolerates, ours, want)
		}
	}
	for i, n := range used {
		if n == 0 {
			t.Errorf("no sample for the difference: %s", differences[i].why)
		}
	}
}

func TestTransformPods(t *testing.T) {
	r := newTestRules(t)
	for _, s := range allSamples() {
		kept, err := r.transform(s.pod)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := kept.(*record)
		if !ok {
			t.Fatalf("got %T", kept)
		}
		what := fmt.Sprintf("%s, mirror %v, %s", s.owner, s.mirror, s.phase)
		if diff := cmp.Diff(r.pod(s.pod), got.pod); diff != "" {
			t.Fatalf("%s:\n%s", what, diff)
		}
		deleted := s.pod.DeletionTimestamp != nil
		if free := s.phase == corev1.PodPending || deleted; got.ignoresBudgets != free {
			t.Fatalf("%s: free of budgets: got %v", what, got.ignoresBudgets)
		}
		if selects := got.pod.StayReason == "" && !got.ignoresBudgets; selects != (len(got.Labels) > 0) {
			t.Fatalf("%s: labels %v are kept", what, got.Labels)
		}
		if got.ResourceVersion != "7" || got.Name != s.pod.Name || got.Namespace != s.pod.Namespace || got.UID != s.pod.UID {
			t.Fatalf("%s: too little is kept: %+v", what, got.ObjectMeta)
		}
		if len(got.Annotations)+len(got.OwnerReferences) > 0 {
			t.Fatalf("%s: too much is kept: %+v", what, got.ObjectMeta)
		}
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "x/a", Obj: &record{}}
	if other, err := r.transform(tombstone); err != nil || other != tombstone {
		t.Errorf("got %v, %v", other, err)
	}
}
