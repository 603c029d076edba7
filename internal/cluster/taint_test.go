package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// withTaints returns a Node with these taints, and other fields.
func withTaints(taints ...corev1.Taint) *corev1.Node {
	return newNode("a", ready, func(n *corev1.Node) {
		n.UID, n.ResourceVersion, n.Labels = "first", "7", map[string]string{"x": "y"}
		n.Spec.Unschedulable, n.Spec.Taints = true, taints
	})
}

func changes(client *fake.Clientset) (verbs []string) {
	for _, a := range client.Actions() {
		if a.GetVerb() != "get" {
			verbs = append(verbs, a.GetVerb())
		}
	}
	return verbs
}

// TestTaint: the node gets the taint, everything else is unchanged, and a node that has it already is not patched.
func TestTaint(t *testing.T) {
	t.Parallel()
	theirs := corev1.Taint{Key: "theirs", Value: "x", Effect: corev1.TaintEffectNoExecute}
	also := corev1.Taint{Key: "node-drainer.io/terminating", Effect: corev1.TaintEffectNoSchedule}
	soft := corev1.Taint{Key: OutdatedTaint, Effect: corev1.TaintEffectPreferNoSchedule}
	hard := corev1.Taint{Key: OutdatedTaint, Effect: corev1.TaintEffectNoSchedule}
	taints := func(all ...corev1.Taint) []corev1.Taint { return all }
	for _, tt := range []struct {
		name    string
		has     []corev1.Taint
		effect  Effect
		want    []corev1.Taint
		patches int
	}{
		{"soft", nil, SoftTaint, taints(soft), 1},
		{"hard, beside other taints", taints(theirs, also), HardTaint, taints(theirs, also, hard), 1},
		{"soft already", taints(theirs, soft), SoftTaint, taints(theirs, soft), 0},
		{"from soft to hard", taints(soft, theirs), HardTaint, taints(theirs, hard), 1},
		{"from both to soft", taints(soft, hard), SoftTaint, taints(soft), 1},
		{"removed", taints(theirs, soft, also), NoTaint, taints(theirs, also), 1},
		{"removed, the only one", taints(hard), NoTaint, nil, 1},
		{"removed already", taints(theirs), NoTaint, taints(theirs), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(withTaints(tt.has...))
			change := func() error { return NewTainter(client).Taint(t.Context(), toNode(withTaints()), tt.effect) }
			if tt.effect == NoTaint {
				change = func() error { return NewTainter(client).Untaint(t.Context(), toNode(withTaints())) }
			}
			for range 2 {
				if err := change(); err != nil {
					t.Fatal(err)
				}
			}
			if verbs := changes(client); len(verbs) != tt.patches {
				t.Errorf("it did %v, want %d patches", verbs, tt.patches)
			}
			got, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := withTaints(tt.want...)
			got.ManagedFields = nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the node (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTaintOfAChangingNode: a taint that is added at the same time is kept.
func TestTaintOfAChangingNode(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(withTaints())
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	var guards []string
	client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) { // Under the client's lock.
		patch := string(a.(clienttesting.PatchAction).GetPatch())
		guards = append(guards, patch)
		if len(guards) > 1 {
			return false, nil, nil
		}
		n := withTaints(theirs)
		n.ResourceVersion = "8"
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("changed"))
	})
	if err := NewTainter(client).Taint(t.Context(), toNode(withTaints()), SoftTaint); err != nil {
		t.Fatal(err)
	}
	if len(guards) != 2 || !strings.Contains(guards[0], `"resourceVersion":"7"`) || !strings.Contains(guards[1], `"resourceVersion":"8"`) {
		t.Errorf("the patches are not guarded by what was read: %v", guards)
	}
	got, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || !slices.Contains(got.Spec.Taints, theirs) || !toNode(got).Tainted {
		t.Errorf("the taints are %v, %v", got.Spec.Taints, err)
	}
}

// TestTaintOfOthers: a node that is gone is no error, and one that has got its name is let alone; what is not
// allowed is an error.
func TestTaintOfOthers(t *testing.T) {
	t.Parallel()
	another := withTaints()
	another.UID = "second"
	nodes := schema.GroupResource{Resource: "nodes"}
	for _, tt := range []struct {
		name    string
		exists  []runtime.Object
		refusal error // of patches; nil: the node is not patched
		err     string
	}{
		{"deleted", nil, nil, ""},
		{"deleted in between", []runtime.Object{withTaints()}, apierrors.NewNotFound(nodes, "a"), ""},
		{"replaced by another of its name", []runtime.Object{another}, nil, ""},
		{
			"not allowed",
			[]runtime.Object{withTaints()},
			errors.New("forbidden: no role"),
			"change the taints of node a: forbidden: no role",
		},
		{
			"changed again and again",
			[]runtime.Object{withTaints()},
			apierrors.NewConflict(nodes, "a", errors.New("changed")), "changed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(tt.exists...)
			refuse(client, "patch", "nodes", tt.refusal)
			err := NewTainter(client).Taint(t.Context(), toNode(withTaints()), HardTaint)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
			if n := len(changes(client)); tt.refusal == nil && n > 0 {
				t.Errorf("a node of another machine was changed %d times", n)
			}
		})
	}
}
