package awsim_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestRetriesOfTheSDK: AWS fails for ten minutes. Clients with the SDK's own retries, as the agent has them, neither wait
// for longer than a call may take, nor fail once AWS answers again, although their retries are used up. A client without
// retries, as the agent has it for heartbeats, is not slowed down by them. Versions of the SDK differ in what they do.
func TestRetriesOfTheSDK(t *testing.T) {
	const outage, limit = 10 * time.Minute, 10 * time.Second
	for name, fault := range map[string]awsim.Fault{"unavailable": {Unavailable: true}, "throttled": {Throttle: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := awsim.NewUnconnected(awsim.Options{})
				defer func() { must(t, s.Close()) }()
				config := aws.Config{
					Region: "eu-central-1", BaseEndpoint: new(s.URL()), HTTPClient: &http.Client{Transport: s},
					Credentials: credentials.NewStaticCredentialsProvider("test", "secret", ""),
				}
				machines, queues := ec2.NewFromConfig(config), sqs.NewFromConfig(config)
				groups := autoscaling.NewFromConfig(config, func(o *autoscaling.Options) { o.RetryMaxAttempts = 1 })
				queue := s.CreateQueue("jobs", nil)
				calls := map[string]func(context.Context) error{
					"describe": func(ctx context.Context) error {
						_, err := machines.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
						return err
					},
					"heartbeat": func(ctx context.Context) error {
						_, err := groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
						return err
					},
					"receive": func(ctx context.Context) error {
						_, err := queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue})
						return err
					},
				}
				longest, failed := map[string]time.Duration{}, map[string]int{}
				remove := s.Inject(fault)
				var mu sync.Mutex
				var work sync.WaitGroup
				for name, call := range calls {
					work.Go(func() {
						for begun := time.Now(); time.Since(begun) < outage; time.Sleep(time.Second) {
							start := time.Now()
							err := call(t.Context())
							mu.Lock()
							longest[name] = max(longest[name], time.Since(start))
							if err != nil {
								failed[name]++
							}
							mu.Unlock()
						}
					})
				}
				work.Wait()
				remove()
				t.Logf("the longest calls took %v; failed: %v; attempts: %v", longest, failed, s.Requests())
				for name, call := range calls {
					if longest[name] > limit || failed[name] == 0 {
						t.Errorf("%s: the longest of %d calls that failed took %v", name, failed[name], longest[name])
					}
					start := time.Now()
					if err := call(t.Context()); err != nil || time.Since(start) > time.Second {
						t.Errorf("%s, when AWS answers again: %v after %v", name, err, time.Since(start))
					}
				}
				if longest["heartbeat"] > time.Second {
					t.Errorf("a heartbeat took %v", longest["heartbeat"])
				}
			})
		})
	}
}
