package awsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// updateRun is an update that EKS runs in a cluster that it has access to. Source of the phases: "Understand each phase
// of node updates" in the Amazon EKS user guide. An update that fails leaves everything as it is: the new nodes, the
// old ones cordoned, and the sizes. Of that, the guide only says that new nodes count as updated in the next update
// (an edition of 2021, by their label with the AMI).
type updateRun struct {
	eksEngine
	ng   *nodegroup
	u    *update
	dice *rand.Rand
}

// run goes through the phases after the setup, until one fails or a test ends the update. Without old nodes it skips
// them.
func (r updateRun) run() {
	by := max(2*len(r.ng.group.zones), r.maxUnavailable())
	if r.ng.spec.Strategy == UpdateMinimal || len(r.outdated()) == 0 {
		by = 0
	}
	if by > 0 && !r.scaleUp(by) || !r.upgrade() {
		return
	}
	r.scaleDown(by)
	r.end(UpdateSuccessful)
}

// end ends the update, unless a test has ended it.
func (r updateRun) end(status string, errs ...UpdateError) {
	r.update(func() {
		if r.u.Status == UpdateInProgress {
			r.endUpdate(r.ng, r.u, status, errs...)
		}
	})
}

// continues reports whether the update still runs, after a pause.
func (r updateRun) continues(after time.Duration) bool {
	if !r.pause(after) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.u.Status == UpdateInProgress
}

// nodes returns the instances of the group that count for its desired capacity, those to be replaced and the others.
// Instances on standby count as neither, which is assumed.
func (r updateRun) nodes() (outdated, updated []*instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, inst := range r.ng.group.live() {
		if r.ng.targetOf(inst) == r.u.target {
			updated = append(updated, inst)
		} else {
			outdated = append(outdated, inst)
		}
	}
	return outdated, updated
}

func (r updateRun) outdated() []*instance {
	outdated, _ := r.nodes()
	return outdated
}

// maxUnavailable returns how many nodes are replaced at a time: at most 100. A percentage is rounded down, though to
// one at least, which is assumed.
func (r updateRun) maxUnavailable() int {
	n := r.ng.spec.MaxUnavailable
	if percentage := r.ng.spec.MaxUnavailablePercentage; percentage > 0 {
		n = r.u.scaling.Desired * percentage / 100
	}
	return min(max(n, 1), 100)
}

// scaleUp raises the maximum and the desired capacity, waits for the new nodes, and then takes the old ones out of
// scheduling and off load balancers.
func (r updateRun) scaleUp(by int) bool {
	r.update(func() {
		g := r.ng.group
		g.max += by
		r.ng.raised += by
		r.setDesired(g, g.desired+by)
	})
	if !r.waitForNodes() {
		return false
	}
	for _, inst := range r.outdated() {
		r.work(r.ng, inst).exclude()
	}
	return true
}

// setDesired sets the desired capacity of the group. It needs mu.
func (r updateRun) setDesired(g *group, desired int) {
	g.changed("a user request explicitly set group desired capacity changing the desired capacity from %d to %d",
		g.desired, desired)
	g.desired = desired
	r.capacity.reconcile(g)
}

// waitForNodes waits until the group has as many instances as it desires, each zone with old nodes has a new one, and
// all new ones are in service and Ready and have EKS's labels. In the strategy UpdateMinimal the zones do not matter.
// If that takes too long, the update fails.
func (r updateRun) waitForNodes() bool {
	deadline := time.Now().Add(r.ng.cluster.times.NodeReady)
	for {
		missing, ready := r.missingNodes()
		if ready {
			return true
		}
		if !time.Now().Before(deadline) {
			r.end(UpdateFailed, UpdateError{
				Code: "NodeCreationFailure", ResourceIDs: missing,
				Message: "Couldn't proceed with upgrade process as new nodes are not joining node group " + r.ng.spec.Name,
			})
			return false
		}
		if !r.continues(r.ng.cluster.times.Poll) {
			return false
		}
	}
}

// missingNodes returns the new instances whose nodes cannot be used yet, and reports whether there is nothing to wait
// for.
func (r updateRun) missingNodes() (missing []string, ready bool) {
	r.mu.Lock()
	lacking := r.ng.group.liveCount() < r.ng.group.desired
	r.mu.Unlock()
	outdated, updated := r.nodes()
	zones := map[string]bool{}
	for _, inst := range updated {
		zones[inst.zone] = true
		if !r.usable(inst) {
			missing = append(missing, inst.id)
		}
	}
	for _, inst := range outdated {
		lacking = lacking || r.ng.spec.Strategy != UpdateMinimal && !zones[inst.zone]
	}
	return missing, !lacking && len(missing) == 0
}

func (r updateRun) usable(inst *instance) bool {
	node := r.work(r.ng, inst).node(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	return inst.state() == stateInService && node.Ready && node.Labels[labelNodegroup] == r.ng.spec.Name &&
		node.Labels[labelImage] == inst.template.image
}

// upgrade replaces old nodes, some at a time, until none is left. It waits for the replacements of those before it
// continues with the next, which is assumed, and not for the end of their lifecycle hooks.
func (r updateRun) upgrade() bool {
	for {
		outdated := r.outdated()
		if len(outdated) == 0 {
			return true
		}
		r.dice.Shuffle(len(outdated), func(i, j int) { outdated[i], outdated[j] = outdated[j], outdated[i] })
		failed := r.replace(outdated[:min(len(outdated), r.maxUnavailable())])
		if len(failed) > 0 {
			r.end(UpdateFailed, UpdateError{
				Code: "PodEvictionFailure", ResourceIDs: failed,
				Message: fmt.Sprintf("Reached max retries while trying to evict pods from nodes in node group %s",
					r.ng.spec.Name),
			})
			return false
		}
		if !r.continues(0) || !r.waitForNodes() {
			return false
		}
	}
}

// replace drains and terminates nodes at the same time, and returns the names of those that it could not drain.
func (r updateRun) replace(batch []*instance) (failed []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, inst := range batch {
		all.Go(func() {
			if node, ok := r.replaceOne(inst); !ok {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, node)
			}
		})
	}
	all.Wait()
	slices.Sort(failed)
	return failed
}

// replaceOne drains one node and terminates its instance. With force, what has not left the node in time is deleted.
// What terminates the instance meanwhile does no harm.
func (r updateRun) replaceOne(inst *instance) (node string, ok bool) {
	times, w := r.ng.cluster.times, r.work(r.ng, inst)
	node, left := w.drain(times.Eviction)
	if len(left) > 0 {
		if !r.u.request.Force {
			return node, false
		}
		w.deletePods(left)
	}
	if r.continues(times.Settle) {
		_ = r.capacity.terminateOne(inst.id, false)
	}
	return node, true
}

// scaleDown takes the maximum and the desired capacity back, one by one. If somebody has raised the desired capacity
// meanwhile, it stops: EKS "exits immediately without bringing the node group back to its original size" if it finds
// that the Cluster Autoscaler scales up during this phase.
func (r updateRun) scaleDown(by int) {
	g, before := r.ng.group, r.u.scaling
	expected := before.Desired + by
	for done := false; !done; {
		r.update(func() {
			if done = g.desired > expected || g.max <= before.Max; done {
				return
			}
			g.max--
			r.ng.raised--
			if desired := min(g.desired, g.max); desired > before.Desired {
				r.setDesired(g, desired-1)
			}
			expected = g.desired
		})
		if !done && !r.continues(r.ng.cluster.times.Poll) {
			return
		}
	}
}
