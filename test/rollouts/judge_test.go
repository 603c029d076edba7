package rollouts

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// grace is how long a trigger may act on what it has read before somebody else changed the group, or AWS failed.
const grace = 3 * time.Minute

// mostViolations is after how many a simulation is cut short.
const mostViolations = 10

// Violation is something that must not happen in any rollout.
type Violation struct {
	Invariant string
	At        time.Duration // since the world began
	Text      string
}

func (v Violation) String() string { return fmt.Sprintf("%v %s: %s", v.At, v.Invariant, v.Text) }

// judge looks at each change that a trigger makes, and at what is left.
type judge struct {
	w          *world
	mu         sync.Mutex
	violations []Violation
	outcomes   map[report.Outcome]int
	first      map[*group]time.Time // when the first instance was replaced for what the group launches now
	target     map[*group]string
	replacing  map[*group]*process // the process that replaces instances of a group, until its rollout has ended
}

func newJudge(w *world) *judge {
	return &judge{
		w: w, outcomes: map[report.Outcome]int{}, first: map[*group]time.Time{}, target: map[*group]string{},
		replacing: map[*group]*process{},
	}
}

func (j *judge) violate(invariant, text string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := Violation{invariant, time.Since(j.w.began), fmt.Sprintf(text, args...)}
	j.violations = append(j.violations, v)
	j.w.note("judge", "%s: %s", v.Invariant, v.Text)
	if len(j.violations) == mostViolations {
		j.w.stop()
	}
}

// before sees a call before AWS does.
func (j *judge) before(p *process, c call) {
	if c.group == nil {
		return
	}
	j.w.facts.Lock()
	defer j.w.facts.Unlock()
	j.counts(p, c)
	j.w.seeLaunches(c.group)
	p.note(p.name, "%s %s %s", c.action, c.group.Name, strings.Join(append(c.ids, c.form.Get("DesiredCapacity"),
		c.form.Get("Tags.member.1.Key"), c.form.Get("Tags.member.1.Value")), " "))
	switch decrement := c.form.Get("ShouldDecrementDesiredCapacity") == "true"; {
	case c.action == "SetInstanceHealth", c.action == "EnterStandby":
		j.replaces(p, c)
	case c.action == "TerminateInstanceInAutoScalingGroup" && p.run.Command == Rollback:
		j.givesBack(c)
	case c.action == "TerminateInstanceInAutoScalingGroup" && decrement:
		j.terminates(p, c)
	case c.action == "TerminateInstanceInAutoScalingGroup":
		j.leavesStandby(c)
	case c.action == "StartInstanceRefresh", c.action == "UpdateNodegroupVersion":
		j.starts(p, c.group)
	case c.action == "SetDesiredCapacity":
		j.resizes(c)
	}
}

// counts counts what does not give something back. What trigger resume and the like do is by others for a trigger.
func (j *judge) counts(p *process, c call) {
	if p.run.Command != Trigger && p.run.Command != Watch {
		j.w.mu.Lock()
		c.group.disturbed = time.Now()
		j.w.mu.Unlock()
	}
	givesBack := []string{
		"ResumeProcesses", "DeleteTags", "UpdateAutoScalingGroup", "SetInstanceProtection",
		"CancelInstanceRefresh", // It is what --on-conflict cancel does first.
	}
	if !slices.Contains(givesBack, c.action) {
		p.mu.Lock()
		p.changes[c.group]++
		p.mu.Unlock()
	}
}

// after sees a call that AWS has answered.
func (j *judge) after(p *process, c call, response *http.Response) {
	if response != nil && response.StatusCode != http.StatusOK && c.group != nil {
		p.note(p.name, "%s: status %d", c.action, response.StatusCode)
	}
}

// isDisturbed reports whether somebody else has changed the group, or AWS has failed, a short time ago.
func (j *judge) isDisturbed(g *group) bool {
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	return time.Since(g.disturbed) < grace || time.Since(j.w.faulted) < grace
}

