package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	nodes "github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/rollouts"
)

// jointGenerator makes worlds in which triggers replace what is outdated.
type jointGenerator struct{ *generator }

// GenerateJoint returns the world of a seed in which triggers take part.
func GenerateJoint(seed uint64) Spec {
	g := jointGenerator{&generator{Rand: rand.New(rand.NewPCG(seed, 31)), spec: Spec{Seed: seed}}}
	g.size = oneOf(g.generator, 1, 1, 1, 2)
	if g.chance(3) {
		g.spec.Visible = g.between(time.Second, 8*time.Second)
	}
	for i := range oneOf(g.generator, 1, 1, 1, 1, 1, 1, 1, 2) {
		c := g.cluster(fmt.Sprintf("c%d", i+1))
		c.Autoscaler = g.chance(3)
		g.shorten(&c)
		g.spec.Clusters = append(g.spec.Clusters, c)
	}
	g.groups()
	if g.chance(2) {
		from := g.between(0, time.Hour)
		g.spec.GateFails = [2]time.Duration{from, from + g.between(time.Minute, 30*time.Minute)}
	}
	for _, c := range g.spec.Clusters {
		g.triggers(c)
	}
	g.steps()
	g.tags()
	if !g.chance(3) {
		g.faults()
		g.rejections()
	}
	for i := range g.spec.Faults { // Nothing may fail in the end.
		g.spec.Faults[i].For = min(g.spec.Faults[i].For, 2*time.Hour)
	}
	g.pools()
	return g.spec
}

// pools gives some groups a warm pool with instances, and takes instances out of service into some of them, but where
// somebody forges the tag of a surge: see tags.
func (g jointGenerator) pools() {
	isForged := slices.ContainsFunc(g.spec.Steps, func(s Step) bool { return s.Do == "tag" })
	for _, c := range g.spec.Clusters {
		for i := range c.Groups {
			one := &c.Groups[i]
			if one.Spot || one.Managed || !g.chance(4) {
				continue
			}
			one.Pool = &Pool{Size: oneOf(g.generator, 0, 1, 1, 2), Kept: g.chance(2), Reuse: g.chance(2)}
			for range oneOf(g.generator, 0, 0, 1, 2) {
				if isForged {
					break
				}
				at := g.between(10*time.Minute, 2*time.Hour)
				g.spec.Steps = append(g.spec.Steps, Step{At: at, Do: "scale", On: one.Name, N: -1},
					Step{At: at + g.between(time.Minute, 30*time.Minute), Do: "scale", On: one.Name, N: 1})
			}
		}
	}
	slices.SortStableFunc(g.spec.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
}

// rejections has AWS fail to do what triggers ask for, a few times or for a while.
func (g jointGenerator) rejections() {
	for range g.IntN(3) {
		g.spec.Faults = append(g.spec.Faults, Fault{
			From: g.between(0, time.Hour), For: g.between(10*time.Second, 30*time.Minute), Do: "aws-fail", N: 1 + g.IntN(15),
			What: oneOf(g.generator, "SetInstanceHealth", "EnterStandby", "CreateOrUpdateTags", "SetDesiredCapacity",
				"TerminateInstanceInAutoScalingGroup", "DeleteTags", "DescribeAutoScalingGroups", "StartInstanceRefresh",
				"DescribeLaunchTemplateVersions", "StopInstances", "DescribeInstanceRefreshes"),
		})
	}
}

// shorten has the drains of a cluster end within half an hour, because a rollout is many of them. Its groups have
// different sizes. A trigger does not begin when its watch of the nodes lags by ten seconds.
func (g jointGenerator) shorten(c *Cluster) {
	c.Timing.Watch = min(c.Timing.Watch, 5*time.Second)
	for i := range c.Installs {
		install := &c.Installs[i]
		install.Replicas = max(install.Replicas, oneOf(g.generator, 1, 1, 2)) // Two have a Lease, which triggers read.
		install.Settings = slices.DeleteFunc(install.Settings, func(s string) bool {
			return strings.HasPrefix(s, "DRAIN_TIMEOUT=")
		})
		install.Settings = append(install.Settings, "DRAIN_TIMEOUT="+oneOf(g.generator, "5m", "10m", "20m", "30m"))
		if c.Autoscaler && g.chance(2) {
			install.Settings = append(install.Settings, "AUTOSCALER_DEPLOYMENT="+autoscalerKey().String())
		}
	}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		w.Grace = min(w.Grace, time.Hour)
		w.Stop = min(w.Stop, w.Grace)
	}
	for i := range c.Groups {
		one := &c.Groups[i]
		one.Pool = nil
		one.MinHealthy = oneOf(g.generator, one.MinHealthy, 0, 100)
		one.Max = oneOf(g.generator, 0, 0, one.Nodes, one.Nodes+1)
	}
}

