package awsim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The statuses of a managed node group that are simulated.
const (
	NodegroupActive   = "ACTIVE"
	NodegroupUpdating = "UPDATING"
	NodegroupDegraded = "DEGRADED"
)

// The strategies of a version update.
const (
	UpdateDefault = "DEFAULT" // New nodes are launched first.
	UpdateMinimal = "MINIMAL" // Old nodes are terminated first.
)

// Nodegroup is a managed node group of EKS to be created.
type Nodegroup struct {
	Cluster string
	Name    string
	Min     int
	Max     int
	Desired int
	// Subnets must exist; see PutSubnet.
	Subnets []string
	// AMIType is AL2023 when empty, and CUSTOM when the launch template has an image.
	AMIType string
	// Release is the version of its AMI; the latest published when empty.
	Release string
	// InstanceTypes are t3.medium when empty.
	InstanceTypes []string
	Market        Market
	// MaxUnavailable and MaxUnavailablePercentage are the update configuration, of which one may be set; one node when
	// both are zero.
	MaxUnavailable           int
	MaxUnavailablePercentage int
	Strategy                 string // UpdateDefault or UpdateMinimal; what is empty is not shown, and UpdateDefault.
	// LaunchTemplate is the name or the ID of a custom launch template; none when empty.
	LaunchTemplate        string
	LaunchTemplateVersion string // A number; the default version when empty.
	Labels                map[string]string
	Tags                  map[string]string
	NodeRepair            bool // Node auto repair is enabled.
}

// HealthIssue is an issue of a node group's health.
type HealthIssue struct {
	Code        string   `json:"code"` // Such as NodeCreationFailure.
	Message     string   `json:"message"`
	ResourceIDs []string `json:"resourceIds"`
}

// eksCluster is a cluster of EKS.
type eksCluster struct {
	name       string
	version    string
	createdAt  time.Time
	nodegroups map[string]*nodegroup
	kubernetes Kubernetes // Nil unless it is connected.
	times      EKSTimes
}

// nodegroup is a managed node group.
type nodegroup struct {
	cluster    *eksCluster
	spec       Nodegroup
	arn        string
	group      *group
	own        *template      // EKS's launch template, which the group uses.
	targets    []updateTarget // What each of its versions is for.
	custom     templateChoice // The custom launch template with the number of its version.
	version    string         // Of Kubernetes.
	release    string
	issues     []HealthIssue
	createdAt  time.Time
	modifiedAt time.Time
	updates    []*update
	raised     int // By how much updates have raised the sizes, without what they have taken back.
}

// CreateCluster creates a cluster of a Kubernetes version such as 1.31, or gives an existing one this version.
func (s EKS) CreateCluster(name, kubernetesVersion string) {
	a := s.asg
	a.update(func() {
		c := a.clusters[name]
		if c == nil {
			c = &eksCluster{name: name, createdAt: time.Now(), nodegroups: map[string]*nodegroup{}}
			a.clusters[name] = c
		}
		c.version = kubernetesVersion
	})
}

// GroupName returns the name that CreateNodegroup gives the Auto Scaling group of a node group.
func (s EKS) GroupName(cluster, nodegroup string) string {
	return groupNameOf(nodegroup, s.asg.nodegroupID(cluster, nodegroup))
}

// nodegroupID is what EKS adds to the names of what a node group has.
func (a *engine) nodegroupID(cluster, nodegroup string) string {
	return uuid(a.server.opts.source("nodegroup", cluster, nodegroup))
}

func groupNameOf(nodegroup, id string) string { return "eks-" + nodegroup + "-" + id }

// CreateNodegroup creates a managed node group with its Auto Scaling group, whose name it returns, starts launching
// nodes, and is active at once. The Auto Scaling group has EKS's tags and lifecycle hooks, and a version of EKS's own
// launch template.
func (s EKS) CreateNodegroup(spec Nodegroup) (groupName string, err error) {
	a := s.asg
	return groupName, a.updateErr(func() error {
		c := a.clusters[spec.Cluster]
		if c == nil {
			return fmt.Errorf("awsim: no cluster %s", spec.Cluster)
		}
		if c.nodegroups[spec.Name] != nil {
			return fmt.Errorf("awsim: node group %s exists", spec.Name)
		}
		ng, err := a.managed.newNodegroup(c, spec)
		if err != nil {
			return err
		}
		groupName = ng.group.name
		c.nodegroups[spec.Name] = ng
		a.groups[groupName] = ng.group
		a.applySettings(ng.group)
		a.capacity.reconcile(ng.group)
		if spec.NodeRepair && c.kubernetes != nil {
			a.spawn(func() { a.managed.repairNodes(ng) })
		}
		return nil
	})
}

