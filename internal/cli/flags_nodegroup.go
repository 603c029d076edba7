package cli

import (
	"regexp"

	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// nodegroupSettings select managed node groups, and say what their nodes are to have.
type nodegroupSettings struct {
	request nodegroup.Request // without what other options have: see requestOf
	all     bool
}

// selected reports whether any are selected.
func (n nodegroupSettings) selected() bool { return len(n.request.Names) > 0 || n.all }

// requestOf returns which managed node groups, and what their nodes are to have.
func requestOf(s *settings) nodegroup.Request {
	r := s.nodegroups.request
	r.Cluster, r.TemplateVersion = s.Selection.Cluster, s.Version
	return r
}

func nodegroupTargets(s *settings) []*option {
	return []*option{
		list(&s.nodegroups.request.Names, "nodegroup", "NAME",
			`EKS managed node group of --cluster. Separate several by commas, or repeat the flag. The mode is nodegroup
			then.`).limiting(),
		boolean(&s.nodegroups.all, "all-nodegroups",
			"All managed node groups of --cluster. The mode is nodegroup then."),
	}
}

func nodegroupOptions(s *settings) []*option {
	r := &s.nodegroups.request
	return []*option{
		textOption(&r.Kubernetes, "kubernetes-version", "VERSION",
			`Kubernetes version of the nodes, such as 1.34, at most that of the control plane. If not set, it stays that of
			the node group. In YAML put it in quotes: 1.30 without them is the number 1.3.`).
			checked(regexp.MustCompile(`^1\.[0-9]+$`).MatchString, "a minor version, for example 1.34"),
		textOption(&r.Release, "release-version", "VERSION",
			`Release of the AMI of the nodes, such as 1.34.2-20261104. If not set, it is the newest that EKS publishes for
			the AMI type and the Kubernetes version.`),
		boolean(&r.Force, "force",
			`Terminate nodes whose pods EKS could not evict in 15 minutes, with these pods. Without it such an update fails
			with PodEvictionFailure.`),
	}
}

// implyMode sets the mode that the selection of node groups implies.
func implyMode(s *settings) {
	if _, given := s.given["mode"]; !given && s.nodegroups.selected() {
		s.Mode = refresh.ModeNodegroup
	}
}

// addNodegroupConflicts adds what does not go with managed node groups.
func addNodegroupConflicts(s *settings, c *conflicts) {
	if s.Mode != refresh.ModeNodegroup {
		s.addForOther(c, []string{"kubernetes-version", "release-version", "force"}, refresh.ModeNodegroup)
		c.addIf(s.nodegroups.selected(), "--nodegroup and --all-nodegroups are for mode nodegroup: leave them, or "+
			s.flagName("mode")+" out")
		return
	}
	c.addIf(!s.nodegroups.selected(),
		s.flagName("mode")+" nodegroup needs --nodegroup NAME, or --all-nodegroups")
	c.addIf(len(s.nodegroups.request.Names) > 0 && s.nodegroups.all,
		"--all-nodegroups includes those of --nodegroup: leave one of them out")
	c.addIf(s.Selection.Cluster == "", "a managed node group belongs to an EKS cluster: add --cluster NAME")
	c.addIf(len(s.Selection.Names) > 0 || len(s.tags) > 0,
		"--asg and --tag select Auto Scaling groups: leave them out, or --nodegroup and --all-nodegroups")
	for _, name := range []string{
		"all", "surge", "suspend", "raise-max", "taint-outdated", "protected", "allow-managed-nodegroup",
	} {
		source, given := s.given[name]
		c.addIf(given, source+" has no effect on an update by EKS, which replaces nodes by its own rules "+
			"(docs/trigger.md, managed node groups): leave it out")
	}
	c.addIf(s.OnInterrupt != rollout.Detach,
		s.flagName("on-interrupt")+" "+string(s.OnInterrupt)+": EKS does not end an update of a node group: leave it out")
	c.addIf(s.OnConflict == rollout.CancelActive,
		s.flagName("on-conflict")+" cancel: EKS does not cancel an update of a node group: use wait, or leave it out")
}
