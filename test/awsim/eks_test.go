package awsim_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// managed is a server with the cluster prod of Kubernetes 1.31, three subnets and two releases for each of 1.30 and
// 1.31, and a client of EKS with the access key test.
type managed struct {
	*awsim.Server
	t   testing.TB
	eks *eks.Client
}

func newManaged(t testing.TB, s *awsim.Server, over *http.Client) *managed {
	t.Helper()
	for i, zone := range []string{"a", "b", "c"} {
		s.PutSubnet(awsim.Subnet{ID: "subnet-" + zone, Zone: "eu-central-1" + zone, Available: 100 * (i + 1)})
	}
	s.CreateCluster("prod", "1.31")
	for _, version := range []string{"1.30", "1.31"} {
		for _, day := range []string{"01", "02"} {
			s.PublishRelease(awsim.Release{
				KubernetesVersion: version, Version: version + ".0-202601" + day, Image: "ami-" + version + "-" + day,
			})
		}
	}
	return &managed{s, t, eks.New(eks.Options{
		Region: "eu-central-1", BaseEndpoint: new(s.URL()), HTTPClient: over, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("test", "secret", ""),
	})}
}

// create creates the node group with the name, and the subnets if it has none.
func (m *managed) create(name string, spec awsim.Nodegroup) {
	m.t.Helper()
	spec.Cluster, spec.Name = "prod", name
	if spec.Subnets == nil {
		spec.Subnets = []string{"subnet-a", "subnet-b", "subnet-c"}
	}
	_, err := m.CreateNodegroup(spec)
	must(m.t, err)
}

func (m *managed) describe(name string) *types.Nodegroup {
	m.t.Helper()
	return do(m.t, m.eks.DescribeNodegroup, &eks.DescribeNodegroupInput{ClusterName: new("prod"), NodegroupName: &name}).Nodegroup
}

func (m *managed) describeUpdate(name, id string) *types.Update {
	m.t.Helper()
	return do(m.t, m.eks.DescribeUpdate, &eks.DescribeUpdateInput{Name: new("prod"), NodegroupName: &name, UpdateId: &id}).Update
}

// update updates a node group of the cluster prod.
func (m *managed) update(name string, in eks.UpdateNodegroupVersionInput) (*types.Update, error) {
	in.ClusterName, in.NodegroupName = new("prod"), &name
	out, err := m.eks.UpdateNodegroupVersion(m.t.Context(), &in)
	if err != nil {
		return nil, err
	}
	return out.Update, nil
}

// paramsOf returns the parameters of an update as text.
func paramsOf(u *types.Update) string {
	var out []string
	for _, p := range u.Params {
		out = append(out, string(p.Type)+"="+*p.Value)
	}
	return strings.Join(out, " ")
}

