package awsim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"

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

// said is the message of an error as the SDK reports it.
func said(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	return fmt.Sprint(err)
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

func TestAutoScalingErrors(t *testing.T) {
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"})
	c := groupClient(t, s)
	const token = "12345678-1234-1234-1234-123456789012"
	complete := func(group, hook, token, instance, result string) error {
		in := autoscaling.CompleteLifecycleActionInput{
			AutoScalingGroupName: new(group), LifecycleHookName: new(hook),
			LifecycleActionResult: new(result),
		}
		if token != "" {
			in.LifecycleActionToken = new(token)
		}
		if instance != "" {
			in.InstanceId = new(instance)
		}
		_, err := c.CompleteLifecycleAction(t.Context(), &in)
		return err
	}
	for name, row := range map[string]struct {
		call func() error
		code string
		want string
	}{
		"complete with a token that is not active": {
			call: func() error { return complete(groupName, "drain", token, "", "CONTINUE") },
			want: "No active Lifecycle Action found with token " + token,
		},
		"complete with an instance that does not wait": {
			call: func() error { return complete(groupName, "drain", "", instanceID, "CONTINUE") },
			want: "No active Lifecycle Action found with instance ID " + instanceID,
		},
		"complete for an unknown group": {
			call: func() error { return complete("nobody", "drain", token, "", "CONTINUE") },
			want: "AutoScalingGroup name not found - AutoScalingGroup 'nobody' not found",
		},
		"complete for an unknown hook": {
			call: func() error { return complete(groupName, "other", token, "", "CONTINUE") },
			want: "No Lifecycle Hook found with name: other",
		},
		"complete with a result that is none": {
			call: func() error { return complete(groupName, "drain", token, "", "MAYBE") },
			want: "The specified lifecycle action result MAYBE is not valid: it must be one of CONTINUE, ABANDON",
		},
		"complete with neither token nor instance": {
			call: func() error { return complete(groupName, "drain", "", "", "CONTINUE") },
			want: "You must specify either a LifecycleActionToken or an InstanceId.",
		},
		"heartbeat for an action that is not active": {
			call: func() error {
				_, err := c.RecordLifecycleActionHeartbeat(t.Context(), &autoscaling.RecordLifecycleActionHeartbeatInput{
					AutoScalingGroupName: new(groupName), LifecycleHookName: new("drain"),
					LifecycleActionToken: new(token),
				})
				return err
			},
			want: "No active Lifecycle Action found with token " + token,
		},
		"terminate an unknown instance": {
			call: func() error {
				_, err := c.TerminateInstanceInAutoScalingGroup(t.Context(),
					&autoscaling.TerminateInstanceInAutoScalingGroupInput{
						InstanceId: new("i-1"), ShouldDecrementDesiredCapacity: new(false),
					})
				return err
			},
			want: "Instance Id not found - No managed instance found for instance ID: i-1",
		},
		"desire more than the maximum": {
			call: func() error { return desire(t.Context(), c, 11) },
			want: "New SetDesiredCapacity value 11 is above max value 10 for the AutoScalingGroup.",
		},
		"a hook that is too short": {
			call: func() error {
				_, err := c.PutLifecycleHook(t.Context(), &autoscaling.PutLifecycleHookInput{
					AutoScalingGroupName: new(groupName), LifecycleHookName: new("short"),
					LifecycleTransition: new(awsim.Terminating), HeartbeatTimeout: new(int32(29)),
				})
				return err
			},
			want: "1 validation error detected: Value '29' at 'heartbeatTimeout' failed to satisfy constraint: " +
				"Member must have value greater than or equal to 30",
		},
		"a hook whose queue does not exist": {
			call: func() error {
				_, err := c.PutLifecycleHook(t.Context(), &autoscaling.PutLifecycleHookInput{
					AutoScalingGroupName: new(groupName), LifecycleHookName: new("deaf"),
					LifecycleTransition:   new(awsim.Terminating),
					NotificationTargetARN: new("arn:aws:sqs:eu-central-1:123456789012:nowhere"),
					RoleARN:               new("arn:aws:iam::123456789012:role/r"),
				})
				return err
			},
			want: "Unable to publish test message to notification target " +
				"arn:aws:sqs:eu-central-1:123456789012:nowhere using IAM role arn:aws:iam::123456789012:role/r. " +
				"Please check your target and role configuration and try to put lifecycle hook again.",
		},
		"a group that has instances is deleted": {
			call: func() error {
				_, err := c.DeleteAutoScalingGroup(t.Context(),
					&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: new(groupName)})
				return err
			},
			code: "ResourceInUse",
			want: "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance " +
				"request(s) still in the group.",
		},
		"a group of a name that is taken": {
			call: func() error { return s.CreateGroup(awsim.Group{Name: groupName}) },
			want: "AlreadyExists: AutoScalingGroup by this name already exists - " +
				"A group with the name workers already exists",
		},
		"a page that is not there": {
			call: func() error {
				_, err := c.DescribeAutoScalingGroups(t.Context(),
					&autoscaling.DescribeAutoScalingGroupsInput{NextToken: new("***")})
				return err
			},
			code: "InvalidNextToken",
			want: "The NextToken value is not valid.",
		},
		"fifty-one groups by name": {
			call: func() error {
				_, err := c.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
					AutoScalingGroupNames: slices.Repeat([]string{groupName}, 51),
				})
				return err
			},
			want: "The number of group names that may be passed in is limited to 50",
		},
		"more groups on a page than a hundred": {
			call: func() error {
				_, err := c.DescribeAutoScalingGroups(t.Context(),
					&autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: new(int32(101))})
				return err
			},
			want: "1 validation error detected: Value '101' at 'maxRecords' failed to satisfy constraint: " +
				"Member must have value less than or equal to 100",
		},
		"groups by a filter that there is not": {
			call: func() error {
				_, err := c.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
					Filters: []types.Filter{{Name: new("key"), Values: []string{"team"}}},
				})
				return err
			},
			want: "Filter type key is not correct. Allowed Filter types are: [tag-key, tag-value, tag:<key>]",
		},
		"fifty-one instances are described": {
			call: func() error {
				_, err := c.DescribeAutoScalingInstances(t.Context(), &autoscaling.DescribeAutoScalingInstancesInput{
					InstanceIds: slices.Repeat([]string{instanceID}, 51),
				})
				return err
			},
			want: "The number of instance ids that may be passed in is limited to 50",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.call()
			if got := said(err); got != row.want {
				t.Errorf("message:\n got %s\nwant %s", got, row.want)
			}
			var api smithy.APIError
			if errors.As(err, &api) && (code(err) != orValidation(row.code) || status(err) != 400) {
				t.Errorf("got %s with status %d", code(err), status(err))
			}
		})
	}
}

func orValidation(code string) string {
	if code == "" {
		return "ValidationError"
	}
	return code
}

func desire(ctx context.Context, c *autoscaling.Client, n int32) error {
	_, err := c.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: new(groupName), DesiredCapacity: new(n),
	})
	return err
}
