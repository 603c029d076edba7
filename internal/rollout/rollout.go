package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// rollout is the replacement of the outdated instances of one group.
type rollout struct {
	*Trigger
	card      card
	group     refresh.Group // as it was described last
	templates refresh.Templates
	began     time.Time
	target    refresh.Target
	known     map[string]refresh.Instance // what EC2 told of instances, which Auto Scaling does not
	old       map[string]bool             // the instances to be replaced, as they were counted at the start
	ended     bool                        // The refresh that is followed was seen to be over.
	deleted   bool                        // There is no such group any more.
	blind     bool                        // The cluster knows none of the group's instances: see foreign.
	tainted   map[string]bool             // those of nodes that this run has tainted; nil before it could
}

func newRollout(t *Trigger, c card, g refresh.Group, templates refresh.Templates) *rollout {
	r := &rollout{Trigger: t, card: c, templates: templates, began: time.Now()}
	r.remember(g)
	return r
}

// remember keeps what the group is now, and takes what it was told of instances before for what it still is.
func (r *rollout) remember(g refresh.Group) {
	known := map[string]refresh.Instance{}
	for i := range g.Instances {
		now := &g.Instances[i]
		if before, met := r.known[now.ID]; met {
			if now.Launched.IsZero() {
				now.Launched = before.Launched
			}
			if now.ImageID == "" {
				now.ImageID = before.ImageID
			}
		}
		known[now.ID] = *now
	}
	r.group, r.known = g, known
}

// assessed judges the group as it was described last, at the time when the run began: no instance grows too
// old during a run.
func (r *rollout) assessed() assessment { return r.assess(r.group, r.templates, r.began) }

// run is the rollout, from the first look to the end. The group is looked at anew if it was described some
// time ago, since others came first.
func (r *rollout) run(ctx context.Context, described time.Time) ending {
	if time.Since(described) > r.cfg.PollInterval {
		if e := r.again(ctx); e.over() {
			return e
		}
	}
	r.begin()
	return r.release(ctx, r.roll(ctx))
}

func (r *rollout) roll(ctx context.Context) ending {
	if r.cfg.Mode == refresh.ModeRefresh {
		return r.refresh(ctx)
	}
	e := r.foreign()
	if !e.over() {
		e = r.preflight(ctx)
	}
	if !e.over() {
		r.suspend(ctx)
		r.taint(ctx)
		e = r.replace(ctx)
	}
	return r.last(ctx, e, "")
}

// foreign looks whether the cluster knows any of the group's instances. If not it is another one, most
// likely: to wait for its nodes would be in vain, and labels that it does not have keep no instance.
func (r *rollout) foreign() ending {
	known := func(i refresh.Instance) bool { return r.node(i.ID) != nil }
	if r.view == nil || len(r.assessed().outdated()) == 0 || slices.ContainsFunc(r.group.Instances, known) {
		return ending{}
	}
	r.blind = true
	const text = "no instance of the group is a node of the Kubernetes cluster that was found"
	if len(r.cfg.Exclude) > 0 {
		return ending{report.Refused, "nothing was changed: " + text + ", so that --exclude-node-label cannot be " +
			"heeded: name the group's own cluster with --kubeconfig and --context"}
	}
	r.card.note(refresh.Warn, "%s: whether new nodes are ready is not waited for; if it is not the group's "+
		"own, name that with --kubeconfig and --context", text)
	return ending{}
}

// again describes the group anew, and what its instances should be launched from.
func (r *rollout) again(ctx context.Context) ending {
	if e := r.describe(ctx); e.over() {
		return e
	}
	return r.ask(ctx)
}

func (r *rollout) describe(ctx context.Context) ending {
	g, err := r.reader.Group(ctx, r.group.Name)
	if err != nil {
		return r.broken(ctx, err)
	}
	r.remember(g)
	return ending{}
}

// begin counts what is to be replaced, and tells of it.
func (r *rollout) begin() {
	a := r.assessed()
	r.target, r.old = a.target, map[string]bool{}
	for _, id := range slices.Concat(a.outdated(), a.going()) {
		r.old[id] = true
	}
	r.card.set(func(g *report.Group) {
		g.Target, g.Total, g.Phase = a.target.Text, len(r.old), report.Replacing
	})
	r.show(nil)
}

// replaceable are the instances that are to be replaced, or are going already. If all are, they are those
// that were there at the start, and none of those that have come for them.
func (r *rollout) replaceable() []string {
	a := r.assessed()
	ids := slices.Concat(a.outdated(), a.going())
	if r.cfg.All {
		ids = slices.DeleteFunc(ids, func(id string) bool { return !r.old[id] })
	}
	return ids
}

// preflight checks whether the rollout may begin. Where nothing is outdated there is nothing to check.
func (r *rollout) preflight(ctx context.Context) ending {
	a := r.assessed()
	if a.target.Problem != "" {
		return ending{report.Refused, a.target.Problem}
	}
	if len(a.outdated()) == 0 {
		return ending{}
	}
	loads, err := r.loads(ctx, []refresh.Group{r.group}, []assessment{a})
	if err != nil { // The cluster is not needed: AWS and the agent do the work.
		r.card.note(refresh.Warn, "the pods on the group's nodes cannot be listed: %v", err)
	}
	facts, err := r.facts(ctx, r.group, a, loads)
	if err != nil {
		return r.broken(ctx, err)
	}
	return r.heed(refresh.Preflight(r.group, facts))
}

