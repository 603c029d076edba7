package awsim

import (
	"cmp"
	"slices"
	"strings"
)

// mostPooled is how many instances a page of DescribeWarmPool may have, and has unless MaxRecords is smaller.
const mostPooled = 50

type warmPoolXML struct {
	Instances             []memberXML `xml:"Instances>member"`
	WarmPoolConfiguration *poolXML    `xml:",omitempty"`
	NextToken             string      `xml:",omitempty"`
}

// describeWarmPool shows the instances that describeAutoScalingGroups leaves out.
func (a groupAPI) describeWarmPool(r *reader) (any, error) {
	most := r.number("MaxRecords", mostPooled, 1, mostPooled)
	return r.viewGroup(a.engine, func(g *group) (any, error) {
		var out warmPoolXML
		if g.pool != nil {
			out.WarmPoolConfiguration = &poolXML{g.pool.minSize, g.pool.rests}
		}
		var pooled []memberXML
		for _, inst := range g.members {
			if state := a.shown(inst); strings.HasPrefix(state, warmed) {
				pooled = append(pooled, memberWire(inst, state))
			}
		}
		slices.SortFunc(pooled, func(x, y memberXML) int { return cmp.Compare(x.InstanceID, y.InstanceID) })
		var err error
		id := func(m memberXML) string { return m.InstanceID }
		out.Instances, out.NextToken, err = paginate(pooled, id, r.text("NextToken"), most)
		return out, err
	})
}
