//go:build e2e

package realnodes_test

import (
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// faultNodes is how many nodes the group of TestFaults has between two faults.
const faultNodes = 4

// shutdownGrace is the time that kubelets have for their pods when a machine shuts down.
const shutdownGrace = 20 * time.Second

// webReplicas is how many pods serve during a fault.
const webReplicas = 8

// faultFixture is the fixture of one fault, with a workload of its own, on all nodes.
type faultFixture struct {
	*fixture
	web string
}

// TestFaults: what a drain does to processes while something fails, one fault after the other.
func TestFaults(t *testing.T) {
	f := newFixture(t)
	if _, err := exec.LookPath("dbus-daemon"); err == nil {
		f.cluster.GraceAtShutdown(shutdownGrace)
		t.Cleanup(func() { f.cluster.GraceAtShutdown(0) })
	}
	f.aws.AddRule(f.aws.QueueARN(f.queue), awsim.SpotWarning)
	f.launch(faultNodes)
	f.addHook()
	f.install("config.launch.timeout=12s", "config.drain.stuckAfter=1m")
	for i, fault := range []struct {
		name   string
		within time.Duration
		play   func(faultFixture)
	}{
		{"half of the group is scaled in", 2 * time.Minute, faultFixture.scaleInHalf},
		{"half gets Spot warnings", 2 * time.Minute, faultFixture.interruptHalf},
		{"the leading agent is killed", 2 * time.Minute, faultFixture.killLeader},
		{"the API server is killed", 2 * time.Minute, faultFixture.killAPIServer},
		{"a kubelet hangs for a while", 2 * time.Minute, faultFixture.hangKubelet},
		{"a kubelet and a containerd hang", 3 * time.Minute, faultFixture.hangForGood},
		{"a machine shuts down", 2 * time.Minute, faultFixture.shutDown},
		{"a volume is detached late", 2 * time.Minute, faultFixture.detachLate},
		{"a new image has no network", 2 * time.Minute, func(f faultFixture) { f.launchBroken(realnodes.Network) }},
		{"a new image starts no pod", 2 * time.Minute, func(f faultFixture) { f.launchBroken(realnodes.Pause) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			one := *f
			one.t = t
			faultFixture{&one, fmt.Sprintf("web%d", i+1)}.run(fault.play, fault.within)
		})
	}
}

// run plays a fault under load. No request may fail: each process is told to stop, or runs on, whatever else fails.
func (f faultFixture) run(play func(faultFixture), within time.Duration) {
	f.t.Helper()
	f.restore()
	f.deploy(f.web, webReplicas, cluster.Pods{GracePeriod: 20 * time.Second, Change: func(t *corev1.PodTemplateSpec) {
		realnodes.Serve(goOn)(t)
		honor := corev1.NodeInclusionPolicyHonor
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{cluster.AppLabel: f.web}},
			NodeTaintsPolicy: &honor,
		}}
	}})
	f.budget(f.web, "6")
	f.ready(f.web, webReplicas)
	url := f.service(f.web)
	f.must(realnodes.WaitAnswer(f.waits(), url))
	begin, load := time.Now(), realnodes.StartLoad(url, 50)
	play(f)
	took, account := time.Since(begin), load.Stop()
	f.t.Logf("took %v: %d requests, slowest %v, %d failed", took, account.Sent, account.Slowest, len(account.Failures))
	if took > within {
		f.t.Errorf("it took %v, want %v at most", took, within)
	}
	if len(account.Failures) > 0 {
		f.t.Errorf("%v", account.Failures[:min(10, len(account.Failures))])
	}
	if f.t.Failed() {
		f.explain()
	}
	f.must(f.cluster.Client().AppsV1().Deployments(f.namespace).Delete(f.t.Context(), f.web, metav1.DeleteOptions{}))
}

// restore waits until the group and the agents are as before a fault.
func (f faultFixture) restore() {
	f.t.Helper()
	f.must(f.aws.Resize(group, 0, 2*faultNodes, faultNodes))
	f.waitInService(faultNodes)
	f.must(f.cluster.WaitReady(f.waits(), system, "app.kubernetes.io/name=node-drainer", 2))
}

// served returns the records of the workload on the node of an instance.
func (f faultFixture) served(id string) []process {
	f.t.Helper()
	return slices.DeleteFunc(f.processes(id), func(p process) bool { return !p.of(f.web) })
}

// scaleInHalf has the group terminate half of its instances at once.
func (f faultFixture) scaleInHalf() {
	before := f.inService()
	f.must(f.aws.Resize(group, 0, 2*faultNodes, faultNodes/2))
	f.must(f.aws.WaitInstances(f.waits(), group, func(all []awsim.Instance) bool { return len(all) == faultNodes/2 }))
	for _, id := range f.gone(before) {
		f.checkCompleted(id)
	}
}

// gone returns which instances are not in service any more.
func (f faultFixture) gone(before []string) []string {
	left := f.inService()
	return slices.DeleteFunc(before, func(id string) bool { return slices.Contains(left, id) })
}

