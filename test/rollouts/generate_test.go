package rollouts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// generator makes a Spec from a source of random numbers.
type generator struct {
	*rand.Rand
	spec Spec
}

// Generate returns the Spec of a seed.
func Generate(seed uint64) Spec {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 21)), spec: Spec{Seed: seed}}
	modes := []refresh.Mode{
		refresh.ModeUnhealthy, refresh.ModeUnhealthy, refresh.ModeStandby, refresh.ModeStandby, refresh.ModeRefresh,
		refresh.ModeRefresh, refresh.ModeNodegroup,
	}
	g.spec.Options.Mode = oneOf(g, modes...)
	g.spec.Kubernetes = g.chance(2)
	g.options()
	for n := range oneOf(g, 1, 1, 1, 2, 3) {
		g.spec.Groups = append(g.spec.Groups, g.group(fmt.Sprintf("g%d", n+1)))
	}
	g.surroundings()
	g.runs()
	g.steps()
	g.faults()
	return g.spec
}

// chance is true in one of n cases.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func oneOf[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// between returns a duration of whole seconds.
func (g *generator) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(g.Int64N(int64(most-least)+1))).Truncate(time.Second)
}

func (g *generator) options() {
	o := &g.spec.Options
	o.Batch = oneOf(g, refresh.Amount{N: 1}, refresh.Amount{N: 1}, refresh.Amount{N: 2}, refresh.Amount{N: 30, Percent: true})
	o.Order = oneOf(g, refresh.ByAge, refresh.ByZone)
	o.Until = oneOf(g, plan.Drained, plan.Drained, plan.Replaced, plan.Terminated)
	o.OnInterrupt = plan.Detach
	o.OnConflict, o.Pin, o.Taint = plan.Attach, refresh.PinAuto, cluster.NoTaint
	o.Then = refresh.ThenTerminate
	o.Poll = oneOf(g, 5*time.Second, 15*time.Second, 30*time.Second)
	o.Stall = oneOf(g, time.Hour, 20*time.Minute)
	o.Together = oneOf(g, refresh.NoPhase, refresh.PhaseCheck, refresh.PhaseCheck, refresh.PhaseTaint)
	o.Parallel = oneOf(g, 0, 1, 1, 2)
	o.FailFast, o.Gate, o.Windows = g.chance(6), g.chance(6), g.chance(12)
	if g.chance(5) {
		o.Suspend = []string{"AZRebalance"}
	}
	if g.chance(4) {
		o.Timeout = g.between(5*time.Minute, 2*time.Hour)
	}
	if g.spec.Kubernetes {
		o.Taint = oneOf(g, cluster.NoTaint, cluster.SoftTaint, cluster.HardTaint)
		if g.chance(3) {
			o.Ready = 10 * time.Minute
		}
	}
	if o.OnInterrupt = plan.Detach; g.chance(4) {
		o.OnInterrupt = plan.Cancel
	}
	if o.Mode.InBatches() {
		g.inBatches(o)
	} else {
		g.byAWS(o)
	}
	o.Autoscaler = g.spec.Kubernetes && !o.Windows && !o.NoWait && g.chance(3)
}

// inBatches adds the options of the modes unhealthy and standby.
func (g *generator) inBatches(o *Options) {
	o.Exclude = g.spec.Kubernetes && g.chance(4)
	if g.chance(4) {
		o.Between = g.between(30*time.Second, 5*time.Minute)
	}
	switch g.IntN(10) {
	case 0:
		o.Only = 1 + g.IntN(3)
	case 1:
		o.All = true
	case 2:
		o.MaxAge = 720 * time.Hour
	}
	if o.Mode == refresh.ModeStandby {
		if g.spec.Kubernetes {
			o.Then = oneOf(g, refresh.ThenTerminate, refresh.ThenTerminate, refresh.ThenKeep, refresh.ThenStop)
		}
		return
	}
	o.RaiseMax = g.chance(2)
	if !g.chance(3) {
		o.Surge = oneOf(g, refresh.Amount{N: 1}, refresh.Amount{N: 2}, refresh.Amount{N: 50, Percent: true},
			refresh.Amount{N: 100, Percent: true})
		if g.chance(3) {
			o.Step = oneOf(g, refresh.Amount{N: 1}, refresh.Amount{N: 2})
		}
		if g.chance(6) {
			o.Together = refresh.PhaseSurge
		}
	}
}