// isForged reports whether the instances are described other than they are, so that no comparison can be right.
func (j *judge) isForged() bool {
	return slices.Contains([]Quirk{ForeignVersion, LatestAsText, NoTemplate}, j.w.spec.Quirk)
}

// isOutdated reports whether the instance is outdated, or was a short time ago.
func (j *judge) isOutdated(g *group, i awsim.Instance) bool {
	switch o := j.w.spec.Options; {
	case j.w.namesInstances():
		return slices.Contains(g.only, i.ID)
	case o.All, o.MaxAge > 0 && time.Since(i.Launched) > o.MaxAge-grace:
		return true
	}
	return j.differs(g, i, grace)
}

// differs reports whether the group would not launch the instance like this, now or within a time before.
func (j *judge) differs(g *group, i awsim.Instance, within time.Duration) bool {
	if g.Nodegroup {
		return i.Image != fmt.Sprintf("ami-eks-%d", g.version)
	}
	if j.w.spec.Options.Newest {
		return i.Image != g.imageOf(g.version) || time.Since(g.versioned) < within
	}
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	until := time.Now().Add(time.Nanosecond)
	for _, l := range slices.Backward(g.launches) {
		if time.Since(until) >= within {
			break
		}
		same := func(other awsim.Instance) bool {
			return other.Image == i.Image && other.Type == i.Type && other.Version == i.Version
		}
		if !slices.ContainsFunc(l.all, same) {
			return true
		}
		until = l.since
	}
	return false
}

// untouchable checks that an instance is not one that a trigger must leave alone.
func (j *judge) untouchable(g *group, i awsim.Instance, does string) {
	switch {
	case g.user[i.ID] && !j.isDisturbed(g):
		j.violate("others untouched", "%s of %s is a user's: %s", i.ID, g.Name, does)
	case j.w.nodes.keep[i.ID] && j.w.spec.Options.Exclude:
		j.violate("others untouched", "%s of %s is excluded: %s", i.ID, g.Name, does)
	case j.w.namesInstances() && !slices.Contains(g.only, i.ID) && does != "TerminateInstanceInAutoScalingGroup":
		j.violate("others untouched", "%s of %s was not named: %s", i.ID, g.Name, does)
	}
}

// replaces judges a call that has the group replace instances.
func (j *judge) replaces(p *process, c call) {
	g := c.group
	for _, id := range c.ids {
		_, i := j.w.find(id)
		if i.ID == "" {
			continue
		}
		j.untouchable(g, i, c.action)
		if !j.isOutdated(g, i) && !j.isForged() {
			j.violate("current instances stay", "%s of %s is current: %s", id, g.Name, c.action)
		}
		j.replacedOnce(g, i)
	}
	j.begins(p, g)
	j.capacity(c)
	j.replacesAlone(p, g)
}

// replacesAlone checks that no other trigger replaces instances of the group at the same time.
func (j *judge) replacesAlone(p *process, g *group) {
	j.mu.Lock()
	other := j.replacing[g]
	j.replacing[g] = p
	j.mu.Unlock()
	if other != nil && other != p && !other.isDead() && !j.isDisturbed(g) && !g.lossy {
		j.violate("one at a time", "%s replaces instances of %s, and so does %s", p.name, g.Name, other.name)
	}
}

// replacedOnce checks that no instance is replaced that was launched since the rollout to the same target began.
func (j *judge) replacedOnce(g *group, i awsim.Instance) {
	target := fmt.Sprint(j.w.aws.Launches(g.asg))
	j.mu.Lock()
	if j.target[g] != target {
		j.target[g], j.first[g] = target, time.Now()
	}
	first := j.first[g]
	j.mu.Unlock()
	if o := j.w.spec.Options; i.Launched.After(first) && !o.All && o.MaxAge == 0 && !g.lossy {
		j.violate("replaced once", "%s of %s was launched for this target", i.ID, g.Name)
	}
}