// triggers adds the processes of a cluster. The last one at the end is not one of them.
func (g jointGenerator) triggers(c Cluster) {
	options := g.options()
	for i := range c.Groups {
		one := &c.Groups[i]
		if one.Managed = options.Mode == refresh.ModeNodegroup; one.Managed {
			one.MinHealthy = 0
		}
		if options.MaxAge > 0 {
			one.Aged = g.IntN(one.Nodes + 1)
		}
	}
	options.Autoscaler = c.Autoscaler && g.chance(2)
	if options.Windows = g.chance(8); options.Windows { // What is held while a window is closed would be held for hours.
		options.Autoscaler, options.Suspend = false, nil
	}
	isAttended := options.All || options.Only > 0
	at := g.between(10*time.Second, 10*time.Minute)
	for n := range oneOf(g.generator, 1, 1, 2, 2, 3) {
		t := Trigger{At: at, Cluster: c.Name, Options: options, Command: g.command(n == 0, isAttended)}
		switch {
		case g.chance(3):
			t.Kill = 1 + g.IntN(60)
		case g.chance(4):
			t.Interrupt = g.between(5*time.Second, time.Hour)
		}
		if t.Command == rollouts.Watch {
			t.Interrupt += g.between(time.Hour, 5*time.Hour)
		}
		g.spec.Triggers = append(g.spec.Triggers, t)
		at += oneOf(g.generator, g.between(0, 5*time.Second), g.between(0, 5*time.Minute), g.between(0, 2*time.Hour))
	}
}

func (g jointGenerator) command(isFirst, isAttended bool) rollouts.Command {
	switch {
	case g.chance(4) && !isAttended:
		return rollouts.Watch
	case !isFirst && g.chance(3):
		return oneOf(g.generator, rollouts.Rollback, rollouts.Rollback, rollouts.Resume, rollouts.Cancel)
	}
	return rollouts.Trigger
}

// options returns those of the triggers of a cluster.
func (g jointGenerator) options() rollouts.Options {
	o := rollouts.Options{
		Mode: oneOf(g.generator, refresh.ModeUnhealthy, refresh.ModeStandby, refresh.ModeRefresh,
			refresh.ModeNodegroup),
		Batch: oneOf(g.generator, refresh.Amount{N: 1}, refresh.Amount{N: 1}, refresh.Amount{N: 2}),
		Order: oneOf(g.generator, refresh.ByAge, refresh.ByZone), Then: refresh.ThenTerminate, Pin: refresh.PinAuto,
		Until:      oneOf(g.generator, plan.Drained, plan.Drained, plan.Replaced, plan.Terminated),
		OnConflict: plan.Attach, OnInterrupt: oneOf(g.generator, plan.Detach, plan.Detach, plan.Cancel),
		Taint:    oneOf(g.generator, nodes.NoTaint, nodes.SoftTaint, nodes.HardTaint),
		Together: oneOf(g.generator, refresh.NoPhase, refresh.PhaseCheck, refresh.PhaseTaint),
		Parallel: oneOf(g.generator, 0, 1, 1, 2), FailFast: g.chance(6), RaiseMax: g.chance(2),
		Stall: oneOf(g.generator, time.Hour, 3*time.Hour),
		Poll:  oneOf(g.generator, 15*time.Second, 30*time.Second, 30*time.Second),
	}
	if g.chance(4) {
		o.Suspend = []string{"AZRebalance"}
	}
	if g.chance(4) {
		o.Ready = 15 * time.Minute
	}
	if g.chance(6) {
		o.Timeout = g.between(10*time.Minute, 4*time.Hour)
	}
	o.Gate = g.chance(6)
	switch o.Mode {
	case refresh.ModeStandby:
		o.Then = oneOf(g.generator, refresh.ThenTerminate, refresh.ThenTerminate, refresh.ThenStop, refresh.ThenKeep)
		o.RaiseMax = false
	case refresh.ModeUnhealthy:
		o.Surge = oneOf(g.generator, refresh.Amount{}, refresh.Amount{N: 1}, refresh.Amount{N: 1}, refresh.Amount{N: 2},
			refresh.Amount{N: 50, Percent: true}, refresh.Amount{N: 100, Percent: true})
	case refresh.ModeNodegroup:
		o.Force, o.RaiseMax, o.Suspend = g.chance(2), false, nil
		o.OnConflict = oneOf(g.generator, plan.Attach, plan.Attach, plan.Wait)
	case refresh.ModeRefresh:
		o.Surge = oneOf(g.generator, refresh.Amount{N: 1}, refresh.Amount{N: 50, Percent: true})
		o.OnConflict = oneOf(g.generator, plan.Attach, plan.Attach, plan.Wait, plan.CancelActive)
		o.All = g.chance(6)
	}
	if o.Mode.InBatches() {
		switch g.IntN(8) {
		case 0:
			o.Only = 1 + g.IntN(2)
		case 1:
			o.All = true
		case 2:
			o.MaxAge = longAgo / 2
		}
	}
	return o
}

