package node

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func annotated(pairs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for i := 0; i+1 < len(pairs); i += 2 {
			n.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func TestProtectPatch(t *testing.T) {
	const both = `{"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true",` +
		`"node-drainer.io/scale-down-disabled":"workers"}},"spec":{}}`
	for _, tt := range []struct {
		name string
		node *corev1.Node
		want string
	}{
		{"a new node", newNode(), both},
		{"a protected node is not patched", newNode(annotated(scaleDownDisabled, "true", ScaleDownOwner, "workers")), ""},
		{"an annotation of another owner is kept", newNode(annotated(scaleDownDisabled, "true")), ""},
		{"an annotation of another owner that allows scale-down is kept", newNode(annotated(scaleDownDisabled, "false")), ""},
		{"a removed annotation is added again", newNode(annotated(ScaleDownOwner, "old")), both},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, protectPatch(tt.node, "workers"), tt.want)
			kept, err := trim(tt.node)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, protectPatch(kept.(*corev1.Node), "workers"), tt.want)
		})
	}
}

func TestUnprotectPatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		node *corev1.Node
		want string
	}{
		{
			"both annotations are removed", newNode(annotated(scaleDownDisabled, "true", ScaleDownOwner, "workers", "other", "x")),
			`{"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":null,"node-drainer.io/scale-down-disabled":null}},"spec":{}}`,
		},
		{
			"a value that another client has changed is kept", newNode(annotated(scaleDownDisabled, "false", ScaleDownOwner, "workers")),
			`{"metadata":{"annotations":{"node-drainer.io/scale-down-disabled":null}},"spec":{}}`,
		},
		{"an annotation of another owner is kept", newNode(annotated(scaleDownDisabled, "true")), ""},
		{"a node that is not protected is not patched", newNode(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, unprotectPatch(tt.node), tt.want)
			kept, err := trim(tt.node)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, unprotectPatch(kept.(*corev1.Node)), tt.want)
		})
	}
}

func TestProtectAndUnprotect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			newNode(annotated("other", "x")),
			newNode(annotated(scaleDownDisabled, "true"), func(n *corev1.Node) { n.Name, n.UID, n.Spec.ProviderID = "theirs", "uid-2", "" }),
		)
		n := watched(t, client, defaults)
		found, _ := n.Find(instance)
		for _, want := range []bool{true, false} {
			if news, err := n.Protect(t.Context(), found, "workers"); news != want || err != nil {
				t.Errorf("protected %v, %v; want %v", news, err, want)
			}
			synctest.Wait()
		}
		if diff := cmp.Diff([]ProtectedNode{{Node: found, Group: "workers"}}, n.Protected()); diff != "" {
			t.Errorf("protected are (-want +got):\n%s", diff)
		}
		for _, want := range []bool{true, false} {
			if news, err := n.Unprotect(t.Context(), found); news != want || err != nil {
				t.Errorf("unprotected %v, %v; want %v", news, err, want)
			}
			synctest.Wait()
		}
		if left := n.Protected(); len(left) > 0 {
			t.Errorf("still protected: %v", left)
		}
		got, err := client.Tracker().Get(nodesResource, "", "n")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"other": "x"}, got.(*corev1.Node).Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if got := verbs(client); got != "patch get patch get" {
			t.Errorf("got %q, want a patch for each change, and a read before a second is omitted", got)
		}
	})
}
