package awsim_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func machineClient(t testing.TB, s *awsim.Server) *ec2.Client {
	t.Helper()
	return ec2.New(ec2.Options{
		Region:       "eu-central-1",
		BaseEndpoint: new(s.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "secret", ""),
		HTTPClient:   cloud.InMemory(transport(t)),
		Retryer:      aws.NopRetryer{},
	})
}

func describe(t testing.TB, c *ec2.Client, in *ec2.DescribeInstancesInput) (out []types.Instance) {
	t.Helper()
	p := ec2.NewDescribeInstancesPaginator(c, in)
	for p.HasMorePages() {
		page, err := p.NextPage(t.Context())
		must(t, err)
		for _, r := range page.Reservations {
			out = append(out, r.Instances...)
		}
	}
	return out
}

func TestMachines(t *testing.T) {
	s := workers(t, awsim.Options{})
	for i := range 6 {
		must(t, s.AddInstance(groupName, "i-"+strconv.Itoa(10000000+i), ""))
	}
	c := machineClient(t, s)
	got := describe(t, c, &ec2.DescribeInstancesInput{InstanceIds: []string{instanceID}})[0]
	if *got.InstanceId != instanceID || *got.Placement.AvailabilityZone != "eu-central-1a" ||
		*got.PrivateDnsName != "ip-10-0-0-4.eu-central-1.compute.internal" || got.State.Name != "running" ||
		*got.State.Code != 16 || got.LaunchTime == nil || got.InstanceType != "m5.large" || len(got.Tags) != 2 {
		t.Errorf("got %+v", got)
	}
	byName := describe(t, c, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: new("private-dns-name"), Values: []string{*got.PrivateDnsName}},
	}})
	if len(byName) != 1 || *byName[0].InstanceId != instanceID {
		t.Errorf("by its name: %v", byName)
	}
	if all := describe(t, c, &ec2.DescribeInstancesInput{MaxResults: new(int32(5))}); len(all) != 7 {
		t.Errorf("by pages: %d machines", len(all))
	}
	for id, want := range map[string]string{
		"i-00000000000000000": "InvalidInstanceID.NotFound",
		"node-7":              "InvalidInstanceID.Malformed",
	} {
		_, err := c.DescribeInstances(t.Context(),
			&ec2.DescribeInstancesInput{InstanceIds: []string{instanceID, id}})
		if code(err) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestTerminateInstances(t *testing.T) {
	machines := &cluster{pods: map[string][]string{instanceID: {"default/a"}}}
	s := workers(t, awsim.Options{Machines: machines}, awsim.Hook{Name: "drain"})
	c := machineClient(t, s)
	out := do(t, c.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{instanceID}})
	if len(out.TerminatingInstances) != 1 || out.TerminatingInstances[0].CurrentState.Name != "shutting-down" {
		t.Errorf("got %+v", out.TerminatingInstances)
	}
	must(t, s.WaitState(within(t), instanceID, "Terminating:Wait"))
	got := describe(t, c, &ec2.DescribeInstancesInput{InstanceIds: []string{instanceID}})[0]
	if got.State.Name != "terminated" || *got.PrivateDnsName != "" {
		t.Errorf("the hook runs for a machine that is %s", got.State.Name)
	}
	must(t, complete(t, groupClient(t, s), "drain", instanceID, "CONTINUE"))
	must(t, s.WaitState(within(t), instanceID, "Terminated"))
	if got := only(t, s); !slices.Equal(got.Killed, []string{"default/a"}) || len(machines.ended) != 1 {
		t.Errorf("killed %v, ended %v", got.Killed, machines.ended)
	}
}
