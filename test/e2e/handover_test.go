//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/node-drainer/node-drainer/internal/handover/webhook"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/redispods"
)

// member is a pod of a kind of hand-over.
func member(kind string, more ...string) cluster.Pods {
	annotations := map[string]string{handover.KindAnnotation: kind}
	for i := 0; i+1 < len(more); i += 2 {
		annotations[more[i]] = more[i+1]
	}
	return cluster.Pods{Stop: time.Second, Annotations: annotations}
}

// TestGate: a pod is evicted when its owner has annotated it, also by an agent that has started since.
func TestGate(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.pod("db", old, member(handover.GateKind))
	f.pod("web", old, cluster.Pods{Stop: time.Second})
	settings := []string{"DRAIN_HAND_OVER_TIMEOUT=1h"}
	killed := f.startAgent(settings...)
	f.terminate(instance)
	killed.waitLog("hand-over put off", "outcome", "handing-over")
	killed.Kill()
	agent := f.startAgent(settings...)
	agent.waitLog("hand-over put off", "outcome", "handing-over")
	f.waitNode(old, func(n *corev1.Node) bool {
		c := condition(n)
		return c != nil && strings.HasPrefix(c.Message, "1 of ") &&
			strings.HasSuffix(c.Message, " left; 1 hand over their leadership first")
	})
	f.assertEvicted([]string{"web"})

	patch := []byte(`{"metadata":{"annotations":{"` + handover.HandedOverAnnotation + `":""}}}`)
	_, err := f.cluster.Client().CoreV1().Pods(f.namespace).Patch(
		f.ctx, "db", types.MergePatchType, patch, metav1.PatchOptions{})
	f.must(err)
	f.waitCompleted(instance)
	agent.waitLog("hand-over ended", "kind", "gate", "outcome", "handed-over")
	f.assertEvicted([]string{"db", "web"})
	f.waitEvent("HandOverPutOff")
	f.waitEvent("HandedOver")
}

// TestHTTPHandOver: a pod that names a Service is evicted when that says so.
func TestHTTPHandOver(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	var calls atomic.Int32
	f.serve("db", func(w http.ResponseWriter, r *http.Request) {
		var question webhook.Question
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil || question.Pod != "db" || question.Node != old ||
			question.Namespace != f.namespace || time.Until(question.Deadline) <= 0 {
			t.Errorf("got %+v, %v", question, err)
		}
		if calls.Add(1) < 3 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusAccepted)
			_, _ = fmt.Fprint(w, "db-1 is not in sync")
		}
	})
	f.pod("db", old, member(handover.HTTPKind, handover.ServiceAnnotation, "db"))
	agent := f.startAgent()
	f.terminate(instance)
	f.waitCompleted(instance)
	agent.waitLog("hand-over put off", "reason", "db-1 is not in sync")
	agent.waitLog("hand-over ended", "kind", "http", "outcome", "handed-over")
	f.assertEvictedOnce([]string{"db"})
	f.waitEvent("HandedOver")
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// TestFailedHandOvers: a pod that cannot hand over is evicted in time, and an Event names the cause.
func TestFailedHandOvers(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no replica", http.StatusConflict) }
	for name, tt := range map[string]struct {
		pods   cluster.Pods
		serves http.HandlerFunc // there is no Service if it is nil
		want   string           // in the Event
	}{
		"unknown kind":          {member("postgres"), nil, `is "postgres": must be gate`},
		"no Service":            {member(handover.HTTPKind, handover.ServiceAnnotation, "db"), nil, "has no Service db, which"},
		"wrong port":            {member(handover.HTTPKind, handover.ServiceAnnotation, "db:web"), refuse, "the Service db has no port web"},
		"refused":               {member(handover.HTTPKind, handover.ServiceAnnotation, "db"), refuse, "409 Conflict: no replica"},
		"nobody opens the gate": {member(handover.GateKind), nil, "does not have the annotation node-drainer.io/handed-over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			if tt.serves != nil {
				f.serve("db", tt.serves)
			}
			f.pod("db", old, tt.pods)
			f.startAgent("DRAIN_HAND_OVER_TIMEOUT=2s")
			f.terminate(instance)
			f.waitCompleted(instance)
			f.assertEvictedOnce([]string{"db"})
			f.waitEventText("HandOverFailed", tt.want)
		})
	}
}

