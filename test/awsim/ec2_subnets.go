package awsim

import "slices"

// Subnet is a subnet of the account's only VPC.
type Subnet struct {
	ID   string
	Zone string
	// Available is how many addresses are free. Nothing here takes or returns one: a test says how many there are.
	Available int
}

// subnetVPC is the VPC of all subnets.
const subnetVPC = "vpc-00000000000000000"

// PutSubnet creates a subnet or replaces the one of that ID.
func (s EC2) PutSubnet(subnet Subnet) {
	s.asg.update(func() { s.asg.subnets[subnet.ID] = subnet })
}

// subnetAPI is the action of the EC2 API about subnets.
type subnetAPI struct{ *engine }

type subnetXML struct {
	ID        string `xml:"subnetId"`
	State     string `xml:"state"`
	VPC       string `xml:"vpcId"`
	Zone      string `xml:"availabilityZone"`
	Available int    `xml:"availableIpAddressCount"`
}

// fields are what DescribeSubnets can filter by.
func (s subnetXML) fields() map[string][]string {
	return map[string][]string{
		"subnet-id": {s.ID}, "state": {s.State}, "vpc-id": {s.VPC}, "availability-zone": {s.Zone},
	}
}

type subnetsXML struct {
	Subnets   []subnetXML `xml:"subnetSet>item"`
	NextToken string      `xml:"nextToken,omitempty"`
}

// describeSubnets shows the subnets with the IDs of the call, or all.
func (a subnetAPI) describeSubnets(r *reader) (any, error) {
	ids, most, filters := r.list("SubnetId"), r.number("MaxResults", unbounded, 5, 1000), r.filters()
	return view(a.engine, r, func() (any, error) {
		for _, id := range ids {
			if _, known := a.subnets[id]; !known {
				return nil, errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
			}
		}
		var all []subnetXML
		for _, id := range sortedKeys(a.subnets) {
			if one := a.subnets[id]; len(ids) == 0 || slices.Contains(ids, id) {
				all = append(all, subnetXML{one.ID, "available", subnetVPC, one.Zone, one.Available})
			}
		}
		all, err := filtered(filters, all)
		if err != nil {
			return nil, err
		}
		page, next, err := paginateEC2(r, all, func(one subnetXML) string { return one.ID }, most)
		return subnetsXML{page, next}, err
	})
}
