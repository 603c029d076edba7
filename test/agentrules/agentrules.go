// Package agentrules holds what the agent and the trigger may do in a cluster, for whatever runs them:
// nothing that runs them grants them more, so that a rule that is missing shows.
package agentrules

import rbacv1 "k8s.io/api/rbac/v1"

// All returns the rules of the agent's ClusterRole.
func All() []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("", "nodes", "get", "list", "watch", "patch"),
		rule("", "nodes/status", "patch"),
		rule("", "pods", "list", "watch", "delete"),
		rule("", "pods/eviction", "create"),
		rule("", "persistentvolumeclaims", "get"),
		rule("", "events", "create", "patch"),
		rule("apps", "daemonsets", "list", "watch"),
		rule("policy", "poddisruptionbudgets", "list", "watch"),
		rule("storage.k8s.io", "volumeattachments", "list", "watch"),
	}
}

// Trigger returns the rules of the trigger's ClusterRole. It only looks, and does without if it may not.
func Trigger() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: []string{"list"}},
	}
}

// TriggerTaints returns the rules that the trigger needs besides, to taint outdated nodes.
func TriggerTaints() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch"}},
	}
}

// Own returns the rules of the agent's Role, in the namespace that it runs in.
func Own() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
		Verbs: []string{"get", "create", "update"},
	}}
}
