// Package access asks the API server what this process may do in the cluster.
package access

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Right is one thing that a process may do.
type Right struct {
	Verb      string
	Group     string // of the API; empty is the core group
	Resource  string // with its subresource: pods/eviction
	Namespace string // empty is all of them, or a resource without one
	Name      string // of the only object; empty is all
}

// String returns the right in the words of kubectl: patch nodes, create pods/eviction, get deployments.apps.
func (r Right) String() string {
	text := r.Verb + " " + r.Kind()
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// Kind returns the resource as kubectl writes it: statefulsets.apps/scale.
func (r Right) Kind() string {
	name, sub, _ := strings.Cut(r.Resource, "/")
	if r.Group != "" {
		name += "." + r.Group
	}
	return strings.TrimSuffix(name+"/"+sub, "/")
}

// Reviewer asks the API server. Each authenticated user may do that, by the ClusterRole system:basic-user.
type Reviewer struct{ client kubernetes.Interface }

// New returns a Reviewer.
func New(client kubernetes.Interface) Reviewer { return Reviewer{client} }

// Allowed reports whether this process has the right.
func (v Reviewer) Allowed(ctx context.Context, r Right) (bool, error) {
	resource, sub, _ := strings.Cut(r.Resource, "/")
	answer, err := v.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub, Namespace: r.Namespace, Name: r.Name,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the right to %s: %w", r, err)
	}
	return answer.Status.Allowed, nil
}

// User returns whom the API server takes this process for: system:serviceaccount:NAMESPACE:NAME in a pod.
func (v Reviewer) User(ctx context.Context) (string, error) {
	answer, err := v.client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("review the user: %w", err)
	}
	return answer.Status.UserInfo.Username, nil
}
