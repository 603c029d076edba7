//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/node-drainer/node-drainer/test/harness"
)

// leaveToKubelet keeps kwok from playing the kubelet for a pod: it would call the pod ready, completed, or gone.
var leaveToKubelet = map[string]string{
	"node-drainer.test/start": "3600", "node-drainer.test/run": "3600", "node-drainer.test/stop": "3600",
}

// kubelet does for the pods of one namespace, on all nodes, what kwok only pretends: it runs the program of each pod
// as long as there is the pod, in the environment that the pod gives it and with a token that is bound to the pod, and
// reports its state. It changes one thing: the agent listens on a free port of the loopback.
type kubelet struct {
	*fixture
	home string

	mu         sync.Mutex
	containers map[types.UID]*container
}

// container is the program of one pod.
type container struct {
	pod     *corev1.Pod
	ip      string
	process *harness.Process
	agent   *agentProcess // nil if the program is the trigger
	stopped bool          // We have sent SIGTERM.
}

// startKubelet serves the namespace until the test ends.
func (f *fixture) startKubelet(home string) *kubelet {
	k := &kubelet{fixture: f, home: home, containers: map[types.UID]*container{}}
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.cluster.WaitPods(ctx, home, "", func(pods []*corev1.Pod) bool {
			for _, p := range pods {
				if err := k.sync(ctx, p); err != nil && ctx.Err() == nil {
					f.t.Errorf("pod %s: %v", p.Name, err)
				}
			}
			return false
		})
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	return k
}

// sync brings the program of a pod about, or to its end.
func (k *kubelet) sync(ctx context.Context, p *corev1.Pod) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.containers[p.UID]
	switch {
	case r != nil && p.DeletionTimestamp != nil && !r.stopped:
		r.stopped = true
		if err := r.process.Cmd.Process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return k.remove(ctx, p)
	case r == nil && p.DeletionTimestamp != nil:
		return k.remove(ctx, p)
	case r == nil && p.Spec.NodeName != "":
		r, err := k.start(ctx, p)
		switch {
		case apierrors.IsNotFound(err): // The pod has gone meanwhile.
			return nil
		case err != nil:
			return err
		}
		k.containers[p.UID] = r
		go k.follow(ctx, r)
	}
	return nil
}

// start runs the program of a pod.
func (k *kubelet) start(ctx context.Context, p *corev1.Pod) (*container, error) {
	c := p.Spec.Containers[0]
	env, err := environment(p, c)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := k.cluster.PodToken(ctx, p)
	if err != nil {
		return nil, err
	}
	env = append(env, "KUBECONFIG="+kubeconfig)
	r := &container{pod: p, ip: fmt.Sprintf("10.0.0.%d", len(k.containers)+1)}
	switch {
	case c.Command[0] == "/agent" && len(c.Args) > 0:
		cmd := exec.Command(k.program, k.reachable(c.Args)...)
		cmd.Env = env
		r.process = harness.NewProcess(cmd)
		k.must(r.process.Start())
		endWithTest(k.t, r.process)
	case c.Command[0] == "/agent":
		if i := slices.Index(env, "LISTEN_ADDRESS=:"+strconv.Itoa(int(c.Ports[0].ContainerPort))); i >= 0 {
			env[i] = "LISTEN_ADDRESS=127.0.0.1:0"
		}
		r.agent = startAgentProcess(k.t, k.program, env)
		r.process = r.agent.Process
	case c.Command[0] == "/trigger":
		run := k.newTriggerRun(nil, c.Args...)
		run.Cmd.Env = env
		run.start()
		r.process = run.Process
	default:
		return nil, fmt.Errorf("the image has no %s", c.Command[0])
	}
	return r, nil
}

// reachable returns the arguments with an agent's own address in place of the Service, which nothing resolves here. The
// caller has locked the kubelet.
func (k *kubelet) reachable(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		_, page, isURL := strings.Cut(arg, "--url=http://")
		for _, r := range k.containers {
			if isURL && r.agent != nil && !r.stopped && r.hasStarted() {
				started, err := r.agent.WaitLine(k.ctx, 1, "agent started")
				k.must(err)
				args[i] = "--url=http://" + started.Text("listen") + page[strings.Index(page, "/"):]
			}
		}
	}
	return args
}