func TestNodegroup(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	m := newManaged(t, s, transport(t))
	m.create("workers", awsim.Nodegroup{
		Min: 1, Max: 5, Desired: 2, Release: "1.31.0-20260101", MaxUnavailablePercentage: 33, Strategy: awsim.UpdateMinimal,
		Labels: map[string]string{"team": "blue"}, NodeRepair: true,
	})
	cluster := do(t, m.eks.DescribeCluster, &eks.DescribeClusterInput{Name: new("prod")}).Cluster
	if *cluster.Version != "1.31" || cluster.Status != types.ClusterStatusActive {
		t.Errorf("the cluster is %+v", cluster)
	}
	ng := m.describe("workers")
	group := *ng.Resources.AutoScalingGroups[0].Name
	if *ng.Version != "1.31" || *ng.ReleaseVersion != "1.31.0-20260101" || ng.Status != types.NodegroupStatusActive ||
		ng.AmiType != types.AMITypesAl2023X8664Standard || *ng.ScalingConfig.MaxSize != 5 || *ng.ScalingConfig.DesiredSize != 2 ||
		*ng.UpdateConfig.MaxUnavailablePercentage != 33 || ng.UpdateConfig.MaxUnavailable != nil ||
		ng.UpdateConfig.UpdateStrategy != types.NodegroupUpdateStrategiesMinimal || ng.Labels["team"] != "blue" ||
		!*ng.NodeRepairConfig.Enabled || ng.LaunchTemplate != nil || ng.CreatedAt.IsZero() || len(ng.Health.Issues) != 0 {
		t.Errorf("the node group is %+v", ng)
	}
	if !strings.HasPrefix(group, "eks-workers-") || !strings.HasSuffix(*ng.NodegroupArn, ":nodegroup/prod/workers/"+group[len("eks-workers-"):]) {
		t.Errorf("the ARN %s and the group %s have not the same UUID", *ng.NodegroupArn, group)
	}
	groups := do(t, groupClient(t, s).DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{})
	tags := map[string]string{}
	for _, one := range groups.AutoScalingGroups[0].Tags {
		tags[*one.Key] = *one.Value
	}
	if tags["eks:cluster-name"] != "prod" || tags["eks:nodegroup-name"] != "workers" || tags["kubernetes.io/cluster/prod"] != "owned" {
		t.Errorf("the tags are %v", tags)
	}
	for _, inst := range s.Instances(group) {
		must(t, s.WaitState(within(t), inst.ID, "InService"))
		if inst.Image != "ami-1.31-01" || inst.Version != 1 || inst.Type != "t3.medium" {
			t.Errorf("the instance is %+v", inst)
		}
	}
	hooks := do(t, groupClient(t, s).DescribeLifecycleHooks, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &group})
	if len(hooks.LifecycleHooks) != 2 || *hooks.LifecycleHooks[0].HeartbeatTimeout != 1800 {
		t.Errorf("the hooks are %+v", hooks.LifecycleHooks)
	}
	must(t, s.SetHealth("prod", "workers", awsim.HealthIssue{Code: "Ec2SubnetNotFound", Message: "none", ResourceIDs: []string{"subnet-a"}}))
	ng = m.describe("workers")
	if ng.Status != types.NodegroupStatusDegraded || ng.Health.Issues[0].Code != types.NodegroupIssueCodeEc2SubnetNotFound ||
		ng.Health.Issues[0].ResourceIds[0] != "subnet-a" {
		t.Errorf("with an issue it is %+v", ng)
	}
}

func TestNodegroupPages(t *testing.T) {
	t.Parallel()
	m := newManaged(t, start(t, awsim.Options{}), transport(t))
	names, ids := []string{"a", "b", "c", "d", "e"}, []string(nil)
	for _, name := range names {
		m.create(name, awsim.Nodegroup{})
	}
	var got []string
	for p := eks.NewListNodegroupsPaginator(m.eks, &eks.ListNodegroupsInput{ClusterName: new("prod")}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		must(t, err)
		got = append(got, page.Nodegroups...)
	}
	if !slices.Equal(got, names) {
		t.Errorf("the node groups are %q", got)
	}
	for range 5 {
		u, err := m.update("a", eks.UpdateNodegroupVersionInput{})
		must(t, err)
		ids = append(ids, *u.Id)
		must(t, m.EndUpdate("prod", "a", awsim.UpdateSuccessful))
	}
	got = nil
	for p := eks.NewListUpdatesPaginator(m.eks, &eks.ListUpdatesInput{Name: new("prod"), NodegroupName: new("a")}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		must(t, err)
		got = append(got, page.UpdateIds...)
	}
	if slices.Sort(ids); !slices.Equal(got, ids) {
		t.Errorf("the updates are %q, not %q", got, ids)
	}
	_, err := m.eks.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: new("prod"), MaxResults: new(int32(101))})
	if code(err) != "InvalidParameterException" {
		t.Errorf("a page of 101: %v", err)
	}
}