// byAWS adds the options of the modes refresh and nodegroup.
func (g *generator) byAWS(o *Options) {
	o.OnConflict = oneOf(g, plan.Attach, plan.Attach, plan.Wait, plan.CancelActive, plan.Fail)
	if g.chance(10) {
		o.NoWait, o.Gate, o.Suspend = true, false, nil
	}
	if o.Mode == refresh.ModeNodegroup {
		if o.OnConflict == plan.CancelActive {
			o.OnConflict = plan.Wait
		}
		o.Suspend = nil
		return
	}
	o.RaiseMax = g.chance(4)
	o.Surge = oneOf(g, refresh.Amount{N: 1}, refresh.Amount{N: 10, Percent: true}, refresh.Amount{N: 50, Percent: true})
	o.MinHealthy = oneOf(g, 0, 0, 90, 50)
	o.Pin = oneOf(g, refresh.PinAuto, refresh.PinAuto, refresh.PinAlways, refresh.PinNever)
	o.All = g.chance(8)
	if g.chance(4) {
		o.Checkpoints = []int{oneOf(g, 20, 50), 100}
	}
	if o.Pin != refresh.PinNever && g.chance(6) {
		o.AutoRollback = true
	}
	if o.Pin != refresh.PinNever && g.chance(8) {
		o.OnInterrupt = plan.Rollback
	}
	o.Newest, o.Alarm = g.chance(6), g.chance(6)
}

func (g *generator) group(name string) Group {
	size := oneOf(g, 0, 1, 2, 2, 3, 3, 4, 5, 6, 12)
	one := Group{
		Name: name, Size: size, Old: size, Max: size + oneOf(g, 0, 1, 2, 6, 6), Zones: 1 + g.IntN(3),
		Version: oneOf(g, "$Latest", "$Latest", "$Default", "number"), MaxUnavailable: 1 + g.IntN(2),
	}
	if one.Max == 0 {
		one.Max = 1
	}
	if g.chance(3) && !g.spec.Options.NoWait {
		one.Wave = oneOf(g, "1", "2", "3")
	}
	if g.spec.Options.Mode == refresh.ModeNodegroup {
		one.Nodegroup, one.Wave = true, ""
		return one
	}
	one.Min = oneOf(g, 0, 0, min(1, size), size/2, size)
	if g.chance(3) && size > 0 {
		one.Old = g.IntN(size + 1)
	}
	if o := g.spec.Options; !g.chance(3) || o.Mode == refresh.ModeUnhealthy && o.Surge.N == 0 {
		one.Policy = oneOf(g, [2]int{100, 150}, [2]int{100, 110}, [2]int{100, 200}, [2]int{50, 100})
	}
	one.Parameter, one.Spot = g.chance(8), g.chance(4)
	if g.chance(5) {
		one.Types = []string{"m7i.large", "m7a.large"}
		if one.Version == "number" {
			one.Version = "$Latest"
		}
	}
	if g.spec.Options.Newest {
		one.Version, one.Parameter, one.Types = "number", false, nil
	}
	one.Hooks = g.hooks()
	g.ofUser(&one)
	return one
}

func (g *generator) hooks() (hooks []Hook) {
	hooks = append(hooks, Hook{Name: "drain", Takes: g.between(5*time.Second, 2*time.Minute)})
	if g.chance(3) {
		hooks = append(hooks, Hook{Name: "launch", Launch: true, Takes: g.between(5*time.Second, time.Minute)})
	}
	if g.chance(4) {
		hooks = append(hooks, Hook{Name: "other", Takes: g.between(5*time.Second, 6*time.Minute), Abandons: g.chance(2)})
	}
	return hooks
}

