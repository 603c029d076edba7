// Package agentrules holds what the agent and the trigger may do in a cluster, for whatever runs them:
// nothing that runs them grants them more, so that a rule that is missing shows. It is what the chart grants,
// which test/chart holds, for who does without Helm.
package agentrules

import rbacv1 "k8s.io/api/rbac/v1"

// All returns the rules of the agent's ClusterRole.
func All() []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("", "nodes", "get", "list", "watch"),
		rule("", "pods", "list", "watch"),
		rule("", "persistentvolumeclaims", "get"),
		rule("", "services", "get"),
		rule("apps", "daemonsets", "list", "watch"),
		rule("policy", "poddisruptionbudgets", "list", "watch"),
		rule("storage.k8s.io", "volumeattachments", "list", "watch"),
		rule("", "nodes", "patch"),
		rule("", "nodes/status", "patch"),
		rule("", "pods", "delete"),
		rule("", "pods/eviction", "create"),
		rule("", "events", "create", "patch"),
	}
}

// Handover returns the rules of the Role of the program that has pods hand over, in its namespace: it reads one Secret,
// and scales StatefulSets for surges, which it records in the ConfigMap that the chart makes.
func Handover(secret string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"statefulsets/scale"}, Verbs: []string{"update"}},
		{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"node-drainer-handover-surges"},
			Verbs: []string{"get", "update"},
		},
	}
}

// Restarts returns the rules that the agent needs besides, to restart Deployments.
func Restarts() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "patch"}},
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

// Own returns the rules of the agent's Role, in the namespace that it runs in: for the Lease, by the name
// that it has by default.
func Own() []rbacv1.PolicyRule {
	return lease("node-drainer")
}

// History returns the rules of the agent's Role for the ConfigMap that it keeps the records of drains in, which the
// chart makes.
func History() []rbacv1.PolicyRule { return history("get", "update") }

func history(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"node-drainer-history"},
		Verbs: verbs,
	}}
}

// Watch returns the rules of the Role of trigger watch: for the Lease, by the name that it has by default, and for the
// Events on it.
func Watch() []rbacv1.PolicyRule {
	events := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
	return append(lease("node-drainer-watch"), agentLeases(), events)
}

// TriggerOwn is what the trigger may do in its own namespace.
func TriggerOwn() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{agentLeases()}, history("get")...)
}

// agentLeases finds agents.
func agentLeases() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"},
	}
}

func lease(name string) []rbacv1.PolicyRule {
	leases := func(verbs []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: verbs, ResourceNames: names,
		}
	}
	return []rbacv1.PolicyRule{leases([]string{"create"}), leases([]string{"get", "update"}, name)}
}