// terminates judges a call that terminates an instance and lowers the desired capacity, in mode unhealthy.
func (j *judge) terminates(p *process, c call) {
	g := c.group
	_, i := j.w.find(c.ids[0])
	if i.ID == "" {
		return
	}
	j.untouchable(g, i, c.action)
	j.capacity(c)
	if i.State != "InService" && j.isDisturbed(g) { // Others have just taken it: AWS does not lower the desired capacity.
		j.w.mu.Lock()
		g.high++
		j.w.mu.Unlock()
	}
	if j.isOutdated(g, i) {
		j.begins(p, g)
		return
	}
	if j.isForged() || j.isDisturbed(g) || !j.isServing(i) {
		return
	}
	for _, other := range j.left(g) {
		if other.State == "InService" && other.Health == "Healthy" {
			j.violate("current instances stay", "%s of %s is terminated, and %s is outdated", i.ID, g.Name, other.ID)
			return
		}
	}
	if _, _, desired := j.w.aws.Sizes(g.asg); desired <= g.low {
		j.violate("current instances stay", "%s of %s is terminated, and nothing is left of a surge", i.ID, g.Name)
	}
}

// isServing reports whether an instance is in service with a ready node. One that is not is taken back first.
func (j *judge) isServing(i awsim.Instance) bool {
	if i.State != "InService" || !j.w.spec.Kubernetes {
		return i.State == "InService"
	}
	n, ok := j.w.nodes.of(i.ID)
	return ok && n.Ready
}

// left are the instances in scope that are outdated, and do not terminate.
func (j *judge) left(g *group) (all []awsim.Instance) {
	o := j.w.spec.Options
	for _, i := range j.w.aws.Instances(g.asg) {
		pooled := strings.HasPrefix(i.State, "Warmed:")
		kept := g.user[i.ID] || j.w.nodes.keep[i.ID] && o.Exclude || pooled && o.Mode != refresh.ModeRefresh
		leaves := strings.Contains(i.State, "Terminat") || i.State == "Standby"
		outdated := j.differs(g, i, 0) || o.MaxAge > 0 && time.Since(i.Launched) > o.MaxAge
		if o.All {
			outdated = i.Launched.Before(j.w.began)
		}
		if j.w.namesInstances() {
			outdated = slices.Contains(g.only, i.ID)
		}
		if outdated && !kept && !leaves {
			all = append(all, i)
		}
	}
	return all
}

// givesBack judges a call of trigger rollback.
func (j *judge) givesBack(c call) {
	g, i := j.w.find(c.ids[0])
	if g == nil {
		return
	}
	if g.user[i.ID] || i.Launched.Before(j.w.began) {
		j.violate("old instances stay", "%s of %s is terminated by a rollback", i.ID, g.Name)
	}
}

// leavesStandby judges a call that terminates an instance in Standby.
func (j *judge) leavesStandby(c call) {
	if g, i := j.w.find(c.ids[0]); g != nil && (g.user[i.ID] || i.State == "InService" && !j.isDisturbed(g)) {
		j.violate("others untouched", "%s of %s (%s) is terminated", i.ID, g.Name, i.State)
	}
}

// starts judges a call that has AWS replace what is outdated.
func (j *judge) starts(p *process, g *group) {
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		g.updated = time.Now()
	}()
	j.begins(p, g)
	all := j.w.aws.Instances(g.asg)
	needed := slices.ContainsFunc(all, func(i awsim.Instance) bool { return j.isOutdated(g, i) })
	if !needed && !j.isForged() && (len(all) > 0 || !g.Nodegroup) {
		j.violate("current instances stay", "nothing of %s is outdated", g.Name)
	}
}

