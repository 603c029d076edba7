package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/test/redisserver"
)

// scenario is a workload and the nodes to drain.
type scenario struct {
	Name        string
	Part        string // The name for -scenario, if several share one.
	Description string

	Nodes       int           // To drain.
	PodsPerNode int           // On these, on average: the scheduler spreads them.
	Stop        time.Duration // What a pod's process needs to stop.
	Guarded     float64       // The share of the pods with disruption budgets.
	Replicas    int           // Of a Deployment with a budget; 10 if 0.
	Blocked     time.Duration // How long after the start of the drain the budgets allow nothing.
	Spare       int           // Other nodes; as many as the pods need if 0.
	Background  int           // Pods on the other nodes.
	Heartbeat   time.Duration // The timeout of the lifecycle hook; 5 minutes if 0.
	Contestants []string      // All drainers if empty.

	Redis redisserver.Mode // There are no pods but those of a group of Redis, and its leaders' nodes are drained.
	Move  time.Duration    // What a pod of Redis needs to start on another node.
}

// scenarios returns all scenarios in the order in which they run.
func scenarios() []scenario {
	return []scenario{
		{
			Name: "budgets", Nodes: 20, PodsPerNode: 20, Stop: 5 * time.Second, Guarded: 0.2,
			Description: "20 nodes of 20 pods, every fifth pod with a budget of 1 or 2 in 10; 5 s to stop",
		},
		{
			Name: "plain", Nodes: 50, PodsPerNode: 30, Stop: 5 * time.Second,
			Description: "50 nodes of 30 pods without budgets; 5 s to stop",
		},
		{
			Name: "one", Nodes: 1, PodsPerNode: 100, Stop: 5 * time.Second,
			Description: "one node of 100 pods without budgets; 5 s to stop",
		},
		{
			Name: "freed", Nodes: 20, PodsPerNode: 5, Stop: 5 * time.Second, Guarded: 1,
			Blocked:     30 * time.Second,
			Description: "20 nodes of 5 pods, all with budgets that allow nothing for 30 s, then all; 5 s to stop",
		},
		{
			Name: "long", Nodes: 10, PodsPerNode: 20, Stop: time.Minute,
			Description: "10 nodes of 20 pods without budgets; 60 s to stop",
		},
		{
			Name: "memory", Nodes: 20, PodsPerNode: 30, Stop: 5 * time.Second, Spare: 80, Background: 2400,
			Contestants: []string{agentName},
			Description: "20 of 100 nodes in a cluster of 3,000 pods; 5 s to stop",
		},
		{
			Name: "memory-x10", Part: "memory", Nodes: 20, PodsPerNode: 30, Stop: 5 * time.Second, Spare: 80,
			Background: 24000, Contestants: []string{agentName},
			Description: "the same with 24,000 instead of 2,400 pods on the other 80 nodes",
		},
		{
			Name: "thousand", Nodes: 1000, PodsPerNode: 5, Stop: 5 * time.Second, Spare: 1000, Background: 5000,
			Heartbeat: 2 * time.Minute, Contestants: []string{agentName},
			Description: "1,000 of 2,000 nodes of 5 pods; 5 s to stop; a hook of 120 s",
		},
		redisScenario(redisserver.Sentinel, "three members and three sentinels; the leader's node", failoverName),
		redisScenario(redisserver.Cluster, "three shards of two; the leaders' nodes, one after the other"),
		redisScenario(redisserver.Plain, "three members that nothing watches; the leader's node"),
	}
}

// redisScenario drains under a mode of Redis. A pod takes as long to move as with a volume.
func redisScenario(mode redisserver.Mode, description string, more ...string) scenario {
	return scenario{
		Name: statefulPart + "-" + string(mode), Part: statefulPart, Redis: mode, Move: 10 * time.Second,
		Contestants: append([]string{agentName, unannotatedName, kubectlName}, more...),
		Description: "Redis: " + description + "; 10 s to move",
	}
}

const statefulPart = "stateful"

// among returns those contestants of the scenario that are among the names.
func (s scenario) among(names []string) []string {
	all := s.Contestants
	if len(all) == 0 {
		all = drainers()
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(names, name) })
}

// scaled returns the scenario with a part of its nodes, for a quick look. Its figures are not comparable.
func (s scenario) scaled(by float64) scenario {
	part := func(n int) int { return int(math.Ceil(float64(n) * by)) }
	s.Nodes, s.Spare, s.Background = part(s.Nodes), part(s.Spare), part(s.Background)
	return s
}

// pods is how many pods are on the nodes that are drained.
func (s scenario) pods() int { return s.Nodes * s.PodsPerNode }

// podsPerSpare leaves room on the other nodes, which may hold 256 pods.
const podsPerSpare = 100

func (s scenario) spare() int { return cmp.Or(s.Spare, (s.pods()+podsPerSpare-1)/podsPerSpare) }

// part is the name by which a user chooses the scenario.
func (s scenario) part() string { return cmp.Or(s.Part, s.Name) }

// workload is a Deployment of a scenario.
type workload struct {
	Name     string
	Replicas int
	Budget   string // maxUnavailable of the budget over it; none if empty.
}

// workloads splits the pods into Deployments: first those with a budget, whose maxUnavailable is 1 or 2 in
// turn.
func (s scenario) workloads() []workload {
	const most = 50 // Pods of a Deployment without a budget.
	guarded := int(math.Round(s.Guarded * float64(s.pods())))
	all := split("guarded", guarded, cmp.Or(s.Replicas, 10))
	for i := range all {
		all[i].Budget = []string{"1", "2"}[i%2]
		if s.Blocked > 0 {
			all[i].Budget = "0"
		}
	}
	return append(all, split("free", s.pods()-guarded, most)...)
}

func split(name string, pods, size int) []workload {
	var all []workload
	for ; pods > 0; pods -= size {
		all = append(all, workload{Name: fmt.Sprintf("%s-%d", name, len(all)), Replicas: min(pods, size)})
	}
	return all
}
