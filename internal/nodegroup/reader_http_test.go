package nodegroup_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// account is a simulated account with the cluster prod of Kubernetes 1.34, and its clients.
type account struct {
	*awsim.Server
	t   *testing.T
	cfg aws.Config
}

func newAccount(t *testing.T) *account {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	over := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(func() {
		over.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.PutSubnet(awsim.Subnet{ID: "subnet-a", Zone: "eu-central-1a", Available: 7})
	s.PutSubnet(awsim.Subnet{ID: "subnet-b", Zone: "eu-central-1b"})
	s.CreateCluster("prod", "1.34")
	for _, r := range []awsim.Release{
		{KubernetesVersion: "1.33", Version: "1.33.5-20261001", Image: "ami-1"},
		{KubernetesVersion: "1.34", Version: "1.34.1-20261001", Image: "ami-2"},
		{KubernetesVersion: "1.34", Version: "1.34.2-20261110", Image: "ami-5"},
		{KubernetesVersion: "1.34", Version: "1.34.2-20261104", Image: "ami-3"},
		{KubernetesVersion: "1.34", Version: "2022.11", Image: "ami-4", AMIType: awsim.WindowsServer},
	} {
		s.PublishRelease(r)
	}
	return &account{s, t, aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()), HTTPClient: &http.Client{Transport: over},
		Credentials: credentials.NewStaticCredentialsProvider("test", "secret", ""),
	}}
}

// create creates a node group at the release.
func (a *account) create(spec awsim.Nodegroup) (group string) {
	a.t.Helper()
	spec.Cluster, spec.Subnets = "prod", []string{"subnet-a", "subnet-b"}
	spec.Max, spec.Desired = 4, 2
	group, err := a.CreateNodegroup(spec)
	if err != nil {
		a.t.Fatal(err)
	}
	return group
}

// launches reads what EC2 knows.
type launches struct {
	*ec2.LaunchReader
	*ec2.SubnetReader
}

func (a *account) reader(r nodegroup.Request) *nodegroup.Reader {
	return a.readerOf(awseks.NewFromConfig(a.cfg), r)
}

func (a *account) readerOf(api nodegroup.ReaderAPI, r nodegroup.Request) *nodegroup.Reader {
	machines := awsec2.NewFromConfig(a.cfg)
	if r.Cluster == "" {
		r.Cluster = "prod"
	}
	return nodegroup.NewReader(
		api, autoscaling.NewReader(awsautoscaling.NewFromConfig(a.cfg)),
		launches{ec2.NewLaunchReader(machines), ec2.NewSubnetReader(machines)},
		nodegroup.NewReleases(ssm.NewFromConfig(a.cfg)), r)
}

// find returns the only group of the request.
func (a *account) find(r nodegroup.Request) (refresh.Group, *nodegroup.Reader) {
	a.t.Helper()
	reader := a.reader(r)
	found, err := reader.Find(a.t.Context(), refresh.Selection{})
	if err != nil || len(found) != 1 {
		a.t.Fatalf("found %d groups: %v", len(found), err)
	}
	return found[0], reader
}

