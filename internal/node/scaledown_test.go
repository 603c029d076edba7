package node

import (
	"strings"
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

func TestProtectPatches(t *testing.T) {
	const autoscaler = `"cluster-autoscaler.kubernetes.io/scale-down-disabled":`
	const own = `"node-drainer.io/scale-down-disabled":`
	protect := func(n *corev1.Node) patch { return protectPatch(n, "workers") }
	check := func(name string, build func(*corev1.Node) patch, annotations, want string) {
		t.Helper()
		if want != "" {
			want = `{"metadata":{"annotations":{` + want + `}},"spec":{}}`
		}
		t.Run(name, func(t *testing.T) {
			n := newNode(annotated(strings.Fields(annotations)...))
			golden(t, build(n), want)
			golden(t, build(trimmed(t, n)), want)
		})
	}
	const both = scaleDownDisabled + " true " + ScaleDownOwner + " workers"
	check("a new node is protected", protect, "", autoscaler+`"true",`+own+`"workers"`)
	check("a protected node is not patched", protect, both, "")
	check("an annotation of another owner is kept", protect, scaleDownDisabled+" true", "")
	check("an annotation of another owner that allows scale-down is kept", protect, scaleDownDisabled+" false", "")
	check("a removed annotation is added again", protect, ScaleDownOwner+" old", autoscaler+`"true",`+own+`"workers"`)

	check("both annotations are removed", unprotectPatch, both+" other x", autoscaler+`null,`+own+`null`)
	check("a value that another client has changed is kept", unprotectPatch,
		scaleDownDisabled+" false "+ScaleDownOwner+" workers", own+`null`)
	check("an annotation of another owner is not removed", unprotectPatch, scaleDownDisabled+" true", "")
	check("a node that is not protected is not patched", unprotectPatch, "", "")
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
		if diff := cmp.Diff(map[string]string{"other": "x"}, nodeNow(t, client).Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if got := verbs(client); got != "patch get patch get" {
			t.Errorf("got %q, want a patch for each change, and a read before a second is omitted", got)
		}
	})
}
