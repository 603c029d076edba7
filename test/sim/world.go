package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// launchTemplate is that of all groups.
const launchTemplate = "nodes"

// firstImage is that of all groups at first.
const firstImage = "ami-1"

// imageOf is the image of the nth version.
func imageOf(n int) string { return fmt.Sprintf("ami-%d", n) }

// world is a running Spec.
type world struct {
	spec     Spec
	random   *rand.Rand // of what happens after the start; used by one goroutine
	aws      *awsim.Server
	clusters []*cluster
	machines *machines
	began    time.Time // what the times of the Spec count from
	log      *log
	facts    *facts
	chosen   map[string]string // by On and Node of the steps: the instance that they chose last
	rollouts *rolloutFacts
	work     sync.WaitGroup
}

// cluster is a running Cluster.
type cluster struct {
	Cluster
	server      *kube.Server
	agents      []*agent
	controllers *kube.Controllers
	log         *log
	world       *world
	members     map[string]*group // by workload: those whose pods have a leader
	version     string            // of Kubernetes, for managed node groups
	nodegroups  map[string]string // managed node groups, by the names of their groups
	changes
}

// newWorld builds the world, without agents. Its groups have their instances, and its workloads their pods.
func newWorld(spec Spec) (*world, error) {
	w := &world{
		spec: spec.clone(), random: rand.New(rand.NewPCG(spec.Seed, 1)), log: &log{seed: spec.Seed, began: time.Now()},
		chosen: map[string]string{},
	}
	w.facts, w.rollouts = newFacts(w), newRolloutFacts(w)
	w.machines = &machines{
		world: w, instances: map[string]*machine{}, launched: map[string]int{}, early: map[string][]time.Duration{},
	}
	w.aws = awsim.NewUnconnected(awsim.Options{Queues: w.queues(), Machines: w.machines, Seed: spec.Seed})
	for i, c := range w.spec.Clusters {
		running := &cluster{
			Cluster: c, log: w.log, world: w, members: map[string]*group{}, nodegroups: map[string]string{},
		}
		running.start(w, spec.Seed+uint64(i))
		w.clusters = append(w.clusters, running)
	}
	if err := (setup{w}).createGroups(); err != nil {
		return w, err
	}
	time.Sleep(time.Minute)
	for _, c := range w.clusters {
		if err := errors.Join(c.addStrayNode(w.spec.Steps), c.createWorkloads()); err != nil {
			return w, err
		}
	}
	time.Sleep(3 * time.Minute)
	w.machines.booted = true
	w.aws.SetSkew(spec.Skew)
	w.aws.SetDelays(awsim.Delays{Visible: spec.Visible, Launch: 10 * time.Second, Terminate: 5 * time.Second})
	return w, setup{w}.route()
}

// queues returns the names of the queues of all installs.
func (w *world) queues() (names []string) {
	for _, c := range w.spec.Clusters {
		for _, i := range c.Installs {
			names = append(names, i.Name)
		}
	}
	return names
}

func queueURL(install string) string {
	return "https://sqs.eu-central-1.amazonaws.com/123456789012/" + install
}

// setup creates groups and hooks, and connects them with the queues.
type setup struct{ *world }

// createGroups makes all groups. With triggers each has a launch template of its own.
func (w setup) createGroups() error {
	if _, err := w.aws.CreateLaunchTemplate(launchTemplate, firstImage); err != nil {
		return err
	}
	for i, c := range w.clusters {
		if err := (managed{c}).connect(i); err != nil {
			return err
		}
		for _, g := range c.Groups {
			if err := w.createGroup(c, g); err != nil {
				return err
			}
		}
	}
	return nil
}

// createGroup makes a group, whose instances are launched at once, because it has no hooks yet.
func (w setup) createGroup(c *cluster, g Group) error {
	if g.Managed {
		return managed{c}.create(g)
	}
	group := awsim.Group{
		LaunchTemplate: launchTemplate,
		Name:           g.Name, Desired: g.Nodes, Max: g.most(),
		Tags:       map[string]string{"kubernetes.io/cluster/" + c.Name: "owned"},
		MinHealthy: g.MinHealthy, MaxHealthy: g.MinHealthy + g.MinHealthy/2,
	}
	if g.Spot {
		group.Market = awsim.Spot
	}
	if w.isJoint() {
		group.LaunchTemplate, group.LaunchTemplateVersion = g.Name, "$Default"
		if _, err := w.aws.CreateLaunchTemplate(g.Name, firstImage); err != nil {
			return err
		}
	}
	if err := w.aws.CreateGroup(group); err != nil || g.Pool == nil {
		return err
	}
	return w.putPool(g)
}