// follow reports the state of a pod's program until it has exited.
func (k *kubelet) follow(ctx context.Context, r *container) {
	probe := time.NewTicker(50 * time.Millisecond)
	defer probe.Stop()
	var reported, ready bool
	for ended := false; !ended; {
		select {
		case <-r.process.Ended():
			ended = true
		case <-probe.C:
			if is := r.isReady(ctx); !reported || is != ready {
				reported, ready = true, is
				k.report(ctx, r, running(ready))
			}
		}
	}
	code := r.process.Cmd.ProcessState.ExitCode()
	k.report(ctx, r, ended(code))
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.agent != nil && (!r.stopped || code != 0 && r.hasStarted()) && ctx.Err() == nil {
		k.t.Errorf("the agent of pod %s ended with %d; stopped: %v", r.pod.Name, code, r.stopped)
	}
	if err := k.remove(ctx, r.pod); err != nil && ctx.Err() == nil {
		k.t.Errorf("pod %s: %v", r.pod.Name, err)
	}
}

// hasStarted reports whether the agent has logged that it has started. Before that it may not handle SIGTERM.
func (r *container) hasStarted() bool { return r.agent.Count("agent started") > 0 }

// isReady reports whether the pod's readiness probe succeeds.
func (r *container) isReady(ctx context.Context) bool {
	probe := r.pod.Spec.Containers[0].ReadinessProbe
	return probe == nil || r.answers(ctx, probe.HTTPGet.Path) == http.StatusOK
}

// answers returns the status of one of the agent's pages, or 0 if the agent does not answer.
func (r *container) answers(ctx context.Context, path string) int {
	if !r.hasStarted() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	status, _, err := r.agent.Get(ctx, path)
	if err != nil {
		return 0
	}
	return status
}

// report writes the status of a pod.
func (k *kubelet) report(ctx context.Context, r *container, status corev1.PodStatus) {
	pods := k.cluster.Client().CoreV1().Pods(k.home)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := pods.Get(ctx, r.pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Phase, now.Status.ContainerStatuses = status.Phase, status.ContainerStatuses
		now.Status.PodIP, now.Status.PodIPs = r.ip, []corev1.PodIP{{IP: r.ip}}
		now.Status.Conditions = append(slices.DeleteFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady
		}), status.Conditions...)
		now.Status.ContainerStatuses[0].Name = now.Spec.Containers[0].Name
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		k.t.Errorf("report on pod %s: %v", r.pod.Name, err)
	}
}

func running(ready bool) corev1.PodStatus {
	return status(corev1.PodRunning, ready, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

func ended(code int) corev1.PodStatus {
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	return status(phase, false, corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)},
	})
}

func status(phase corev1.PodPhase, ready bool, state corev1.ContainerState) corev1.PodStatus {
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
	if ready {
		condition.Status = corev1.ConditionTrue
	}
	return corev1.PodStatus{
		Phase: phase, Conditions: []corev1.PodCondition{condition},
		ContainerStatuses: []corev1.ContainerStatus{{Ready: ready, State: state}},
	}
}

// remove takes a pod out of the API that is to go, and whose program has ended.
func (k *kubelet) remove(ctx context.Context, p *corev1.Pod) error {
	pods := k.cluster.Client().CoreV1().Pods(k.home)
	now, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
	if err == nil && now.UID == p.UID && now.DeletionTimestamp != nil {
		err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// agents returns the agents that run and have had no SIGTERM.
func (k *kubelet) agents() (agents []*container) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.containers {
		if r.agent != nil && !r.stopped {
			agents = append(agents, r)
		}
	}
	return agents
}

// environment is what the kubelet gives a container of a pod as its environment.
func environment(p *corev1.Pod, c corev1.Container) (env []string, err error) {
	if len(c.EnvFrom) > 0 {
		return nil, errors.New("envFrom is not known here")
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		return nil, err
	}
	for _, v := range c.Env {
		value, from := v.Value, v.ValueFrom
		switch {
		case strings.Contains(value, "$("):
			return nil, fmt.Errorf("%s refers to a variable, which is not known here", v.Name)
		case from == nil:
		case from.FieldRef != nil:
			var found bool
			value, found, err = unstructured.NestedString(content, strings.Split(from.FieldRef.FieldPath, ".")...)
			if err != nil {
				return nil, fmt.Errorf("read the field %s for %s: %w", from.FieldRef.FieldPath, v.Name, err)
			}
			if !found {
				return nil, fmt.Errorf("%s: the pod has no %s", v.Name, from.FieldRef.FieldPath)
			}
		case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory":
			value = strconv.FormatInt(c.Resources.Limits.Memory().Value(), 10)
		default:
			return nil, fmt.Errorf("%s comes from %v, which is not known here", v.Name, from)
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}
