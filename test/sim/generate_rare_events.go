package sim

import (
	"slices"
	"strings"
	"time"
)

// rareEvents adds what rarely happens, each to one in some ten worlds.
type rareEvents struct{ rareGenerator }

// admission adds one or two webhooks.
func (g rareEvents) admission() {
	last := g.spec.Steps[len(g.spec.Steps)-1].At
	for range oneOf(g.generator, 1, 1, 2) {
		c := g.clusterWithSteps()
		h := &Webhook{
			Evictions: g.chance(2), Deletions: true, Timeout: oneOf(g.generator, 10*time.Second, 10*time.Second, 30*time.Second),
			Ignores: g.chance(2), Code: oneOf[int32](g.generator, 0, 0, 403, 404, 409, 429, 500, 503),
			Answers: oneOf(g.generator, 0, 0, g.between(0, 30*time.Second)),
		}
		if h.Code == 0 || g.chance(4) { // It hangs otherwise, or does nothing.
			h.Answers = g.between(time.Second, 40*time.Second)
		} else if h.Answers == 0 {
			h.Answers = time.Millisecond
		}
		if g.chance(3) {
			h.Reason = map[int32]string{403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests"}[h.Code]
		}
		if g.chance(4) {
			h.Evictions, h.Deletions = true, false
		}
		if g.chance(2) {
			h.Workload = oneOf(g.generator, c.Workloads...).Name
		}
		g.spec.Faults = append(g.spec.Faults, Fault{
			Do: "kube-admission", On: c.Name, From: g.between(0, last), Webhook: h,
			For: oneOf(g.generator, g.between(time.Minute, 20*time.Minute), 2*time.Hour, 10*24*time.Hour),
		})
	}
}

// stopAgent has agents told to stop while they work, with an API server that takes its time for each request.
func (g rareEvents) stopAgent() {
	c := g.clusterWithSteps()
	if !g.chance(4) {
		c.Timing.Latency = g.between(20*time.Millisecond, time.Second)
	}
	for range oneOf(g.generator, 1, 1, 2, 4) {
		g.stop(oneOf(g.generator, c.Installs...))
	}
}

// stop has the processes of an install told to stop during one of their next writes after a step.
func (g rareEvents) stop(i Install) {
	g.spec.Faults = append(g.spec.Faults, Fault{
		Do: "stop", On: i.Name, N: 1 + g.IntN(30), From: oneOf(g.generator, g.spec.Steps...).At,
	})
}

// configure has an install configured otherwise while it works: how it marks nodes.
func (g rareEvents) configure() {
	c := g.clusterWithSteps()
	i := &c.Installs[g.IntN(len(c.Installs))]
	for range oneOf(g.generator, 1, 2) {
		i.Later = append(i.Later, oneOf(g.generator,
			[]string{"NODE_TAINT_KEY=node-drainer.io/leaving"},
			[]string{"NODE_TAINT_EFFECT=PreferNoSchedule", "NODE_CORDON=true"},
			[]string{"NODE_TAINT_EFFECT=NoSchedule", "NODE_CORDON=false"},
			[]string{"NODE_EXCLUDE_FROM_LOAD_BALANCERS=off"}, []string{"NODE_EXCLUDE_FROM_LOAD_BALANCERS=late"},
		)...)
	}
	g.stop(*i)
}

// nodeStep returns a step of the world that happens to a node, rather of the kinds, and whether there is one.
func (g rareEvents) nodeStep(kinds ...string) (Step, bool) {
	steps := slices.DeleteFunc(slices.Clone(g.spec.Steps), func(s Step) bool {
		ofGroup := func(c Cluster) bool { return c.has(s.On) }
		return !slices.ContainsFunc(g.spec.Clusters, ofGroup) || !slices.Contains(kinds, s.Do)
	})
	if len(steps) == 0 {
		return Step{}, false
	}
	return oneOf(g.generator, steps...), true
}

// drains are the kinds of steps that drain a node, except those whose instances have seconds.
func drains() []string {
	return []string{"terminate", "replace", "shrink", "maintain", "annotate", "alarm", "recommend"}
}

// after adds a step that happens to the node of another one, at about the same time.
func (g rareEvents) after(s Step, least, most time.Duration, next Step) {
	next.At, next.On, next.Node, next.Same = max(0, s.At+g.between(least, most)), s.On, s.Node, true
	g.spec.Steps = append(g.spec.Steps, next)
}

// rejoin has a Node deleted during its drain, and one of its name register.
func (g rareEvents) rejoin() {
	if s, ok := g.nodeStep(drains()...); ok {
		g.after(s, time.Second, oneOf(g.generator, time.Minute, 10*time.Minute), Step{
			Do: "rejoin", N: g.IntN(2), For: g.between(time.Second, 40*time.Second),
		})
	}
}

// uncordon has an administrator uncordon a node during its drain.
func (g rareEvents) uncordon() {
	if s, ok := g.nodeStep(drains()...); ok {
		g.after(s, time.Second, oneOf(g.generator, time.Minute, 20*time.Minute), Step{Do: "uncordon"})
	}
}

// hang has the container runtime of a node hang, before or during its drain.
func (g rareEvents) hang() {
	if s, ok := g.nodeStep(append(drains(), "interrupt")...); ok {
		g.after(s, -10*time.Minute, oneOf(g.generator, 30*time.Second, 5*time.Minute), Step{Do: "hang"})
	}
}

// ago returns how old a forged message says that it is; less than zero if it is of the future.
func (g rareEvents) ago() time.Duration {
	return oneOf(g.generator, epoch, epoch, 50*time.Hour, 6*time.Hour, 20*time.Minute, 2*time.Minute, -2*time.Hour)
}

// mislead adds forged messages about terminations that are true except for their times.
func (g rareEvents) mislead() {
	for range 1 + g.IntN(2) {
		s, ok := g.nodeStep("terminate", "terminate", "replace")
		if !ok {
			return
		}
		for range oneOf(g.generator, 1, 1, 5) {
			g.after(s, -10*time.Second, oneOf(g.generator, 10*time.Second, 5*time.Minute), Step{
				Do: "mislead", N: g.IntN(2), Ago: g.ago(),
			})
		}
	}
}

// misleadLaunch adds forged messages about launches. A step that replaces an instance makes one.
func (g rareEvents) misleadLaunch() {
	var groups []Group
	for _, c := range g.spec.Clusters {
		for _, group := range c.Groups {
			isOwn := func(h Hook) bool { return h.Launch && h.Install != "" }
			if slices.ContainsFunc(group.Hooks, isOwn) {
				groups = append(groups, group)
			}
		}
	}
	if len(groups) == 0 {
		return
	}
	group := oneOf(g.generator, groups...)
	replace := Step{Do: "replace", On: group.Name, Node: g.IntN(group.Nodes), N: 1, At: g.between(0, 10*time.Minute)}
	g.spec.Steps = append(g.spec.Steps, replace)
	for range 1 + g.IntN(2) {
		g.spec.Steps = append(g.spec.Steps, Step{
			Do: "mislead-launch", At: replace.At, On: group.Name, N: g.IntN(2), Ago: g.ago(),
			For: g.between(0, oneOf(g.generator, 2*time.Second, 30*time.Second)),
		})
	}
}

// misleadMaintenance adds a forged message that says that maintenance begins now, which is days ahead.
func (g rareEvents) misleadMaintenance() {
	s, ok := g.nodeStep("maintain")
	if !ok {
		group := oneOf(g.generator, g.clusterWithSteps().Groups...)
		s = Step{Do: "maintain", On: group.Name, Node: g.IntN(group.Nodes), N: 1, For: 6 * time.Hour}
		g.spec.Steps = append(g.spec.Steps, s)
	}
	g.after(s, time.Second, 10*time.Minute, Step{
		Do: "mislead-maintenance", For: oneOf(g.generator, -time.Hour, 20*time.Second, 10*time.Minute),
	})
}

// flood adds a message about many instances.
func (g rareEvents) flood() {
	install := oneOf(g.generator, g.clusterWithSteps().Installs...)
	g.spec.Steps = append(g.spec.Steps, Step{
		Do: "flood", On: install.Name, At: g.between(0, 5*time.Minute), N: oneOf(g.generator, 50, 1000, 4000),
	})
}

// unset removes the settings of a variable.
func (g rareEvents) unset(prefix string) {
	for i := range g.spec.Clusters {
		for k := range g.spec.Clusters[i].Installs {
			install := &g.spec.Clusters[i].Installs[k]
			install.Settings = slices.DeleteFunc(install.Settings, func(s string) bool {
				return strings.HasPrefix(s, prefix)
			})
		}
	}
}

// standby has an operator move an instance to Standby, perhaps while something asks for its replacement, and perhaps
// before something asks for that of another one.
func (g rareEvents) standby() {
	s, ok := g.nodeStep("alarm")
	if !ok || g.chance(3) {
		group := oneOf(g.generator, g.clusterWithSteps().Groups...)
		s = Step{
			Do: "alarm", On: group.Name, Node: g.IntN(group.Nodes), At: g.between(time.Minute, 10*time.Minute),
			For: g.between(time.Minute, time.Hour),
		}
		g.spec.Steps = append(g.spec.Steps, s)
		g.unset("EVENT_ALARM=")
		requestGenerator{g.generator}.set("EVENT_ALARM", "replace", "replace", "drain")
		g.spec.Steps = append(g.spec.Steps, Step{
			Do: "alarm", On: s.On, Node: s.Node + 1, At: s.At + g.between(time.Second, time.Hour),
			For: g.between(time.Minute, time.Hour),
		})
	}
	if g.chance(3) {
		g.spec.Steps = append(g.spec.Steps, Step{
			Do: "suspend", On: s.On, At: max(0, s.At-time.Minute), For: g.between(time.Minute, time.Hour),
		})
	}
	g.after(s, -time.Minute, oneOf(g.generator, 0, 10*time.Minute), Step{
		Do: "standby", For: oneOf(g.generator, 0, 0, g.between(time.Minute, 30*time.Minute)),
	})
	if g.chance(4) {
		g.spec.Faults = append(g.spec.Faults, Fault{
			Do: "aws-fail", What: "SetInstanceHealth", N: 1 + g.IntN(40), From: s.At, For: time.Hour,
		})
	}
}
