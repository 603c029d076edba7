//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// Releases of the AMI. Node groups begin with that of their Kubernetes version before the newest.
const (
	release133    = "1.33.5-20261001"
	firstRelease  = "1.34.1-20261001"
	newestRelease = "1.34.2-20261104"
)

// nodegroups are managed node groups of the EKS cluster demo, of which each has two nodes and a hook of ours.
type nodegroups struct {
	*fixture
	scaling map[string]string   // the names of their Auto Scaling groups
	old     map[string][]string // the instances that they have at first
}

// newNodegroups returns node groups of a cluster with Kubernetes 1.34. The nodes are of the version, and a launch template
// of a node group has a second version.
func newNodegroups(t testing.TB, version string, times awsim.EKSTimes, specs ...awsim.Nodegroup) *nodegroups {
	t.Helper()
	n := &nodegroups{newFixtureWithoutGroup(t, shared(t), cluster.Node{}), map[string]string{}, map[string][]string{}}
	times.Poll = 200 * time.Millisecond
	if times.Settle == 0 {
		times.Settle = time.Second
	}
	n.aws.CreateCluster("demo", version)
	n.must(n.aws.Connect("demo", harness.NewEKS(n.cluster.Client()), times))
	n.aws.PutSubnet(awsim.Subnet{ID: "subnet-a", Zone: "eu-central-1a", Available: 250})
	n.aws.PublishRelease(awsim.Release{KubernetesVersion: "1.33", Version: release133, Image: "ami-1"})
	n.aws.PublishRelease(awsim.Release{KubernetesVersion: "1.34", Version: firstRelease, Image: "ami-2"})
	for _, spec := range specs {
		n.create(spec)
	}
	n.aws.CreateCluster("demo", "1.34")
	n.aws.PublishRelease(awsim.Release{KubernetesVersion: "1.34", Version: newestRelease, Image: "ami-3"})
	return n
}

// create creates a node group, and returns when its nodes are in service.
func (n *nodegroups) create(spec awsim.Nodegroup) {
	n.t.Helper()
	if spec.LaunchTemplate != "" {
		_, err := n.aws.CreateLaunchTemplate(spec.LaunchTemplate, "")
		n.must(err)
		defer func() {
			_, err := n.aws.AddTemplateVersion(spec.LaunchTemplate, "")
			n.must(err)
		}()
	}
	spec.Cluster, spec.Subnets, spec.Max, spec.Desired = "demo", []string{"subnet-a"}, 10, 2
	name, err := n.aws.CreateNodegroup(spec)
	n.must(err)
	n.scaling[spec.Name] = name
	n.must(n.aws.WaitInstances(waits(n.t), name, func(now []awsim.Instance) bool {
		n.old[spec.Name] = nil
		for _, i := range now {
			n.old[spec.Name] = append(n.old[spec.Name], i.ID)
		}
		return len(now) == 2 && !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
	}))
	n.must(n.aws.PutHook(name, awsim.Hook{
		Name: hook, HeartbeatTimeout: hookTimeout, NotificationTargetARN: n.aws.QueueARN(n.queue),
	}))
}

// serve runs a Deployment with a disruption budget on the nodes.
func (n *nodegroups) serve(name string, replicas int32, maxUnavailable string) {
	n.t.Helper()
	n.must(n.cluster.Deploy(n.ctx, cluster.Deployment{
		Namespace: n.namespace, Name: name, Replicas: replicas, Pods: cluster.Pods{Pool: n.namespace, Stop: time.Second},
	}))
	n.waitPodsReady(name, int(replicas))
	n.must(n.cluster.MaxUnavailable(n.ctx, n.namespace, name, maxUnavailable))
}

// run starts the trigger for the cluster.
func (n *nodegroups) run(args ...string) *triggerRun {
	n.t.Helper()
	return n.trigger(append([]string{"--cluster", "demo"}, args...)...)
}

// expectUpdated expects that the node group has so many nodes when the last surplus one has been drained, that all of them
// are new, and that EKS was asked so often to update one.
func (n *nodegroups) expectUpdated(name string, size, updates int) {
	n.t.Helper()
	n.must(n.aws.WaitInstances(waits(n.t), n.scaling[name], func(now []awsim.Instance) bool {
		return len(now) == size && !slices.ContainsFunc(now, func(i awsim.Instance) bool {
			return i.State != "InService" || slices.Contains(n.old[name], i.ID)
		})
	}))
	changes := maps.Clone(n.aws.RequestsBy(triggerKey))
	maps.DeleteFunc(changes, func(call string, _ int) bool {
		_, action, _ := strings.Cut(call, ".")
		return strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "List") || strings.HasPrefix(action, "Get")
	})
	if want := map[string]int{"eks.UpdateNodegroupVersion": updates}; !maps.Equal(changes, want) {
		n.t.Errorf("the trigger called %v, want %v", changes, want)
	}
}

