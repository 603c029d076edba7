package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errStop = errors.New("the process is stopping")
	errDown = errors.New("connection refused")
	errWork = errors.New("the work failed")
)

// mode is how calls to the API server end.
type mode int

const (
	answered mode = iota
	unreachable
	hanging
	forbidden
)

// server is an API server with one Lease.
type server struct {
	mu      sync.Mutex
	mode    mode
	record  resourcelock.LeaderElectionRecord
	version int // 0: the Lease does not exist
}

func (s *server) set(m mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
}

// client is the API server as one replica sees it. It refuses an update of a Lease that another replica has
// changed.
type client struct {
	*server
	self   string
	seen   int
	down   bool          // this replica alone cannot reach the API server
	frozen chan struct{} // calls do not return before it is closed, even if their context ends
}

func (c *client) Identity() string   { return c.self }
func (c *client) Describe() string   { return "agents/node-drainer" }
func (c *client) RecordEvent(string) {}

// change changes a field while calls are running.
func (c *client) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// call makes one request; do is called with mu.
func (c *client) call(ctx context.Context, do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mode == hanging || c.frozen != nil {
		block := ctx.Done()
		if c.frozen != nil {
			block = c.frozen
		}
		c.mu.Unlock()
		<-block
		c.mu.Lock()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.mode == unreachable || c.down:
		return errDown
	case c.mode == forbidden:
		return apierrors.NewForbidden(leases, "node-drainer", errors.New("no role"))
	}
	return do()
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (c *client) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var record resourcelock.LeaderElectionRecord
	err := c.call(ctx, func() error {
		if c.version == 0 {
			return apierrors.NewNotFound(leases, "node-drainer")
		}
		record, c.seen = c.record, c.version
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (c *client) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.write(ctx, record, 0, apierrors.NewAlreadyExists(leases, "node-drainer"))
}

func (c *client) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.write(ctx, record, c.seen, apierrors.NewConflict(leases, "node-drainer", errors.New("changed")))
}

func (c *client) write(ctx context.Context, record resourcelock.LeaderElectionRecord, seen int, refusal error) error {
	return c.call(ctx, func() error {
		if c.version != seen {
			return refusal
		}
		c.version++
		c.record, c.seen = record, c.version
		return nil
	})
}

// env is an API server and the replicas that use it, in the virtual time of a synctest bubble.
type env struct {
	*server

	mu      sync.Mutex
	log     []string // which replicas started and stopped working, in order
	working map[string]bool
}

// inBubble runs the test in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &env{server: &server{}, working: map[string]bool{}}) })
}

func (e *env) setWorking(name string, working bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.working[name] = working
	e.log = append(e.log, name+map[bool]string{true: " started", false: " stopped"}[working])
}

func (e *env) expectLog(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.log, want) {
		t.Errorf("the work: %q, want %q", e.log, want)
	}
}

// leader returns the replica that works. It fails the test if two do.
func (e *env) leader(t *testing.T) string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for name, working := range e.working {
		if working {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		t.Errorf("%q work at the same time", names)
	}
	return strings.Join(names, "+")
}

func (e *env) expectLeader(t *testing.T, want string) {
	t.Helper()
	expect(t, e.leader(t), want)
}

// replica is a running Elector. It is its own Observer.
type replica struct {
	*Elector
	env        *env
	client     *client
	stopTime   time.Duration // how long its work takes to stop
	stop       context.CancelCauseFunc
	ended      chan error
	workResult chan error // ends its work

	mu       sync.Mutex
	failures []string
	holders  []string
}

func settings() Config {
	return Config{
		Election: true, Namespace: "agents", LeaseName: "node-drainer",
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
	}
}

func (e *env) replica(t *testing.T, name string, change ...func(*replica, *Config)) *replica {
	t.Helper()
	r := &replica{
		env: e, client: &client{server: e.server, self: name}, ended: make(chan error, 1), workResult: make(chan error, 1),
	}
	cfg := settings()
	for _, c := range change {
		c(r, &cfg)
	}
	if errs := cfg.Validate(""); errs != nil {
		t.Fatal(errs)
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(t.Context()))
	r.stop = stop
	r.Elector = newElector(r.client, cfg, r)
	go func() {
		r.ended <- r.Run(ctx, r.work)
		close(r.ended)
	}()
	t.Cleanup(func() {
		stop(errStop)
		for range r.ended {
		}
	})
	return r
}

// leaderAndStandby runs replica a, which leads, and replica b, for a minute.
func (e *env) leaderAndStandby(t *testing.T, change ...func(*replica, *Config)) (a, b *replica) {
	t.Helper()
	a = e.replica(t, "a", change...)
	advance(time.Second)
	b = e.replica(t, "b")
	advance(time.Minute)
	e.expectLeader(t, "a")
	return a, b
}

func (r *replica) work(ctx context.Context) error {
	r.env.setWorking(r.client.self, true)
	defer r.env.setWorking(r.client.self, false)
	select {
	case <-ctx.Done():
		time.Sleep(r.stopTime)
		return context.Cause(ctx)
	case err := <-r.workResult:
		return err
	}
}

// receives reports whether WaitForLease lets the replica receive messages.
func (r *replica) receives() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	receives := r.lock.read().outage == nil
	r.WaitForLease(ctx)
	return receives
}

func (r *replica) LeadershipStarted()    {}
func (r *replica) LeadershipEnded(error) {}
func (r *replica) LeaderChanged(holder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holders = append(r.holders, holder)
}

func (r *replica) KubernetesFailed(operation string, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, operation)
}

func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until waits until fact returns true, and fails the test if that takes longer than the limit.
func until(t *testing.T, limit time.Duration, fact func() bool) {
	t.Helper()
	for start := time.Now(); !fact(); advance(10 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("not so within %v", limit)
		}
	}
}

func (e *env) untilLeader(t *testing.T, limit time.Duration, name string) {
	t.Helper()
	until(t, limit, func() bool { return e.leader(t) == name })
}

func expect(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// expectStatus checks whether the replica is ready and healthy.
func (r *replica) expectStatus(t *testing.T, ready, healthy bool) {
	t.Helper()
	if readyErr, healthyErr := r.Ready(), r.Healthy(); (readyErr == nil) != ready || (healthyErr == nil) != healthy {
		t.Errorf("%s: Ready returned %v, Healthy returned %v", r.client.self, readyErr, healthyErr)
	}
}
