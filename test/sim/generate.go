package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// generator makes a world from a source of random numbers.
type generator struct {
	*rand.Rand
	spec Spec
	size int // 1 to 3
}

// Generate returns the world of a seed. Most worlds are small, because what fails in a large one nearly always fails
// in a small one, which is run in less time and is easier to understand.
func Generate(seed uint64) Spec {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 12)), spec: Spec{Seed: seed}}
	g.size = oneOf(g, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3)
	if g.chance(3) {
		g.spec.Visible = g.between(time.Second, 8*time.Second)
	}
	if g.chance(6) {
		g.spec.Skew = oneOf(g, -time.Minute, -10*time.Second, 10*time.Second, time.Minute)
	}
	clusters := 1
	if g.size > 1 && g.chance(3) {
		clusters = 2 + g.IntN(2)
	}
	for i := range clusters {
		g.spec.Clusters = append(g.spec.Clusters, g.cluster(fmt.Sprintf("c%d", i+1)))
	}
	stepGenerator{g}.steps()
	g.faults()
	g.Rand = rand.New(rand.NewPCG(seed, 14)) // What was generated before stays as it is.
	g.groups()
	g.Rand = rand.New(rand.NewPCG(seed, 15))
	requestGenerator{g}.all()
	g.Rand = rand.New(rand.NewPCG(seed, 17))
	rareGenerator{g}.all()
	if hasOld {
		addVersions(&g.spec)
	}
	return g.spec
}

// chance is true in one of n cases.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

// between returns a duration of whole seconds.
func (g *generator) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(g.Int64N(int64(most-least)+1))).Truncate(time.Second)
}

func oneOf[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) cluster(name string) Cluster {
	c := Cluster{Name: name, Timing: g.timing()}
	installs := []string{""}
	if g.chance(5) {
		installs = []string{"a", "b"}
	} else if g.chance(6) {
		installs = []string{"a"}
	}
	for i, team := range installs {
		c.Installs = append(c.Installs, g.install(fmt.Sprintf("%s-agent%d", name, i+1), team))
	}
	groups := 1
	if len(installs) > 1 || g.size > 1 {
		groups += g.IntN(g.size + 1)
	}
	if len(installs) > 1 {
		groups = max(groups, 2)
	}
	for i := range groups {
		c.Groups = append(c.Groups, g.group(fmt.Sprintf("%s-g%d", name, i+1), c.Installs, i))
	}
	for i := range 1 + g.IntN(2+2*g.size) {
		c.Workloads = append(c.Workloads, g.workload(fmt.Sprintf("w%d", i+1)))
	}
	for i := range g.IntN(3) {
		c.Daemons = append(c.Daemons, DaemonSet{
			Name: fmt.Sprintf("d%d", i+1), Tolerant: !g.chance(3), Critical: g.chance(2), Broken: g.chance(8),
		})
	}
	return c
}

func (g *generator) timing() Timing {
	t := Timing{Delete: g.between(0, 2*time.Minute), Boot: g.between(10*time.Second, time.Minute)}
	if g.chance(3) {
		t.Lag = g.between(0, oneOf(g, 4*time.Second, 20*time.Second, time.Minute))
	}
	if g.chance(3) {
		t.Watch = g.between(0, oneOf(g, 3*time.Second, 3*time.Second, 15*time.Second))
	}
	if g.chance(4) {
		t.Count = g.between(0, 10*time.Second)
	}
	return t
}

