package refresh

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

func managed(change func(*Nodegroup)) Group {
	lt := func(version string) *Template { return &Template{ID: "lt-2", Name: "web", Version: version} }
	n := &Nodegroup{
		Cluster: "prod", Name: "web", Status: NodegroupActive, ClusterVersion: "1.34",
		Has:     NodeVersion{Kubernetes: "1.33", Release: "1.33.5-20261001", Template: lt("7")},
		Wants:   NodeVersion{Kubernetes: "1.33", Release: "1.33.5-20261001", Template: lt("7")},
		Subnets: []Subnet{{"subnet-1", 10}, {"subnet-2", 10}},
	}
	change(n)
	return Group{
		Name: "eks-web-1", Desired: 2, Max: 4, Nodegroup: n,
		Source:    Source{Template: &Template{ID: "lt-1", Version: "4"}},
		Instances: []Instance{{ID: "i-1", State: "InService", Healthy: true}, {ID: "i-2", State: "InService", Healthy: true}},
	}
}

// TestOutdatedNodes: by what a managed node group has, all of its nodes are outdated, or none; once an update has begun,
// the launch template tells.
func TestOutdatedNodes(t *testing.T) {
	t.Parallel()
	older := func(n *Nodegroup) { n.Wants.Release = "1.33.5-20261104" }
	for _, tt := range []struct {
		name     string
		change   func(*Nodegroup)
		versions string // of EKS's launch template, of i-1 and i-2; the group is at 4. Behind it, the state of i-1
		want     string // the codes of the reasons of i-1 and i-2
	}{
		{"the newest", func(*Nodegroup) {}, "44", "| |"},
		{"another release", older, "44", "release-version|release-version|"},
		{"another Kubernetes version", func(n *Nodegroup) { n.Wants.Kubernetes, n.Wants.Release = "1.34", "1.34.2-20261104" }, "44", "kubernetes-version,release-version|kubernetes-version,release-version|"},
		{"another version of the user's template", func(n *Nodegroup) { n.Wants.Template = &Template{ID: "lt-2", Name: "web", Version: "8"} }, "44", "version|version|"},
		{"an update that has just begun", func(n *Nodegroup) { older(n); n.Updating = true }, "44", "| |"},
		{"an update that has replaced one", func(n *Nodegroup) { older(n); n.Updating = true }, "34", "version| |"},
		{"another change of the group is in progress", func(n *Nodegroup) { older(n); n.Status = NodegroupUpdating }, "44", "release-version|release-version|"},
		{"an update that has failed half-way", older, "34", "version| |"},
		{"an old one is in standby", older, "34Standby", "release-version,version|release-version|"},
		{"an old one is leaving", older, "34Terminating:Wait", "release-version,version|release-version|"},
		{"what is not known is no difference", func(n *Nodegroup) { n.Wants = NodeVersion{} }, "44", "| |"},
	} {
		g, verdicts := managed(tt.change), map[string]Verdict{}
		g.Instances[0].State = cmp.Or(tt.versions[2:], g.Instances[0].State)
		for n := range g.Instances {
			g.Instances[n].Template = &Template{ID: "lt-1", Version: tt.versions[n : n+1]}
			verdicts[g.Instances[n].ID] = Outdated(g.Instances[n], Templates{}.Resolve(g, ""), Templates{}, Criteria{}, now)
		}
		OutdatedNodes(g, Templates{}, verdicts)
		var got strings.Builder
		for _, i := range g.Instances {
			v := verdicts[i.ID]
			if v.Outdated != (len(v.Reasons) > 0) {
				t.Errorf("%s: %s has %+v", tt.name, i.ID, v)
			}
			var codes []string
			for _, r := range v.Reasons {
				codes = append(codes, string(r.Code))
			}
			got.WriteString(strings.Join(codes, ",") + "|")
		}
		if got.String() != strings.ReplaceAll(tt.want, " ", "") {
			t.Errorf("%s: got %s, want %s", tt.name, got.String(), tt.want)
		}
	}
}

// TestNodesThatEKSHasLeft: after an update that has succeeded, a node is outdated only if its AMI is another one. The
// versions of EKS's launch template differ also if an earlier update of the same content has failed half-way.
func TestNodesThatEKSHasLeft(t *testing.T) {
	t.Parallel()
	templates := NewTemplates(LaunchTemplate{ID: "lt-1", Images: map[int]string{4: "ami-4"}})
	for _, tt := range []struct {
		image, state string
		change       func(*Nodegroup)
		want         bool
	}{
		{"ami-4", "InService", func(*Nodegroup) {}, false},
		{"", "InService", func(*Nodegroup) {}, true},
		{"ami-3", "InService", func(*Nodegroup) {}, true},
		{"ami-4", "Standby", func(*Nodegroup) {}, true},
		{"ami-4", "InService", func(n *Nodegroup) { n.Updating = true }, true},
		{"ami-4", "InService", func(n *Nodegroup) { n.Wants.Release = "1.33.5-20261104" }, true},
	} {
		g := managed(tt.change)
		i := &g.Instances[0]
		i.Template, i.ImageID, i.State = &Template{ID: "lt-1", Version: "3"}, tt.image, tt.state
		verdicts := map[string]Verdict{i.ID: Outdated(*i, templates.Resolve(g, ""), templates, Criteria{}, now)}
		OutdatedNodes(g, templates, verdicts)
		if got := verdicts[i.ID].Outdated; got != tt.want {
			t.Errorf("%+v: outdated: %t", tt, got)
		}
	}
}

