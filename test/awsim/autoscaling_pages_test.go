package awsim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// groupNames are those that a description finds, over all its pages.
func groupNames(t testing.TB, c *autoscaling.Client, in *autoscaling.DescribeAutoScalingGroupsInput) (
	out []string, pages int,
) {
	t.Helper()
	p := autoscaling.NewDescribeAutoScalingGroupsPaginator(c, in)
	for p.HasMorePages() {
		page, err := p.NextPage(t.Context())
		must(t, err)
		pages++
		for _, g := range page.AutoScalingGroups {
			out = append(out, *g.AutoScalingGroupName)
		}
	}
	return out, pages
}

func TestGroupsByPage(t *testing.T) {
	s := start(t, awsim.Options{})
	for i := range 230 {
		must(t, s.CreateGroup(awsim.Group{Name: fmt.Sprintf("g%03d", i), Tags: map[string]string{"team": "blue"}}))
	}
	c := groupClient(t, s)
	tagged := []types.Filter{{Name: new("tag:team"), Values: []string{"blue"}}}
	for name, row := range map[string]struct {
		most  *int32
		pages int
	}{
		"fifty on a page": {pages: 5}, "a hundred at most": {most: new(int32(100)), pages: 3},
	} {
		got, pages := groupNames(t, c, &autoscaling.DescribeAutoScalingGroupsInput{
			MaxRecords: row.most, Filters: tagged,
		})
		if pages != row.pages || len(got) != 230 || len(slices.Compact(got)) != 230 || !slices.IsSorted(got) {
			t.Errorf("%s: %d groups on %d pages", name, len(got), pages)
		}
	}
}

func TestGroupsByTag(t *testing.T) {
	s := start(t, awsim.Options{})
	for i := range 5 {
		must(t, s.CreateGroup(awsim.Group{Name: fmt.Sprintf("g%d", i), Tags: map[string]string{
			"kind": []string{"even", "odd"}[i%2], "size": []string{"s", "m", "l"}[i%3],
		}}))
	}
	c := groupClient(t, s)
	by := func(name string, values ...string) types.Filter {
		return types.Filter{Name: new(name), Values: values}
	}
	for name, row := range map[string]struct {
		filters []types.Filter
		want    string
	}{
		"a key and its value":                  {filters: []types.Filter{by("tag:kind", "odd")}, want: "g1 g3"},
		"several values are OR":                {filters: []types.Filter{by("tag:size", "s", "l")}, want: "g0 g2 g3"},
		"several filters are AND":              {filters: []types.Filter{by("tag:kind", "even"), by("tag:size", "s", "m")}, want: "g0 g4"},
		"a key":                                {filters: []types.Filter{by("tag-key", "kind")}, want: "g0 g1 g2 g3 g4"},
		"a key that no group has":              {filters: []types.Filter{by("tag-key", "no")}, want: ""},
		"a value of whatever key":              {filters: []types.Filter{by("tag-value", "l", "odd")}, want: "g1 g2 g3"},
		"key and value may be of two tags":     {filters: []types.Filter{by("tag-key", "kind"), by("tag-value", "l")}, want: "g2"},
		"a key and the value of another":       {filters: []types.Filter{by("tag:kind", "l")}, want: ""},
		"case counts, as everywhere with tags": {filters: []types.Filter{by("tag:Kind", "odd")}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := groupNames(t, c, &autoscaling.DescribeAutoScalingGroupsInput{Filters: row.filters})
			if strings.Join(got, " ") != row.want {
				t.Errorf("got %v, want %s", got, row.want)
			}
		})
	}
}

func TestInstancesByPage(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName}))
	for i := range 120 {
		must(t, s.AddInstance(groupName, fmt.Sprintf("i-%017x", i), ""))
	}
	var got []string
	p := autoscaling.NewDescribeAutoScalingInstancesPaginator(groupClient(t, s),
		&autoscaling.DescribeAutoScalingInstancesInput{})
	for p.HasMorePages() {
		page, err := p.NextPage(t.Context())
		must(t, err)
		for _, i := range page.AutoScalingInstances {
			got = append(got, *i.InstanceId)
		}
	}
	if len(got) != 120 || !slices.IsSorted(got) || len(slices.Compact(got)) != 120 {
		t.Errorf("got %d instances: %v", len(got), got)
	}
}

func TestUnknownInstanceIsAbsent(t *testing.T) {
	s := workers(t, awsim.Options{})
	out := do(t, groupClient(t, s).DescribeAutoScalingInstances,
		&autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{"i-1", instanceID}})
	if len(out.AutoScalingInstances) != 1 {
		t.Fatalf("got %v", out.AutoScalingInstances)
	}
	got := out.AutoScalingInstances[0]
	if *got.InstanceId != instanceID || *got.AutoScalingGroupName != groupName ||
		*got.LifecycleState != "InService" || *got.HealthStatus != "Healthy" ||
		*got.AvailabilityZone != "eu-central-1a" || *got.ProtectedFromScaleIn {
		t.Errorf("got %+v", got)
	}
}

func TestTags(t *testing.T) {
	s := workers(t, awsim.Options{})
	c := groupClient(t, s)
	tag := types.Tag{
		Key: new("kubernetes.io/cluster/blue"), Value: new("owned"),
		PropagateAtLaunch: new(true),
		ResourceId:        new(groupName), ResourceType: new("auto-scaling-group"),
	}
	do(t, c.CreateOrUpdateTags, &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{tag}})
	read := func() []types.TagDescription {
		out := do(t, c.DescribeTags, &autoscaling.DescribeTagsInput{Filters: []types.Filter{
			{Name: new("auto-scaling-group"), Values: []string{groupName}},
			{Name: new("key"), Values: []string{*tag.Key}},
		}})
		return out.Tags
	}
	if got := read(); len(got) != 1 || *got[0].Value != "owned" || !*got[0].PropagateAtLaunch {
		t.Errorf("got %v", got)
	}
	do(t, c.DeleteTags, &autoscaling.DeleteTagsInput{Tags: []types.Tag{tag}})
	if got := read(); len(got) != 0 {
		t.Errorf("still there: %v", got)
	}
}
