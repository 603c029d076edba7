package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/webhook"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// fixture is a Server, a Releaser that answers as a test says, and the pods of the namespace shop.
type fixture struct {
	*Server
	t *testing.T

	release   func(context.Context, workload.Request) (handover.Answer, error)
	reconcile func(context.Context) (handover.Answer, error)
	listing   func() error // what a list fails with

	mu             sync.Mutex
	pods           []workload.Pod
	surges         map[string]int // the calls that each surge takes to end, by StatefulSet
	surgesFail     int            // so many lists of them fail
	surgeLists     int
	calls          []call
	inFlight, most int
	told           []string // to the Observer
}

// call is one of the Releaser.
type call struct {
	what    string // release POD, reconcile POD or end STATEFULSET
	request workload.Request
	after   time.Duration // since the test began
}

func newFixture(t *testing.T, pods ...workload.Pod) *fixture {
	t.Helper()
	f := &fixture{t: t, pods: pods, surges: map[string]int{}, listing: func() error { return nil }}
	f.release = always(handover.Answer{Go: true, Outcome: handover.HandedOver})
	f.reconcile = func(context.Context) (handover.Answer, error) { return handover.Answer{Go: true}, nil }
	began := time.Now()
	f.Server = New(Options{
		Namespace: "shop", Pod: "handover-0", List: f.list, Releaser: releaser{f, began}, Observer: f,
	})
	return f
}

func always(a handover.Answer) func(context.Context, workload.Request) (handover.Answer, error) {
	return func(context.Context, workload.Request) (handover.Answer, error) { return a, nil }
}

// slow answers after a time, whatever its ctx says.
func slow(d time.Duration, a handover.Answer) func(context.Context, workload.Request) (handover.Answer, error) {
	return func(context.Context, workload.Request) (handover.Answer, error) {
		<-time.After(d)
		return a, nil
	}
}

// member is a pod of a group of its own name, on a node of its own.
func member(name string, changes ...func(*workload.Pod)) workload.Pod {
	p := workload.Pod{
		Namespace: "shop", Name: name, UID: "uid-" + name, IP: "10.0.0.1", Node: "node-of-" + name, Ready: true,
		Annotations: map[string]string{handover.KindAnnotation: handover.HTTPKind, handover.ServiceAnnotation: "asked"},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func on(node string) func(*workload.Pod) { return func(p *workload.Pod) { p.Node = node } }

func annotated(name, value string) func(*workload.Pod) {
	return func(p *workload.Pod) { p.Annotations[name] = value }
}

// start has the Server do what is left until the test ends.
func (f *fixture) start() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	f.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// elapse lets virtual time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (f *fixture) list(context.Context) ([]workload.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pods), f.listing()
}

// remove has pods end.
func (f *fixture) remove(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods = slices.DeleteFunc(f.pods, func(p workload.Pod) bool { return slices.Contains(names, p.Name) })
}

// releaser is the Releaser of a fixture, and its Surger.
type releaser struct {
	*fixture
	began time.Time
}

// enter records a call. It returns what records its end.
func (r releaser) enter(what string, request workload.Request) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call{what, request, time.Since(r.began)})
	r.inFlight++
	r.most = max(r.most, r.inFlight)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inFlight--
	}
}

func (r releaser) Release(ctx context.Context, request workload.Request) (handover.Answer, error) {
	defer r.enter("release "+request.Pod.Name, request)()
	return r.release(ctx, request)
}

func (r releaser) Reconcile(ctx context.Context, request workload.Request) (handover.Answer, error) {
	defer r.enter("reconcile "+request.Pod.Name, request)()
	return r.reconcile(ctx)
}

func (r releaser) Surges(context.Context) (all []workload.Surge, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.surgeLists++; r.surgesFail > 0 {
		r.surgesFail--
		return nil, errors.New("no answer")
	}
	for name, left := range r.surges {
		if left > 0 {
			all = append(all, workload.Surge{Namespace: "shop", StatefulSet: name, For: "a", ForUID: "uid-a"})
		}
	}
	return all, nil
}

func (r releaser) EndSurge(_ context.Context, s workload.Surge, pods []workload.Pod) (handover.Answer, error) {
	defer r.enter("end "+s.StatefulSet, workload.Request{Peers: pods})()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.surges[s.StatefulSet]--
	return handover.Answer{Go: r.surges[s.StatefulSet] == 0, Message: "redis-0 has not moved yet"}, nil
}

// Answered is that of Observer.
func (f *fixture) Answered(pod string, a handover.Answer, err error, took time.Duration) {
	f.tell(strings.TrimSpace(fmt.Sprint(pod, " ", a.Outcome, " after ", took)), err)
}

// ReconcileFailed is that of Observer.
func (f *fixture) ReconcileFailed(err error) { f.tell("failed", err) }

// SurgePutOff is that of Observer.
func (f *fixture) SurgePutOff(s workload.Surge, why string) { f.tell(s.StatefulSet+": "+why, nil) }

func (f *fixture) tell(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		what += ": " + err.Error()
	}
	f.told = append(f.told, what)
}

// done returns the calls whose text begins with a prefix.
func (f *fixture) done(prefix string) (texts []string) {
	for _, c := range f.at(prefix) {
		texts = append(texts, c.what)
	}
	return texts
}

func (f *fixture) at(prefix string) (calls []call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if strings.HasPrefix(c.what, prefix) {
			calls = append(calls, c)
		}
	}
	return calls
}

// ask asks about a member.
func (f *fixture) ask(pod string, changes ...func(*webhook.Question)) (status int, reply webhook.Reply) {
	f.t.Helper()
	return f.askUntil(f.t.Context(), pod, changes...)
}

// askUntil does so as a client that goes away when its ctx ends.
func (f *fixture) askUntil(
	ctx context.Context, pod string, changes ...func(*webhook.Question),
) (status int, reply webhook.Reply) {
	f.t.Helper()
	q := webhook.Question{Namespace: "shop", Pod: pod, UID: "uid-" + pod, Node: "node-of-" + pod}
	for _, change := range changes {
		change(&q)
	}
	body, err := json.Marshal(q)
	if err != nil {
		f.t.Fatal(err)
	}
	w := f.post(ctx, string(body))
	if w.Header().Get("Content-Type") == "application/json" {
		err = json.Unmarshal(w.Body.Bytes(), &reply)
	} else {
		reply.Message = strings.TrimSpace(w.Body.String())
	}
	if err != nil {
		f.t.Errorf("%s: %v", w.Body, err)
	}
	return w.Code, reply
}

func (f *fixture) post(ctx context.Context, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, webhook.Path, strings.NewReader(body)))
	return w
}

func last(q *webhook.Question) { q.Last = true }

func leaving(nodes ...string) func(*webhook.Question) {
	return func(q *webhook.Question) { q.Leaving = nodes }
}
