package refresh

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// evictionTimeout is how long EKS waits for the pods of a node to leave it during an update. Source: "Understand each
// phase of node updates" in the EKS user guide.
const evictionTimeout = 15 * time.Minute

func checkNodegroupHealth(g Group, _ Facts) (Level, string) {
	n := g.Nodegroup
	switch {
	case len(n.Issues) > 0:
		return Refuse, fmt.Sprintf("the node group is %s, and EKS reports: %s; repair that first",
			n.Status, strings.Join(n.Issues, "; "))
	case n.Status != NodegroupActive && n.Status != NodegroupUpdating:
		return Refuse, fmt.Sprintf("the node group is %s: EKS updates only one that is %s", n.Status, NodegroupActive)
	default:
		return OK, "EKS reports no problem of the node group"
	}
}

func checkNodegroupTarget(_ Group, f Facts) (Level, string) {
	if f.Target.Problem != "" {
		return Refuse, f.Target.Problem
	}
	return OK, "the nodes are to have " + f.Target.Text
}

// oldestSkew is by how many minor versions nodes may be older than the control plane. Source: "Version Skew Policy" in
// the Kubernetes documentation.
const oldestSkew = 3

func checkVersionSkew(g Group, _ Facts) (Level, string) {
	n := g.Nodegroup
	has, wants, most := minorOf(n.Has.Kubernetes), minorOf(n.Wants.Kubernetes), minorOf(n.ClusterVersion)
	versions := fmt.Sprintf("the nodes have Kubernetes %s, and are to have %s; the control plane has %s",
		n.Has.Kubernetes, n.Wants.Kubernetes, n.ClusterVersion)
	switch {
	case has == 0 || wants == 0 || most == 0:
		return OK, "EKS does not say which Kubernetes version the nodes have"
	case wants > most:
		return Refuse, versions + ": update the control plane first"
	case wants == has-1 && most-wants <= 1:
		// "Roll back cluster version" in the EKS user guide has the nodes return before the control plane. The API
		// reference of UpdateNodegroupVersion says that they cannot.
		return Warn, versions + ": a rollback returns the nodes first, and then the control plane; EKS may refuse it"
	case wants < has:
		return Refuse, versions + ": EKS does not return a node group to an older version, except by one minor version " +
			"before the control plane is rolled back"
	case most-wants > oldestSkew:
		return Warn, fmt.Sprintf("%s: nodes may be at most %d minor versions older", versions, oldestSkew)
	default:
		return OK, versions
	}
}

func checkNodegroupUpdate(_ Group, f Facts) (Level, string) {
	switch {
	case f.Active == nil:
		return OK, "no update of the node group is in progress"
	case f.Active.HasTarget(f.Target):
		return OK, f.Active.Name() + " is in progress, and has the same target"
	default:
		return Warn, f.Active.Name() + " is in progress, and has another target: --on-conflict decides what happens"
	}
}

// checkAddresses checks whether the subnets have addresses for the nodes that EKS launches first: up to two for each
// Availability Zone, or as many as it replaces at a time. Source: "Understand each phase of node updates" in the EKS
// user guide.
func checkAddresses(g Group, _ Facts) (Level, string) {
	n := g.Nodegroup
	var full []string
	for _, s := range n.Subnets {
		if s.Free == 0 {
			full = append(full, s.ID)
		}
	}
	switch {
	case len(full) == len(n.Subnets) && !n.Minimal:
		return Refuse, "no subnet of the node group has a free address, and EKS launches new nodes before it terminates " +
			"old ones: " + list(full)
	case len(full) > 0:
		return Warn, "subnets without a free address, in which EKS cannot launch a node: " + list(full)
	default:
		return OK, "every subnet of the node group has free addresses"
	}
}

func checkNodegroupBudgets(g Group, f Facts) (Level, string) {
	blocking := f.Cluster.Blocking
	if len(blocking) == 0 {
		return OK, "every disruption budget allows a disruption"
	}
	found := noDisruption(blocking) + ": " + list(blocking)
	if g.Nodegroup.Force {
		return Warn, fmt.Sprintf("%s; after %s EKS terminates such nodes with their pods (--force)", found, evictionTimeout)
	}
	return Warn, fmt.Sprintf("%s; if one of them does so for %s, the update fails with PodEvictionFailure",
		found, evictionTimeout)
}

func checkGrace(g Group, f Facts) (Level, string) {
	if f.LongestGrace < evictionTimeout {
		return OK, fmt.Sprintf("no pod has a grace period as long as EKS waits for pods, %s", evictionTimeout)
	}
	ends := "the update fails with PodEvictionFailure if it uses that"
	if g.Nodegroup.Force {
		ends = "its node is terminated after that (--force)"
	}
	return Warn, fmt.Sprintf("a pod has a grace period of %s, and EKS waits %s for the pods of a node: %s; no hook "+
		"lengthens that", f.LongestGrace, evictionTimeout, ends)
}

func checkSingleReplicas(_ Group, f Facts) (Level, string) {
	if f.Cluster.SingleUnknown != nil {
		return Warn, fmt.Sprintf("the pods cannot be listed: %v", f.Cluster.SingleUnknown)
	}
	if len(f.Cluster.Single) == 0 {
		return OK, "no pod on the nodes is the only one of its workload"
	}
	return Warn, fmt.Sprintf("%s of a workload, which is down while it moves: %s",
		text.Plural(len(f.Cluster.Single), "pod is the only one", "pods are each the only one"), list(f.Cluster.Single))
}

func checkNodegroupSuspended(g Group, _ Facts) (Level, string) {
	missing := g.suspendedOf(processLaunch, processTerminate, processRebalance)
	switch {
	case slices.ContainsFunc(missing, func(p string) bool { return p != processRebalance }):
		return Refuse, fmt.Sprintf("suspended: %s; no instance is replaced without it: resume it first",
			strings.Join(missing, ", "))
	case len(missing) > 0:
		return Warn, "suspended: AZRebalance, by which EKS gets new nodes in the zones of the old ones: resume it first"
	default:
		return OK, "no process that is needed is suspended"
	}
}

func warnManagedWarmPool(Group, Facts) (Level, string) {
	return Warn, "the node group has a warm pool, which EKS manages: whether an update replaces its instances is not " +
		"documented, so that outdated ones may enter service later"
}

// nodegroupChecks are all checks of ModeNodegroup, in their order.
func nodegroupChecks() []check {
	inZones := func(g Group, _ Facts) bool { return len(g.Nodegroup.Subnets) > 0 }
	return []check{
		{name: "nodegroup-health", find: checkNodegroupHealth},
		{name: CheckTarget, find: checkNodegroupTarget},
		{name: "version-skew", find: checkVersionSkew},
		{name: "suspended", find: checkNodegroupSuspended},
		{name: CheckActive, find: checkNodegroupUpdate},
		{"addresses", checkAddresses, inZones},
		{"wave", checkWave, func(g Group, f Facts) bool { return f.Waves && g.Tags[WaveTag] != "" }},
		{CheckBudgets, checkNodegroupBudgets, withKubernetes},
		{"grace-period", checkGrace, withKubernetes},
		{"single-replicas", checkSingleReplicas, withKubernetes},
		{"warm-pool", warnManagedWarmPool, func(g Group, _ Facts) bool { return g.WarmPool }},
		{"pinned", warnPinned, isPinned},
		{"uncoordinated", warnUncoordinated, isUncoordinated},
		{"nodes", checkNodes, withKubernetes},
		{name: "self", find: checkSelf},
		{name: "outdated", find: checkOutdated},
	}
}
