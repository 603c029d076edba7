package nodegroup

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func toDescribed(n *types.Nodegroup) described {
	d := described{amiType: string(n.AmiType), group: refresh.Nodegroup{
		Cluster: aws.ToString(n.ClusterName), Name: aws.ToString(n.NodegroupName), Status: string(n.Status),
		Custom: n.AmiType == types.AMITypesCustom, Tags: n.Tags, Modified: aws.ToTime(n.ModifiedAt),
		Has: refresh.NodeVersion{Kubernetes: aws.ToString(n.Version), Release: aws.ToString(n.ReleaseVersion)},
	}}
	if t := n.LaunchTemplate; t != nil {
		d.group.Has.Template = &refresh.Template{
			ID: aws.ToString(t.Id), Name: aws.ToString(t.Name), Version: aws.ToString(t.Version),
		}
	}
	if c := n.UpdateConfig; c != nil {
		d.group.Minimal = c.UpdateStrategy == types.NodegroupUpdateStrategiesMinimal
	}
	if n.Resources != nil {
		for _, a := range n.Resources.AutoScalingGroups {
			d.scaling = append(d.scaling, aws.ToString(a.Name))
		}
	}
	if n.Health != nil {
		for _, i := range n.Health.Issues {
			d.group.Issues = append(d.group.Issues, describe(string(i.Code), aws.ToString(i.Message), i.ResourceIds))
		}
	}
	for _, id := range n.Subnets {
		d.group.Subnets = append(d.group.Subnets, refresh.Subnet{ID: id})
	}
	return d
}

// describe is a problem in EKS's words: "CODE: message (resource, resource)".
func describe(code, message string, resources []string) string {
	text := code
	if message != "" {
		text += ": " + message
	}
	if len(resources) > 0 {
		text += " (" + strings.Join(resources, ", ") + ")"
	}
	return text
}

// toRefresh converts an update. One that does not change the version of nodes has no Update.
func toRefresh(group string, u *types.Update) refresh.Refresh {
	f := refresh.Refresh{
		ID: aws.ToString(u.Id), Group: group, Status: string(u.Status), Started: aws.ToTime(u.CreatedAt),
	}
	if u.Type == types.UpdateTypeVersionUpdate || u.Type == types.UpdateTypeVersionRollback {
		f.Update = toVersion(u.Params)
	}
	var problems []string
	for _, e := range u.Errors {
		problems = append(problems, describe(string(e.ErrorCode), aws.ToString(e.ErrorMessage), e.ResourceIds))
		f.Resources = append(f.Resources, e.ResourceIds...)
		f.Evictions = f.Evictions || e.ErrorCode == types.ErrorCodePodEvictionFailure
	}
	f.Reason = strings.Join(problems, "; ")
	return f
}

// toVersion is what an update is to, from its parameters.
func toVersion(params []types.UpdateParam) *refresh.NodeVersion {
	v := &refresh.NodeVersion{}
	for _, p := range params {
		switch value := aws.ToString(p.Value); p.Type { //nolint:exhaustive // The others are of other updates.
		case types.UpdateParamTypeVersion:
			v.Kubernetes = value
		case types.UpdateParamTypeReleaseVersion:
			v.Release = value
		case types.UpdateParamTypeLaunchTemplateVersion:
			if _, err := strconv.Atoi(value); err == nil {
				v.Template = &refresh.Template{Version: value}
			}
		}
	}
	return v
}
