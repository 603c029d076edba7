package awsim_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// recorded is a transport that keeps the answers, but for what depends on the time.
type recorded struct {
	over    http.RoundTripper
	answers []string
}

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := r.over.RoundTrip(req)
	if err != nil {
		r.answers = append(r.answers, "no answer")
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	header := answer.Header.Clone()
	if _, parsed := http.ParseTime(header.Get("Date")); parsed == nil {
		header.Set("Date", "a date")
	}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|"MD5OfBody":"\w+"|"SentTimestamp":"\d+"`)
	text := times.ReplaceAllString(string(body), "a time")
	r.answers = append(r.answers, fmt.Sprint(answer.Status, " ", answer.ContentLength, " ", header, " ", text))
	return answer, err
}

// TestTransports: RoundTrip answers as the server does over HTTP, byte for byte.
func TestTransports(t *testing.T) {
	over, options := map[string][]string{}, awsim.Options{Seed: 7}
	t.Run("HTTP", func(t *testing.T) {
		r := &recorded{over: transport(t).Transport}
		script(newAccount(t, start(t, options), &http.Client{Transport: r}))
		over["HTTP"] = r.answers
	})
	t.Run("RoundTrip", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			<-time.After(10 * 365 * 24 * time.Hour) // A timestamp of 2000 is shorter than one of today.
			s := awsim.NewUnconnected(options)
			defer func() { must(t, s.Close()) }()
			r := &recorded{over: s}
			script(newAccount(t, s, &http.Client{Transport: r}))
			over["RoundTrip"] = r.answers
		})
	})
	want, got := over["HTTP"], over["RoundTrip"]
	if len(want) < 20 || len(want) != len(got) {
		t.Fatalf("%d answers over HTTP, %d by RoundTrip", len(want), len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("answer %d: by RoundTrip\n%s\nover HTTP\n%s", i, got[i], want[i])
		}
	}
	if !slices.ContainsFunc(want, func(a string) bool { return bytes.Contains([]byte(a), []byte("TERMINATING")) }) {
		t.Error("no message was compared")
	}
}

// script calls all services, with success and with errors. It changes one thing at a time, so that each run draws
// the same identifiers.
func script(a *account) {
	a.t.Helper()
	ctx := within(a.t)
	_, err := a.CreateLaunchTemplate("node", "ami-1")
	must(a.t, err)
	must(a.t, a.CreateGroup(awsim.Group{
		Name: groupName, Max: 5, Desired: 3, LaunchTemplate: "node", Tags: map[string]string{"team": "<blue> & co"},
	}))
	instance := settled(a.t, a.Server)[0].ID
	must(a.t, a.PutHook(groupName, awsim.Hook{Name: "drain", NotificationTargetARN: a.QueueARN(a.queue)}))
	describe := func() {
		for _, action := range []string{"autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstances", "sqs:DeleteMessage"} {
			_ = a.call(ctx, action)
		}
		_, _ = a.groups.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: new(groupName)})
		_, _ = a.groups.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{instance}})
		_, _ = a.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{MaxResults: new(int32(5))})
		_, _ = a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-12345678"}})
	}
	describe()
	_, err = a.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &instance, ShouldDecrementDesiredCapacity: new(true),
	})
	must(a.t, err)
	messages := do(a.t, a.sqs.ReceiveMessage, &sqs.ReceiveMessageInput{
		QueueUrl: &a.queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"SentTimestamp", "ApproximateReceiveCount"},
	}).Messages
	for _, m := range messages {
		_, _ = a.sqs.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
			QueueUrl: &a.queue, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{{
				Id: new("a"), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 60,
			}},
		})
	}
	describe()
	for range 2 {
		_ = complete(a.t, a.groups, "drain", instance, "CONTINUE")
	}
	must(a.t, a.WaitState(ctx, instance, "Terminated"))
	describe()
	fail(a, describe)
	_, err = a.groups.StartInstanceRefresh(ctx, &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: new(groupName), Preferences: &astypes.RefreshPreferences{SkipMatching: new(true)},
	})
	must(a.t, err)
	_, err = a.WaitRefresh(ctx, groupName, "Successful")
	must(a.t, err)
	_, _ = a.groups.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: new(groupName)})
	must(a.t, a.Allow("test"))
	describe()
}

// fail does the same calls with each fault.
func fail(a *account, describe func()) {
	a.t.Helper()
	for _, fault := range []awsim.Fault{{Throttle: true}, {Unavailable: true}, {Drop: true}, {Code: "<Odd> & new", Status: 418}} {
		remove := a.Inject(fault)
		describe()
		remove()
	}
	restore := a.Withdraw("", "sqs:DeleteMessage", 0)
	describe()
	restore()
}

// BenchmarkRoundTrip is what an agent calls most, in an account of 300 instances that terminate.
func BenchmarkRoundTrip(b *testing.B) {
	s := awsim.NewUnconnected(awsim.Options{})
	defer func() { must(b, s.Close()) }()
	a := newAccount(b, s, &http.Client{Transport: s})
	must(b, s.CreateGroup(awsim.Group{Name: groupName, Max: 300, Desired: 300}))
	settled(b, s)
	must(b, s.PutHook(groupName, awsim.Hook{Name: "drain", NotificationTargetARN: s.QueueARN(a.queue)}))
	all := s.Instances(groupName)
	for _, i := range all {
		must(b, s.Terminate(i.ID, true))
	}
	var ids []string
	for _, i := range all[:50] {
		ids = append(ids, i.ID)
	}
	for name, call := range map[string]func(){
		"heartbeat": func() {
			do(b, a.groups.RecordLifecycleActionHeartbeat, &autoscaling.RecordLifecycleActionHeartbeatInput{
				AutoScalingGroupName: new(groupName), LifecycleHookName: new("drain"), InstanceId: &ids[0],
			})
		},
		"instances": func() {
			do(b, a.groups.DescribeAutoScalingInstances, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: ids})
		},
		"groups":   func() { do(b, a.groups.DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{}) },
		"machines": func() { do(b, a.ec2.DescribeInstances, &ec2.DescribeInstancesInput{InstanceIds: ids[:1]}) },
		"statuses": func() { do(b, a.ec2.DescribeInstanceStatus, &ec2.DescribeInstanceStatusInput{}) },
		"receive": func() {
			do(b, a.sqs.ReceiveMessage, &sqs.ReceiveMessageInput{QueueUrl: &a.queue, MaxNumberOfMessages: 10})
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