// serve serves HTTP at a Service.
func (f *fixture) serve(service string, handler http.HandlerFunc) {
	f.t.Helper()
	address, err := f.cluster.Expose(f.ctx, f.namespace, service)
	f.must(err)
	server := httptest.NewUnstartedServer(handler)
	f.must(server.Listener.Close())
	server.Listener, err = new(net.ListenConfig).Listen(f.ctx, "tcp", address)
	f.must(err)
	server.Start()
	f.t.Cleanup(server.Close)
}

// handoverProgram is the program that has the pods of a fixture hand over.
type handoverProgram struct {
	*agentProcess
	fixture *fixture
	program redispods.Handover
}

// startHandover installs the program with the rights of its chart, and starts it.
func (f *fixture) startHandover(env ...string) *handoverProgram {
	f.t.Helper()
	f.install(renderHandover)
	address, err := f.cluster.Expose(f.ctx, f.namespace, redispods.Service)
	f.must(err)
	h := &handoverProgram{fixture: f, program: redispods.Handover{
		Program: handoverBinary, Kubeconfig: f.token(handoverAccount), Namespace: f.namespace, Address: address, Env: env,
	}}
	h.restart()
	return h
}

// restart kills the program, if it runs, and starts it again.
func (h *handoverProgram) restart() {
	h.fixture.t.Helper()
	if h.agentProcess != nil {
		h.Kill()
	}
	h.agentProcess = &agentProcess{Process: harness.NewProcess(h.program.Command()), t: h.fixture.t}
	h.fixture.must(h.Start())
	endWithTest(h.fixture.t, h.Process)
	h.waitLog("handover started")
}

// assertHealthy expects that the program answers its liveness probe.
func (h *handoverProgram) assertHealthy() {
	h.fixture.t.Helper()
	if code, body, err := harness.Page(waits(h.fixture.t), h.program.Address, "/healthz"); err != nil || code != http.StatusOK {
		h.fixture.t.Errorf("/healthz is %d: %s, %v", code, body, err)
	}
}

// redisMember is a pod that the program has hand over.
func redisMember(more ...string) cluster.Pods {
	return member(handover.HTTPKind, append(more, handover.ServiceAnnotation, redispods.Service)...)
}

// listen listens on an address of the loopback that nobody else uses. The caller closes the listener.
func (f *fixture) listen() (listener net.Listener, ip, port string) {
	f.t.Helper()
	ip = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 2+rand.IntN(250))
	listener, err := new(net.ListenConfig).Listen(f.ctx, "tcp", ip+":0")
	f.must(err)
	return listener, ip, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// setAddress gives a pod another IP address, as its kubelet would.
func (f *fixture) setAddress(pod, ip string) {
	f.t.Helper()
	pods := f.cluster.Client().CoreV1().Pods(f.namespace)
	f.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := pods.Get(f.ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.PodIP, now.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		_, err = pods.UpdateStatus(f.ctx, now, metav1.UpdateOptions{})
		return err
	}))
}

// waitEventText waits until an Event with the reason, about an object of this test, contains the text.
func (f *fixture) waitEventText(reason, text string) {
	f.t.Helper()
	events := f.cluster.Client().CoreV1().Events("")
	eventually(f.t, waitTimeout, func() string {
		list, err := events.List(context.WithoutCancel(f.ctx), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err.Error()
		}
		var messages []string
		for _, e := range list.Items {
			if about := e.InvolvedObject; about.Namespace != f.namespace && !f.nodes[about.Name] {
				continue
			}
			if strings.Contains(e.Message, text) {
				return ""
			}
			messages = append(messages, e.Message)
		}
		return fmt.Sprintf("no Event %s has %q: %q", reason, text, messages)
	})
}
