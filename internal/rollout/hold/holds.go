package hold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// hold is something of a group that a rollout changes for its time. refresh.HoldRules say what becomes of each kind.
type hold interface {
	kind() refresh.HoldKind
	// held describes what any run holds of the group; it is empty if none does.
	held(g refresh.Group) string
	// take changes what the configuration asks for, and returns what was done, or empty if nothing was.
	take(ctx context.Context) (done string, err error)
	// giveBack restores what any run has changed, and returns what was done, and what is left for which reason.
	giveBack(ctx context.Context) (done, left string, err error)
}

// Holds are the holds of a group that last as long as its rollout, in the order in which they are taken. The surge and
// what is in Standby are parts of replacing instances, and the lease and the pause of the Cluster Autoscaler have types
// of their own.
type Holds struct {
	group *loop.Group
	all   []hold
}

// Writer changes what a group and its nodes hold.
type Writer interface {
	ProcessWriter
	maxWriter
	protectionWriter
	scaleDownWriter
	Tainter
}

// New returns the holds of a group. It may have none yet.
func New(g *loop.Group, aws Writer) *Holds {
	newNodes := &scaleDown{group: g, nodes: aws}
	g.WhenDescribed(newNodes.disable)
	return &Holds{g, []hold{
		suspension{g, aws}, maxSize{g, aws}, protection{g, aws}, newNodes, &taints{group: g, tainter: aws},
	}}
}

// Take takes the holds, if anything is to be replaced. The rollout continues if that fails.
func (h *Holds) Take(ctx context.Context, attached bool) {
	due := h.group.State.IsDue()
	for _, one := range h.all {
		rule := refresh.RuleOf(one.kind())
		if (attached || !due) && !rule.Attached {
			continue
		}
		h.takeOne(ctx, one, rule)
	}
}

// takeOne takes one of them. An interrupt ends what changes Nodes, which may be many, and what was changed shows.
func (h *Holds) takeOne(ctx context.Context, one hold, rule refresh.HoldRule) {
	if !rule.OnNodes {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, loop.CallTimeout)
	defer cancel()
	done, err := one.take(ctx)
	if done != "" {
		h.group.Progress.Note(refresh.OK, "%s", done)
	}
	if err != nil {
		h.group.Progress.Note(refresh.Warn, "the rollout continues without it: %v", err)
	}
}

