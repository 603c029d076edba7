package awsim

import (
	"cmp"
	"slices"
	"strings"
)

// maxPoolRecords is how many instances, at most and without a word, one DescribeWarmPool shows.
const maxPoolRecords = 50

func (a warmPoolAPI) putWarmPool(r *reader) (any, error) {
	pool := warmPool{
		minSize:  r.number("MinSize", 0, 0, unbounded),
		prepared: r.number("MaxGroupPreparedCapacity", -1, -1, unbounded),
		rests:    r.oneOf("PoolState", poolStopped, poolStopped, poolRunning, "Hibernated"),
		reuse:    r.flag("InstanceReusePolicy.ReuseOnScaleIn", false),
	}
	return struct{}{}, r.changeGroup(a.engine, func(g *group) error {
		if g.pool != nil && g.pool.deleting {
			return errorf("ValidationError", "The warm pool of the group %s is being deleted.", g.name)
		}
		g.pool = &pool
		a.capacity.reconcile(g)
		return nil
	})
}

func (a warmPoolAPI) deleteWarmPool(r *reader) (any, error) {
	force := r.flag("ForceDelete", false)
	return struct{}{}, r.changeGroup(a.engine, func(g *group) error {
		if g.pool == nil {
			return errorf("ValidationError", "No warm pool found for the Auto Scaling group %s.", g.name)
		}
		a.pools.deletePool(g, force)
		return nil
	})
}

type poolXML struct {
	MaxGroupPreparedCapacity *int `xml:",omitempty"`
	MinSize                  int
	PoolState                string
	Status                   string    `xml:",omitempty"`
	InstanceReusePolicy      *reuseXML `xml:",omitempty"`
}

type reuseXML struct {
	ReuseOnScaleIn bool
}

func (p *warmPool) wire() *poolXML {
	if p == nil {
		return nil
	}
	out := &poolXML{MinSize: p.minSize, PoolState: p.rests}
	if p.prepared >= 0 {
		out.MaxGroupPreparedCapacity = &p.prepared
	}
	if p.reuse {
		out.InstanceReusePolicy = &reuseXML{true}
	}
	if p.deleting {
		out.Status = "PendingDelete"
	}
	return out
}

func (a warmPoolAPI) describeWarmPool(r *reader) (any, error) {
	most := r.number("MaxRecords", maxPoolRecords, 1, maxPoolRecords)
	return r.viewGroup(a.engine, func(g *group) (any, error) {
		id := func(m memberXML) string { return m.InstanceID }
		all := slices.DeleteFunc(a.membersWire(g), func(m memberXML) bool { return !m.isWarmed() })
		slices.SortFunc(all, func(x, y memberXML) int { return cmp.Compare(id(x), id(y)) })
		page, next, err := paginate(all, id, r.text("NextToken"), most)
		return struct {
			WarmPoolConfiguration *poolXML    `xml:",omitempty"`
			Instances             []memberXML `xml:"Instances>member"`
			NextToken             string      `xml:",omitempty"`
		}{g.pool.wire(), page, next}, err
	})
}

// isWarmed: instances of the warm pool are described with it, those of the group with the group.
func (m memberXML) isWarmed() bool { return strings.HasPrefix(m.LifecycleState, warmed) }
