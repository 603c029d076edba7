package awsim

import (
	"strings"
)

// maxPoolRecords is how many instances, at most and without a word, one DescribeWarmPool shows.
const maxPoolRecords = 50

func (a *autoscaling) putWarmPool(r *reader) (any, error) {
	name := r.must("AutoScalingGroupName")
	pool := warmPool{
		minSize:  r.number("MinSize", 0, 0, unbounded),
		prepared: r.number("MaxGroupPreparedCapacity", -1, -1, unbounded),
		rests:    r.oneOf("PoolState", poolStopped, poolStopped, poolRunning, "Hibernated"),
		reuse:    r.flag("InstanceReusePolicy.ReuseOnScaleIn", false),
	}
	if r.err != nil {
		return nil, r.err
	}
	return struct{}{}, a.updateErr(func() error {
		g, err := a.group(name)
		if err != nil {
			return err
		}
		if g.pool != nil && g.pool.deleting {
			return errorf("ValidationError", "The warm pool of the group %s is being deleted.", name)
		}
		g.pool = &pool
		a.reconcile(g)
		return nil
	})
}

func (a *autoscaling) deleteWarmPool(r *reader) (any, error) {
	name, force := r.must("AutoScalingGroupName"), r.flag("ForceDelete", false)
	if r.err != nil {
		return nil, r.err
	}
	return struct{}{}, a.updateErr(func() error {
		g, err := a.group(name)
		if err != nil {
			return err
		}
		if g.pool == nil {
			return errorf("ValidationError", "No warm pool found for the Auto Scaling group %s.", name)
		}
		a.dropPool(g, force)
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

func (a *autoscaling) describeWarmPool(r *reader) (any, error) {
	name, most := r.must("AutoScalingGroupName"), r.number("MaxRecords", maxPoolRecords, 1, maxPoolRecords)
	if r.err != nil {
		return nil, r.err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g, err := a.group(name)
	if err != nil {
		return nil, err
	}
	all := map[string]memberXML{}
	for _, m := range a.membersWire(g) {
		if m.isWarmed() {
			all[m.InstanceID] = m
		}
	}
	page, next, ok := paginate(sortedKeys(all), func(id string) string { return id }, r.text("NextToken"), most)
	if !ok {
		return nil, errToken()
	}
	var out struct {
		WarmPoolConfiguration *poolXML    `xml:",omitempty"`
		Instances             []memberXML `xml:"Instances>member"`
		NextToken             string      `xml:",omitempty"`
	}
	out.WarmPoolConfiguration, out.NextToken = g.pool.wire(), next
	for _, id := range page {
		out.Instances = append(out.Instances, all[id])
	}
	return out, nil
}

// isWarmed: instances of the warm pool are described with it, those of the group with the group.
func (m memberXML) isWarmed() bool { return strings.HasPrefix(m.LifecycleState, warmed) }