// TestUpdates has a cluster of 1.31 with two node groups of 1.30: plain, without a launch template, and custom, with
// version 1 of a template that has a version 2; and one with a custom AMI.
func TestUpdates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		group string
		in    eks.UpdateNodegroupVersionInput
		want  string // The parameters, or the code of the error.
		text  string
	}{
		"to the cluster's version":   {"plain", eks.UpdateNodegroupVersionInput{}, "Version=1.31 ReleaseVersion=1.31.0-20260102", ""},
		"to a release":               {"plain", eks.UpdateNodegroupVersionInput{Version: new("1.31"), ReleaseVersion: new("1.31.0-20260101")}, "Version=1.31 ReleaseVersion=1.31.0-20260101", ""},
		"to its own version":         {"plain", eks.UpdateNodegroupVersionInput{Version: new("1.30")}, "Version=1.30 ReleaseVersion=1.30.0-20260102", ""},
		"to another version":         {"plain", eks.UpdateNodegroupVersionInput{Version: new("1.29")}, "InvalidParameterException", "should be equal to Cluster kubernetes version 1.31"},
		"to another version's":       {"plain", eks.UpdateNodegroupVersionInput{Version: new("1.31"), ReleaseVersion: new("1.30.0-20260101")}, "InvalidParameterException", "1.30.0-20260101 is not valid for kubernetes version 1.31"},
		"to a first template":        {"plain", eks.UpdateNodegroupVersionInput{LaunchTemplate: template("own", "2")}, "InvalidParameterException", "without one"},
		"to a version of a template": {"custom", eks.UpdateNodegroupVersionInput{LaunchTemplate: template("own", "2")}, "Version=1.31 ReleaseVersion=1.31.0-20260102 LaunchTemplateVersion=2", ""},
		"to another template":        {"custom", eks.UpdateNodegroupVersionInput{LaunchTemplate: template("other", "1")}, "InvalidParameterException", "another launch template"},
		"to a version there is not":  {"custom", eks.UpdateNodegroupVersionInput{LaunchTemplate: template("own", "7")}, "InvalidParameterException", "version 7"},
		"of an AMI without template": {"ami", eks.UpdateNodegroupVersionInput{}, "InvalidParameterException", "can't be null"},
		"of an AMI with a version":   {"ami", eks.UpdateNodegroupVersionInput{Version: new("1.31"), LaunchTemplate: template("image", "2")}, "InvalidParameterException", "kubernetesVersion"},
		"of an AMI":                  {"ami", eks.UpdateNodegroupVersionInput{LaunchTemplate: template("image", "2")}, "Version=1.31 ReleaseVersion=ami-own-2 LaunchTemplateVersion=2", ""},
		"of health issues":           {"broken", eks.UpdateNodegroupVersionInput{}, "InvalidRequestException", "health has issues other than"},
		"of a group without nodes":   {"none", eks.UpdateNodegroupVersionInput{}, "ResourceNotFoundException", "No node group found for name: none."},
		"of a full subnet":           {"full", eks.UpdateNodegroupVersionInput{}, "Version=1.31 ReleaseVersion=1.31.0-20260102", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, awsim.Options{})
			m := newManaged(t, s, transport(t))
			s.CreateCluster("prod", "1.30")
			for name, images := range map[string][]string{"own": {"", ""}, "other": {""}, "image": {"ami-own-1", "ami-own-2"}} {
				_, err := s.CreateLaunchTemplate(name, images[0])
				must(t, err)
				for _, image := range images[1:] {
					_, err := s.AddTemplateVersion(name, image)
					must(t, err)
				}
			}
			m.create("plain", awsim.Nodegroup{})
			m.create("custom", awsim.Nodegroup{LaunchTemplate: "own", LaunchTemplateVersion: "1"})
			m.create("ami", awsim.Nodegroup{LaunchTemplate: "image", LaunchTemplateVersion: "1"})
			m.create("broken", awsim.Nodegroup{})
			must(t, s.SetHealth("prod", "broken", awsim.HealthIssue{Code: "Ec2SubnetNotFound"}))
			m.create("full", awsim.Nodegroup{})
			must(t, s.SetHealth("prod", "full", awsim.HealthIssue{Code: "InsufficientFreeAddresses"}))
			s.CreateCluster("prod", "1.31")
			u, err := m.update(tt.group, tt.in)
			got := code(err)
			if err == nil {
				got = paramsOf(u)
			}
			if got != tt.want || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestVersionRollback: a node group returns by one minor version, before its cluster does.
func TestVersionRollback(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	m := newManaged(t, s, transport(t))
	s.CreateCluster("prod", "1.31")
	m.create("workers", awsim.Nodegroup{})
	s.CreateCluster("prod", "1.32")
	if _, err := m.update("workers", eks.UpdateNodegroupVersionInput{Version: new("1.30")}); code(err) != "InvalidParameterException" {
		t.Errorf("two behind the cluster: %v", err)
	}
	s.CreateCluster("prod", "1.31")
	if u, err := m.update("workers", eks.UpdateNodegroupVersionInput{Version: new("1.30")}); err != nil || !strings.HasPrefix(paramsOf(u), "Version=1.30 ") {
		t.Errorf("one behind the cluster: %+v, %v", u, err)
	}
}

// TestNodeLabels are those of a custom launch template, and none of other groups.
func TestNodeLabels(t *testing.T) {
	t.Parallel()
	s := workers(t, awsim.Options{})
	m := newManaged(t, s, transport(t))
	id, err := s.CreateLaunchTemplate("own", "ami-own")
	must(t, err)
	m.create("spot", awsim.Nodegroup{
		Max: 1, Desired: 1, LaunchTemplate: "own", Market: awsim.Spot, Labels: map[string]string{"team": "blue"},
	})
	group := *m.describe("spot").Resources.AutoScalingGroups[0].Name
	const prefix = "eks.amazonaws.com/"
	want := map[string]string{
		prefix + "nodegroup": "spot", prefix + "nodegroup-image": "ami-own", prefix + "capacityType": "SPOT",
		prefix + "sourceLaunchTemplateId": id, prefix + "sourceLaunchTemplateVersion": "1", "team": "blue",
	}
	if got := s.NodeLabels(s.Instances(group)[0].ID); !maps.Equal(got, want) {
		t.Errorf("the labels are %v, not %v", got, want)
	}
	if got := s.NodeLabels(instanceID); got != nil {
		t.Errorf("the labels of an instance of another group are %v", got)
	}
}

func template(name, version string) *types.LaunchTemplateSpecification {
	return &types.LaunchTemplateSpecification{Name: &name, Version: &version}
}

// TestUpdateEnds: an update is the only one of its node group until it ends, and its client token names it forever.
func TestUpdateEnds(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	m := newManaged(t, s, transport(t))
	m.create("workers", awsim.Nodegroup{Max: 3, Desired: 3, Release: "1.31.0-20260101"})
	group := *m.describe("workers").Resources.AutoScalingGroups[0].Name
	first := eks.UpdateNodegroupVersionInput{ClientRequestToken: new("token")}
	u, err := m.update("workers", first)
	must(t, err)
	again, err := m.update("workers", first)
	must(t, err)
	if *again.Id != *u.Id || u.Status != types.UpdateStatusInProgress || u.Type != types.UpdateTypeVersionUpdate {
		t.Errorf("%+v, then %+v", u, again)
	}
	if _, err := m.update("workers", eks.UpdateNodegroupVersionInput{ClientRequestToken: new("token"), Force: true}); code(err) != "InvalidParameterException" {
		t.Errorf("with another parameter: %v", err)
	}
	_, err = m.update("workers", eks.UpdateNodegroupVersionInput{})
	inUse, is := errors.AsType[*types.ResourceInUseException](err)
	if !is || status(err) != http.StatusConflict || *inUse.ClusterName != "prod" || *inUse.NodegroupName != "workers" {
		t.Errorf("with another token: %v", err)
	}
	if ng := m.describe("workers"); ng.Status != types.NodegroupStatusUpdating || *ng.ReleaseVersion != "1.31.0-20260101" {
		t.Errorf("while it runs, the node group is %+v", ng)
	}
	shown := do(t, groupClient(t, s).DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{group}})
	if v := *shown.AutoScalingGroups[0].MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version; v != "2" {
		t.Errorf("the group uses version %s of EKS's template", v)
	}
	must(t, s.EndUpdate("prod", "workers", awsim.UpdateFailed, awsim.UpdateError{Code: "PodEvictionFailure", Message: "m", ResourceIDs: []string{"node-1"}}))
	failed := m.describeUpdate("workers", *u.Id)
	if failed.Status != types.UpdateStatusFailed || failed.Errors[0].ErrorCode != types.ErrorCodePodEvictionFailure || failed.Errors[0].ResourceIds[0] != "node-1" {
		t.Errorf("the update is %+v", failed)
	}
	if again, err := m.update("workers", first); err != nil || *again.Id != *u.Id || again.Status != types.UpdateStatusFailed {
		t.Errorf("with the token of the update that failed: %+v, %v", again, err)
	}
	_, err = m.update("workers", eks.UpdateNodegroupVersionInput{})
	must(t, err)
	must(t, s.EndUpdate("prod", "workers", awsim.UpdateSuccessful))
	if ng := m.describe("workers"); ng.Status != types.NodegroupStatusActive || *ng.ReleaseVersion != "1.31.0-20260102" {
		t.Errorf("in the end the node group is %+v", ng)
	}
	if err := s.EndUpdate("prod", "workers", awsim.UpdateSuccessful); err == nil {
		t.Error("an update ended that did not run")
	}
}

