// Package cloudwatch reads CloudWatch alarms.
package cloudwatch

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/cloud"
)

const (
	// describeMax is the most names of one call (Amazon CloudWatch API reference, "DescribeAlarms").
	describeMax = 100
	// window is how long a question waits for others.
	window = 50 * time.Millisecond
	// callTimeout bounds a call. If the endpoint does not answer, the agent calls again.
	callTimeout = 10 * time.Second
)

// API is the call of Alarms.
type API = sdk.DescribeAlarmsAPIClient

// Alarms reads alarms. Concurrent questions share a call. Make it with New.
type Alarms struct {
	described batch.Batcher[string, alarm]
	api       API
}

// alarm is what is known of an alarm: the zero value, of one that CloudWatch does not know.
type alarm struct {
	state     types.StateValue
	instances []string // the values of the dimension InstanceId in its metrics; none of a composite alarm
}

// New returns Alarms that call api.
func New(api API) *Alarms {
	a := &Alarms{api: api}
	a.described = batch.Batcher[string, alarm]{Max: describeMax, Window: window, Call: a.describe}
	return a
}

// IsInAlarm reports whether the metric alarm of this name is in the state ALARM, and has a metric of the instance.
func (a *Alarms) IsInAlarm(ctx context.Context, name, instanceID string) (bool, error) {
	found, err := a.described.Do(ctx, name)
	return found.state == types.StateValueAlarm && slices.Contains(found.instances, instanceID), err
}

// States returns the states of the alarms by their names: OK, ALARM or INSUFFICIENT_DATA. One that does not exist has
// none.
func (a *Alarms) States(ctx context.Context, names []string) (map[string]string, error) {
	states := map[string]string{}
	for i, r := range a.describe(ctx, names) {
		if r.Err != nil {
			return nil, r.Err
		}
		if r.Value.state != "" {
			states[names[i]] = string(r.Value.state)
		}
	}
	return states, nil
}

func (a *Alarms) describe(ctx context.Context, names []string) []batch.Result[alarm] {
	found := map[string]alarm{}
	pages := sdk.NewDescribeAlarmsPaginator(a.api, &sdk.DescribeAlarmsInput{
		AlarmNames: slices.Compact(slices.Sorted(slices.Values(names))),
		AlarmTypes: []types.AlarmType{types.AlarmTypeMetricAlarm, types.AlarmTypeCompositeAlarm},
	})
	err := cloud.EachPage(ctx, callTimeout, "describe alarms", pages, func(out *sdk.DescribeAlarmsOutput) {
		for _, m := range out.MetricAlarms {
			found[aws.ToString(m.AlarmName)] = alarm{m.StateValue, instancesOf(m)}
		}
		for _, c := range out.CompositeAlarms {
			found[aws.ToString(c.AlarmName)] = alarm{state: c.StateValue}
		}
	})
	return batch.Results(names, found, err)
}

// instancesOf returns the instances that the metrics of an alarm are of. An alarm has one metric, or several with
// expressions on them.
func instancesOf(m types.MetricAlarm) []string {
	dimensions := slices.Clone(m.Dimensions)
	for _, q := range m.Metrics {
		if q.MetricStat != nil && q.MetricStat.Metric != nil {
			dimensions = append(dimensions, q.MetricStat.Metric.Dimensions...)
		}
	}
	var ids []string
	for _, d := range dimensions {
		if aws.ToString(d.Name) == "InstanceId" {
			ids = append(ids, aws.ToString(d.Value))
		}
	}
	return ids
}
