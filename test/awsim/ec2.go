package awsim

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// The actions of the EC2 API that are simulated, by what they are about.
type (
	ec2API      struct{ *engine }
	templateAPI struct{ *engine }
)

func ec2Actions(a *engine) map[string]actionFunc {
	machines, templates := ec2API{a}, templateAPI{a}
	return map[string]actionFunc{
		"DescribeInstances":              query(machines.describeInstances),
		"DescribeInstanceStatus":         query(machines.describeInstanceStatus),
		"DescribeSpotInstanceRequests":   query(machines.describeSpotRequests),
		"TerminateInstances":             query(machines.terminateInstances),
		"StopInstances":                  query(machines.stopInstances),
		"StartInstances":                 query(machines.startInstances),
		"CreateLaunchTemplate":           query(templates.createLaunchTemplate),
		"CreateLaunchTemplateVersion":    query(templates.createLaunchTemplateVersion),
		"ModifyLaunchTemplate":           query(templates.modifyLaunchTemplate),
		"DescribeLaunchTemplateVersions": query(templates.describeLaunchTemplateVersions),
		"DescribeSubnets":                query(subnetAPI{a}.describeSubnets),
	}
}

type machineStateXML struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

// machineWire adds EC2's code of an instance state to its name.
func machineWire(state string) machineStateXML {
	codes := map[string]int{
		"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80,
	}
	return machineStateXML{codes[state], state}
}

type machineXML struct {
	InstanceID   string          `xml:"instanceId"`
	ImageID      string          `xml:"imageId"`
	InstanceType string          `xml:"instanceType"`
	State        machineStateXML `xml:"instanceState"`
	PrivateDNS   string          `xml:"privateDnsName"`
	PrivateIP    string          `xml:"privateIpAddress,omitempty"`
	LaunchTime   string          `xml:"launchTime"` // "The time that the instance was last launched", says the API reference.
	Zone         string          `xml:"placement>availabilityZone"`
	Attached     string          `xml:"networkInterfaceSet>item>attachment>attachTime"` // of the primary interface
	DeviceIndex  int             `xml:"networkInterfaceSet>item>attachment>deviceIndex"`
	Tags         []ec2TagXML     `xml:"tagSet>item"`

	Lifecycle           string `xml:"instanceLifecycle,omitempty"`
	SpotRequest         string `xml:"spotInstanceRequestId,omitempty"`
	CapacityReservation string `xml:"capacityReservationId,omitempty"`
}

type ec2TagXML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func (a ec2API) machineWire(inst *instance) machineXML {
	out := machineXML{
		InstanceID:   inst.id,
		ImageID:      inst.template.image,
		InstanceType: inst.template.instanceType,
		State:        machineWire(inst.machine),
		PrivateDNS:   inst.privateDNS(a.server.opts.Region),
		PrivateIP:    privateIP(inst.index),
		LaunchTime:   stamp(a.server.told(cmp.Or(inst.startedAt, inst.launchedAt))),
		Zone:         inst.zone,
		Attached:     stamp(a.server.told(inst.launchedAt)),

		Lifecycle:           string(inst.market),
		CapacityReservation: inst.reservation,
	}
	if inst.market == Spot {
		out.SpotRequest = spotRequestID(inst)
	}
	if inst.machine == "terminated" {
		out.PrivateDNS, out.PrivateIP = "", "" // EC2 takes the address back.
	}
	for _, key := range sortedKeys(inst.tags) {
		out.Tags = append(out.Tags, ec2TagXML{key, inst.tags[key]})
	}
	return out
}

// reservationXML has one machine: nothing here launches several machines with one call.
type reservationXML struct {
	Instances []machineXML `xml:"instancesSet>item"`
}

type machinesXML struct {
	Reservations []reservationXML `xml:"reservationSet>item"`
	NextToken    string           `xml:"nextToken,omitempty"`
}

func (a ec2API) describeInstances(r *reader) (any, error) {
	ids, most := readInstancePage(r)
	filters := r.filters()
	return view(a.engine, r, func() (any, error) {
		found, err := a.machines(ids)
		if err != nil {
			return nil, err
		}
		all := make([]machineXML, 0, len(found))
		for _, inst := range a.visible(r, found) {
			all = append(all, a.machineWire(inst))
		}
		if all, err = filtered(filters, all); err != nil {
			return nil, err
		}
		page, next, err := paginateEC2(r, all, func(m machineXML) string { return m.InstanceID }, most)
		out := machinesXML{NextToken: next}
		for _, m := range page {
			out.Reservations = append(out.Reservations, reservationXML{[]machineXML{m}})
		}
		return out, err
	})
}

var instanceIDShape = regexp.MustCompile(`^i-[0-9a-f]{8}([0-9a-f]{9})?$`)

// machines are those with the ids, in order of their ids; all without one. It needs mu.
func (a ec2API) machines(ids []string) ([]*instance, error) {
	var out []*instance
	if len(ids) == 0 {
		for _, id := range sortedKeys(a.instances) {
			if inst := a.instances[id]; inst.hasAppeared() {
				out = append(out, inst)
			}
		}
		return out, nil
	}
	var missing []string
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		inst, ok := a.instances[id]
		switch {
		case ok && inst.hasAppeared():
			out = append(out, inst)
		case !instanceIDShape.MatchString(id):
			return nil, errorf("InvalidInstanceID.Malformed", "Invalid id: %q", id)
		default:
			missing = append(missing, id)
		}
	}
	switch len(missing) {
	case 0:
		return out, nil
	case 1:
		return nil, errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", missing[0])
	default:
		return nil, errorf("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist",
			strings.Join(missing, ", "))
	}
}

// fields are what DescribeInstances can filter by.
func (m machineXML) fields() map[string][]string {
	out := map[string][]string{
		"instance-id":             {m.InstanceID},
		"private-dns-name":        {m.PrivateDNS},
		"instance-state-name":     {m.State.Name},
		"availability-zone":       {m.Zone},
		"image-id":                {m.ImageID},
		"capacity-reservation-id": {m.CapacityReservation},
		"tag-key":                 {},
	}
	for _, t := range m.Tags {
		out["tag:"+t.Key] = []string{t.Value}
		out["tag-key"] = append(out["tag-key"], t.Key)
	}
	return out
}

type stateChangeXML struct {
	InstanceID string          `xml:"instanceId"`
	Current    machineStateXML `xml:"currentState"`
	Previous   machineStateXML `xml:"previousState"`
}

// terminateInstances ends machines behind Auto Scaling's back, as from EC2's console: the machine shuts
// down at once, and only then does the group notice and run its terminate hooks, for a dead instance.
func (a ec2API) terminateInstances(r *reader) (any, error) {
	return a.changeMachines(r, func(inst *instance) error {
		a.hardware.terminateMachine(inst)
		return nil
	})
}

// terminateMachine terminates a machine. It needs mu.
func (a machineEngine) terminateMachine(inst *instance) {
	if inst.terminatingMachine {
		return
	}
	inst.terminatingMachine = true
	a.enterMachine(inst, "shutting-down")
	a.spawn(func() { a.shutDown(inst) })
}