// heed tells what the preflight found, and refuses to go on if it must.
func (r *rollout) heed(findings []refresh.Finding) ending {
	refused := refresh.Refused(findings, r.cfg.Allow)
	for _, f := range findings {
		if f.Level != refresh.OK && !slices.Contains(refused, f) {
			r.card.note(refresh.Warn, "%s: %s", f.Check, f.Text)
		}
	}
	if len(refused) == 0 {
		return ending{}
	}
	var why []string
	for _, f := range refused {
		why = append(why, f.Check+": "+f.Text)
	}
	e := ending{report.Refused, "nothing was changed: " + strings.Join(why, "; ")}
	if len(refused) == 1 && refused[0].Check == refresh.CheckActive {
		e.outcome = report.Conflict
	}
	return e
}

// broken is the ending for a call that failed, if it was not the end of the run that made it fail.
func (r *rollout) broken(ctx context.Context, err error) ending {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errUnanswered) {
		return stopped(ctx)
	}
	return ending{report.Error, err.Error()}
}

// stopped is the ending for a context that has ended.
func stopped(ctx context.Context) ending {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return ending{report.TimedOut, errTimeout.Error()}
	}
	return ending{report.Interrupted, "the trigger was asked to stop"}
}

// show tells how far it is.
func (r *rollout) show(status *refresh.Refresh) {
	a := r.assessed()
	r.card.set(func(g *report.Group) {
		g.Desired, g.Instances = r.group.Desired, instancesOf(r.group)
		here := 0
		for n, i := range r.group.Instances {
			g.Instances[n].Old = r.isOld(i, a)
			if r.old[i.ID] && !r.out(i) {
				here++
			}
		}
		g.Gone = g.Total - here
		if status != nil {
			g.Status, g.Reason, g.Percent = status.Status, status.Reason, status.Percent
		} else if g.Total > 0 && g.Refresh == "" {
			g.Percent = 100 * g.Gone / g.Total
		}
		g.Phase = phase(g, status)
	})
}

func phase(g *report.Group, status *refresh.Refresh) report.Phase {
	switch {
	case g.Phase == report.Queued || status == nil:
		return g.Phase
	case status.Status == refresh.StatusBaking:
		return report.Baking
	case status.Active():
		return report.Replacing
	default:
		return report.Draining
	}
}

// isOld tells whether the instance is one that is to be replaced.
func (r *rollout) isOld(i refresh.Instance, a assessment) bool {
	if r.old[i.ID] {
		return true
	}
	v := a.verdicts[i.ID]
	return v.Outdated && !r.cfg.All && !v.KeptFor(refresh.CodeExcluded)
}

// out tells whether an old instance is out of the way, as far as Config.Until asks.
func (r *rollout) out(i refresh.Instance) bool {
	switch {
	case !i.Terminating():
		return false
	case r.cfg.Until == Replaced:
		return true
	case r.cfg.Until == Terminated:
		return false
	default:
		return !i.Draining()
	}
}

// leaving are the old instances that are going and not out of the way yet. Nobody knows when a retained one
// goes.
func (r *rollout) leaving() []string {
	a := r.assessed()
	var ids []string
	for _, i := range r.group.Instances {
		if r.isOld(i, a) && i.Terminating() && !i.Retained() && !r.out(i) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// verify looks at the group once more when all is said to be done, with the templates as they are now.
func (r *rollout) verify(ctx context.Context) ending {
	s, err := r.resolve(ctx, []refresh.Group{r.group})
	if err != nil {
		return r.broken(ctx, err)
	}
	r.remember(s.groups[0])
	if r.cfg.Mode == refresh.ModeUnhealthy || !r.cfg.Pin {
		r.templates = s.templates
	}
	a := r.assessed()
	var left, retained []string
	for _, i := range r.group.Instances {
		switch {
		case !r.isOld(i, a):
		case i.Retained():
			retained = append(retained, i.ID)
		case !i.Terminating():
			left = append(left, r.why(i, a))
		}
	}
	r.show(nil)
	e := verdict(len(r.old), left, retained)
	if e.outcome == report.Nothing && len(r.cfg.Only) > 0 {
		e.message = "none of the instances that --instance names is in the group: " + text.First(r.cfg.Only, mostNames)
	}
	return e
}

// why is the instance, and why it was left.
func (r *rollout) why(i refresh.Instance, a assessment) string {
	v := a.verdicts[i.ID]
	reasons := slices.Concat(v.Kept, v.Reasons)
	if len(reasons) == 0 {
		return i.ID
	}
	return fmt.Sprintf("%s (%s)", i.ID, reasons[0].Text)
}

// verdict is how a rollout of so many instances ended that AWS says is over.
func verdict(total int, left, retained []string) ending {
	var messages []string
	if len(left) > 0 {
		messages = append(messages, fmt.Sprintf("%s still outdated: %s; trigger plan says why",
			text.Plural(len(left), "instance is", "instances are"), text.First(left, mostNames)))
	}
	if len(retained) > 0 {
		messages = append(messages, fmt.Sprintf("%s retained, because a terminating hook was abandoned: %s; look "+
			"at the nodes, then terminate them with aws autoscaling terminate-instance-in-auto-scaling-group",
			text.Plural(len(retained), "instance is", "instances are"), text.First(retained, mostNames)))
	}
	switch {
	case len(messages) > 0:
		return ending{report.Incomplete, strings.Join(messages, "; ")}
	case total == 0:
		return ending{report.Nothing, "no instance is outdated"}
	default:
		return ending{report.Done, text.Count(total, "instance") + " replaced"}
	}
}

// mostNames is how many instances or nodes a message lists.
const mostNames = 5