// route puts the hooks of all groups, and connects them and the events with the queues.
func (w setup) route() error {
	for _, c := range w.clusters {
		for _, i := range c.Installs {
			if err := w.routeInstall(c, i); err != nil {
				return err
			}
		}
		for _, g := range c.Groups {
			for _, h := range g.Hooks {
				if err := w.putHook(g, h); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// routeInstall connects the queue of an install with its topics, with the events of EC2 and AWS Health in the account,
// and with the actions of those of its hooks that have no target.
func (w setup) routeInstall(c *cluster, i Install) error {
	if err := c.server.Create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: i.records()},
	}); err != nil {
		return err
	}
	queue := w.aws.QueueARN(queueURL(i.Name))
	w.aws.SubscribeTopic(topic(i.Name, "sns"), queue, false)
	w.aws.SubscribeTopic(topic(i.Name, "raw"), queue, true)
	w.aws.AddRule(queue, awsim.SpotWarning, awsim.RebalanceAdvice, awsim.StateChanged, awsim.HealthChanged,
		awsim.ReservationWarning, awsim.BlockWarning, awsim.AlarmChanged)
	for _, g := range c.Groups {
		var names []string
		for _, h := range g.Hooks {
			if h.Install == i.Name && h.Via == "eventbridge" {
				names = append(names, h.Name)
			}
		}
		pattern := map[string]any{"AutoScalingGroupName": []string{g.Name}}
		if !i.Named { // HOOK_NAMES excludes the others otherwise.
			pattern["LifecycleHookName"] = names
		}
		if len(names) == 0 {
			continue
		}
		text, err := json.Marshal(map[string]any{"source": []string{"aws.autoscaling"}, "detail": pattern})
		if err = errors.Join(err, w.aws.PutRule("lifecycle", queue, string(text))); err != nil {
			return err
		}
	}
	return nil
}

func topic(install, kind string) string {
	return "arn:aws:sns:eu-central-1:123456789012:" + install + "-" + kind
}

// putPool gives a group its warm pool. Its instances are launched and stopped at once.
func (w setup) putPool(g Group) error {
	least := 0
	if g.Pool.Kept {
		least = g.Pool.Size
	}
	_, err := w.client().PutWarmPool(context.Background(), &autoscaling.PutWarmPoolInput{
		AutoScalingGroupName: &g.Name, PoolState: types.WarmPoolStateStopped, MinSize: new(int32(least)),
		MaxGroupPreparedCapacity: new(int32(g.Nodes + g.Pool.Size)),
		InstanceReusePolicy:      &types.InstanceReusePolicy{ReuseOnScaleIn: &g.Pool.Reuse},
	})
	return err
}

func (w setup) putHook(g Group, h Hook) error {
	hook := awsim.Hook{Name: h.Name, HeartbeatTimeout: h.Heartbeat, DefaultResult: "ABANDON"}
	if h.Launch {
		hook.Transition = awsim.Launching
	}
	if h.Continue {
		hook.DefaultResult = "CONTINUE"
	}
	switch h.Via {
	case "queue":
		hook.NotificationTargetARN = w.aws.QueueARN(queueURL(h.Install))
	case "sns", "raw":
		hook.NotificationTargetARN = topic(h.Install, h.Via)
	}
	return w.aws.PutHook(g.Name, hook)
}

// clusterOf returns the cluster of a group.
func (w *world) clusterOf(group string) (*cluster, Group, bool) {
	for _, c := range w.clusters {
		for _, g := range c.Groups {
			if g.Name == group {
				return c, g, true
			}
		}
	}
	return nil, Group{}, false
}

// hookOf returns the hook of a lifecycle action, the zero Hook if the Spec has none of its name.
func (w *world) hookOf(a awsim.Action) Hook {
	_, g, _ := w.clusterOf(a.Group)
	if i := slices.IndexFunc(g.Hooks, func(h Hook) bool { return h.Name == a.Hook }); i >= 0 {
		return g.Hooks[i]
	}
	return Hook{}
}

// named returns the clusters of a name; all, if it is empty.
func (w *world) named(name string) (out []*cluster) {
	for _, c := range w.clusters {
		if name == "" || c.Name == name {
			out = append(out, c)
		}
	}
	return out
}

// agentsOf returns the agents of an install; all, if the name is empty.
func (w *world) agentsOf(install string) (out []*agent) {
	for _, c := range w.clusters {
		for _, a := range c.agents {
			if install == "" || a.Name == install {
				out = append(out, a)
			}
		}
	}
	return out
}

// since returns how long after the start of the world a time is.
func (w *world) since(t time.Time) time.Duration { return t.Sub(w.began).Round(time.Millisecond) }

// start starts the API server and the controllers.
func (c *cluster) start(w *world, seed uint64) {
	c.server = kube.New(seed)
	c.server.OnChange, c.server.Audit = c.observe, func(r kube.Record) { w.facts.record(c, r) }
	c.server.Latency = c.Timing.Latency
	timing := kube.DefaultTiming()
	timing.SchedulerLag, timing.Count = c.Timing.Lag, max(timing.Count, c.Timing.Count)
	c.controllers = c.server.Run(timing)
	if c.Timing.Watch > 0 {
		c.server.Inject(kube.Fault{Effect: kube.Stale, From: time.Now(), Delay: c.Timing.Watch})
	}
	for _, i := range c.Installs {
		for n := range i.Replicas {
			name := fmt.Sprintf("%s-%d", i.Name, n)
			c.agents = append(c.agents, &agent{Install: i, name: name, replica: n, world: w, cluster: c, old: i.Old})
		}
	}
}

// install returns an install of the world.
func (w *world) install(name string) Install {
	for _, a := range w.agentsOf(name) {
		return a.Install
	}
	return Install{}
}

// strayNode is the Node of an instance that EC2 does not know, as one of another account is.
const strayNode = "i-0000000000000000f"

// addStrayNode adds that Node if a forged message will name it.
func (c *cluster) addStrayNode(steps []Step) error {
	isNamed := slices.ContainsFunc(steps, func(s Step) bool { return s.Do == "forge" && s.N == 0 && c.has(s.On) })
	if !isNamed {
		return nil
	}
	return c.server.Create(newNode(&machine{id: strayNode}, "eu-central-1a", false))
}

// has reports whether the cluster has a group.
func (c Cluster) has(group string) bool {
	return slices.ContainsFunc(c.Groups, func(g Group) bool { return g.Name == group })
}

// messages returns the messages in the queue of an install, without those about instances of another team, whose agent
// they wait for.
func (w *world) messages(i Install) []string {
	return slices.DeleteFunc(w.aws.Held(queueURL(i.Name)), func(body string) bool {
		for id, m := range w.machines.instances {
			if i.Team != "" && m.group.Team != i.Team && strings.Contains(body, id) {
				return true
			}
		}
		return false
	})
}
