package awsim_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	groupName  = "workers"
	instanceID = "i-0123456789abcdef0"
)

func groupClient(t testing.TB, s *awsim.Server) *autoscaling.Client {
	t.Helper()
	return autoscaling.New(autoscaling.Options{
		Region:       "eu-central-1",
		BaseEndpoint: new(s.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "secret", ""),
		HTTPClient:   cloud.InMemory(transport(t)),
		Retryer:      aws.NopRetryer{},
	})
}

// within bounds what a test waits for: it fails long before the package's own deadline.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// workers is a server with one group that has one instance, in service, and these hooks.
func workers(t testing.TB, opts awsim.Options, hooks ...awsim.Hook) *awsim.Server {
	t.Helper()
	s := start(t, opts)
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 10, Tags: map[string]string{"team": "blue"}}))
	must(t, s.AddInstance(groupName, instanceID, "eu-central-1a"))
	for _, h := range hooks {
		must(t, s.PutHook(groupName, h))
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do calls an action of an SDK client, which must succeed.
func do[In, Out, Opt any](
	t testing.TB, call func(context.Context, *In, ...func(*Opt)) (*Out, error), in *In,
) *Out {
	t.Helper()
	out, err := call(t.Context(), in)
	must(t, err)
	return out
}

// only is the ledger's only entry.
func only(t testing.TB, s *awsim.Server) awsim.Action {
	t.Helper()
	all := s.Ledger()
	if len(all) != 1 {
		t.Fatalf("the ledger has %d actions, not one: %+v", len(all), all)
	}
	return all[0]
}

// cluster records the calls of Machines.
type cluster struct {
	mu       sync.Mutex
	launched []string
	ended    []string
	pods     map[string][]string
	err      error
}

func (c *cluster) Launch(_ context.Context, instanceID, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launched = append(c.launched, instanceID)
	return nil
}

func (c *cluster) Terminate(_ context.Context, instanceID string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, instanceID)
	return c.pods[instanceID], nil
}

func (c *cluster) Pods(_ context.Context, instanceID string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pods[instanceID]), c.err
}

func desire(ctx context.Context, c *autoscaling.Client, n int32) error {
	_, err := c.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: new(groupName), DesiredCapacity: new(n),
	})
	return err
}

// complete completes the only open action of the instance and hook, by its instance id.
func complete(t testing.TB, c *autoscaling.Client, hook, instanceID, result string) error {
	t.Helper()
	_, err := c.CompleteLifecycleAction(t.Context(), &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: new(groupName), LifecycleHookName: new(hook), InstanceId: new(instanceID),
		LifecycleActionResult: new(result),
	})
	return err
}

// inState are the ids of the group's instances in one state, in order of their launch.
func inState(s *awsim.Server, state string) []string {
	var out []string
	for _, i := range s.Instances(groupName) {
		if i.State == state {
			out = append(out, i.ID)
		}
	}
	return out
}

// settled waits until all instances of the group are in service, and returns them.
func settled(t testing.TB, s *awsim.Server) []awsim.Instance {
	t.Helper()
	for _, i := range s.Instances(groupName) {
		must(t, s.WaitState(within(t), i.ID, "InService"))
	}
	return s.Instances(groupName)
}

// templated is a server with a group of n instances of version 1 of a launch template that has a version 2.
func templated(t testing.TB, n int, version string) (*awsim.Server, *autoscaling.Client) {
	t.Helper()
	s := start(t, awsim.Options{})
	_, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	_, err = s.AddTemplateVersion("node", "ami-2")
	must(t, err)
	must(t, s.CreateGroup(awsim.Group{
		Name: groupName, Max: n, Desired: n, LaunchTemplate: "node", LaunchTemplateVersion: version,
	}))
	settled(t, s)
	return s, groupClient(t, s)
}

func specification(name, version string) *types.LaunchTemplateSpecification {
	return &types.LaunchTemplateSpecification{LaunchTemplateName: new(name), Version: new(version)}
}

// toVersion2 asks for a refresh to version 2.
func toVersion2(prefs *types.RefreshPreferences) *autoscaling.StartInstanceRefreshInput {
	return &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: new(groupName), Preferences: prefs,
		DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: specification("node", "2")},
	}
}

func TestWaitsEndWithContextAndServer(t *testing.T) {
	s := workers(t, awsim.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.WaitClosed(ctx, instanceID); err == nil {
		t.Error("WaitClosed outlived its context")
	}
	if err := s.WaitState(ctx, instanceID, "Terminated"); err == nil {
		t.Error("WaitState outlived its context")
	}
	waited := make(chan error)
	go func() { waited <- s.WaitState(context.Background(), instanceID, "Terminated") }()
	must(t, s.Close())
	if err := <-waited; err == nil {
		t.Error("WaitState outlived its server")
	}
}
