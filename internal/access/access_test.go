package access_test

import (
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/access"
)

func TestReviewer(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	var failure error
	client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch o := a.(clienttesting.CreateAction).GetObject().(type) {
		case *authorizationv1.SelfSubjectAccessReview:
			r := o.Spec.ResourceAttributes
			o.Status.Allowed = *r == authorizationv1.ResourceAttributes{
				Verb: "update", Group: "apps", Resource: "statefulsets", Subresource: "scale", Namespace: "web", Name: "db",
			}
			return true, o, failure
		case *authenticationv1.SelfSubjectReview:
			o.Status.UserInfo.Username = "system:serviceaccount:a:b"
			return true, o, failure
		}
		return false, nil, nil
	})
	reviewer := access.New(client)
	right := access.Right{Verb: "update", Group: "apps", Resource: "statefulsets/scale", Namespace: "web", Name: "db"}
	if allowed, err := reviewer.Allowed(t.Context(), right); err != nil || !allowed {
		t.Errorf("%s: %v, %v", right, allowed, err)
	}
	other := right
	other.Name = ""
	if allowed, err := reviewer.Allowed(t.Context(), other); err != nil || allowed {
		t.Errorf("%s: %v, %v", other, allowed, err)
	}
	if user, err := reviewer.User(t.Context()); err != nil || user != "system:serviceaccount:a:b" {
		t.Errorf("the user is %q, %v", user, err)
	}
	failure = errors.New("no answer")
	if _, err := reviewer.Allowed(t.Context(), right); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if _, err := reviewer.User(t.Context()); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	for want, r := range map[string]access.Right{
		"update statefulsets.apps/scale db in namespace web": right,
		"create pods/eviction":                               {Verb: "create", Resource: "pods/eviction"},
	} {
		if r.String() != want {
			t.Errorf("got %q, want %q", r, want)
		}
	}
}
