package awsim

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// cloudwatchPath is where CloudWatch's operations are. Source: "Smithy RPC v2 CBOR protocol" in the specifications of
// Smithy, and the name of the service in CloudWatch's model.
const cloudwatchPath = "/service/GraniteServiceVersion20100801/operation/"

// cloudwatchService is CloudWatch, which speaks Smithy's RPC v2 with CBOR.
func cloudwatchService(a *engine) *service {
	return &service{
		name:        "cloudwatch",
		contentType: "application/cbor",
		actions:     map[string]actionFunc{"DescribeAlarms": alarmAPI{a}.describeAlarms},
		encode: func(action, _ string, out any) ([]byte, error) {
			body, err := cbor.Marshal(out)
			if err != nil {
				return nil, fmt.Errorf("encode %s: %w", action, err)
			}
			return body, nil
		},
		fail: func(h http.Header, _ string, err *Error) []byte {
			h.Set("Smithy-Protocol", "rpc-v2-cbor")
			body, _ := cbor.Marshal(map[string]string{
				"__type": "com.amazonaws.cloudwatch#" + err.Code, "message": err.Message,
			})
			return body
		},
	}
}

// alarmAPI are the actions of the CloudWatch API that are simulated.
type alarmAPI struct{ *engine }

type describeAlarmsRequest struct {
	AlarmNames []string
	AlarmTypes []string
	MaxRecords int
	NextToken  string
}

type metricAlarm struct {
	AlarmName  string
	StateValue string
	Dimensions []dimension
}

type dimension struct{ Name, Value string }

type describeAlarmsAnswer struct {
	MetricAlarms []metricAlarm
	NextToken    string `cbor:",omitempty"`
}

// alarmsOnPage is how many alarms a page has at most. The real one has 50 unless MaxRecords says otherwise; fewer here
// show whether clients read all pages.
const alarmsOnPage = 2

// describeAlarms shows the alarms of the given names. A name that there is not is no error.
func (a alarmAPI) describeAlarms(_ context.Context, in input) (any, error) {
	var r describeAlarmsRequest
	if err := decodeCBOR(in.Body, &r); err != nil {
		return nil, err
	}
	if len(r.AlarmNames) == 0 || len(r.AlarmNames) > 100 {
		return nil, errorf("ValidationError", "awsim describes 1 to 100 alarms by their names, not %d", len(r.AlarmNames))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	names := slices.DeleteFunc(slices.Sorted(slices.Values(r.AlarmNames)), func(name string) bool {
		_, known := a.alarms[name]
		return !known || name <= r.NextToken
	})
	var answer describeAlarmsAnswer
	if len(names) > alarmsOnPage {
		names = names[:alarmsOnPage]
		answer.NextToken = names[alarmsOnPage-1]
	}
	for _, name := range names {
		alarm := metricAlarm{AlarmName: name, StateValue: a.alarms[name]}
		if id := a.alarmInstances[name]; id != "" {
			alarm.Dimensions = []dimension{{"InstanceId", id}}
		}
		answer.MetricAlarms = append(answer.MetricAlarms, alarm)
	}
	return answer, nil
}

// decodeCBOR reads a request. A field that is not simulated is an error.
func decodeCBOR(body []byte, v any) error {
	mode, err := cbor.DecOptions{ExtraReturnErrors: cbor.ExtraDecErrorUnknownField}.DecMode()
	if err == nil {
		err = mode.Unmarshal(body, v)
	}
	if err != nil {
		return errorf("SerializationException", "%v", err)
	}
	return nil
}

// cloudwatchAction returns the operation that the path of a request names; ok is false if it is none of CloudWatch.
func cloudwatchAction(path string) (action string, ok bool) {
	return strings.CutPrefix(path, cloudwatchPath)
}

// SetInstanceAlarm sets the state of a CloudWatch alarm on a metric of the instance, and announces it on the event bus.
func (s Notices) SetInstanceAlarm(name, instanceID, state string) {
	s.asg.update(func() {
		s.asg.alarms[name], s.asg.alarmInstances[name] = state, instanceID
	})
	s.asg.bus.publish(AlarmChange(EventBridge(s).Envelope(), name, instanceID, state))
}