// interruptHalf has EC2 take half of the instances. The warnings are late, so that nobody waits for two minutes.
func (f faultFixture) interruptHalf() {
	const notice = 35 * time.Second
	taken := f.inService()[:faultNodes/2]
	for _, id := range taken {
		f.must(f.aws.SetMarket(id, awsim.Spot, ""))
		f.must(f.aws.Interrupt(id, notice))
	}
	for _, id := range taken {
		i, err := f.aws.WaitInterrupted(f.waits(), id)
		f.must(err)
		if i.TakenAt.IsZero() || i.PodsError != "" || len(i.PodsAtEnd)+len(i.Killed) > 0 {
			f.t.Errorf("EC2 took %s with pods on it: %+v", id, i)
		}
		f.checkEnded(id)
		f.waitEvent(id, "Drained")
	}
}

// terminate has the group replace an instance, and returns when a process of its node was told to stop.
func (f faultFixture) terminate(id string) {
	f.t.Helper()
	f.must(f.aws.Terminate(id, false))
	f.must(harness.Eventually(f.waits(), func() string {
		if !slices.ContainsFunc(f.served(id), func(p process) bool { return p.has(record.Signal) }) {
			return "no process of " + id + " has got SIGTERM"
		}
		return ""
	}))
}

// spare returns the instances whose nodes have no agent.
func (f faultFixture) spare() (ids []string) {
	f.t.Helper()
	agents := f.agentInstances()
	for _, id := range f.inService() {
		if !slices.Contains(agents, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		f.t.Fatalf("each node has an agent: %v", agents)
	}
	return ids
}

// killLeader kills the container of the leading agent, on another node than the one that is drained.
func (f faultFixture) killLeader() {
	id := f.spare()[0]
	f.terminate(id)
	pod, err := f.cluster.KillLeader(f.t.Context(), system)
	f.must(err)
	a := f.checkCompleted(id)
	f.t.Logf("%s was killed: the hook was completed after %v", pod, a.ClosedAt.Sub(a.StartedAt))
}

// killAPIServer kills the API server, until what was told to stop has stopped. If it died before the EndpointSlices say
// that these pods terminate, they would get requests beyond their end, whoever has evicted them.
func (f faultFixture) killAPIServer() {
	id := f.spare()[0]
	f.terminate(id)
	f.waitNoEndpoints(id)
	f.must(f.cluster.Stop(f.t.Context()))
	f.must(harness.Eventually(f.waits(), func() string {
		for _, p := range f.served(id) {
			if p.has(record.Signal) && !p.has(record.Exited) {
				return p.pod() + " has not stopped"
			}
		}
		return ""
	}))
	if a := f.last(id); !a.ClosedAt.IsZero() {
		f.t.Errorf("the hook was completed without an API server: %+v", a)
	}
	f.must(f.cluster.StartAgain(f.waits()))
	a := f.checkCompleted(id)
	f.t.Logf("the hook was completed after %v", a.ClosedAt.Sub(a.StartedAt))
}

// waitNoEndpoints waits until no pod of the workload on the node of an instance gets requests.
func (f faultFixture) waitNoEndpoints(id string) {
	f.t.Helper()
	ctx := f.waits()
	f.must(harness.Eventually(ctx, func() string {
		list, err := f.cluster.Client().DiscoveryV1().EndpointSlices(f.namespace).List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + f.web,
		})
		if err != nil {
			return err.Error()
		}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.NodeName != nil && *e.NodeName == cluster.NodeName(id) && *e.Conditions.Ready {
					return fmt.Sprintf("%v is a ready endpoint", e.Addresses)
				}
			}
		}
		return ""
	}))
}

// last returns the last action of an instance.
func (f faultFixture) last(id string) (last awsim.Action) {
	for _, a := range f.aws.Ledger() {
		if a.InstanceID == id {
			last = a
		}
	}
	return last
}

// hangKubelet stops a kubelet until the first pods of its node have been evicted, which it learns later.
func (f faultFixture) hangKubelet() {
	id := f.spare()[0]
	f.must(f.cluster.SignalKubelet(id, syscall.SIGSTOP))
	f.must(f.aws.Terminate(id, false))
	f.waitEvicted(id)
	f.must(f.cluster.SignalKubelet(id, syscall.SIGCONT))
	a := f.checkCompleted(id)
	f.t.Logf("the hook was completed after %v", a.ClosedAt.Sub(a.StartedAt))
}

// waitEvicted waits until a pod of web on the node of an instance is deleted.
func (f faultFixture) waitEvicted(id string) {
	f.t.Helper()
	f.must(harness.Eventually(f.waits(), func() string {
		pods, err := f.cluster.Client().CoreV1().Pods(f.namespace).List(f.t.Context(), metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", cluster.NodeName(id)).String(),
		})
		if err != nil {
			return err.Error()
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp != nil {
				return ""
			}
		}
		return fmt.Sprintf("none of %d pods on %s is evicted", len(pods.Items), id)
	}))
}