// newNodegroup needs mu.
func (a eksEngine) newNodegroup(c *eksCluster, spec Nodegroup) (*nodegroup, error) {
	id := a.nodegroupID(spec.Cluster, spec.Name)
	ng := &nodegroup{
		cluster: c, spec: spec, arn: a.arn(spec.Cluster, spec.Name, id), version: c.version,
		createdAt: time.Now(), modifiedAt: time.Now(),
	}
	target := updateTarget{version: c.version, release: spec.Release}
	if spec.LaunchTemplate != "" {
		target.template = choice(spec.LaunchTemplate, spec.LaunchTemplateVersion)
	}
	ng.spec.AMIType = cmp.Or(spec.AMIType, AL2023)
	if len(spec.InstanceTypes) == 0 {
		ng.spec.InstanceTypes = []string{"t3.medium"}
	}
	image, err := a.resolveTarget(ng, &target)
	if err != nil {
		return nil, err
	}
	if image == target.release {
		ng.spec.AMIType = CustomAMI
	}
	if ng.own, err = a.catalog.addTemplate("eks-"+id, ownTemplate(ng, image)); err != nil {
		return nil, err
	}
	ng.custom, ng.release, ng.targets = target.template, target.release, []updateTarget{target}
	ng.group, err = a.newAutoScalingGroup(ng, groupNameOf(spec.Name, id))
	return ng, err
}

// newAutoScalingGroup returns the Auto Scaling group of a node group. The tags and the hooks are those of real groups.
// EKS's hooks notify a topic of EKS, which nobody else can read; here they have no target. It needs mu.
func (a eksEngine) newAutoScalingGroup(ng *nodegroup, name string) (*group, error) {
	spec := ng.spec
	var zones []string
	for _, id := range spec.Subnets {
		subnet, known := a.subnets[id]
		if !known {
			return nil, fmt.Errorf("awsim: no subnet %s", id)
		}
		if !slices.Contains(zones, subnet.Zone) {
			zones = append(zones, subnet.Zone)
		}
	}
	var overrides []Override
	for _, instanceType := range spec.InstanceTypes {
		overrides = append(overrides, Override{InstanceType: instanceType})
	}
	g := AutoScaling{a.engine}.newGroup(Group{
		Name: name, Min: spec.Min, Max: spec.Max, Desired: spec.Desired, Zones: zones, Market: spec.Market,
		LaunchTemplate: ng.own.id, LaunchTemplateVersion: "1", Overrides: overrides,
		Tags: map[string]string{
			"eks:cluster-name": spec.Cluster, "eks:nodegroup-name": spec.Name,
			"kubernetes.io/cluster/" + spec.Cluster:     "owned",
			"k8s.io/cluster-autoscaler/" + spec.Cluster: "owned",
			"k8s.io/cluster-autoscaler/enabled":         "true",
		},
	})
	g.nodegroup, g.hooks = ng, eksHooks()
	return g, g.checkSize()
}

// arn returns the ARN of a node group.
func (a eksEngine) arn(cluster, name, id string) string {
	return a.catalog.arn(eksName, "nodegroup/"+cluster+"/"+name+"/"+id)
}

// find returns a node group, or EKS's answer if there is none. It needs mu.
func (a eksEngine) find(cluster, name string) (*nodegroup, error) {
	c, err := a.cluster(cluster)
	if err != nil {
		return nil, err
	}
	if ng := c.nodegroups[name]; ng != nil {
		return ng, nil
	}
	return nil, notFound("No node group found for name: %s.", name)
}

// cluster returns a cluster, or EKS's answer if there is none. It needs mu.
func (a eksEngine) cluster(name string) (*eksCluster, error) {
	if c := a.clusters[name]; c != nil {
		return c, nil
	}
	return nil, notFound("No cluster found for name: %s.", name)
}

// status returns the status of the node group.
func (ng *nodegroup) status() string {
	switch {
	case ng.running() != nil:
		return NodegroupUpdating
	case len(ng.issues) > 0:
		return NodegroupDegraded
	}
	return NodegroupActive
}

// SetHealth gives a node group these health issues and no others. With any, it is DEGRADED while no update runs.
func (s EKS) SetHealth(cluster, name string, issues ...HealthIssue) error {
	return s.asg.managed.change(cluster, name, func(ng *nodegroup) error {
		ng.issues = slices.Clone(issues)
		return nil
	})
}

// Raised returns by how much updates of a node group have raised its maximum and desired capacity and not taken them
// back: an update that runs, one that failed, and one that found that somebody else scaled up.
func (s EKS) Raised(cluster, name string) (by int, err error) {
	err = s.asg.managed.change(cluster, name, func(ng *nodegroup) error {
		by = ng.raised
		return nil
	})
	return by, err
}

// Release returns the release of the AMI that a node group has: that of its last successful update.
func (s EKS) Release(cluster, name string) (release string, err error) {
	err = s.asg.managed.change(cluster, name, func(ng *nodegroup) error {
		release = ng.release
		return nil
	})
	return release, err
}

// change is update for one node group, which must exist.
func (a eksEngine) change(cluster, name string, do func(ng *nodegroup) error) error {
	return a.updateErr(func() error {
		ng, err := a.find(cluster, name)
		if err != nil {
			return err
		}
		return do(ng)
	})
}
