package awsim

import (
	"strconv"
	"time"
)

// nodegroupAPI are the actions of the EKS API that are simulated.
type nodegroupAPI struct{ *engine }

// nodegroupsOnPage is how many names or IDs a page has at most. The real one has 100 unless maxResults says otherwise;
// fewer here show whether clients read all pages.
const nodegroupsOnPage = 2

// unix is a time as REST with JSON has it: in seconds.
type unix time.Time

// MarshalJSON writes milliseconds as a fraction.
func (t unix) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Time(t).UnixMilli())/1000, 'f', -1, 64), nil
}

type clusterJSON struct {
	Name            string `json:"name"`
	ARN             string `json:"arn"`
	CreatedAt       unix   `json:"createdAt"`
	Version         string `json:"version"`
	PlatformVersion string `json:"platformVersion"`
	Status          string `json:"status"`
}

func (a nodegroupAPI) describeCluster(r *reader, _ []byte) (any, error) {
	return view(a.engine, r, func() (any, error) {
		c, err := a.managed.cluster(r.text("clusterName"))
		if err != nil {
			return nil, err
		}
		return map[string]clusterJSON{"cluster": {
			Name: c.name, ARN: a.catalog.arn(eksName, "cluster/"+c.name), CreatedAt: unix(a.server.told(c.createdAt)),
			Version: c.version, PlatformVersion: "eks.1", Status: NodegroupActive,
		}}, nil
	})
}

func (a nodegroupAPI) listNodegroups(r *reader, _ []byte) (any, error) {
	most := min(r.number("maxResults", nodegroupsOnPage, 1, 100), nodegroupsOnPage)
	return view(a.engine, r, func() (any, error) {
		c, err := a.managed.cluster(r.text("clusterName"))
		if err != nil {
			return nil, err
		}
		page, next, err := paginate(sortedKeys(c.nodegroups), itself, r.text("nextToken"), most)
		return struct {
			Nodegroups []string `json:"nodegroups"`
			NextToken  string   `json:"nextToken,omitempty"`
		}{page, next}, err
	})
}

func itself(name string) string { return name }

type nodegroupJSON struct {
	Name           string            `json:"nodegroupName"`
	ARN            string            `json:"nodegroupArn"`
	Cluster        string            `json:"clusterName"`
	Version        string            `json:"version,omitempty"`
	ReleaseVersion string            `json:"releaseVersion"`
	CreatedAt      unix              `json:"createdAt"`
	ModifiedAt     unix              `json:"modifiedAt"`
	Status         string            `json:"status"`
	CapacityType   string            `json:"capacityType"`
	Scaling        scalingJSON       `json:"scalingConfig"`
	InstanceTypes  []string          `json:"instanceTypes,omitempty"`
	Subnets        []string          `json:"subnets"`
	AMIType        string            `json:"amiType"`
	Labels         map[string]string `json:"labels,omitempty"`
	Resources      resourcesJSON     `json:"resources"`
	Health         healthJSON        `json:"health"`
	UpdateConfig   updateConfigJSON  `json:"updateConfig"`
	NodeRepair     *repairJSON       `json:"nodeRepairConfig,omitempty"`
	LaunchTemplate *launchJSON       `json:"launchTemplate,omitempty"`
	Tags           map[string]string `json:"tags"`
}

type scalingJSON struct {
	Min     int `json:"minSize"`
	Max     int `json:"maxSize"`
	Desired int `json:"desiredSize"`
}

type resourcesJSON struct {
	Groups []map[string]string `json:"autoScalingGroups"`
}

type healthJSON struct {
	Issues []HealthIssue `json:"issues"`
}

type updateConfigJSON struct {
	MaxUnavailable           int    `json:"maxUnavailable,omitempty"`
	MaxUnavailablePercentage int    `json:"maxUnavailablePercentage,omitempty"`
	Strategy                 string `json:"updateStrategy,omitempty"`
}