func (g *generator) install(name, team string) Install {
	i := Install{Name: name, Team: team, Replicas: 1, Named: g.chance(3)}
	if g.chance(5) {
		i.Replicas = 2
	}
	set := func(n int, variable string, values ...string) {
		if g.chance(n) {
			i.Settings = append(i.Settings, variable+"="+oneOf(g, values...))
		}
	}
	set(2, "DRAIN_TIMEOUT", "5m", "10m", "20m", "30m", "2h", "12h")
	set(6, "DRAIN_TIERS", "0", "0=2m,1000", "0,1000,2000000000")
	set(6, "DRAIN_WAIT_FOR_JOBS", "true")
	set(8, "DRAIN_AT_DEADLINE", "leave")
	set(8, "DRAIN_FORCE_SPACING", "0s", "10s", "2m")
	set(8, "DRAIN_FORCE_UNHEALTHY_AFTER", "1m", "5m")
	set(8, "DRAIN_SETTLE", "0s", "30s")
	set(8, "DRAIN_BARE_PODS", "wait")
	set(8, "DRAIN_EMPTYDIR_PODS", "wait")
	if !g.chance(8) {
		set(10, "NODE_TAINT_EFFECT", "PreferNoSchedule")
	} else { // A taint that pods only prefer to avoid is not enough then.
		set(1, "NODE_CORDON", "false")
	}
	set(8, "NODE_EXCLUDE_FROM_LOAD_BALANCERS", "late", "off")
	set(8, "HOOK_CONFIRM_TIMEOUT", "10s", "3m")
	set(8, "RESYNC_INTERVAL", "1m", "10m")
	set(4, "EVENT_REBALANCE_RECOMMENDATION", "drain", "cordon", "replace")
	set(6, "EVENT_SCHEDULED_CHANGE", "cordon", "replace", "ignore")
	set(8, "EVENT_SPOT_INTERRUPTION", "cordon", "ignore")
	set(8, "EVENT_STATE_CHANGE", "cordon", "ignore")
	set(8, "EVENT_REBALANCE_RECOMMENDATION_TIMEOUT", "0s", "10m")
	set(4, "EVENT_SCHEDULED_CHANGE_LEAD", "5m", "30m", "2h")
	set(3, "DRAIN_MAX_CONCURRENT", "100%", "2", "50%")
	set(8, "DRAIN_MAX_CONCURRENT_PER_ZONE", "1", "50%")
	set(12, "EVENT_CAPACITY_RESERVATION_INTERRUPTION", "cordon", "ignore")
	set(12, "EVENT_CAPACITY_BLOCK_EXPIRATION", "cordon", "ignore")
	set(8, "EVENT_MARGIN", "0s", "30s")
	set(5, "LAUNCH_TIMEOUT", "5m", "10m")
	set(8, "LAUNCH_AT_TIMEOUT", "continue")
	set(8, "LAUNCH_DAEMONSETS", "false")
	set(8, "DRAIN_ANNOTATION_TIMEOUT", "0s", "2m", "15m")
	set(12, "DRAIN_ANNOTATION_NAMESPACES", "none")
	return i
}

func (g *generator) group(name string, installs []Install, i int) Group {
	install := installs[i%len(installs)]
	group := Group{
		Name: name, Nodes: 1 + g.IntN(2+g.size*g.size), Team: install.Team, Spot: g.chance(3),
	}
	if g.chance(10) {
		group.Broken = 1
	}
	if len(installs) == 1 && install.Team != "" && i > 0 {
		group.Team = ""
	}
	if group.Team != install.Team {
		install.Name = "" // Its hooks belong to nobody here.
	}
	if g.chance(6) {
		group.MinHealthy = 100
	}
	if !group.Spot && g.chance(6) {
		group.Pool = &Pool{Reuse: true}
	}
	group.Hooks = g.hooks(install.Name)
	return group
}

// hooks returns the hooks of a group: those of an install, or of other tools in its place, and more of other tools.
func (g *generator) hooks(install string) (hooks []Hook) {
	prefix := ""
	if install == "" {
		prefix = "other-"
	}
	if !g.chance(12) {
		hooks = append(hooks, g.hook(prefix+"drain", install, false))
	}
	if g.chance(3) {
		hooks = append(hooks, g.hook(prefix+"launch", install, true))
	}
	if g.chance(4) {
		hooks = append(hooks, g.hook(oneOf(g, "backup", "leave-domain"), "", false))
	}
	if g.chance(8) {
		hooks = append(hooks, g.hook("bootstrap", "", true))
	}
	return hooks
}

func (g *generator) hook(name, install string, launch bool) Hook {
	h := Hook{
		Name: name, Install: install, Launch: launch, Continue: !g.chance(3),
		Heartbeat: oneOf(g, 2*time.Minute, 5*time.Minute, 5*time.Minute, 10*time.Minute, time.Hour),
	}
	if install == "" {
		h.Holds = g.between(10*time.Second, oneOf(g, time.Minute, 20*time.Minute))
		h.Heartbeat = time.Hour
		h.Via = oneOf(g, "", "", "eventbridge")
		return h
	}
	h.Via = oneOf(g, "queue", "queue", "sns", "raw", "eventbridge", "eventbridge")
	if !launch && g.chance(20) {
		h.Heartbeat = 30 * time.Second
	}
	return h
}

