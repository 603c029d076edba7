//go:build e2e

package realnodes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// deploy creates a Deployment.
func (f *fixture) deploy(name string, n int32, pods cluster.Pods) {
	f.t.Helper()
	f.must(f.cluster.Deploy(f.t.Context(), cluster.Deployment{Namespace: f.namespace, Name: name, Replicas: n, Pods: pods}))
}

// ready waits until so many pods of a workload are ready.
func (f *fixture) ready(name string, n int) {
	f.t.Helper()
	f.must(f.cluster.WaitReady(f.waits(), f.namespace, cluster.Selector(name), n))
}

// service creates a Service for a workload, and returns its URL.
func (f *fixture) service(name string) string {
	f.t.Helper()
	url, err := realnodes.Service(f.t.Context(), f.cluster.Cluster, f.namespace, name)
	f.must(err)
	return url
}

// inService returns the instances of the group that are in service.
func (f *fixture) inService() (ids []string) {
	for _, i := range f.aws.Instances(group) {
		if i.State == "InService" {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// waitInService waits until so many instances are in service, and no others are in the group.
func (f *fixture) waitInService(n int) {
	f.t.Helper()
	f.must(f.aws.WaitInstances(f.waits(), group, func(all []awsim.Instance) bool {
		return len(all) == n && !slices.ContainsFunc(all, func(i awsim.Instance) bool { return i.State != "InService" })
	}))
}

// agentInstances returns the instances whose nodes have the agents.
func (f *fixture) agentInstances() (ids []string) {
	f.t.Helper()
	pods, err := f.cluster.Client().CoreV1().Pods(system).List(f.t.Context(), metav1.ListOptions{})
	f.must(err)
	for _, p := range pods.Items {
		if id := harness.InstanceOf(p.Spec.NodeName); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// records returns the records of all processes of the test.
func (f *fixture) records() (all []process) {
	f.t.Helper()
	records, err := record.ReadNamespace(realnodes.Records(), f.namespace)
	f.must(err)
	for _, r := range records {
		if len(r) > 0 {
			all = append(all, process{r})
		}
	}
	return all
}

// processes returns the records of the processes that have run on the node of an instance.
func (f *fixture) processes(instance string) []process {
	f.t.Helper()
	return slices.DeleteFunc(f.records(), func(p process) bool { return p.Process[0].Node != cluster.NodeName(instance) })
}

// process is the record of what ran in a pod.
type process struct{ record.Process }

func (p process) pod() string { return p.Process[0].Pod }

// of reports whether it belongs to a workload.
func (p process) of(workload string) bool { return strings.HasPrefix(p.pod(), workload+"-") }

// has reports whether something has been recorded.
func (p process) has(what record.What) bool {
	_, ok := p.Find(what)
	return ok
}

// restarted reports whether the pod's container was started again.
func (p process) restarted() bool { return len(p.All(record.Started)) > 1 }

// checkCompleted checks that the agent completed the terminating hook of an instance when no pod was left, so that the end
// of its machine killed none, and that each process there got SIGTERM and ended by itself. It returns the action.
func (f *fixture) checkCompleted(instance string, except ...string) awsim.Action {
	f.t.Helper()
	a, err := f.aws.WaitClosed(f.waits(), instance)
	f.must(err)
	f.must(f.aws.WaitState(f.waits(), instance, "Terminated"))
	if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" || a.PodsError != "" || len(a.PodsAtClose)+len(a.Killed) > 0 {
		f.t.Errorf("the hook of %s was not completed without pods: %+v", instance, a)
	}
	f.checkEnded(instance, except...)
	f.waitEvent(instance, "Drained")
	return a
}

// waitEvent waits until the agent has reported an Event on the node of an instance.
func (f *fixture) waitEvent(instance, reason string) {
	f.t.Helper()
	ctx := f.waits()
	f.must(harness.Eventually(ctx, func() string {
		list, err := f.cluster.Client().CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.AndSelectors(
				fields.OneTermEqualSelector("involvedObject.name", cluster.NodeName(instance)),
				fields.OneTermEqualSelector("reason", reason),
			).String(),
		})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			return fmt.Sprintf("no Event %s on the node of %s", reason, instance)
		}
		return ""
	}))
}

// checkEnded checks that each process of a node, except those of some workloads, got SIGTERM and ended by itself.
func (f *fixture) checkEnded(instance string, except ...string) {
	f.t.Helper()
	all := f.processes(instance)
	for _, p := range all {
		if slices.ContainsFunc(except, p.of) {
			continue
		}
		if p.restarted() || !p.has(record.Signal) || !p.has(record.Exited) {
			f.t.Errorf("%s did not get SIGTERM and end by itself: %v", p.pod(), p.Process)
		}
	}
	f.t.Logf("%s: %d processes ended", instance, len(all))
}

const (
	jobTakes    = 20 * time.Second
	ignoreGrace = 12 * time.Second
	streams     = 50
	goOn        = "-go-on=5s"
)

// TestWorkloads replaces all nodes, those of the agents first, under workloads that each need something else. What
// becomes of their processes is in their own records.
func TestWorkloads(t *testing.T) {
	f := newFixture(t)
	f.launch(4)
	f.addHook()
	f.install("rbac.restartDeployments=true")
	queue, err := realnodes.NewQueue(81)
	f.must(err)
	t.Cleanup(func() { f.must(queue.Close()) })
	f.deployAll(queue)
	single, stream := f.service("single"), f.service("stream")
	f.must(realnodes.WaitAnswer(f.waits(), single))

	load, held := realnodes.StartLoad(single, 50), realnodes.StartStreams(stream, streams)
	f.must(f.waitOpened(held))
	old := f.inService()
	for _, id := range f.agentInstances() {
		f.must(f.aws.Terminate(id, false))
	}
	code, output := f.trigger("--asg", group)
	if code != 0 {
		t.Errorf("the trigger exited with %d:\n%s", code, output)
	}
	f.must(queue.Drain(f.waits()))
	requests, ends := load.Stop(), held.Stop()
	for _, id := range old {
		f.checkCompleted(id, "ignore")
	}
	t.Run("a queue worker does each job once", func(t *testing.T) { checkJobs(t, queue.Jobs(), f.records()) })
	t.Run("what ignores SIGTERM has its grace period", func(t *testing.T) { f.checkIgnoring(t, old) })
	t.Run("a single replica has no gap", func(t *testing.T) {
		if requests.Sent == 0 || len(requests.Failures) > 0 {
			t.Errorf("%d of %d requests failed: %v", len(requests.Failures), requests.Sent, requests.Failures)
		}
	})
	t.Run("streams are ended by their server", func(t *testing.T) {
		if ends.Told < streams || len(ends.Broken)+len(ends.Refused) > 0 {
			t.Errorf("%+v", ends)
		}
	})
	t.Run("pods need the DaemonSet until they leave", func(t *testing.T) { f.checkDependents(t, old) })
	if t.Failed() {
		f.explain()
	}
}

// deployAll deploys all workloads, and waits until they work.
func (f *fixture) deployAll(queue *realnodes.Queue) {
	f.t.Helper()
	f.deploy("worker", 4, cluster.Pods{GracePeriod: 40 * time.Second, Change: realnodes.Work(queue.URL(), "-takes="+jobTakes.String())})
	f.deploy("ignore", 4, cluster.Pods{GracePeriod: ignoreGrace, Change: realnodes.Ignore})
	f.deploy("stream", 4, cluster.Pods{Change: realnodes.Stream(goOn)})
	f.budget("stream", "50%")
	f.deploy("single", 1, cluster.Pods{
		Annotations: map[string]string{"node-drainer.io/drain": "restart"}, Change: realnodes.Serve(goOn),
	})
	f.budget("single", "1")
	f.must(f.cluster.DaemonSet(f.t.Context(), f.namespace, "daemon", cluster.Pods{Change: realnodes.Daemon}))
	f.must(f.cluster.StatefulSet(f.t.Context(), f.namespace, "depend", 2, cluster.Pods{Change: func(t *corev1.PodTemplateSpec) {
		realnodes.Depend(goOn)(t)
		t.Spec.Affinity = cluster.Apart("depend")
	}}))
	for name, n := range map[string]int{"worker": 4, "ignore": 4, "stream": 4, "single": 1, "daemon": 4, "depend": 2} {
		f.ready(name, n)
	}
}

// waitOpened waits until all streams have been opened.
func (f *fixture) waitOpened(held *realnodes.Streams) error {
	return harness.Eventually(f.waits(), func() string {
		if n := held.Account().Opened; n < streams {
			return fmt.Sprintf("%d of %d streams are open", n, streams)
		}
		return ""
	})
}

// checkJobs checks, by the account of the queue and by the records of the workers, that each job was done once, by the pod
// that took it.
func checkJobs(t *testing.T, jobs []realnodes.Job, records []process) {
	begun, done := map[string]int{}, map[string]int{}
	for _, r := range records {
		for _, l := range r.All(record.JobBegun) {
			begun[l.Detail]++
		}
		for _, l := range r.All(record.JobDone) {
			done[l.Detail]++
		}
	}
	for _, j := range jobs {
		if !slices.Equal(j.Did, []string{j.Took}) || begun[j.Name] != 1 || done[j.Name] != 1 {
			t.Errorf("%+v: begun %d times, done %d times", j, begun[j.Name], done[j.Name])
		}
	}
	if len(jobs) < len(begun) || len(jobs) == 0 {
		t.Errorf("%d jobs, %d by the records", len(jobs), len(begun))
	}
	t.Logf("%d jobs", len(jobs))
}

// checkIgnoring checks that what ignores SIGTERM on the nodes of the instances got it, and was killed after its whole
// grace period.
func (f *fixture) checkIgnoring(t *testing.T, instances []string) {
	n := 0
	for _, id := range instances {
		for _, p := range f.processes(id) {
			if !p.of("ignore") {
				continue
			}
			n++
			told, ok := p.Find(record.Signal)
			lived := p.Process[len(p.Process)-1].At.Sub(told.At)
			if !ok || lived < ignoreGrace-time.Second || lived > ignoreGrace+5*time.Second {
				t.Errorf("%s lived for %v after SIGTERM: %v", p.pod(), lived, p.Process)
			}
		}
	}
	if n < 4 {
		t.Errorf("%d pods ignored SIGTERM, want 4 at least", n)
	}
}

// checkDependents checks that the daemon of each node answered until the last pod of another workload had left, and that
// no two pods of a name of the StatefulSet ran at the same time.
func (f *fixture) checkDependents(t *testing.T, instances []string) {
	n := 0
	for _, id := range instances {
		all := f.processes(id)
		i := slices.IndexFunc(all, func(p process) bool { return p.of("daemon") })
		if i < 0 {
			t.Errorf("%s has had no daemon", id)
			continue
		}
		told, _ := all[i].Find(record.Signal)
		for _, p := range all {
			if last := p.Process[len(p.Process)-1]; !p.of("daemon") && !last.At.Before(told.At) {
				t.Errorf("the daemon of %s was told at %v to stop, before the end of %s: %v", id, told.At, p.pod(), last)
			}
			if p.of("depend") {
				n++
			}
		}
	}
	if n < 2 {
		t.Errorf("%d pods of the StatefulSet were on the nodes", n)
	}
	ended := map[string]time.Time{}
	for _, p := range byStart(f.records()) {
		if !p.of("depend") {
			continue
		}
		if failed := p.All(record.Failed); len(failed) > 0 || !p.has(record.Ready) {
			t.Errorf("%s was not answered, or never ready: %v", p.pod(), p.Process)
		}
		if began := p.Process[0].At; began.Before(ended[p.pod()]) {
			t.Errorf("%s began at %v, before the one before it ended at %v", p.pod(), began, ended[p.pod()])
		}
		ended[p.pod()] = p.Process[len(p.Process)-1].At
	}
}

// byStart sorts records by the begin of their processes.
func byStart(all []process) []process {
	slices.SortFunc(all, func(a, b process) int { return a.Process[0].At.Compare(b.Process[0].At) })
	return all
}
