package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is longer than any test and the longest demo.
const tokenLife = 24 * time.Hour

// Access creates objects of any kind, in particular ServiceAccounts and their roles, and gives out tokens.
type Access struct {
	admin *API
	dir   string // For the kubeconfigs.
}

// UserName returns the name under which a ServiceAccount's requests appear in the audit log.
func UserName(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// ServiceAccount creates a ServiceAccount that has the rules everywhere in the whole cluster and the rules
// own in its namespace, and returns the path of a kubeconfig with a token of it.
func (a Access) ServiceAccount(
	ctx context.Context, namespace, name string, everywhere, own []rbacv1.PolicyRule,
) (kubeconfig string, err error) {
	objects, err := account(namespace, name, everywhere, own)
	if err != nil {
		return "", err
	}
	if err := a.Create(ctx, objects...); err != nil {
		return "", err
	}
	return a.Token(ctx, namespace, name)
}

// account is the ServiceAccount with its roles and bindings.
func account(
	namespace, name string, everywhere, own []rbacv1.PolicyRule,
) ([]unstructured.Unstructured, error) {
	group := rbacv1.SchemeGroupVersion.String()
	kind := func(version, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: version, Kind: kind}
	}
	global := metav1.ObjectMeta{Name: namespace + "-" + name}
	here := metav1.ObjectMeta{Namespace: namespace, Name: name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	var objects []unstructured.Unstructured
	for _, o := range []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: here},
		&rbacv1.ClusterRole{TypeMeta: kind(group, "ClusterRole"), ObjectMeta: global, Rules: everywhere},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind(group, "ClusterRoleBinding"), ObjectMeta: global, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: global.Name},
		},
		&rbacv1.Role{TypeMeta: kind(group, "Role"), ObjectMeta: here, Rules: own},
		&rbacv1.RoleBinding{
			TypeMeta: kind(group, "RoleBinding"), ObjectMeta: here, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		},
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		objects = append(objects, unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

// Create creates objects of any kind, unchanged. It returns when the roles among them are in effect.
func (a Access) Create(ctx context.Context, objects ...unstructured.Unstructured) error {
	for _, o := range objects {
		kind := o.GroupVersionKind()
		mapping, err := a.admin.kinds.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		_, err = a.admin.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()).
			Create(ctx, &o, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create %s %s: %w", kind.Kind, o.GetName(), err)
		}
	}
	grants, err := Grants(objects)
	if err != nil {
		return err
	}
	for _, g := range grants {
		for _, rule := range g.Rules[:min(1, len(g.Rules))] { // The other rules take effect at the same time.
			what := authorizationv1.ResourceAttributes{
				Namespace: g.Namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
			}
			if len(rule.ResourceNames) > 0 {
				what.Name = rule.ResourceNames[0]
			}
			if err := a.waitAllowed(ctx, g.User, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// Grant is what one binding lets a user do.
type Grant struct {
	User      string
	Namespace string // Where; everywhere if empty.
	Rules     []rbacv1.PolicyRule
}

// Grants returns what the bindings among the objects grant by the roles among them.
func Grants(objects []unstructured.Unstructured) ([]Grant, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	var bindings []rbacv1.RoleBinding // What is for the whole cluster reads the same, without a namespace.
	for _, o := range objects {
		var role rbacv1.Role
		var binding rbacv1.RoleBinding
		var into any
		switch o.GetKind() {
		case "ClusterRole", "Role":
			into = &role
		case "ClusterRoleBinding", "RoleBinding":
			into = &binding
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			return nil, err
		}
		rules[role.Kind+role.Name] = role.Rules
		bindings = append(bindings, binding)
	}
	var grants []Grant
	for _, b := range bindings {
		for _, s := range b.Subjects {
			grants = append(grants, Grant{
				User: UserName(s.Namespace, s.Name), Namespace: b.Namespace, Rules: rules[b.RoleRef.Kind+b.RoleRef.Name],
			})
		}
	}
	return grants, nil
}

// waitAllowed polls until the authorizer, which reads the roles from a cache, allows it. There is no watch for that.
func (a Access) waitAllowed(ctx context.Context, user string, what authorizationv1.ResourceAttributes) error {
	review := &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &what},
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, ownTime, true,
		func(ctx context.Context) (bool, error) {
			reviews := a.admin.client.AuthorizationV1().SubjectAccessReviews()
			answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
			return err == nil && answer.Status.Allowed, err
		})
}

// Token returns the path of a kubeconfig with a token of the ServiceAccount. Close removes it.
func (a Access) Token(ctx context.Context, namespace, name string) (kubeconfig string, err error) {
	return a.token(ctx, namespace, name, name, nil)
}

// PodToken is Token for the ServiceAccount of a pod, as the kubelet requests it: the token is bound to the
// pod.
func (a Access) PodToken(ctx context.Context, p *corev1.Pod) (kubeconfig string, err error) {
	return a.token(ctx, p.Namespace, p.Spec.ServiceAccountName, p.Name, &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID,
	})
}

func (a Access) token(
	ctx context.Context, namespace, name, holder string, bound *authenticationv1.BoundObjectReference,
) (kubeconfig string, err error) {
	seconds := int64(tokenLife.Seconds())
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, BoundObjectRef: bound},
	}
	accounts := a.admin.client.CoreV1().ServiceAccounts(namespace)
	token, err := accounts.CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config, err := clientcmd.LoadFromFile(a.admin.kubeconfig)
	if err != nil {
		return "", err
	}
	current := config.Contexts[config.CurrentContext]
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{current.AuthInfo: {Token: token.Status.Token}}
	path := filepath.Join(a.dir, fmt.Sprintf("kubeconfig-%s-%s", namespace, holder))
	return path, clientcmd.WriteToFile(*config, path)
}