// hangForGood stops a kubelet and a containerd for ever, each of a node that is then drained. Nothing tells the processes
// there to stop, and no drain can wait for their end: the agent has to report that, and to complete the hooks.
func (f faultFixture) hangForGood() {
	ids := f.spare()
	if len(ids) < 2 {
		f.t.Fatalf("only %v have no agent", ids)
	}
	kubelet, containerd := ids[0], ids[1]
	f.must(f.cluster.SignalKubelet(kubelet, syscall.SIGSTOP))
	f.must(f.cluster.SignalContainerd(containerd, syscall.SIGSTOP))
	unready := f.unready(containerd)
	for _, id := range ids[:2] {
		f.must(f.aws.Terminate(id, false))
	}
	f.checkLost(kubelet)
	a := f.checkLost(containerd)
	if late := a.ClosedAt.Sub(<-unready); late > 10*time.Second {
		f.t.Errorf("the drain went on for %v after its node became NotReady", late)
	}
}

// checkLost checks that the agent completed the hook of an instance and reported the pods that are left, which were not
// told to stop.
func (f faultFixture) checkLost(id string) awsim.Action {
	f.t.Helper()
	_, err := f.aws.WaitClosed(f.waits(), id)
	f.must(err)
	f.must(f.aws.WaitState(f.waits(), id, "Terminated"))
	a := f.last(id)
	f.t.Logf("%s: the hook was completed after %v, killed: %v", id, a.ClosedAt.Sub(a.StartedAt), a.Killed)
	if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" || len(a.Killed) == 0 {
		f.t.Errorf("the hook of %s was not completed with pods: %+v", id, a)
	}
	f.waitEvent(id, "NodeLost")
	for _, p := range f.served(id) {
		if p.has(record.Signal) || !slices.Contains(a.Killed, f.namespace+"/"+p.pod()) {
			f.t.Errorf("%s got SIGTERM, or was not there at the end: %v", p.pod(), p.Process)
		}
	}
	return a
}

// unready returns when the node of an instance becomes NotReady.
func (f faultFixture) unready(id string) <-chan time.Time {
	at := make(chan time.Time, 1)
	ctx := f.waits()
	go func() {
		_ = harness.Eventually(ctx, func() string {
			n, err := f.cluster.Client().CoreV1().Nodes().Get(ctx, cluster.NodeName(id), metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					return ""
				}
			}
			return id + " is Ready"
		})
		at <- time.Now()
	}()
	return at
}

// shutDown has a machine shut down during the drain of its node. Its kubelet ends what is left: a pod whose budget allows
// no eviction. The drain ends with it, and not at its deadline.
func (f faultFixture) shutDown() {
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		f.t.Skipf("%v: apt-get install dbus-daemon", err)
	}
	id := f.spare()[0]
	f.deploy("kept", 1, cluster.Pods{Prefer: cluster.NodeName(id), Change: realnodes.End("-after=5s")})
	f.budget("kept", "1")
	f.ready("kept", 1)
	f.terminate(id)
	f.must(f.cluster.ShutDown(id))
	a := f.checkCompleted(id)
	f.t.Logf("the hook was completed after %v", a.ClosedAt.Sub(a.StartedAt))
	kept := slices.ContainsFunc(f.processes(id), func(p process) bool { return p.of("kept") })
	if !kept {
		f.t.Error("the pod that no drain evicts was elsewhere")
	}
	f.must(f.cluster.Client().AppsV1().Deployments(f.namespace).Delete(f.t.Context(), "kept", metav1.DeleteOptions{}))
}

// launchBroken has the trigger replace instances by those of a version whose nodes never become Ready, or on whose nodes
// the pods of a critical DaemonSet do not.
func (f faultFixture) launchBroken(what realnodes.Lack) {
	before, launched := f.inService(), len(f.launches())
	// Launches wait for those of the priority.
	f.must(f.cluster.DaemonSet(f.t.Context(), f.namespace, "daemon", cluster.Pods{
		PriorityClass: "system-node-critical", Change: realnodes.Daemon,
	}))
	f.ready("daemon", faultNodes)
	defer func() {
		f.must(f.cluster.Client().AppsV1().DaemonSets(f.namespace).Delete(f.t.Context(), "daemon", metav1.DeleteOptions{}))
	}()
	version, err := f.aws.AddTemplateVersion(template, "ami-3")
	f.must(err)
	f.cluster.Break(version, what)
	f.aws.SetDelays(awsim.Delays{Terminate: time.Second, RefreshGiveUp: 15 * time.Second})
	f.must(f.aws.PutHook(group, awsim.Hook{
		Name: "launch", Transition: awsim.Launching, HeartbeatTimeout: 2 * time.Minute,
		NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	code, output := f.trigger("--asg", group)
	if gone := f.gone(before); code != 3 || len(gone) > 0 {
		f.t.Errorf("the trigger exited with %d, and %v are gone:\n%s", code, gone, output)
	}
	if results := f.launches()[launched:]; !slices.Equal(results, []string{"ABANDON"}) {
		f.t.Errorf("the launches of the new version ended with %q, want one that is abandoned", results)
	}
}

// launches returns how launches that a hook held have ended.
func (f faultFixture) launches() (results []string) {
	for _, a := range f.aws.Ledger() {
		if a.Transition == awsim.Launching {
			results = append(results, a.Result)
		}
	}
	return results
}