// held describes those of the holds that any run has of the group.
func (h *Holds) held(g refresh.Group) (all []string) {
	for _, one := range h.all {
		if text := one.held(g); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// Release gives back what this run holds, or one that was killed. It is kept where AWS continues without the trigger,
// and the ending says so, and where another process continues.
func (h *Holds) Release(ctx context.Context, end loop.Ending, leftToAWS bool) loop.Ending {
	if h.group.State.Deleted || !h.mayHold() {
		return end
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	g, err := h.group.Read(ctx)
	if err != nil {
		return h.releaseUnread(ctx, end, leftToAWS, err)
	}
	held := h.held(g)
	if len(held) == 0 {
		return end
	}
	if other, is := refresh.HeldByOther(g, h.group.Config.Holder, time.Now()); is {
		h.group.Progress.Note(refresh.OK, "left to the trigger %s: %s", other.Holder, strings.Join(held, ", and "))
		return end
	}
	switch continues, err := h.refreshContinues(ctx, end); {
	case err != nil:
		return h.releaseUnread(ctx, end, leftToAWS, err)
	case continues:
		end.Message += fmt.Sprintf("; still %s; the next run gives that back, or trigger resume --asg %s",
			strings.Join(held, ", and "), text.ShellWord(g.Name))
		return end
	}
	return h.GiveBackAll(ctx, end)
}

// mayHold reports whether anything may be held: the group was described before that was taken.
func (h *Holds) mayHold() bool {
	cfg := h.group.Config
	return len(cfg.Suspend)+len(cfg.Exclude) > 0 || cfg.RaiseMax || cfg.Taints() || len(h.held(h.group.State.Group)) > 0
}

// releaseUnread is Release if AWS does not say what is so. What needs AWS is left.
func (h *Holds) releaseUnread(ctx context.Context, end loop.Ending, leftToAWS bool, err error) loop.Ending {
	h.warn(err)
	if leftToAWS {
		return end
	}
	return h.giveBack(ctx, end, func(r refresh.HoldRule) bool { return r.OnNodes })
}

// refreshContinues reports whether AWS continues to replace instances of the group. A refresh that was just
// started may not be listed yet. In the other modes nothing continues without the trigger.
func (h *Holds) refreshContinues(ctx context.Context, end loop.Ending) (bool, error) {
	switch {
	case h.group.Config.Mode.InBatches():
		return false, nil
	case end.Outcome == report.Detached:
		return true, nil
	}
	active, err := h.group.Planner.ActiveRefresh(ctx, h.group.Name)
	return active != nil && active.Status != refresh.StatusCancelling, err
}

// GiveBackAll gives back what any run of the trigger holds, and adds to the ending what is left.
func (h *Holds) GiveBackAll(ctx context.Context, end loop.Ending) loop.Ending {
	return h.giveBack(ctx, end, func(refresh.HoldRule) bool { return true })
}

// giveBackOne gives back one of them. Each has as much time, since AWS may take some to describe what was done before.
func giveBackOne(ctx context.Context, one hold) (done, left string, err error) {
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	err = loop.UntilGivenBack(ctx, func() (err error) {
		done, left, err = one.giveBack(ctx)
		return err
	})
	return done, left, err
}

// giveBack gives back the holds of which the rules are wanted, in the opposite order.
func (h *Holds) giveBack(ctx context.Context, end loop.Ending, wanted func(refresh.HoldRule) bool) loop.Ending {
	for _, one := range slices.Backward(h.all) {
		rule := refresh.RuleOf(one.kind())
		if !wanted(rule) {
			continue
		}
		done, left, err := giveBackOne(ctx, one)
		if done != "" {
			h.group.Progress.Note(refresh.OK, "%s", done)
		}
		if left != "" {
			end.Message += "; " + left
		}
		if err != nil {
			h.warn(err)
		}
		if err != nil && rule.Reported {
			end = end.Leaves()
		}
	}
	return end
}

func (h *Holds) warn(err error) {
	h.group.Progress.Note(refresh.Warn, "what the rollout has changed for its time may be left, run trigger resume: %v",
		err)
}

// heldOf describes what the tags of the group say is held of the kind.
func heldOf(g refresh.Group, kind refresh.HoldKind) string {
	for _, one := range refresh.HoldsOf(g) {
		if one.Kind == kind {
			return one.Text
		}
	}
	return ""
}

// ProcessWriter suspends processes of a group, and tags the group with them. Release resumes those of the
// tag, or only some of them.
type ProcessWriter interface {
	Suspend(ctx context.Context, g refresh.Group, processes []string) (suspended []string, err error)
	Release(ctx context.Context, g refresh.Group, only ...string) (resumed []string, err error)
}

// suspension suspends the processes of Config.Suspend.
type suspension struct {
	group *loop.Group
	aws   ProcessWriter
}

func (suspension) kind() refresh.HoldKind { return refresh.HoldProcesses }

func (s suspension) held(g refresh.Group) string { return heldOf(g, s.kind()) }

func (s suspension) take(ctx context.Context) (done string, err error) {
	if len(s.group.Config.Suspend) == 0 {
		return "", nil
	}
	suspended, err := s.aws.Suspend(ctx, s.group.State.Group, s.group.Config.Suspend)
	return list("suspended for the rollout: ", suspended), err
}

func (s suspension) giveBack(ctx context.Context) (done, left string, err error) {
	g, err := s.group.Read(ctx)
	if err != nil {
		return "", "", err
	}
	resumed, err := s.aws.Release(ctx, g)
	return list("resumed: ", resumed), "", err
}

// list is the text with the names, or empty if there are none.
func list(text string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return text + strings.Join(names, ", ")
}

// maxWriter raises the maximum size of a group, and tags the group with the one before. RestoreMax restores it, where
// refresh.RaisedMax allows that.
type maxWriter interface {
	RaiseMax(ctx context.Context, g refresh.Group, to int) (refresh.RaisedMax, error)
	RestoreMax(ctx context.Context, g refresh.Group) (restored bool, err error)
}

// maxSize raises the maximum size of the group, with Config.RaiseMax.
type maxSize struct {
	group *loop.Group
	aws   maxWriter
}

func (maxSize) kind() refresh.HoldKind { return refresh.HoldMax }

func (m maxSize) held(g refresh.Group) string { return heldOf(g, m.kind()) }

// take raises the maximum for what Auto Scaling launches by itself. For a surge the capacity is raised later, and the
// maximum just before that, so that no autoscaler uses it.
func (m maxSize) take(ctx context.Context) (done string, err error) {
	s := m.group.State
	f := s.Facts()
	if f.Surge > 0 {
		return "", nil
	}
	return m.raise(ctx, f.MostInstances(s.Group))
}

// raise raises the maximum if it is smaller, and Config.RaiseMax is set.
func (m maxSize) raise(ctx context.Context, to int) (done string, err error) {
	g := &m.group.State.Group
	if !m.group.Config.RaiseMax || to <= g.Max {
		return "", nil
	}
	raised, err := m.aws.RaiseMax(ctx, *g, to)
	if err != nil {
		return "", err
	}
	before := g.Max
	g.Max = to
	g.Tags = withTag(g.Tags, refresh.MaxTag, raised.String())
	return fmt.Sprintf("maximum size raised from %d to %d", before, to), nil
}

// giveBack describes the group just before, since an autoscaler may have raised the desired capacity.
func (m maxSize) giveBack(ctx context.Context) (done, left string, err error) {
	g, err := m.group.Read(ctx)
	if err != nil {
		return "", "", err
	}
	raised, _ := refresh.RaisedMaxOf(g)
	restored, err := m.aws.RestoreMax(ctx, g)
	switch {
	case err != nil:
		return "", "", err
	case restored:
		return fmt.Sprintf("maximum size restored from %d to %d", g.Max, raised.From), "", nil
	}
	if left = raised.Kept(g); left != "" {
		left += "; trigger resume --asg " + text.ShellWord(g.Name) + " gives that back later"
	}
	return "", left, nil
}
