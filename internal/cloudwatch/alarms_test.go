package cloudwatch_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

// client returns a client of a simulated CloudWatch.
func client(t *testing.T) (*awsim.Server, *sdk.Client) {
	t.Helper()
	server := awsim.NewUnconnected(awsim.Options{})
	t.Cleanup(func() { _ = server.Close() })
	return server, sdk.NewFromConfig(harness.UnconnectedConfig(server, "agent"))
}

// TestIsInAlarm: an alarm confirms an event only if it is on, and has a metric of the instance. Concurrent questions
// share calls, whose answers may have several pages.
func TestIsInAlarm(t *testing.T) {
	t.Parallel()
	server, api := client(t)
	for name, state := range map[string]string{"a": "ALARM", "b": "OK", "c": "INSUFFICIENT_DATA", "d": "ALARM", "e": "ALARM"} {
		server.SetInstanceAlarm(name, "i-1", state)
	}
	server.SetAlarm("on-no-instance", "ALARM")
	alarms := cloudwatch.New(api)
	var questions sync.WaitGroup
	for _, tt := range []struct {
		alarm, instance string
		want            bool
	}{
		{"a", "i-1", true},
		{"d", "i-1", true},
		{"e", "i-1", true},
		{"a", "i-2", false},
		{"b", "i-1", false},
		{"c", "i-1", false},
		{"on-no-instance", "i-1", false},
		{"unknown", "i-1", false},
	} {
		questions.Go(func() {
			if on, err := alarms.IsInAlarm(t.Context(), tt.alarm, tt.instance); on != tt.want || err != nil {
				t.Errorf("alarm %s of %s is on: %v, %v", tt.alarm, tt.instance, on, err)
			}
		})
	}
	questions.Wait()
	if calls := server.Requests()["cloudwatch.DescribeAlarms"]; calls > 4 {
		t.Errorf("%d calls for eight questions of 2 alarms a page", calls)
	}
}

// TestStates: an alarm that does not exist has no state.
func TestStates(t *testing.T) {
	t.Parallel()
	server, api := client(t)
	server.SetInstanceAlarm("a", "i-1", "ALARM")
	server.SetAlarm("b", "OK")
	server.SetAlarm("c", "INSUFFICIENT_DATA")
	got, err := cloudwatch.New(api).States(t.Context(), []string{"a", "b", "c", "unknown"})
	if want := map[string]string{"a": "ALARM", "b": "OK", "c": "INSUFFICIENT_DATA"}; !maps.Equal(got, want) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestDenied: a missing permission is an error, and no answer.
func TestDenied(t *testing.T) {
	t.Parallel()
	server, api := client(t)
	server.SetInstanceAlarm("a", "i-1", "ALARM")
	defer server.Withdraw("agent", "cloudwatch:DescribeAlarms", 0)()
	on, err := cloudwatch.New(api).IsInAlarm(t.Context(), "a", "i-1")
	if on || err == nil || !strings.Contains(err.Error(), "describe alarms: ") || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("got %v, %v", on, err)
	}
}

// TestInstancesOfExpressions: the metrics of an alarm on an expression count like that of a simple one.
func TestInstancesOfExpressions(t *testing.T) {
	t.Parallel()
	alarms := cloudwatch.New(expression{})
	for id, want := range map[string]bool{"i-1": true, "i-2": true, "i-3": false} {
		if on, err := alarms.IsInAlarm(t.Context(), "a", id); on != want || err != nil {
			t.Errorf("%s: %v, %v", id, on, err)
		}
	}
}

// expression is a CloudWatch whose only alarm is on an expression.
type expression struct{}

func (expression) DescribeAlarms(
	context.Context, *sdk.DescribeAlarmsInput, ...func(*sdk.Options),
) (*sdk.DescribeAlarmsOutput, error) {
	metric := func(id string) types.MetricDataQuery {
		return types.MetricDataQuery{MetricStat: &types.MetricStat{Metric: &types.Metric{Dimensions: []types.Dimension{
			{Name: aws.String("ImageId"), Value: aws.String("i-3")}, {Name: aws.String("InstanceId"), Value: aws.String(id)},
		}}}}
	}
	return &sdk.DescribeAlarmsOutput{MetricAlarms: []types.MetricAlarm{{
		AlarmName: aws.String("a"), StateValue: types.StateValueAlarm,
		Metrics: []types.MetricDataQuery{metric("i-1"), {Expression: aws.String("m1/m2")}, metric("i-2")},
	}}}, nil
}