// resizes judges a desired capacity that a trigger sets.
func (j *judge) resizes(c call) {
	g := c.group
	desired, err := strconv.Atoi(c.form.Get("DesiredCapacity"))
	if err != nil || j.isDisturbed(g) || g.lossy {
		return
	}
	if o := j.w.spec.Options; desired > g.high+o.Surge.Of(g.high) {
		j.violate("surge bounded", "%s: the desired capacity is set to %d; others have asked for %d", g.Name, desired, g.high)
	}
	if desired < g.low {
		j.violate("capacity kept", "%s: the desired capacity is set to %d; others have asked for %d", g.Name, desired, g.low)
	}
}

// capacity checks that as many instances are in service as the options promise, without those that are taken now.
func (j *judge) capacity(c call) {
	g, o := c.group, j.w.spec.Options
	missing := max(o.Batch.Of(g.high), 1)
	if o.Mode == refresh.ModeUnhealthy && o.Surge.N > 0 {
		missing = max(missing-o.Surge.Of(g.low), 0)
	}
	serving := 0
	for _, i := range j.w.aws.Instances(g.asg) {
		ready := !j.w.spec.Kubernetes || j.isForged() || j.isOutdated(g, i) // An old one whose node is not Ready is replaced first.
		if node, ok := j.w.nodes.of(i.ID); ok && node.Ready {
			ready = true
		}
		if i.State == "InService" && i.Health == "Healthy" && ready && !slices.Contains(c.ids, i.ID) {
			serving++
		}
	}
	if serving < g.low-missing && !j.isDisturbed(g) && !g.lossy {
		j.violate("capacity kept", "%s: %s leaves %d in service: others have asked for %d, and %d may be missing", g.Name,
			c.action, serving, g.low, missing)
	}
}

// ended sees how the rollout of a group has ended.
func (j *judge) ended(p *process, g *group, end report.Group) {
	j.w.facts.Lock()
	defer j.w.facts.Unlock()
	p.mu.Lock()
	dead, changes := p.dead, p.changes[g]
	p.outcomes[g], p.changes[g] = end.Outcome, 0
	p.mu.Unlock()
	j.mu.Lock()
	if j.replacing[g] == p {
		delete(j.replacing, g)
	}
	j.mu.Unlock()
	if dead || g == nil {
		return
	}
	j.mu.Lock()
	j.outcomes[end.Outcome]++
	j.mu.Unlock()
	j.w.seeLaunches(g)
	switch p.run.Command {
	case Trigger, Watch:
		j.rolledOut(p, g, end, changes)
	case Rollback:
		j.rolledBack(g, end)
	case Resume, Cancel, Pause:
	}
	if end.Outcome == report.Done || end.Outcome == report.Nothing || p.run.Command == Resume {
		j.mu.Lock()
		delete(j.target, g)
		j.mu.Unlock()
	}
}

func (j *judge) rolledOut(p *process, g *group, end report.Group, changes int) {
	switch end.Outcome { //nolint:exhaustive // The others promise nothing.
	case report.Refused:
		if changes > 0 {
			j.violate("refused changes nothing", "%s was changed %d times", g.Name, changes)
		}
	case report.Done, report.Nothing:
		if left := j.left(g); len(left) > 0 && !j.isDisturbed(g) && !j.isForged() && !j.isUpdated(p, g) {
			j.violate("outcome truthful", "%s is %s, and %s is %s", g.Name, end.Outcome, left[0].ID, left[0].State)
		}
	}
}

// isUpdated reports whether the group is a managed node group that somebody else has just begun to update, or whether
// something newer was published since the process began: it replaces by what was the newest then.
func (j *judge) isUpdated(p *process, g *group) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.w.spec.Options.Newest {
		return g.versioned.After(p.began)
	}
	return g.Nodegroup && (j.w.released.After(p.began) || time.Since(g.updated) < grace)
}

func (j *judge) rolledBack(g *group, end report.Group) {
	for _, i := range j.w.aws.Instances(g.asg) {
		if end.Outcome == report.Done && i.State == "Standby" && !g.user[i.ID] {
			j.violate("outcome truthful", "%s was rolled back, and %s is in Standby", g.Name, i.ID)
		}
	}
}
