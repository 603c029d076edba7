package awsim

import "time"

// maxStatusIDs is how many instances one DescribeInstanceStatus may name.
const maxStatusIDs = 100

type statusXML struct {
	InstanceID string          `xml:"instanceId"`
	Zone       string          `xml:"availabilityZone"`
	Events     []plannedXML    `xml:"eventsSet>item"`
	State      machineStateXML `xml:"instanceState"`
}

type plannedXML struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore"`
	NotAfter    string `xml:"notAfter"`
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
		for _, inst := range a.visible(r, found) {
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
	out := statusXML{InstanceID: inst.id, Zone: inst.zone, State: machineWire(inst.machine)}
	for _, change := range a.notices.changesOf(inst) {
		start := a.server.told(change.start)
		out.Events = append(out.Events, plannedXML{
			ID:          change.id,
			Code:        change.code,
			Description: change.description,
			NotBefore:   stamp(start),
			NotAfter:    stamp(start.Add(time.Hour)),
		})
	}
	return out
}

func (s statusXML) fields() map[string][]string {
	out := map[string][]string{"event.code": {}}
	for _, planned := range s.Events {
		out["event.code"] = append(out["event.code"], planned.Code)
	}
	return out
}