// TestFind: what the nodes have, and what they are to have.
func TestFind(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	for name, image := range map[string]string{"own": "ami-own", "plain": ""} {
		_, err := a.CreateLaunchTemplate(name, image)
		a.must(err)
		_, err = a.AddTemplateVersion(name, image)
		a.must(err)
	}
	a.create(awsim.Nodegroup{Name: "newest"})
	a.create(awsim.Nodegroup{Name: "newer", Release: "1.34.2-20261110"})
	a.create(awsim.Nodegroup{Name: "older", Release: "1.34.1-20261001", Tags: map[string]string{refresh.WaveTag: "2"}})
	a.create(awsim.Nodegroup{Name: "windows", AMIType: awsim.WindowsServer})
	a.create(awsim.Nodegroup{Name: "own", LaunchTemplate: "own", LaunchTemplateVersion: "1"})
	a.create(awsim.Nodegroup{Name: "plain", LaunchTemplate: "plain", LaunchTemplateVersion: "1"})
	for _, tt := range []struct {
		name    string
		r       nodegroup.Request
		has     string
		wants   string
		problem string
	}{
		{"newest", nodegroup.Request{}, "release 1.34.2-20261104", "release 1.34.2-20261104", ""},
		{"newer", nodegroup.Request{}, "release 1.34.2-20261110", "release 1.34.2-20261110", ""},
		{"older", nodegroup.Request{}, "release 1.34.1-20261001", "release 1.34.2-20261104", ""},
		{"older", nodegroup.Request{Kubernetes: "1.33"}, "release 1.34.1-20261001", "release 1.33.5-20261001", ""},
		{"older", nodegroup.Request{Kubernetes: "1.35"}, "release 1.34.1-20261001", "Kubernetes 1.35", "ParameterNotFound"},
		{"older", nodegroup.Request{Release: "1.34.9"}, "release 1.34.1-20261001", "release 1.34.9", ""},
		{"older", nodegroup.Request{TemplateVersion: "8"}, "release 1.34.1-20261001", "release 1.34.2-20261104", "has no launch template"},
		{"windows", nodegroup.Request{}, "release 2022.11", "Kubernetes 1.34", "--release-version"},
		{"windows", nodegroup.Request{Release: "2022.12"}, "release 2022.11", "release 2022.12", ""},
		{"own", nodegroup.Request{}, "launch template own version 1", "launch template own version 2", ""},
		{"own", nodegroup.Request{Kubernetes: "1.33"}, "launch template own version 1", "launch template own version 2", "AMI of its own"},
		{"plain", nodegroup.Request{}, "release 1.34.2-20261104 and launch template plain version 1", "release 1.34.2-20261104 and launch template plain version 2", ""},
		{"plain", nodegroup.Request{TemplateVersion: "$Default"}, "release 1.34.2-20261104 and launch template plain version 1", "release 1.34.2-20261104 and launch template plain version 1", ""},
		{"plain", nodegroup.Request{TemplateVersion: "9"}, "release 1.34.2-20261104 and launch template plain version 1", "release 1.34.2-20261104 and launch template plain version 9", "does not exist"},
	} {
		tt.r.Names = []string{tt.name}
		g, _ := a.find(tt.r)
		n := g.Nodegroup
		withoutID := func(v refresh.NodeVersion) string {
			words := strings.Fields(v.String())
			return strings.Join(slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "(lt-") || strings.HasPrefix(w, "($") }), " ")
		}
		if got := withoutID(n.Has); got != tt.has {
			t.Errorf("%s, %+v: has %s, want %s", tt.name, tt.r, got, tt.has)
		}
		if got := withoutID(n.Wants); got != tt.wants {
			t.Errorf("%s, %+v: wants %s, want %s", tt.name, tt.r, got, tt.wants)
		}
		if !strings.Contains(n.Problem, tt.problem) || (n.Problem == "") != (tt.problem == "") {
			t.Errorf("%s, %+v: the problem is %q, want %q", tt.name, tt.r, n.Problem, tt.problem)
		}
	}
	g, reader := a.find(nodegroup.Request{Names: []string{"older"}})
	if n := g.Nodegroup; n.ClusterVersion != "1.34" || n.Status != refresh.NodegroupActive || !slices.Equal(n.Subnets, []refresh.Subnet{{ID: "subnet-a", Free: 7}, {ID: "subnet-b"}}) || g.Tags[refresh.WaveTag] != "2" {
		t.Errorf("the node group is %+v, the tags %v", n, g.Tags)
	}
	again, err := reader.Group(t.Context(), g.Name)
	if err != nil || again.Nodegroup.Wants.String() != g.Nodegroup.Wants.String() || again.Nodegroup.ClusterVersion != "1.34" || len(again.Nodegroup.Subnets) != 2 {
		t.Errorf("read again it is %+v, %v", again.Nodegroup, err)
	}
	before := a.Requests()["ssm.GetParameter"]
	all, err := a.reader(nodegroup.Request{}).Find(t.Context(), refresh.Selection{})
	if err != nil || len(all) != 6 || a.Requests()["ssm.GetParameter"]-before != 1 {
		t.Errorf("all are %d, %v", len(all), err)
	}
	some, err := a.reader(nodegroup.Request{}).Find(t.Context(), refresh.Selection{Names: []string{g.Name}})
	if err != nil || len(some) != 1 || some[0].Name != g.Name {
		t.Errorf("those of one name are %v, %v", some, err)
	}
}

// must fails the test at an error.
func (a *account) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// TestFindMissing: what does not exist is named, and nothing else is said to be missing.
func TestFindMissing(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	for want, r := range map[string]nodegroup.Request{
		"there is no EKS cluster test":               {Cluster: "test"},
		"the cluster prod has no managed node group": {},
		"cluster prod has no managed node group web": {Names: []string{"web"}},
	} {
		_, err := a.reader(r).Find(t.Context(), refresh.Selection{})
		if !errors.Is(err, refresh.ErrNoGroup) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "no such Auto Scaling group") {
			t.Errorf("%+v: got %v, want %s", r, err, want)
		}
	}
}

// TestReleases: a call that is throttled or not served is repeated, and one that is refused is not.
func TestReleases(t *testing.T) {
	t.Parallel()
	const parameter = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/release_version"
	for name, tt := range map[string]struct {
		fault awsim.Fault
		want  string // in the error; empty is none
		calls int
	}{
		"throttled":   {awsim.Fault{Throttle: true, Times: 2}, "", 3},
		"unavailable": {awsim.Fault{Unavailable: true, Times: 1}, "", 2},
		"dropped":     {awsim.Fault{Drop: true, Times: 1}, "", 2},
		"refused":     {awsim.Fault{Code: "AccessDeniedException", Message: "not allowed"}, "AccessDeniedException: not allowed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			tt.fault.Service = "ssm"
			a.Inject(tt.fault)
			got, err := nodegroup.NewReleases(ssm.NewFromConfig(a.cfg)).Newest(t.Context(), parameter)
			if tt.want == "" && (err != nil || got != "1.34.2-20261104") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %s, %v", got, err)
			}
			if calls := a.Requests()["ssm.GetParameter"]; calls != tt.calls {
				t.Errorf("%d calls, want %d", calls, tt.calls)
			}
		})
	}
}

