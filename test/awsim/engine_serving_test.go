package awsim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestManyGroups sets up an account of 200 groups with 5,000 instances of 20 templates, and says how long it
// takes to do that and to read it.
func TestManyGroups(t *testing.T) {
	s := start(t, awsim.Options{})
	c, machines := groupClient(t, s), machineClient(t, s)
	began := time.Now()
	for i := range 20 {
		_, err := s.CreateLaunchTemplate(fmt.Sprintf("node-%d", i), "ami-1")
		must(t, err)
		_, err = s.AddTemplateVersion(fmt.Sprintf("node-%d", i), "ami-2")
		must(t, err)
	}
	for i := range 200 {
		must(t, s.CreateServing(awsim.Group{
			Name: fmt.Sprintf("g%03d", i), Max: 30, Desired: 25, LaunchTemplate: fmt.Sprintf("node-%d", i%20),
			LaunchTemplateVersion: "$Latest", Tags: map[string]string{"team": "blue"},
		}, "1", "2"))
	}
	t.Logf("200 groups with 5,000 instances were there after %s", time.Since(began))
	began = time.Now()
	versions, groups := map[string]int{}, 0
	p := autoscaling.NewDescribeAutoScalingGroupsPaginator(c, &autoscaling.DescribeAutoScalingGroupsInput{
		MaxRecords: new(int32(100)), Filters: []types.Filter{{Name: new("tag-key"), Values: []string{"team"}}},
	})
	for p.HasMorePages() {
		page, err := p.NextPage(t.Context())
		must(t, err)
		for _, g := range page.AutoScalingGroups {
			groups++
			for _, i := range g.Instances {
				versions[string(i.LifecycleState)+" "+*i.LaunchTemplate.Version]++
			}
		}
	}
	t.Logf("they were described after %s", time.Since(began))
	if groups != 200 || versions["InService 1"] != 2600 || versions["InService 2"] != 2400 || len(versions) != 2 {
		t.Errorf("%d groups with %v", groups, versions)
	}
	began = time.Now()
	for i := range 20 {
		out := do(t, machines.DescribeLaunchTemplateVersions, &ec2.DescribeLaunchTemplateVersionsInput{
			LaunchTemplateName: new(fmt.Sprintf("node-%d", i)), Versions: []string{"$Latest", "$Default", "2"},
		})
		if len(out.LaunchTemplateVersions) != 2 {
			t.Errorf("template %d: %+v", i, out.LaunchTemplateVersions)
		}
	}
	t.Logf("the versions of 20 templates were described after %s", time.Since(began))
	if n := s.Requests()["autoscaling.DescribeAutoScalingGroups"]; n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestGroupsThatServeAtOnce(t *testing.T) {
	world := &cluster{}
	s := start(t, awsim.Options{Machines: world, Queues: []string{"events"}})
	s.AddRule(s.QueueARN(s.CreateQueue("events", nil)), awsim.StateChanged, awsim.LaunchSuccessful)
	_, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	must(t, s.CreateServing(awsim.Group{Name: groupName, Max: 4, Desired: 4, LaunchTemplate: "node"}))
	got, zones := s.Instances(groupName), map[string]int{}
	for _, i := range got {
		zones[i.Zone]++
		if i.State != "InService" || i.Version != 1 || i.Image != "ami-1" || i.Type != "m5.large" {
			t.Errorf("got %+v", i)
		}
	}
	if len(got) != 4 || len(zones) != 3 || len(world.launched) != 0 {
		t.Errorf("%d instances in %v, launched %v", len(got), zones, world.launched)
	}
	if m := receive(t, queueClient(t, s), s.CreateQueue("events", nil), 0); len(m) != 0 {
		t.Errorf("somebody was told: %v", m)
	}
	longAgo := time.Now().Add(-240 * time.Hour).Truncate(time.Second)
	must(t, s.SetLaunchTime(got[0].ID, longAgo))
	out := describe(t, machineClient(t, s), &ec2.DescribeInstancesInput{InstanceIds: []string{got[0].ID}})
	if !out[0].LaunchTime.Equal(longAgo) {
		t.Errorf("launched at %s", out[0].LaunchTime)
	}
	if err := s.CreateServing(awsim.Group{Name: "other", LaunchTemplate: "node"}, "1", "9"); err == nil {
		t.Error("a version that is not there")
	}
	must(t, s.CreateServing(awsim.Group{Name: "other", LaunchTemplate: "node"}))
	// They are like any others from then on.
	must(t, s.Terminate(got[0].ID, false))
	must(t, s.WaitState(within(t), got[0].ID, "Terminated"))
	settled(t, s)
}

func TestHundredGroupsByName(t *testing.T) {
	s := start(t, awsim.Options{})
	names := make([]string, 101)
	for i := range names {
		names[i] = fmt.Sprintf("g%03d", i)
		must(t, s.CreateGroup(awsim.Group{Name: names[i]}))
	}
	c := groupClient(t, s)
	for name, row := range map[string]struct {
		names []string
		most  *int32
		fails bool
	}{
		"fifty":                         {names: names[:50]},
		"more than fifty":               {names: names[:51], fails: true},
		"a hundred, with as many asked": {names: names[:100], most: new(int32(100))},
		"more than a hundred":           {names: names, most: new(int32(100)), fails: true},
		"fewer on a page than names":    {names: names[:50], most: new(int32(10))},
	} {
		t.Run(name, func(t *testing.T) {
			in := &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: row.names, MaxRecords: row.most}
			if row.fails {
				if _, err := c.DescribeAutoScalingGroups(t.Context(), in); code(err) != "ValidationError" {
					t.Errorf("got %v", err)
				}
				return
			}
			if got, _ := groupNames(t, c, in); !slices.Equal(got, row.names) {
				t.Errorf("got %v", got)
			}
		})
	}
}