// TestNodegroupPolicies: each call needs its action on what it is about.
func TestNodegroupPolicies(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:eks:eu-central-1:123456789012:"
	calls := map[string]func(m *managed) error{
		"eks:DescribeCluster cluster/prod": func(m *managed) error {
			_, err := m.eks.DescribeCluster(m.t.Context(), &eks.DescribeClusterInput{Name: new("prod")})
			return err
		},
		"eks:ListNodegroups cluster/prod": func(m *managed) error {
			_, err := m.eks.ListNodegroups(m.t.Context(), &eks.ListNodegroupsInput{ClusterName: new("prod")})
			return err
		},
		"eks:DescribeNodegroup nodegroup/prod/workers/*": func(m *managed) error {
			_, err := m.eks.DescribeNodegroup(m.t.Context(), &eks.DescribeNodegroupInput{ClusterName: new("prod"), NodegroupName: new("workers")})
			return err
		},
		"eks:UpdateNodegroupVersion nodegroup/prod/workers/*": func(m *managed) error {
			_, err := m.update("workers", eks.UpdateNodegroupVersionInput{})
			return err
		},
		"eks:ListUpdates cluster/prod nodegroup/prod/workers/*": func(m *managed) error {
			_, err := m.eks.ListUpdates(m.t.Context(), &eks.ListUpdatesInput{Name: new("prod"), NodegroupName: new("workers")})
			return err
		},
	}
	for _, needed := range slices.Sorted(maps.Keys(calls)) {
		fields := strings.Fields(needed)
		m := newManaged(t, start(t, awsim.Options{}), transport(t))
		m.create("workers", awsim.Nodegroup{})
		must(t, m.Allow("test", allowing(`"`+fields[0]+`"`, `"arn:aws:eks:*:*:cluster/other"`, "")))
		if err := calls[needed](m); code(err) != "AccessDeniedException" || status(err) != http.StatusForbidden {
			t.Errorf("%s on another cluster: %v", fields[0], err)
		}
		on := []string{}
		for _, name := range fields[1:] {
			on = append(on, fmt.Sprintf("%q", arn+name))
		}
		must(t, m.Allow("test", allowing(`"`+fields[0]+`"`, "["+strings.Join(on, ",")+"]", "")))
		if err := calls[needed](m); err != nil {
			t.Errorf("%s: %v", needed, err)
		}
	}
}

func TestSubnets(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	newManaged(t, s, transport(t))
	c := machineClient(t, s)
	got := do(t, c.DescribeSubnets, &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-b"}}).Subnets
	if len(got) != 1 || *got[0].AvailableIpAddressCount != 200 || *got[0].AvailabilityZone != "eu-central-1b" {
		t.Errorf("got %+v", got)
	}
	if _, err := c.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-z"}}); code(err) != "InvalidSubnetID.NotFound" {
		t.Errorf("a subnet that there is not: %v", err)
	}
}
