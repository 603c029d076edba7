package event

import "encoding/json"

// The values of CloudWatch's events that matter (Amazon CloudWatch user guide, "Alarm events and EventBridge").
const (
	alarmChange = "CloudWatch Alarm State Change"
	inAlarm     = "ALARM"
)

// fromAlarm reads an event of source aws.cloudwatch. An alarm that does not name exactly one instance is a Notice: one
// of several instances does not say which of them is meant, and a composite alarm names none.
func fromAlarm(detailType string, detail *fields, e Event) (Event, error) {
	if detailType != alarmChange {
		return e, nil
	}
	name, state := detail.name("alarmName"), detail.inner("state")
	isOn, id := state.name("value") == inAlarm, alarmInstance(detail.inner("configuration"))
	if detail.err == nil {
		detail.err = state.err
	}
	if detail.err != nil || !isOn || id == "" {
		return e, detail.err
	}
	e.Kind, e.Alarm, e.InstanceID = Alarm, name, id
	return e, nil
}

// alarmInstance returns the instance that the metrics of an alarm have as a dimension, or "" unless it is exactly one.
func alarmInstance(configuration *fields) string {
	var metrics []struct {
		MetricStat struct {
			Metric struct {
				Dimensions map[string]string `json:"dimensions"`
			} `json:"metric"`
		} `json:"metricStat"`
	}
	if !configuration.has("metrics") || json.Unmarshal(configuration.raw["metrics"], &metrics) != nil {
		return ""
	}
	var only string
	for _, m := range metrics {
		switch id := m.MetricStat.Metric.Dimensions["InstanceId"]; {
		case id == "" || id == only: // an expression has no metric
		case only != "" || !isID(id, "i-"):
			return ""
		default:
			only = id
		}
	}
	return only
}
