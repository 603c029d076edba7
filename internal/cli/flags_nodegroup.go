package cli

import (
	"regexp"

	"github.com/node-drainer/node-drainer/internal/nodegroup"
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
			"EKS managed node group. Separate several by commas, or repeat the flag.").limiting().
			in(refresh.ModeNodegroup).with("--cluster NAME").inShort("EKS managed node group, with --cluster"),
		boolean(&s.nodegroups.all, "all-nodegroups",
			"All managed node groups of the cluster.").
			in(refresh.ModeNodegroup).with("--cluster NAME").without("nodegroup"),
	}
}

func nodegroupOptions(s *settings) []*option {
	r := &s.nodegroups.request
	return []*option{
		textOption(&r.Kubernetes, "kubernetes-version", "VERSION",
			`Kubernetes version of the nodes, by default the same as now. In YAML put it in quotes: 1.30 is the
			number 1.3.`).in(refresh.ModeNodegroup).
			checked(regexp.MustCompile(`^1\.[0-9]+$`).MatchString, "a minor version, for example 1.34"),
		textOption(&r.Release, "release-version", "VERSION",
			"Release of the AMI, such as 1.34.2-20261104, by default the newest of EKS.").in(refresh.ModeNodegroup),
		boolean(&r.Force, "force",
			"Terminate nodes whose pods EKS could not evict in 15 minutes; otherwise the update fails.").
			in(refresh.ModeNodegroup),
	}
}

// implyMode sets the mode that the selection of node groups implies.
func implyMode(s *settings) {
	if s.options.set("mode") == nil && s.nodegroups.selected() {
		s.Mode = refresh.ModeNodegroup
	}
}
