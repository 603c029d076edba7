package trigger

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// Releases of the AMI: the node groups begin at the first, and the second is the newest.
const (
	firstRelease  = "1.34.1-20261001"
	newestRelease = "1.34.2-20261104"
)

// nodegroups is an account with an EKS cluster demo, whose managed node groups have two nodes without pods each.
type nodegroups struct {
	*account
	unready atomic.Bool // New nodes are not Ready.
}

// newNodegroups returns nodegroups with these groups, each in the wave of its place.
func newNodegroups(t testing.TB, names ...string) *nodegroups {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &nodegroups{account: &account{Server: s, t: t}}
	t.Cleanup(func() { n.must(s.Close()) })
	s.PutSubnet(awsim.Subnet{ID: "subnet-a", Zone: "eu-central-1a", Available: 250})
	s.CreateCluster("demo", "1.34")
	n.must(s.Connect("demo", emptyNodes{n}, awsim.EKSTimes{Settle: time.Millisecond, Poll: 10 * time.Millisecond}))
	s.PublishRelease(awsim.Release{KubernetesVersion: "1.34", Version: firstRelease, Image: "ami-1"})
	for i, name := range names {
		created, err := s.CreateNodegroup(awsim.Nodegroup{
			Cluster: "demo", Name: name, Max: 4, Desired: 2, Subnets: []string{"subnet-a"},
			Tags: map[string]string{refresh.WaveTag: string(rune('1' + i))},
		})
		n.must(err)
		n.waitInService(created, 2)
	}
	s.PublishRelease(awsim.Release{KubernetesVersion: "1.34", Version: newestRelease, Image: "ami-2"})
	return n
}

// emptyNodes are the nodes of the instances, without pods.
type emptyNodes struct{ *nodegroups }

func (e emptyNodes) Node(_ context.Context, instance string) (awsim.ManagedNode, error) {
	return awsim.ManagedNode{Name: instance, Ready: !e.unready.Load(), Labels: e.NodeLabels(instance)}, nil
}

func (emptyNodes) Label(context.Context, string, map[string]string) error   { return nil }
func (emptyNodes) Cordon(context.Context, string) error                     { return nil }
func (emptyNodes) Pods(context.Context, string) ([]awsim.ManagedPod, error) { return nil, nil }
func (emptyNodes) Evict(context.Context, awsim.ManagedPod) error            { return nil }
func (emptyNodes) Delete(context.Context, awsim.ManagedPod) error           { return nil }

// nodegroup starts the trigger for the cluster.
func (n *nodegroups) nodegroup(command string, args ...string) *run {
	n.t.Helper()
	args = append(args, "--cluster", "demo")
	if command != "" {
		args = append([]string{command}, args...)
	}
	r := n.newRun(nil, args...)
	r.Cmd.Env = slices.DeleteFunc(r.Cmd.Env, func(e string) bool { return strings.HasPrefix(e, "TRIGGER_ASG=") })
	n.must(r.Start())
	r.killAtEnd()
	return r
}

// updates is how often the trigger has called UpdateNodegroupVersion.
func (n *nodegroups) updates() int { return n.RequestsBy(triggerKey)["eks.UpdateNodegroupVersion"] }

// TestNodegroups: all node groups of a cluster are updated, one wave after the other, and a second run finds nothing.
func TestNodegroups(t *testing.T) {
	t.Parallel()
	n := newNodegroups(t, "a", "b")
	n.nodegroup("plan", "--all-nodegroups", "--detailed-exitcode").waitExit(2,
		`target: release `+newestRelease, `the node group has release `+firstRelease+`, and is to have`, `2 of 2 instances are outdated`)
	n.nodegroup("plan", "--nodegroup", "a", "--output", "json").waitExit(0, `"nodegroup": "a"`)
	if n.updates() > 0 {
		t.Error("a plan has started an update")
	}
	n.nodegroup("", "--all-nodegroups").waitExit(0,
		`(?s)eks-a-\S+ *\S* *node group update \S+ started.*2 of 2 old instances gone.*eks-b-\S+ *\S* *node group update \S+ started`)
	if n.updates() != 2 {
		t.Errorf("the trigger has started %d updates, want 2", n.updates())
	}
	n.nodegroup("status", "--nodegroup", "a").waitExit(0, `node group update \S+ Successful`)
	n.nodegroup("", "--nodegroup", "a,b").waitExit(0, `no instance is outdated`)
	n.nodegroup("cancel", "--nodegroup", "a").waitExit(1, `EKS has no call that does this`)
	n.nodegroup("", "--nodegroup", "c").waitExit(1, `the cluster demo has no managed node group c`)
}

// TestNodegroupIsLeftToEKS: an update continues without the trigger, and the same command follows it again.
func TestNodegroupIsLeftToEKS(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*run){
		"interrupted": func(r *run) {
			r.Signal(syscall.SIGINT)
			r.waitExit(130, `node group update \S+ continues, and EKS does not cancel one`)
		},
		"killed": func(r *run) { r.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNodegroups(t, "a")
			n.unready.Store(true)
			first := n.nodegroup("", "--nodegroup", "a")
			first.waitOutput(`node group update \S+ started`)
			end(first)
			second := n.nodegroup("", "--nodegroup", "a")
			second.waitOutput(`node group update \S+ was active and is followed`)
			n.nodegroup("", "--nodegroup", "a", "--release-version", firstRelease).waitExit(6, `is in progress, with another target`)
			n.unready.Store(false)
			second.waitExit(0, `2 instances replaced`)
			if n.updates() != 1 {
				t.Errorf("%d updates were started, want 1", n.updates())
			}
		})
	}
}

// TestNodegroupFails: an update that fails is an exit code of its own, and a watch does not try it again.
func TestNodegroupFails(t *testing.T) {
	t.Parallel()
	n := newNodegroups(t, "a")
	n.unready.Store(true)
	fail := func(r *run) {
		r.waitOutput(`node group update \S+ started`)
		n.must(n.EndUpdate("demo", "a", awsim.UpdateFailed, awsim.UpdateError{
			Code: "PodEvictionFailure", Message: "Reached max retries", ResourceIDs: []string{"ip-1"},
		}))
	}
	r := n.nodegroup("", "--nodegroup", "a")
	fail(r)
	r.waitExit(3, `is Failed: PodEvictionFailure: Reached max retries \(ip-1\)`, `add --force`)
	watch := n.nodegroup("watch", "--all-nodegroups", "--interval", "1s")
	fail(watch)
	watch.waitOutput(`trigger watch does not try this again until the target changes`)
	watch.waitOutput(`not tried again: ` + newestRelease + ` failed`)
	n.unready.Store(false)
	n.PublishRelease(awsim.Release{KubernetesVersion: "1.34", Version: "1.34.2-20261118", Image: "ami-3"})
	watch.waitOutput(`done: \d instances replaced`)
	if n.updates() != 3 {
		t.Errorf("%d updates were started, want 3", n.updates())
	}
	watch.Signal(syscall.SIGTERM)
	watch.waitExit(0)
}
