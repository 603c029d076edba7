package awsim

import (
	"slices"
	"time"
)

// spotNodegroup returns the managed node group of a Spot Instance in a cluster that is connected, nil without one. It
// needs mu.
func spotNodegroup(inst *instance) *nodegroup {
	if inst.group == nil || inst.group.nodegroup == nil || inst.market != Spot {
		return nil
	}
	if ng := inst.group.nodegroup; ng.cluster.kubernetes != nil {
		return ng
	}
	return nil
}

// rebalance replaces a Spot node for which EC2 has sent a rebalance recommendation: its group launches another
// instance, and when the node of that is Ready, EKS drains the old one as well as it can, and terminates it. Source:
// "Managed node group capacity types" in the Amazon EKS user guide. It needs mu.
func (a eksEngine) rebalance(inst *instance) {
	ng := spotNodegroup(inst)
	if ng == nil || inst.rebalancing || !inst.isLive() {
		return
	}
	inst.rebalancing = true
	since, w := time.Now(), a.work(ng, inst)
	a.capacity.reconcile(inst.group)
	a.spawn(func() {
		if w.waitForReplacement(inst.group, since) {
			w.drain(ng.cluster.times.Drain)
			_ = a.capacity.terminateOne(inst.id, false)
		}
	})
}

// drainInterrupted drains a Spot node that EC2 takes back, as well as it can: until the machine goes. It needs mu.
func (a eksEngine) drainInterrupted(inst *instance) {
	if ng := spotNodegroup(inst); ng != nil {
		a.spawn(func() { a.work(ng, inst).drain(ng.cluster.times.Drain) })
	}
}

// waitForReplacement waits until an instance that its group has launched since a time has a Ready node. It reports
// false if the instance that it replaces terminates before, or is interrupted, which drains it too.
func (w nodeWork) waitForReplacement(g *group, since time.Time) bool {
	for {
		w.mu.Lock()
		ended := !w.inst.isLive() || len(w.notices.interruptionsOf(w.inst)) > 0
		launched := slices.DeleteFunc(g.live(), func(one *instance) bool {
			return one.launchedAt.Before(since) || one.state() != stateInService
		})
		w.mu.Unlock()
		if ended {
			return false
		}
		for _, one := range launched {
			if (nodeWork{w.engine, w.cluster, one}).node(w.ctx).Ready {
				return true
			}
		}
		if !w.pause(w.cluster.times.Poll) {
			return false
		}
	}
}

// isRebalancing reports whether the group launches another instance before this one goes.
func isRebalancing(i *instance) bool { return i.rebalancing && i.isLive() }

// repairNodes is node auto repair, for the only condition that is simulated: it replaces nodes that have not been Ready
// for long. A node group of more than five nodes is left alone while more than a fifth of them are not Ready. Source:
// "Automatically repair nodes in EKS clusters".
func (a eksEngine) repairNodes(ng *nodegroup) {
	patience := ng.cluster.times.Repair
	for a.pause(patience / 30) {
		a.mu.Lock()
		members := ng.group.live()
		a.mu.Unlock()
		var unready, due []*instance
		for _, inst := range members {
			node := a.work(ng, inst).node(a.ctx)
			if node.Name == "" || node.Ready {
				continue
			}
			unready = append(unready, inst)
			if time.Since(node.ReadySince) >= patience {
				due = append(due, inst)
			}
		}
		if len(members) > 5 && 5*len(unready) > len(members) {
			continue
		}
		for _, inst := range due {
			_ = a.capacity.terminateOne(inst.id, false)
		}
	}
}
