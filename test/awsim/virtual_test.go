package awsim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// account is a server without a socket, and clients of it with the access key test, in virtual time.
type account struct {
	*awsim.Server
	t      testing.TB
	queue  string
	sqs    *sqs.Client
	groups *autoscaling.Client
	ec2    *ec2.Client
	eks    *eks.Client
}

// inVirtualTime runs a test in a bubble.
func inVirtualTime(t *testing.T, name string, run func(a *account)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := awsim.NewUnconnected(awsim.Options{})
			defer func() { must(t, s.Close()) }()
			run(newAccount(t, s, &http.Client{Transport: s}))
		})
	})
}

func newAccount(t testing.TB, s *awsim.Server, over *http.Client) *account {
	t.Helper()
	config := aws.Config{
		Region: "eu-central-1", BaseEndpoint: new(s.URL()), HTTPClient: over,
		Credentials: credentials.NewStaticCredentialsProvider("test", "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
	return &account{
		s, t, s.CreateQueue("jobs", nil),
		sqs.NewFromConfig(config), autoscaling.NewFromConfig(config), ec2.NewFromConfig(config),
		eks.NewFromConfig(config),
	}
}

// call calls an action of a service, such as sqs:ReceiveMessage.
func (a *account) call(ctx context.Context, action string) error {
	var err error
	switch action {
	case "sqs:DeleteMessage":
		_, err = a.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
			QueueUrl: &a.queue, Entries: []types.DeleteMessageBatchRequestEntry{{Id: new("1"), ReceiptHandle: new("none")}},
		})
	case "autoscaling:DescribeAutoScalingGroups":
		_, err = a.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	case "ec2:DescribeInstances":
		_, err = a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	case "eks:ListNodegroups":
		a.CreateCluster("prod", "1.31")
		_, err = a.eks.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: new("prod")})
	default:
		a.t.Fatalf("no call of %s", action)
	}
	return err
}

func (a *account) want(action, wanted string) {
	a.t.Helper()
	if err := a.call(a.t.Context(), action); code(err) != wanted || (err != nil) != (wanted != "") {
		a.t.Errorf("%s: %v, want %q", action, err, wanted)
	}
}

func TestWithdrawnPermissions(t *testing.T) {
	for action, refused := range map[string]string{
		"sqs:DeleteMessage":                     "AccessDenied",
		"autoscaling:DescribeAutoScalingGroups": "AccessDenied",
		"ec2:DescribeInstances":                 "UnauthorizedOperation",
		"eks:ListNodegroups":                    "AccessDeniedException",
	} {
		inVirtualTime(t, action, func(a *account) {
			a.Withdraw("somebody", action, 0)
			a.want(action, "")
			restore := a.Withdraw("", action, 0)
			a.Withdraw("test", action, time.Hour)
			a.want(action, refused)
			restore()
			<-time.After(time.Hour - 1)
			if err := a.call(a.t.Context(), action); code(err) != refused || status(err) != http.StatusForbidden {
				a.t.Errorf("before the hour is over: %v", err)
			}
			<-time.After(1)
			a.want(action, "")
			if got := a.Unauthorized(); len(got) > 0 {
				a.t.Errorf("a permission that was withdrawn counts as missing in the policies: %q", got)
			}
		})
	}
}

func TestUnknownPermissionIsNotWithdrawn(t *testing.T) {
	inVirtualTime(t, "batch", func(a *account) {
		defer func() {
			if recover() == nil {
				a.t.Error("IAM has no action for a batch")
			}
		}()
		a.Withdraw("", "sqs:DeleteMessageBatch", 0)
	})
}

func TestFaultsInTheWordsOfTheService(t *testing.T) {
	for action, want := range map[string]struct{ throttled, unavailable string }{
		"sqs:DeleteMessage":                     {"RequestThrottled 400", "ServiceUnavailable 503"},
		"autoscaling:DescribeAutoScalingGroups": {"Throttling 400", "ServiceUnavailable 503"},
		"ec2:DescribeInstances":                 {"RequestLimitExceeded 503", "Unavailable 503"},
		"eks:ListNodegroups":                    {"ThrottlingException 429", "ServiceUnavailableException 503"},
	} {
		inVirtualTime(t, action, func(a *account) {
			service, _, _ := strings.Cut(action, ":")
			for _, row := range []struct {
				fault awsim.Fault
				want  string
			}{
				{awsim.Fault{Service: service, Throttle: true}, want.throttled},
				{awsim.Fault{Service: service, Unavailable: true}, want.unavailable},
				{awsim.Fault{Service: service, Drop: true}, " 0"},
			} {
				row.fault.For = time.Minute
				a.Inject(row.fault)
				<-time.After(time.Minute - 1)
				if err := a.call(a.t.Context(), action); err == nil || fmt.Sprint(code(err), " ", status(err)) != row.want {
					a.t.Errorf("%+v: %v, want %s", row.fault, err, row.want)
				}
				<-time.After(1)
				a.want(action, "")
			}
		})
	}
}