func (g *generator) workload(name string) Workload {
	w := Workload{
		Name: name, Replicas: 1 + g.IntN(3), Start: g.between(time.Second, 20*time.Second),
		Kind: oneOf(g, "deployment", "deployment", "deployment", "deployment", "statefulset", "job", "bare"),
		Grace: oneOf(g, 0, time.Second, 30*time.Second, 30*time.Second, 30*time.Second, 5*time.Minute, time.Hour,
			20*time.Hour),
	}
	w.Stop = g.between(0, min(w.Grace, oneOf(g, 10*time.Second, time.Minute, 10*time.Minute)))
	if g.chance(12) {
		w.Stop = w.Grace
	}
	if g.chance(2) {
		w.Budgets = append(w.Budgets, g.budget(w.Replicas))
	}
	if len(w.Budgets) > 0 && g.chance(8) {
		w.Budgets = append(w.Budgets, g.budget(w.Replicas))
	}
	if g.chance(8) { // It leaves only when it is killed.
		w.Grace = oneOf(g, 5*time.Minute, time.Hour, time.Hour)
		w.Stop, w.Budgets = w.Grace, []Budget{{MaxUnavailable: "0"}}
	}
	if g.chance(4) {
		w.Priority = oneOf[int32](g, 1000, 2_000_000_000, 2_000_001_000)
	}
	w.Wait, w.Unready, w.EmptyDir = g.chance(8), g.chance(12), g.chance(6)
	return w
}

func (g *generator) budget(replicas int) Budget {
	b := Budget{AlwaysAllow: g.chance(3)}
	switch g.IntN(6) {
	case 0:
		b.MinAvailable = fmt.Sprint(max(0, replicas-1))
	case 1:
		b.MinAvailable = fmt.Sprint(replicas)
	case 2:
		b.MinAvailable = oneOf(g, "50%", "100%")
	case 3:
		b.MaxUnavailable = "0"
	case 4:
		b.MaxUnavailable = oneOf(g, "25%", "50%")
	default:
		b.MaxUnavailable = "1"
	}
	return b
}

// faults adds what fails meanwhile: nothing in half of all worlds.
func (g *generator) faults() {
	if g.chance(2) {
		return
	}
	last := g.spec.Steps[len(g.spec.Steps)-1].At
	for range 1 + g.IntN(g.size+1) {
		f := g.fault(last + 2*time.Minute)
		denied := func(other Fault) bool { return f.Do == "aws-deny" && other.Do == f.Do }
		switch {
		case slices.ContainsFunc(g.spec.Faults, denied): // Without two of them, no event can be confirmed.
		case f.What == "RecordLifecycleActionHeartbeat" && g.hasBrokenDaemons():
			// The hooks end before the agent would go on without the DaemonSet, and the group launches for ever.
		default:
			g.spec.Faults = append(g.spec.Faults, f)
		}
	}
}

func (g *generator) hasBrokenDaemons() bool {
	return slices.ContainsFunc(g.spec.Clusters, func(c Cluster) bool {
		return slices.ContainsFunc(c.Daemons, func(d DaemonSet) bool { return d.Broken })
	})
}

// fault returns something that fails before a time.
func (g *generator) fault(before time.Duration) Fault {
	cluster := oneOf(g, g.spec.Clusters...)
	install := oneOf(g, cluster.Installs...).Name
	f := Fault{From: g.between(0, before), On: cluster.Name}
	f.For = g.between(time.Second, oneOf(g, 10*time.Second, 2*time.Minute, 20*time.Minute))
	f.Do = oneOf(g, "crash", "crash", "crash", "kube-down", "kube-hang", "kube-slow", "kube-break",
		"kube-expire", "kube-lag", "kube-lose", "kube-throttle", "kube-fail", "kube-conflict", "kube-deny",
		"kube-webhook", "aws-down", "aws-throttle", "aws-deny", "aws-drop", "aws-fail", "queue-delay", "queue-duplicate",
		"queue-reorder")
	switch f.Do {
	case "crash":
		f.N, f.On = 1+g.IntN(20), install
	case "kube-deny":
		f.What = oneOf(g, "patch nodes", "create pods/eviction", "delete pods", "list pods", "create events",
			"watch nodes")
	case "kube-webhook":
		f.What = oneOf(g, "refuse", "slow")
	case "aws-deny":
		f.What, f.On = oneOf(g, "DescribeAutoScalingInstances", "DescribeAutoScalingInstances", "DescribeLifecycleHooks",
			"DescribeInstances", "DescribeTags", "DescribeAutoScalingGroups", "RecordLifecycleActionHeartbeat"), ""
		f.For = oneOf(g, f.For, 10*24*time.Hour)
	case "aws-fail":
		f.What, f.N, f.On = oneOf(g, "CompleteLifecycleAction", "RecordLifecycleActionHeartbeat"), 1+g.IntN(4), ""
		f.For = g.between(time.Minute, 2*time.Hour)
	case "aws-down", "aws-throttle", "aws-drop":
		f.What, f.On = oneOf(g, "sqs", "autoscaling", "ec2", ""), ""
	case "queue-delay", "queue-duplicate", "queue-reorder":
		f.On = install
	}
	return f
}
