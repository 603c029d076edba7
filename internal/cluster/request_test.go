package cluster

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/node"
)

// TestScaleDown: the annotation of another owner is kept, and only ours is removed.
func TestScaleDown(t *testing.T) {
	t.Parallel()
	const theirs = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	for _, tt := range []struct {
		name    string
		has     map[string]string
		enable  bool
		want    map[string]string
		patches int
	}{
		{"disabled", nil, false, map[string]string{theirs: "true", node.ScaleDownOwner: "g"}, 1},
		{"disabled by another user", map[string]string{theirs: "true"}, false, map[string]string{theirs: "true"}, 0},
		{"enabled", map[string]string{theirs: "true", node.ScaleDownOwner: "g"}, true, nil, 1},
		{"enabled, and another user disables it", map[string]string{theirs: "true"}, true, map[string]string{theirs: "true"}, 0},
	} {
		n := withTaints()
		n.Annotations = tt.has
		client := fake.NewClientset(n)
		changed, err := false, error(nil)
		if tt.enable {
			err = NewTainter(client).EnableScaleDown(t.Context(), toNode(n))
			changed = tt.patches > 0
		} else {
			changed, err = NewTainter(client).DisableScaleDown(t.Context(), toNode(n), "g")
		}
		got, failed := client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		if err != nil || failed != nil || changed != (tt.patches > 0) || len(changes(client)) != tt.patches ||
			!maps.Equal(got.Annotations, tt.want) {
			t.Errorf("%s: %v, %v, changed: %t, annotations %v", tt.name, err, failed, changed, got.Annotations)
		}
		if stripped, _ := strip(got); toNode(stripped.(*corev1.Node)).ScaleDownGroup != tt.want[node.ScaleDownOwner] {
			t.Errorf("%s: read as something else", tt.name)
		}
	}
}

// TestRequestDrain: the annotation names the instance, everything else is unchanged, and a Node that is as it should be,
// or is another one, is not patched.
func TestRequestDrain(t *testing.T) {
	t.Parallel()
	const id, other = "i-0123456789abcdef0", "i-0fedcba9876543210"
	for _, tt := range []struct {
		name     string
		has, uid string
		withdraw bool
		want     string
		patches  int
	}{
		{"requested", "", "first", false, id, 1},
		{"requested already", id, "first", false, id, 0},
		{"requested for an instance before", other, "first", false, id, 1},
		{"withdrawn", id, "first", true, "", 1},
		{"withdrawn already", "", "first", true, "", 0},
		{"another Node of the same name", "", "second", false, "", 0},
	} {
		n := withTaints(corev1.Taint{Key: "theirs"})
		n.Spec.ProviderID = "aws:///eu-central-1a/" + id
		n.Annotations = map[string]string{"theirs": "1"}
		if tt.has != "" {
			n.Annotations[node.DrainRequestAnnotation] = tt.has
		}
		client := fake.NewClientset(n)
		change := NewTainter(client).RequestDrain
		if tt.withdraw {
			change = NewTainter(client).WithdrawDrain
		}
		if err := change(t.Context(), Node{Name: n.Name, UID: tt.uid}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		got, err := client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Annotations[node.DrainRequestAnnotation] != tt.want || got.Annotations["theirs"] != "1" ||
			len(got.Spec.Taints) != 1 || len(changes(client)) != tt.patches {
			t.Errorf("%s: annotations %v, changes %v", tt.name, got.Annotations, changes(client))
		}
		if stripped, _ := strip(got); toNode(stripped.(*corev1.Node)).DrainRequested != (tt.want == id) {
			t.Errorf("%s: read as something else", tt.name)
		}
	}
	if err := NewTainter(fake.NewClientset()).RequestDrain(t.Context(), Node{Name: "gone"}); err != nil {
		t.Errorf("a Node that does not exist: %v", err)
	}
}