// TestNodegroupUpdate: the nodes are replaced by what was requested, a Deployment keeps its budget, and the agent completes
// our hook.
func TestNodegroupUpdate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		version string
		spec    awsim.Nodegroup
		args    []string
		target  string
	}{
		"to the newest release":      {"1.34", awsim.Nodegroup{}, nil, "release " + newestRelease},
		"to a Kubernetes version":    {"1.33", awsim.Nodegroup{}, []string{"--kubernetes-version", "1.34"}, "release " + newestRelease},
		"to a release":               {"1.33", awsim.Nodegroup{}, []string{"--kubernetes-version", "1.34", "--release-version", firstRelease}, "release " + firstRelease},
		"to a launch template":       {"1.34", awsim.Nodegroup{LaunchTemplate: "own"}, []string{"--release-version", firstRelease, "--launch-template-version", "2"}, `launch template own \(lt-\w+\) version 2`},
		"terminating nodes first":    {"1.34", awsim.Nodegroup{Strategy: awsim.UpdateMinimal}, nil, "release " + newestRelease},
		"by two at a time, in pairs": {"1.34", awsim.Nodegroup{MaxUnavailable: 2}, nil, "release " + newestRelease},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.spec.Name = "workers"
			n := newNodegroups(t, tt.version, awsim.EKSTimes{}, tt.spec)
			n.startAgent()
			n.serve("api", 4, "1")
			lowest := n.watchReady("api")
			n.run(append(tt.args, "--nodegroup", "workers")...).waitExit(0, tt.target, `2 instances replaced`)
			n.expectUpdated("workers", 2, 1)
			if got := lowest(); got < 3 {
				t.Errorf("only %d pods of api were ready at one time, its budget requires 3", got)
			}
		})
	}
}

// TestNodegroupBlocked: the trigger names the pod and the budget for which EKS waits and then fails, and the same with
// --force is an update that succeeds.
func TestNodegroupBlocked(t *testing.T) {
	t.Parallel()
	n := newNodegroups(t, "1.34", awsim.EKSTimes{Eviction: 10 * time.Second}, awsim.Nodegroup{Name: "workers"})
	n.mayKill = true // by force
	n.startAgent("DRAIN_TIMEOUT=30s")
	n.serve("db", 2, "0")
	db := n.namespace + "/db"
	n.run("plan", "--nodegroup", "workers").waitExit(0, `disruption-budgets +1 disruption budget allows no disruption now: `+db)
	n.run("--nodegroup", "workers").waitExit(3, `is Failed: PodEvictionFailure`, `pod `+db+`-\S+ on node \S+ \(disruption budget `+db+`\)`)
	n.run("--nodegroup", "workers", "--force").waitExit(0, `instances? replaced`)
	n.expectUpdated("workers", 4, 2) // An update that fails leaves the nodes that it has launched first.
}

// TestNodegroupNodesFail: new nodes that do not join fail the update, and the old ones stay.
func TestNodegroupNodesFail(t *testing.T) {
	t.Parallel()
	n := newNodegroups(t, "1.34", awsim.EKSTimes{NodeReady: 10 * time.Second}, awsim.Nodegroup{Name: "workers"})
	n.machines.SetUnready(2, true)
	n.run("--nodegroup", "workers").waitExit(3, `is Failed: NodeCreationFailure`)
	ids := map[string]bool{}
	for _, i := range n.aws.Instances(n.scaling["workers"]) {
		ids[i.ID] = i.State == "InService"
	}
	for _, id := range n.old["workers"] {
		if !ids[id] {
			t.Errorf("the old instance %s is not in service", id)
		}
	}
}

// TestNodegroupKilled: a trigger that is killed and started again follows the update, and starts no other.
func TestNodegroupKilled(t *testing.T) {
	t.Parallel()
	n := newNodegroups(t, "1.34", awsim.EKSTimes{}, awsim.Nodegroup{Name: "workers"})
	n.startAgent()
	n.serve("api", 2, "0") // EKS waits for these pods.
	first := n.run("--nodegroup", "workers")
	first.waitOutput(`node group update \S+ started`)
	first.Kill()
	second := n.run("--nodegroup", "workers")
	second.waitOutput(`node group update \S+ was active and is followed`)
	n.must(n.cluster.RemoveBudget(n.ctx, n.namespace, "api"))
	second.waitExit(0, `2 instances replaced`)
	n.expectUpdated("workers", 2, 1)
}

// TestNodegroupDegraded: what EKS reports about a node group keeps it as it is.
func TestNodegroupDegraded(t *testing.T) {
	t.Parallel()
	n := newNodegroups(t, "1.34", awsim.EKSTimes{}, awsim.Nodegroup{Name: "workers"})
	n.must(n.aws.SetHealth("demo", "workers", awsim.HealthIssue{
		Code: "AsgInstanceLaunchFailures", Message: "the quota is exceeded", ResourceIDs: []string{n.scaling["workers"]},
	}))
	n.run("--nodegroup", "workers").waitExit(1, `nodegroup-health: the node group is DEGRADED, and EKS reports: AsgInstanceLaunchFailures: the quota is exceeded`)
	if calls := n.aws.RequestsBy(triggerKey)["eks.UpdateNodegroupVersion"]; calls > 0 {
		t.Errorf("EKS was asked to update it %d times", calls)
	}
}

// TestNodegroupWaves: the second wave begins when the first has ended.
func TestNodegroupWaves(t *testing.T) {
	t.Parallel()
	n := newNodegroups(t, "1.34", awsim.EKSTimes{},
		awsim.Nodegroup{Name: "first", Tags: map[string]string{refresh.WaveTag: "1"}},
		awsim.Nodegroup{Name: "after", Tags: map[string]string{refresh.WaveTag: "2"}})
	n.startAgent()
	n.serve("api", 4, "1")
	n.run("--all-nodegroups", "--parallel-asgs", "0").waitExit(0,
		`(?s)`+n.scaling["first"]+` .* done: 2 instances replaced.*`+n.scaling["after"]+` +node group update \S+ started.*done:\s+2 instances replaced`)
	n.expectUpdated("first", 2, 2)
	n.expectUpdated("after", 2, 2)
}