// TestStart: an update is started once, and listed with what it is to; another one is refused meanwhile.
func TestStart(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.create(awsim.Nodegroup{Name: "older", Release: "1.34.1-20261001"})
	g, reader := a.find(nodegroup.Request{})
	w := nodegroup.NewWriter(awseks.NewFromConfig(a.cfg))
	start := func(g refresh.Group) (string, error) {
		return w.Start(context.Background(), g, refresh.NodegroupTarget(g), false, refresh.Preferences{})
	}
	id, err := start(g)
	a.must(err)
	if again, err := start(g); again != id || err != nil {
		t.Errorf("repeated, the call returns %s, %v; want %s", again, err, id)
	}
	g, err = reader.Group(t.Context(), g.Name)
	a.must(err)
	if _, err := start(g); !errors.Is(err, refresh.ErrInProgress) || g.Nodegroup.Status != refresh.NodegroupUpdating {
		t.Errorf("a second update of the group in status %s: %v", g.Nodegroup.Status, err)
	}
	all, err := reader.Refreshes(t.Context(), g.Name)
	if err != nil || len(all) != 1 || all[0].ID != id || !all[0].HasTarget(refresh.NodegroupTarget(g)) {
		t.Fatalf("the updates are %+v, %v", all, err)
	}
	a.must(a.EndUpdate("prod", "older", "Failed", awsim.UpdateError{Code: "PodEvictionFailure", Message: "max retries", ResourceIDs: []string{"ip-1"}}))
	f, err := reader.Refresh(t.Context(), g.Name, id)
	if err != nil || f.Active() || !f.Evictions || !slices.Equal(f.Resources, []string{"ip-1"}) || f.Reason != "PodEvictionFailure: max retries (ip-1)" {
		t.Errorf("the update is %+v, %v", f, err)
	}
	g, err = reader.Group(t.Context(), g.Name)
	a.must(err)
	if next, err := start(g); err != nil || next == id {
		t.Errorf("after a failure: %s, %v", next, err)
	}
}

// TestFindWithoutAutoScalingGroup: a node group whose Auto Scaling group somebody has deleted is a problem of that one
// alone.
func TestFindWithoutAutoScalingGroup(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	whole, broken := a.create(awsim.Nodegroup{Name: "whole"}), a.create(awsim.Nodegroup{Name: "broken"})
	_, err := awsautoscaling.NewFromConfig(a.cfg).DeleteAutoScalingGroup(t.Context(),
		&awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &broken, ForceDelete: aws.Bool(true)})
	a.must(err)
	for _, names := range [][]string{nil, {"whole", "broken"}} {
		reader := a.reader(nodegroup.Request{Names: names})
		found, err := reader.Find(t.Context(), refresh.Selection{})
		a.must(err)
		problems := map[string]string{}
		for _, g := range found {
			problems[g.Name] = g.Nodegroup.Problem
		}
		if len(found) != 2 || problems[whole] != "" || !strings.Contains(problems[broken], "does not exist") {
			t.Errorf("%v: the problems are %v", names, problems)
		}
		again, err := reader.Group(t.Context(), broken)
		if err != nil || again.Nodegroup.Problem != problems[broken] {
			t.Errorf("%v: read again it is %+v, %v", names, again.Nodegroup, err)
		}
	}
}

// vanishing is EKS where the node group is gone when it is described, or is being deleted.
type vanishing struct {
	*awseks.Client
	name     string
	deleting bool
}

func (v vanishing) DescribeNodegroup(
	ctx context.Context, in *awseks.DescribeNodegroupInput, options ...func(*awseks.Options),
) (*awseks.DescribeNodegroupOutput, error) {
	out, err := v.Client.DescribeNodegroup(ctx, in, options...)
	switch {
	case err != nil || *in.NodegroupName != v.name:
	case v.deleting:
		out.Nodegroup.Status = types.NodegroupStatusDeleting
	default:
		return nil, &types.ResourceNotFoundException{}
	}
	return out, err
}

// TestFindBesideOneThatIsDeleted: a node group that is being deleted, or is gone since they were listed, does not keep
// the others from being updated. One that was named is an error, or is left to the preflight.
func TestFindBesideOneThatIsDeleted(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.create(awsim.Nodegroup{Name: "a"})
	a.create(awsim.Nodegroup{Name: "b"})
	for _, tt := range []struct {
		deleting bool
		names    []string
		want     int
		err      string
	}{
		{false, nil, 1, ""},
		{true, nil, 1, ""},
		{true, []string{"a", "b"}, 2, ""},
		{false, []string{"a", "b"}, 0, "no managed node group b"},
	} {
		r := nodegroup.Request{Cluster: "prod", Names: tt.names}
		found, err := a.readerOf(vanishing{awseks.NewFromConfig(a.cfg), "b", tt.deleting}, r).
			Find(t.Context(), refresh.Selection{})
		if len(found) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: found %d, %v", tt, len(found), err)
		}
	}
}
