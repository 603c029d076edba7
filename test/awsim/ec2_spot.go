package awsim

import "time"

// The status codes of Spot requests. Source: "Spot request status codes" in the Amazon EC2 user guide. It does
// not say when each is set: here the request is marked together with the warning.
const (
	SpotFulfilled  = "fulfilled"
	SpotMarked     = "marked-for-termination"
	SpotNoCapacity = "instance-terminated-no-capacity"
	SpotByUser     = "instance-terminated-by-user"
)

// SetSpotStatus sets the status code of the instance's Spot request, whatever happens to the instance.
func (s Notices) SetSpotStatus(instanceID, code string) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) { inst.spotStatus, inst.spotStatusAt = code, time.Now() })
}

type spotRequestXML struct {
	ID         string `xml:"spotInstanceRequestId"`
	InstanceID string `xml:"instanceId"`
	State      string `xml:"state"`
	Code       string `xml:"status>code"`
	Updated    string `xml:"status>updateTime"`
}

func (r spotRequestXML) fields() map[string][]string {
	return map[string][]string{
		"spot-instance-request-id": {r.ID}, "instance-id": {r.InstanceID}, "state": {r.State}, "status-code": {r.Code},
	}
}

type spotRequestsXML struct {
	Requests  []spotRequestXML `xml:"spotInstanceRequestSet>item"`
	NextToken string           `xml:"nextToken,omitempty"`
}

// describeSpotRequests shows the request of each Spot Instance.
func (a ec2API) describeSpotRequests(r *reader) (any, error) {
	most, filters := r.number("MaxResults", unbounded, 5, 1000), r.filters()
	return view(a.engine, r, func() (any, error) {
		found, err := a.machines(nil)
		if err != nil {
			return nil, err
		}
		var all []spotRequestXML
		for _, inst := range found {
			if inst.market == Spot {
				all = append(all, a.spotRequestWire(inst))
			}
		}
		if all, err = filtered(filters, all); err != nil {
			return nil, err
		}
		page, next, err := paginateEC2(r, all, func(one spotRequestXML) string { return one.ID }, most)
		return spotRequestsXML{page, next}, err
	})
}

// spotRequestWire needs mu.
func (a ec2API) spotRequestWire(inst *instance) spotRequestXML {
	out := spotRequestXML{ID: spotRequestID(inst), InstanceID: inst.id, State: "active", Code: SpotFulfilled}
	updated, announced := inst.launchedAt, a.notices.interruptionsOf(inst)
	switch {
	case inst.interrupted:
		out.State, out.Code = "closed", SpotNoCapacity
	case inst.terminatingMachine:
		out.State, out.Code = "closed", SpotByUser
	case len(announced) > 0:
		out.Code, updated = SpotMarked, announced[0].DueAt.Add(-spotNotice)
	}
	if inst.spotStatus != "" {
		out.Code, updated = inst.spotStatus, inst.spotStatusAt
	}
	out.Updated = stamp(a.server.told(updated))
	return out
}

func spotRequestID(inst *instance) string { return "sir-" + inst.id[len(inst.id)-8:] }