// ofUser adds what a user has done before.
func (g *generator) ofUser(one *Group) {
	o := g.spec.Options
	if g.chance(8) {
		one.Protected = min(1, one.Size)
	}
	if g.chance(8) && one.Size-one.Protected > one.Min && o.Mode != refresh.ModeRefresh {
		one.Standby = 1
	}
	if o.Exclude {
		one.Excluded = g.IntN(2)
	}
	if o.MaxAge > 0 {
		one.Aged = g.IntN(3)
	}
	if g.chance(15) {
		one.Suspended = oneOf(g, "AZRebalance", "ScheduledActions", "AlarmNotification")
	}
	if g.chance(8) && o.Mode == refresh.ModeRefresh {
		one.WarmPool = 1 + g.IntN(2)
	}
}

// surroundings adds how AWS and the nodes behave.
func (g *generator) surroundings() {
	s := &g.spec
	s.Launch = g.between(0, time.Minute)
	s.NodeAfter = oneOf(g, 0, 20*time.Second, time.Minute)
	if g.chance(3) {
		s.Visible = g.between(time.Second, 15*time.Second)
	}
	if g.chance(7) {
		s.Quirk = oneOf(g, ForeignVersion, LatestAsText, NoTemplate, AnyOrder, LaunchesFirst, UpperCase)
		if s.Quirk == LaunchesFirst && !s.Options.Mode.InBatches() { // A refresh would never end.
			s.Quirk = AnyOrder
		}
	}
	if s.Options.Gate && g.chance(2) {
		from := g.between(0, 20*time.Minute)
		s.GateFails = [2]time.Duration{from, from + g.between(time.Minute, 10*time.Minute)}
	}
}

// runs adds the processes. The trigger at the end is not one of them.
func (g *generator) runs() {
	at := time.Duration(0)
	for range oneOf(g, 1, 1, 2, 2, 3) {
		run := Run{At: at, Command: g.command()}
		switch {
		case g.chance(3):
			run.Kill = 1 + g.IntN(40)
			if run.Reads = g.chance(3); run.Reads {
				run.Kill *= 3
			}
		case g.chance(4), run.Command == Watch:
			run.Interrupt = g.between(5*time.Second, 30*time.Minute)
		}
		if run.Command == Watch {
			run.Interrupt += time.Hour
		}
		g.spec.Runs = append(g.spec.Runs, run)
		at += oneOf(g, 0, g.between(0, 5*time.Second), g.between(0, 2*time.Minute), g.between(0, 30*time.Minute))
	}
}

func (g *generator) command() Command {
	o := g.spec.Options
	unattended := o.All || o.Only > 0 || o.NoWait || o.Windows && len(o.Suspend) > 0
	switch {
	case g.chance(6) && !unattended:
		return Watch
	case len(g.spec.Runs) == 0:
		return Trigger
	case g.chance(3) && o.Mode != refresh.ModeNodegroup:
		return oneOf(g, Rollback, Rollback, Resume, Cancel, Pause)
	}
	return Trigger
}

// steps adds what an operator and an autoscaler do.
func (g *generator) steps() {
	var names []string
	for name := range steps() {
		names = append(names, name)
	}
	slices.Sort(names)
	names = append(names, "scale", "scale", "scale", "version")
	at := time.Duration(0)
	for range oneOf(g, 0, 0, 0, 1, 2, 3, 6) {
		at += g.between(5*time.Second, 10*time.Minute)
		step := Step{At: at, Do: oneOf(g, names...), Group: g.IntN(len(g.spec.Groups)), N: g.IntN(12)}
		if step.Do == "scale" {
			step.N = oneOf(g, -2, -1, 1, 1, 2, 3)
		}
		g.spec.Steps = append(g.spec.Steps, step)
	}
}

func (g *generator) faults() {
	at := time.Duration(0)
	for range oneOf(g, 0, 0, 0, 1, 2) {
		at += g.between(0, 10*time.Minute)
		f := Fault{
			At: at, For: g.between(10*time.Second, 5*time.Minute), Share: oneOf(g, 0.05, 0.3, 1),
			Kind: oneOf(g, "throttle", "unavailable", "lost", "slow"),
		}
		g.spec.Faults = append(g.spec.Faults, f)
		at += f.For
	}
}
