package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is longer than any test and the longest demo.
const tokenLife = 24 * time.Hour

// UserName returns the name under which a ServiceAccount's requests appear in the audit log.
func UserName(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// ServiceAccount makes a ServiceAccount that may do in the whole cluster what the rules grant, and
// nothing else, and returns the path of a kubeconfig with a token of it. It returns when the rules are
// in force. The kubeconfig goes with the cluster.
func (c *Cluster) ServiceAccount(
	ctx context.Context, namespace, name string, rules ...rbacv1.PolicyRule,
) (kubeconfig string, err error) {
	if err := c.grant(ctx, namespace, name, rules); err != nil {
		return "", fmt.Errorf("make ServiceAccount %s/%s: %w", namespace, name, err)
	}
	seconds := int64(tokenLife.Seconds())
	wish := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}
	accounts := c.client.CoreV1().ServiceAccounts(namespace)
	token, err := accounts.CreateToken(ctx, name, wish, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return "", err
	}
	current := config.Contexts[config.CurrentContext]
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{current.AuthInfo: {Token: token.Status.Token}}
	path := c.folder.path(fmt.Sprintf("kubeconfig-%s-%s", namespace, name))
	return path, clientcmd.WriteToFile(*config, path)
}

// grant makes the account and its role, both of the same name.
func (c *Cluster) grant(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule) error {
	var o metav1.CreateOptions
	full := metav1.ObjectMeta{Name: namespace + "-" + name}
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, o)
	if err != nil {
		return err
	}
	may := &rbacv1.ClusterRole{ObjectMeta: full, Rules: rules}
	_, role := c.client.RbacV1().ClusterRoles().Create(ctx, may, o)
	_, binding := c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: full,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: full.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, o)
	if err := errors.Join(role, binding); err != nil {
		return err
	}
	return c.waitAnyGranted(ctx, "", UserName(namespace, name), rules)
}

// GrantOwn lets a ServiceAccount do in its own namespace what the rules grant, beside what it may do
// already. It returns when the rules are in force.
func (c *Cluster) GrantOwn(ctx context.Context, namespace, name string, rules ...rbacv1.PolicyRule) error {
	var o metav1.CreateOptions
	meta := metav1.ObjectMeta{Name: name}
	rbac := c.client.RbacV1()
	_, role := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, o)
	_, binding := rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, o)
	if err := errors.Join(role, binding); err != nil {
		return fmt.Errorf("make Role %s/%s: %w", namespace, name, err)
	}
	return c.waitAnyGranted(ctx, namespace, UserName(namespace, name), rules)
}

// waitAnyGranted waits for the first of the rules that can be asked about: the others come with it.
func (c *Cluster) waitAnyGranted(
	ctx context.Context, namespace, user string, rules []rbacv1.PolicyRule,
) error {
	for _, rule := range rules {
		if len(rule.Resources) > 0 && len(rule.Verbs) > 0 && len(rule.APIGroups) > 0 {
			return c.waitGranted(ctx, namespace, user, rule)
		}
	}
	return nil
}

// waitGranted asks until the authorizer, which reads the roles from a cache, has seen them. There is
// nothing that could be watched.
func (c *Cluster) waitGranted(ctx context.Context, namespace, user string, rule rbacv1.PolicyRule) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
		},
	}}
	if len(rule.ResourceNames) > 0 {
		review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 10*time.Second, true,
		func(ctx context.Context) (bool, error) {
			reviews := c.client.AuthorizationV1().SubjectAccessReviews()
			answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
			return err == nil && answer.Status.Allowed, err
		})
}