// TestNodegroupPreflight plants one problem at a time.
func TestNodegroupPreflight(t *testing.T) {
	t.Parallel()
	none := func(*Nodegroup) {}
	back := func(cluster string) func(*Nodegroup) { // to 1.32
		return func(n *Nodegroup) { n.ClusterVersion, n.Wants.Kubernetes = cluster, "1.32" }
	}
	for _, tt := range []struct {
		check, name string
		change      func(*Nodegroup)
		facts       func(*Facts)
		level       Level
		words       string
	}{
		{"nodegroup-health", "healthy", none, nil, OK, "no problem"},
		{"nodegroup-health", "degraded", func(n *Nodegroup) { n.Status, n.Issues = "DEGRADED", []string{"NodeCreationFailure: x"} }, nil, Refuse, "NodeCreationFailure: x"},
		{"nodegroup-health", "deleted", func(n *Nodegroup) { n.Status = "DELETING" }, nil, Refuse, "DELETING"},
		{"target", "known", none, nil, OK, "release 1.33.5-20261001 and launch template web (lt-2) version 7"},
		{"target", "unknown", func(n *Nodegroup) { n.Problem = "no such release" }, nil, Refuse, "no such release"},
		{"version-skew", "as the control plane", func(n *Nodegroup) { n.Wants.Kubernetes = "1.34" }, nil, OK, "1.34"},
		{"version-skew", "newer than the control plane", func(n *Nodegroup) { n.Wants.Kubernetes = "1.35" }, nil, Refuse, "update the control plane first"},
		{"version-skew", "older than the nodes", func(n *Nodegroup) { n.Wants.Kubernetes = "1.32" }, nil, Refuse, "does not return"},
		{"version-skew", "back, before the control plane", back("1.33"), nil, Warn, "then the control plane"},
		{"version-skew", "back to the control plane's", back("1.32"), nil, Warn, "may refuse"},
		{"version-skew", "back by two", func(n *Nodegroup) { back("1.33")(n); n.Wants.Kubernetes = "1.31" }, nil, Refuse, "does not return"},
		{"version-skew", "back, too far behind the control plane", back("1.34"), nil, Refuse, "does not return"},
		{"version-skew", "four behind", func(n *Nodegroup) { n.ClusterVersion = "1.37" }, nil, Warn, "at most 3"},
		{"version-skew", "an AMI of the user's", func(n *Nodegroup) { n.Has.Kubernetes, n.Wants.Kubernetes = "", "" }, nil, OK, "does not say"},
		{"active-refresh", "another update", none, func(f *Facts) {
			f.Active = &Refresh{ID: "u-1", Status: StatusInProgress, Update: &NodeVersion{Kubernetes: "1.34"}}
		}, Warn, "node group update u-1"},
		{"active-refresh", "the same update", none, func(f *Facts) {
			f.Active = &Refresh{ID: "u-1", Status: StatusInProgress, Update: &NodeVersion{Kubernetes: "1.33"}}
		}, OK, "same target"},
		{"addresses", "one subnet is full", func(n *Nodegroup) { n.Subnets[0].Free = 0 }, nil, Warn, "subnet-1"},
		{"addresses", "all are full", func(n *Nodegroup) { n.Subnets[0].Free, n.Subnets[1].Free = 0, 0 }, nil, Refuse, "subnet-1, subnet-2"},
		{"addresses", "all are full, and nodes are terminated first", func(n *Nodegroup) { n.Minimal, n.Subnets[0].Free, n.Subnets[1].Free = true, 0, 0 }, nil, Warn, "subnet-1"},
		{"disruption-budgets", "one blocks", none, func(f *Facts) { f.Cluster.Blocking = []string{"shop/db"} }, Warn, "PodEvictionFailure"},
		{"disruption-budgets", "one blocks, by force", func(n *Nodegroup) { n.Force = true }, func(f *Facts) { f.Cluster.Blocking = []string{"shop/db"} }, Warn, "with their pods"},
		{"grace-period", "longer than EKS waits", none, func(f *Facts) { f.LongestGrace = evictionTimeout }, Warn, "no hook lengthens that"},
		{"single-replicas", "one pod", none, func(f *Facts) { f.Cluster.Single = []string{"shop/db-0"} }, Warn, "shop/db-0"},
		{"suspended", "nothing", none, nil, OK, "no process"},
	} {
		g := managed(tt.change)
		f := Facts{Mode: ModeNodegroup, Target: NodegroupTarget(g), Cluster: &ClusterFacts{}}
		if tt.facts != nil {
			tt.facts(&f)
		}
		findings := Preflight(g, f)
		for _, refused := range Refused(findings, append(Allowable(), CheckTarget)) {
			t.Errorf("%s, %s: %s refuses, and cannot be allowed", tt.check, tt.name, refused.Check)
		}
		at := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == tt.check })
		if at < 0 || findings[at].Level != tt.level || !strings.Contains(findings[at].Text, tt.words) {
			t.Errorf("%s, %s: got %+v", tt.check, tt.name, findings)
		}
	}
	g := managed(none)
	g.WarmPool = true
	if pool := slices.IndexFunc(Preflight(g, Facts{Mode: ModeNodegroup}), func(f Finding) bool {
		return f.Check == "warm-pool" && f.Level == Warn && strings.Contains(f.Text, "EKS manages")
	}); pool < 0 {
		t.Error("a warm pool is not reported")
	}
	for process, level := range map[string]Level{"Launch": Refuse, "Terminate": Refuse, "AZRebalance": Warn} {
		g.Suspended = []string{process}
		if got, text := checkNodegroupSuspended(g, Facts{}); got != level || !strings.Contains(text, process) {
			t.Errorf("%s is suspended: got %s: %s", process, got, text)
		}
	}
}