// TestFaultShare: which calls are hit depends on the seed alone.
func TestFaultShare(t *testing.T) {
	const action = "ec2:DescribeInstances"
	inVirtualTime(t, "a fifth", func(a *account) {
		run := func(seed uint64) (pattern string) {
			remove := a.Inject(awsim.Fault{Throttle: true, Share: 0.2, Rand: rand.New(rand.NewPCG(seed, 0))})
			defer remove()
			for range 500 {
				if a.call(a.t.Context(), action) == nil {
					pattern += "."
				} else {
					pattern += "x"
				}
			}
			return pattern
		}
		one, again, other := run(1), run(1), run(2)
		if hits := strings.Count(one, "x"); one != again || one == other || hits < 70 || hits > 130 {
			a.t.Errorf("%d of 500 calls were hit; again %t; with another seed %t", hits, one == again, one == other)
		}
	})
}

// TestSlowAnswers: each fault that slows a call down does so, also if another one answers it. No real time passes.
func TestSlowAnswers(t *testing.T) {
	const action = "autoscaling:DescribeAutoScalingGroups"
	inVirtualTime(t, "two delays", func(a *account) {
		took := func() time.Duration {
			begun := time.Now()
			_ = a.call(a.t.Context(), action)
			return time.Since(begun)
		}
		a.Inject(awsim.Fault{Action: "DescribeAutoScalingGroups", Latency: time.Hour})
		a.Inject(awsim.Fault{Throttle: true, Latency: time.Minute, Times: 1})
		a.Inject(awsim.Fault{Service: "autoscaling", Latency: time.Second})
		a.Inject(awsim.Fault{Service: "ec2", Latency: 30 * time.Hour})
		if got := took(); got != time.Hour+time.Minute+time.Second {
			a.t.Errorf("it took %s", got)
		}
		if got := took(); got != time.Hour+time.Second {
			a.t.Errorf("without the fault that hit once it took %s", got)
		}
		ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		_, err := a.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
		if err == nil || time.Since(begun) != time.Minute {
			a.t.Errorf("a client that gave up after a minute: %v after %s", err, time.Since(begun))
		}
	})
}

// TestClockSkew: every time that the server tells is ahead, and nothing takes longer.
func TestClockSkew(t *testing.T) {
	inVirtualTime(t, "an hour behind", func(a *account) {
		begun := time.Now()
		told := begun.Add(-time.Hour)
		a.SetSkew(-time.Hour)
		must(a.t, a.CreateGroup(awsim.Group{Name: groupName, Max: 1, Desired: 1}))
		synctest.Wait()
		id := a.Instances(groupName)[0].ID
		must(a.t, a.PutHook(groupName, awsim.Hook{
			Name: "drain", HeartbeatTimeout: time.Minute, NotificationTargetARN: a.QueueARN(a.queue),
		}))
		must(a.t, a.Terminate(id, false))
		got := do(a.t, a.sqs.ReceiveMessage, &sqs.ReceiveMessageInput{
			QueueUrl: &a.queue, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"SentTimestamp"},
		}).Messages
		for _, m := range got {
			if at := object(a.t, *m.Body)["Time"]; at != told.UTC().Format("2006-01-02T15:04:05.000Z") {
				a.t.Errorf("the message is of %s", at)
			}
			if at := m.Attributes["SentTimestamp"]; at != strconv.FormatInt(told.UnixMilli(), 10) {
				a.t.Errorf("the message was sent at %s", at)
			}
		}
		machines := do(a.t, a.ec2.DescribeInstances, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if at := machines.Reservations[0].Instances[0].LaunchTime; !at.Equal(told) || len(got) != 2 {
			a.t.Errorf("it was launched at %s, and there are %d messages", at, len(got))
		}
		must(a.t, a.WaitState(a.t.Context(), id, "Terminated"))
		if took := time.Since(begun); took != time.Minute {
			a.t.Errorf("the hook took %s", took)
		}
	})
}
