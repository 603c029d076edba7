package awsim

import "time"

// maxStatusIDs is how many instances one DescribeInstanceStatus may name.
const maxStatusIDs = 100

type statusXML struct {
	InstanceID string          `xml:"instanceId"`
	Zone       string          `xml:"availabilityZone"`
	Events     []plannedXML    `xml:"eventsSet>item"`
	State      machineStateXML `xml:"instanceState"`
	System     summaryXML      `xml:"systemStatus"`
	Instance   summaryXML      `xml:"instanceStatus"`
}

type plannedXML struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore"`
	NotAfter    string `xml:"notAfter"`
}

type summaryXML struct {
	Status  string            `xml:"status"`
	Details []statusDetailXML `xml:"details>item"`
}

type statusDetailXML struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
}

type statusesXML struct {
	Statuses  []statusXML `xml:"instanceStatusSet>item"`
	NextToken string      `xml:"nextToken,omitempty"`
}

// describeInstanceStatus shows the running instances, or all, with what is planned for them.
func (a ec2API) describeInstanceStatus(r *reader) (any, error) {
	ids, most := readInstancePage(r)
	filters, everyone := r.filters(), r.flag("IncludeAllInstances", false)
	if len(ids) > maxStatusIDs {
		r.fail(errorf("InvalidParameterValue", "No more than %d instances may be named", maxStatusIDs))
	}
	return view(a.engine, r, func() (any, error) {
		found, err := a.machines(ids)
		if err != nil {
			return nil, err
		}
		var all []statusXML
		for _, inst := range found {
			if everyone || inst.machine == "running" {
				all = append(all, a.statusWire(inst))
			}
		}
		if all, err = filtered(filters, all); err != nil {
			return nil, err
		}
		page, next, err := paginateEC2(r, all, func(s statusXML) string { return s.InstanceID }, most)
		return statusesXML{Statuses: page, NextToken: next}, err
	})
}

// statusWire needs mu.
func (a ec2API) statusWire(inst *instance) statusXML {
	summary := summaryXML{Status: "not-applicable"}
	if inst.machine == "running" {
		summary = summaryXML{Status: "ok", Details: []statusDetailXML{{"reachability", "passed"}}}
	}
	out := statusXML{
		InstanceID: inst.id, Zone: inst.zone, State: machineWire(inst.machine), System: summary, Instance: summary,
	}
	for _, change := range a.notices.changesOf(inst) {
		out.Events = append(out.Events, plannedXML{
			ID:          change.id,
			Code:        change.code,
			Description: change.description,
			NotBefore:   stamp(change.start),
			NotAfter:    stamp(change.start.Add(time.Hour)),
		})
	}
	return out
}

func (s statusXML) fields() map[string][]string {
	out := map[string][]string{
		"availability-zone":   {s.Zone},
		"instance-state-name": {s.State.Name},
		"event.code":          {},
		"event.description":   {},
	}
	for _, planned := range s.Events {
		out["event.code"] = append(out["event.code"], planned.Code)
		out["event.description"] = append(out["event.description"], planned.Description)
	}
	return out
}
