// Package server answers the agent, by the protocol of package webhook, for the pods of one namespace.
package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/webhook"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// Options are what a Server works with.
type Options struct {
	Namespace string // of the pods
	Pod       string // of this process; empty outside a cluster
	// List lists the pods of the namespace, as the API server has them now.
	List     func(ctx context.Context) ([]workload.Pod, error)
	Releaser workload.Releaser
	Observer Observer
}

// Observer is notified of what happens.
type Observer interface {
	Answered(pod string, a handover.Answer, err error, took time.Duration)
	ReconcileFailed(err error)
	SurgePutOff(s workload.Surge, why string) // once for each reason that a surge has not ended yet
}

const (
	// callTimeout bounds what is done for one pod while no other is asked: the pods of a group take turns. turnTimeout is
	// how long a question waits for its turn. Both have ended before the agent does not wait any longer.
	callTimeout, turnTimeout = 22 * time.Second, 2 * time.Second
	// leavingTimeout is how long the agent's word is taken that nodes leave: some may be Ready again.
	leavingTimeout = 10 * time.Minute
	// maxBody is enough for the names of 10,000 nodes; maxWaiting bounds the requests that wait for their turn.
	maxBody, maxWaiting = 1 << 20, 32
	busyPause           = 500 * time.Millisecond
)

// Server is an http.Handler. Create it with New.
type Server struct {
	options Options
	turn    chan struct{} // holds one token while nothing is done
	waiting chan struct{}
	woken   chan struct{} // receives when there may be work for Run
	started time.Time

	mu        sync.Mutex
	leaving   map[string]struct{} // nodes
	leavingAt time.Time
	groups    []*movedGroup
}

// New returns a Server. Call Run too.
func New(o Options) *Server {
	s := &Server{
		options: o, turn: make(chan struct{}, 1), waiting: make(chan struct{}, maxWaiting), woken: make(chan struct{}, 1),
		started: time.Now(),
	}
	s.turn <- struct{}{}
	return s
}

// ServeHTTP answers one question. What it has begun it ends, also if nobody waits for the answer any longer: a
// hand-over that stops half-way pauses writes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q webhook.Question
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q)
	switch {
	case err != nil:
		http.Error(w, "the body is no question: "+err.Error(), http.StatusBadRequest)
		return
	case q.Namespace != s.options.Namespace:
		http.Error(w, "the pod is of another namespace than this program", http.StatusForbidden)
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		http.Error(w, "too many requests wait", http.StatusServiceUnavailable)
		return
	}
	started := time.Now()
	answer, err := s.answer(r.Context(), q)
	s.options.Observer.Answered(q.Pod, answer, err, time.Since(started))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(webhook.StatusOf(answer))
	_ = json.NewEncoder(w).Encode(webhook.Reply{
		Outcome: answer.Outcome, Message: answer.Message, Leader: answer.Leader, RetryAfter: answer.Again.Seconds(),
	})
}

// answer waits for its turn, and has the pod released.
func (s *Server) answer(waiting context.Context, q webhook.Question) (handover.Answer, error) {
	s.setLeaving(q.Leaving)
	patience, cancel := context.WithTimeout(waiting, turnTimeout)
	defer cancel()
	select {
	case <-patience.Done():
		return handover.Answer{Outcome: handover.GroupBehind, Message: "another pod is asked", Again: busyPause}, nil
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(waiting), callTimeout)
	defer cancel()
	pods, err := s.list(ctx)
	if err != nil {
		return handover.Answer{}, err
	}
	request := workload.Request{Deadline: q.Deadline, Last: q.Last}
	for _, p := range pods {
		if p.Name == q.Pod && p.UID == q.UID {
			request.Pod = p
		} else {
			request.Peers = append(request.Peers, p)
		}
	}
	switch {
	case request.Pod.Name == "":
		return handover.Answer{Go: true, Outcome: handover.NotLeading, Message: "the pod is gone"}, nil
	case request.Pod.Annotations[handover.KindAnnotation] != handover.HTTPKind:
		return handover.Answer{
			Go: true, Outcome: handover.Invalid, Message: "the pod does not have the annotation " + handover.KindAnnotation,
		}, nil
	case q.Pod == s.options.Pod:
		return leaveLast(request), nil
	}
	answer, err := s.options.Releaser.Release(ctx, request)
	if err == nil && answer.Go || q.Last { // after the last call it goes whatever the answer is
		s.moved(request.Pod)
	}
	s.wake()
	return answer, err
}

// leaveLast answers for the pod of this process: it stays until all others on its node, and on other nodes that leave,
// have handed over. Until it runs on another node, nobody else has them hand over.
func leaveLast(r workload.Request) handover.Answer {
	i := slices.IndexFunc(r.Peers, func(p workload.Pod) bool {
		leaves := p.Node == r.Pod.Node || p.Node != "" && !p.Stays
		return leaves && p.IP != "" && !p.Deleting && p.Annotations[handover.KindAnnotation] == handover.HTTPKind &&
			p.Annotations[handover.ServiceAnnotation] == r.Pod.Annotations[handover.ServiceAnnotation]
	})
	if i < 0 || r.Last {
		return handover.Answer{Go: true, Outcome: handover.NotLeading}
	}
	return handover.Answer{
		Outcome: handover.GroupBehind, Message: r.Peers[i].Name + ", which leaves too, has not handed over yet",
	}
}

func (s *Server) setLeaving(nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving, s.leavingAt = make(map[string]struct{}, len(nodes)), time.Now()
	for _, node := range nodes {
		s.leaving[node] = struct{}{}
	}
}

// list lists the pods of the namespace, and whether their nodes stay.
func (s *Server) list(ctx context.Context) ([]workload.Pod, error) {
	pods, err := s.options.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", s.options.Namespace, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pods {
		_, leaves := s.leaving[pods[i].Node]
		pods[i].Stays = pods[i].Node != "" && (!leaves || time.Since(s.leavingAt) > leavingTimeout)
	}
	return pods, nil
}