type repairJSON struct {
	Enabled bool `json:"enabled"`
}

type launchJSON struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

func (a nodegroupAPI) describeNodegroup(r *reader, _ []byte) (any, error) {
	return view(a.engine, r, func() (any, error) {
		ng, err := a.managed.find(r.text("clusterName"), r.text("nodegroupName"))
		if err != nil {
			return nil, err
		}
		return map[string]nodegroupJSON{"nodegroup": a.wire(ng)}, nil
	})
}

// wire shows the sizes of the Auto Scaling group, though those from before the update while one runs: EKS does not
// document which of them it shows then. It needs mu.
func (a nodegroupAPI) wire(ng *nodegroup) nodegroupJSON {
	spec := ng.spec
	out := nodegroupJSON{
		Name: spec.Name, ARN: ng.arn, Cluster: spec.Cluster, Version: ng.version, ReleaseVersion: ng.release,
		CreatedAt: unix(a.server.told(ng.createdAt)), ModifiedAt: unix(a.server.told(ng.modifiedAt)), Status: ng.status(),
		CapacityType: ng.capacityType(), Scaling: scalingJSON{ng.group.min, ng.group.max, ng.group.desired},
		InstanceTypes: spec.InstanceTypes, Subnets: spec.Subnets, AMIType: spec.AMIType, Labels: spec.Labels,
		Resources: resourcesJSON{[]map[string]string{{"name": ng.group.name}}},
		Health:    healthJSON{append([]HealthIssue{}, ng.issues...)},
		UpdateConfig: updateConfigJSON{
			spec.MaxUnavailable, spec.MaxUnavailablePercentage, spec.Strategy,
		},
		Tags: spec.Tags,
	}
	if spec.MaxUnavailable == 0 && spec.MaxUnavailablePercentage == 0 {
		out.UpdateConfig.MaxUnavailable = 1
	}
	if spec.NodeRepair {
		out.NodeRepair = &repairJSON{true}
	}
	if u := ng.running(); u != nil {
		out.Scaling = u.scaling
	}
	if ng.custom.isSet() {
		if t, err := a.catalog.template(ng.custom); err == nil {
			out.LaunchTemplate = &launchJSON{t.id, t.name, ng.custom.version}
		}
	}
	return out
}

func (a nodegroupAPI) listUpdates(r *reader, _ []byte) (any, error) {
	most := min(r.number("maxResults", nodegroupsOnPage, 1, 100), nodegroupsOnPage)
	return view(a.engine, r, func() (any, error) {
		updates, err := a.updatesOf(r)
		if err != nil {
			return nil, err
		}
		page, next, err := paginate(sortedKeys(updates), itself, r.text("nextToken"), most)
		return struct {
			UpdateIDs []string `json:"updateIds"`
			NextToken string   `json:"nextToken,omitempty"`
		}{page, next}, err
	})
}

// updatesOf returns the updates of the node group that the call names, by their IDs: EKS does not document an order.
// A cluster has no updates here. It needs mu.
func (a nodegroupAPI) updatesOf(r *reader) (map[string]*update, error) {
	updates := map[string]*update{}
	if name := r.text("nodegroupName"); name != "" {
		ng, err := a.managed.find(r.text("clusterName"), name)
		if err != nil {
			return nil, err
		}
		for _, u := range ng.updates {
			updates[u.ID] = u
		}
		return updates, nil
	}
	_, err := a.managed.cluster(r.text("clusterName"))
	return updates, err
}

func (a nodegroupAPI) describeUpdate(r *reader, _ []byte) (any, error) {
	return view(a.engine, r, func() (any, error) {
		updates, err := a.updatesOf(r)
		if err != nil {
			return nil, err
		}
		if u := updates[r.text("updateId")]; u != nil {
			return map[string]updateJSON{"update": u.wire(a.engine)}, nil
		}
		return nil, notFound("No update found for ID: %s", r.text("updateId"))
	})
}
