package realnodes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

// Queue hands out each job once, and keeps an account of who took it, and who did it.
type Queue struct {
	server   *http.Server
	listener net.Listener

	mu      sync.Mutex
	stopped bool
	jobs    []*Job
}

// Job is the account of one job.
type Job struct {
	Name string
	Took string   // The pod that has it.
	Did  []string // The pods that have reported that it is done.
}

// NewQueue returns a queue that pods reach at URL.
func NewQueue(port int) (*Queue, error) {
	listener, err := net.Listen("tcp", Listen(port))
	if err != nil {
		return nil, err
	}
	q := &Queue{listener: listener}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /take", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, q.take(r.FormValue("pod"))) //nolint:gosec // No browser reads it, and it is not of the request.
	})
	mux.HandleFunc("POST /done", func(w http.ResponseWriter, r *http.Request) {
		if !q.done(r.FormValue("job"), r.FormValue("pod")) {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	q.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = q.server.Serve(listener) }()
	return q, nil
}

// URL returns the address of the queue.
func (q *Queue) URL() string { return "http://" + q.listener.Addr().String() }

// take returns a new job, or nothing after Stop.
func (q *Queue) take(pod string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return ""
	}
	j := &Job{Name: fmt.Sprintf("job-%d", len(q.jobs)+1), Took: pod}
	q.jobs = append(q.jobs, j)
	return j.Name
}

func (q *Queue) done(name, pod string) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.jobs, func(j *Job) bool { return j.Name == name })
	if i >= 0 {
		q.jobs[i].Did = append(q.jobs[i].Did, pod)
	}
	return i >= 0
}

// Jobs returns the account of all jobs that were handed out.
func (q *Queue) Jobs() (all []Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		all = append(all, Job{j.Name, j.Took, slices.Clone(j.Did)})
	}
	return all
}

// Drain hands out no more jobs, and waits until each of the others has been done.
func (q *Queue) Drain(ctx context.Context) error {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
	return harness.Eventually(ctx, func() string {
		for _, j := range q.Jobs() {
			if len(j.Did) == 0 {
				return fmt.Sprintf("%s, which %s took, is not done", j.Name, j.Took)
			}
		}
		return ""
	})
}

// Close stops the server.
func (q *Queue) Close() error { return q.server.Close() }
