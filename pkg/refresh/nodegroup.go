package refresh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Nodegroup is an EKS managed node group, as it was described, and what its nodes are to have.
type Nodegroup struct {
	Cluster, Name  string
	Status         string // In the API's words: ACTIVE, UPDATING, DEGRADED, …
	Updating       bool   // An update to another version is in progress; of UPDATING there are other causes.
	ClusterVersion string // The Kubernetes version of the control plane: "1.31".
	Has            NodeVersion
	Wants          NodeVersion // What was requested; else what is newest.
	Problem        string      // Why it cannot have that.
	Issues         []string    // What EKS reports about its health.
	Custom         bool        // Its AMI is the user's own, so that it has neither a release nor a Kubernetes version.
	Modified       time.Time   // When EKS has changed it last.
	Tags           map[string]string
	Minimal        bool     // EKS terminates nodes before it launches others: the update strategy MINIMAL.
	Force          bool     // Its nodes are terminated even if their pods cannot be evicted.
	Subnets        []Subnet // Only of a preflight.
}

// NodeVersion is what the nodes of a managed node group are made of. What is empty is not known, or is left to EKS.
type NodeVersion struct {
	Kubernetes string    // "1.31".
	Release    string    // Of the AMI that EKS publishes: "1.31.4-20250123". A group with an AMI of its own has none.
	Template   *Template // The launch template of the user, with a number as its version; nil if the group has none.
}

// Subnet is a subnet in which the group's instances are launched.
type Subnet struct {
	ID   string
	Free int // Addresses that are not in use.
}

// Statuses of a managed node group. Source: Nodegroup in the EKS API reference.
const (
	NodegroupActive   = "ACTIVE"
	NodegroupUpdating = "UPDATING"
)

// Reasons for which the nodes of a managed node group are outdated.
const (
	CodeKubernetes Code = "kubernetes-version" // Of another Kubernetes version.
	CodeRelease    Code = "release-version"    // Of another release of the AMI.
)

// String names what the nodes are made of.
func (v NodeVersion) String() string {
	var parts []string
	switch {
	case v.Release != "":
		parts = append(parts, "release "+v.Release)
	case v.Kubernetes != "":
		parts = append(parts, "Kubernetes "+v.Kubernetes)
	}
	if v.Template != nil {
		parts = append(parts, "launch template "+v.Template.describe(v.Template.Version))
	}
	return strings.Join(parts, " and ")
}

// key is the version for a tag: see Target.Key.
func (v NodeVersion) key() string {
	key := cmp.Or(v.Release, v.Kubernetes)
	if v.Template != nil {
		key += "/" + cmp.Or(v.Template.ID, v.Template.Name) + "/" + v.Template.Version
	}
	if len(key) > longestKey || !keyPattern.MatchString(key) {
		return checksum(key)
	}
	return key
}

// differences are how the version differs from the one that is wanted.
func (v NodeVersion) differences(wanted NodeVersion) []Reason {
	var reasons []Reason
	differ := func(code Code, what, has, wants string) {
		if has != "" && wants != "" && has != wants {
			reasons = append(reasons, Reason{code, fmt.Sprintf("the node group has %s %s, and is to have %s",
				what, has, wants)})
		}
	}
	differ(CodeKubernetes, "Kubernetes", v.Kubernetes, wanted.Kubernetes)
	differ(CodeRelease, "release", v.Release, wanted.Release)
	if v.Template != nil && wanted.Template != nil {
		differ(CodeVersion, "launch template "+v.Template.name()+" version", v.Template.Version, wanted.Template.Version)
	}
	return reasons
}

// agrees reports whether both are the same, as far as both are known.
func (v NodeVersion) agrees(other NodeVersion) bool { return len(v.differences(other)) == 0 }

// reasons are why the nodes of the group are outdated, all of them, by what EKS says of the group. While it updates the
// group, that is no guide: new nodes are among them. Nor is it after an update that has failed half-way, which leaves
// the group's own version as it was. The launch template that EKS has set on the Auto Scaling group tells new from old
// then. An instance that leaves, or is in standby, says nothing about that: no update replaces it.
func (n *Nodegroup) reasons(g Group, byTemplate map[string]Verdict) []Reason {
	if n.Updating {
		return nil
	}
	for _, i := range g.Instances {
		if i.InService() && byTemplate[i.ID].Outdated {
			return nil
		}
	}
	return n.Has.differences(n.Wants)
}

// IsUpdated reports whether the group has what its nodes are to have.
func (n *Nodegroup) IsUpdated() bool { return n.Has.agrees(n.Wants) }

// isCurrent reports whether an instance that was launched from another version of EKS's own launch template than the
// last one has nevertheless what the group is to have: its AMI is the same. An update that has failed half-way has
// launched it, and the next one, which succeeded, has set another version of the same content, and left it. An instance
// with another AMI is one that the update could not replace, such as one that was in standby.
func (n *Nodegroup) isCurrent(i Instance, v Verdict, image string) bool {
	isOther := func(r Reason) bool { return r.Code != CodeVersion && r.Code != CodeUnhealthy }
	isSame := isImageID(i.ImageID) && i.ImageID == image
	return !n.Updating && n.IsUpdated() && i.InService() && isSame && !slices.ContainsFunc(v.Reasons, isOther)
}

// OutdatedNodes adds to the verdicts, which compare the launch templates of the instances with that of their Auto
// Scaling group, what is outdated because the managed node group is, and removes what EKS has found to be current. It
// returns why the group is outdated, also if it has no nodes: those that it launches later would be outdated.
func OutdatedNodes(g Group, t Templates, verdicts map[string]Verdict) []Reason {
	image := ""
	if own := g.Source.Template; own != nil {
		resolved, _ := t.resolve(*own)
		image = t.image(resolved)
	}
	for _, i := range g.Instances {
		if v := verdicts[i.ID]; v.Outdated && g.Nodegroup.isCurrent(i, v, image) {
			verdicts[i.ID] = Verdict{Reasons: healthReasons(i)}
		}
	}
	reasons := g.Nodegroup.reasons(g, verdicts)
	if len(reasons) == 0 {
		return nil
	}
	for _, i := range g.Instances {
		v := verdicts[i.ID]
		v.Outdated, v.Reasons = true, append(reasons, v.Reasons...)
		v.Kept = Criteria{IncludeProtected: true, IncludeStandby: true}.keptReasons(i)
		verdicts[i.ID] = v
	}
	return reasons
}

// NodegroupTarget is the target of an update of the group's managed node group.
func NodegroupTarget(g Group) Target {
	n := g.Nodegroup
	return Target{
		Source: g.Source, AsWritten: g.Source, FromGroup: true,
		Nodes: &n.Wants, Text: n.Wants.String(), Key: n.Wants.key(), Problem: n.Problem,
	}
}

// minorOf is the second number of a Kubernetes version: 31 of "1.31". It is 0 if there is none.
func minorOf(version string) int {
	_, minor, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(minor)
	if err != nil {
		return 0
	}
	return n
}
