package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

const (
	// A group of which a pod was released is reconciled for so long: the pod must have moved first.
	reconcileTimeout = 5 * time.Minute
	// shortestPause and longestPause bound the pause between two looks at what is left to do. There is no limit of time
	// for surges: the pod that left may have to wait for a node.
	shortestPause, longestPause = 3 * time.Second, 15 * time.Second
	maxGroups                   = 64 // more are left as they are
	// firstPause is how long a process that has started waits for the first question, which says which nodes leave,
	// before it ends a surge of a pod that is still there. The agent asks once a minute at least.
	firstPause = 2 * time.Minute
)

// movedGroup is a group of which pods were released.
type movedGroup struct {
	pod      workload.Pod        // one of them
	released map[string]struct{} // their UIDs
	until    time.Time
}

// moved records that a pod was released.
func (s *Server) moved(pod workload.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.groups, func(g *movedGroup) bool { return g.pod.IsAlike(pod) })
	switch {
	case i >= 0:
	case len(s.groups) < maxGroups:
		i = len(s.groups)
		s.groups = append(s.groups, &movedGroup{pod: pod, released: map[string]struct{}{}})
	default:
		return
	}
	s.groups[i].released[pod.UID], s.groups[i].until = struct{}{}, time.Now().Add(reconcileTimeout)
}

func (s *Server) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// Run does until ctx ends what is left once pods have moved, and ends surges: those that are recorded already, and
// those that calls start. No drain waits for that.
func (s *Server) Run(ctx context.Context) {
	pause, said := shortestPause, map[string]string{}
	for ctx.Err() == nil {
		left, err := s.work(ctx, said)
		if err != nil && ctx.Err() == nil {
			s.options.Observer.ReconcileFailed(err)
		}
		next := time.After(pause)
		pause = min(pause*3/2, longestPause)
		if left == 0 && err == nil {
			next, pause = nil, shortestPause
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-s.woken:
			pause = shortestPause
			retry.Sleep(ctx, pause) // a pod that was just released is still there
		}
	}
}

// work does what can be done now, and returns how much is left.
func (s *Server) work(ctx context.Context, said map[string]string) (left int, err error) {
	s.mu.Lock()
	groups := slices.Clone(s.groups)
	s.mu.Unlock()
	for _, g := range groups {
		s.inTurn(ctx, func(ctx context.Context) { err = errors.Join(err, s.reconcile(ctx, g)) })
	}
	surges, surgesErr := s.options.Releaser.Surges(ctx)
	for _, surge := range surges {
		s.inTurn(ctx, func(ctx context.Context) { err = errors.Join(err, s.endSurge(ctx, surge, said)) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups) + len(surges), errors.Join(err, surgesErr)
}

// inTurn does something while no pod is asked, to its end, like an answer.
func (s *Server) inTurn(ctx context.Context, do func(context.Context)) {
	select {
	case <-ctx.Done():
		return
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	do(ctx)
}

// reconcile has the group reconciled with a pod that stays, once the released pods are gone, and forgets it when
// nothing is left to do, or its time is over.
func (s *Server) reconcile(ctx context.Context, g *movedGroup) error {
	pods, err := s.list(ctx)
	if err != nil {
		return err
	}
	// The pod of this process has all annotations of a group that has no others.
	request, ready := g.request(slices.DeleteFunc(pods, func(p workload.Pod) bool { return p.Name == s.options.Pod }))
	var answer handover.Answer
	if ready {
		answer, err = s.options.Releaser.Reconcile(ctx, request)
	}
	if answer.Go && err == nil || time.Now().After(g.until) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.groups = slices.DeleteFunc(s.groups, func(other *movedGroup) bool { return other == g })
	}
	return err
}

// request returns a request with a pod of the group that stays; false if there is none, or if a released pod is still
// there. The turn is held, by which released does not change.
func (g *movedGroup) request(pods []workload.Pod) (workload.Request, bool) {
	request := workload.Request{Deadline: g.until}
	for _, pod := range pods {
		_, leaves := g.released[pod.UID]
		switch {
		case leaves:
			return workload.Request{}, false
		case pod.Ready && pod.Stays && !pod.Deleting && pod.IsAlike(g.pod) && request.Pod.Name == "":
			request.Pod = pod
		default:
			request.Peers = append(request.Peers, pod)
		}
	}
	return request, request.Pod.Name != ""
}

// mayWait reports whether the pod of a surge may still wait for its eviction: a process that has just started does not
// know which nodes leave.
func (s *Server) mayWait(surge workload.Surge, pods []workload.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leavingAt.IsZero() && time.Since(s.started) < firstPause &&
		slices.ContainsFunc(pods, func(p workload.Pod) bool { return p.Name == surge.For && p.UID == surge.ForUID })
}

// endSurge does what can be done now to end a surge. What it waits for is reported once, and recorded in said.
func (s *Server) endSurge(ctx context.Context, surge workload.Surge, said map[string]string) error {
	pods, err := s.list(ctx)
	if err != nil {
		return err
	}
	if s.mayWait(surge, pods) {
		return nil
	}
	answer, err := s.options.Releaser.EndSurge(ctx, surge, pods)
	switch {
	case err != nil:
		return err
	case answer.Go:
		delete(said, surge.StatefulSet)
	case answer.Message != "" && answer.Message != said[surge.StatefulSet]:
		said[surge.StatefulSet] = answer.Message
		s.options.Observer.SurgePutOff(surge, answer.Message)
	}
	return nil
}