// steps makes the groups outdated, and has others change them, in most worlds.
func (g jointGenerator) steps() {
	for _, c := range g.spec.Clusters {
		for _, one := range c.Groups {
			if !g.chance(6) || len(g.spec.Steps) == 0 {
				g.spec.Steps = append(g.spec.Steps, Step{At: g.between(0, 5*time.Second), Do: "version", On: one.Name})
			}
			if one.Nodes > 1 && g.chance(4) { // One of its instances is current then.
				g.spec.Steps = append(g.spec.Steps, Step{At: 10 * time.Second, Do: "replace", On: one.Name, N: 1})
			}
		}
	}
	at := 10 * time.Minute
	for range oneOf(g.generator, 0, 0, 1, 2, 4, 8) {
		at += g.between(0, oneOf(g.generator, time.Minute, 20*time.Minute, time.Hour))
		one := oneOf(g.generator, g.spec.Clusters...)
		g.spec.Steps = append(g.spec.Steps, g.step(at, one))
	}
	slices.SortStableFunc(g.spec.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
}

// tags has somebody write a tag of a surge into a group, as if a trigger had done so, in some worlds. Triggers find out
// in the modes that use one, unless somebody else adds to the capacity: that looks as if a trigger had.
func (g jointGenerator) tags() {
	adds := func(s Step) bool { return s.Do == "scale" || s.Do == "standby" }
	for _, c := range g.spec.Clusters {
		other := func(t Trigger) bool { return t.Cluster == c.Name && !t.Options.Mode.InBatches() }
		isUndecided := slices.ContainsFunc(g.spec.Steps, adds) || slices.ContainsFunc(g.spec.Triggers, other)
		if c.Autoscaler || isUndecided || g.chance(2) {
			continue
		}
		group := oneOf(g.generator, c.Groups...)
		g.spec.Steps = append(g.spec.Steps, Step{At: g.between(0, time.Hour), Do: "tag", On: group.Name})
	}
	slices.SortStableFunc(g.spec.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
}

// step returns what somebody else does with a group.
func (g jointGenerator) step(at time.Duration, c Cluster) Step {
	group := oneOf(g.generator, c.Groups...)
	kinds := []string{
		"version", "version", "back", "scale", "scale", "terminate", "terminate", "replace", "maintain", "kill", "cordon",
		"annotate", "forge", "budgets", "restart", "standby", "bypass", "stop", "rejoin",
	}
	if group.Spot {
		kinds = append(kinds, "interrupt", "interrupt", "interrupt-next", "recommend")
	}
	s := Step{At: at, On: group.Name, Node: g.IntN(group.Nodes), N: 1, Do: oneOf(g.generator, kinds...)}
	switch s.Do {
	case "scale":
		s.N = oneOf(g.generator, -2, -1, 1, 1, 2)
	case "maintain":
		s.For = oneOf(g.generator, time.Hour, 3*time.Hour)
	case "interrupt", "interrupt-next":
		s.For = 2 * time.Minute
	case "rejoin":
		s.For = g.between(time.Second, 5*time.Minute)
		if s.N = g.IntN(2); group.Nodes == 1 { // A trigger waits for no nodes if no instance has one when it begins.
			s.N = 0
		}
	case "annotate", "standby":
		s.For = oneOf(g.generator, 0, g.between(time.Minute, time.Hour))
	case "forge":
		s.N = g.IntN(5)
	case "budgets", "restart":
		s.On, s.Node = c.Name, g.IntN(3)
	}
	return s
}
