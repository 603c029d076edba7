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
	errStop = errors.New("the process is asked to stop")
	errDown = errors.New("the API server is down")
	errWork = errors.New("the work has failed")
)

// server is an API server with one Lease.
type server struct {
	mu      sync.Mutex
	record  resourcelock.LeaderElectionRecord
	version int // 0: there is no Lease
	down    bool
	hangs   bool
	refuses bool
}

func (s *server) set(down, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.hangs = down, hangs
}

func (s *server) refuse(refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = refuses
}

// call is one request; do has the lock.
func (s *server) call(ctx context.Context, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.down:
		return errDown
	case s.refuses:
		return apierrors.NewForbidden(leases(), "node-drainer", errors.New("no"))
	}
	return do()
}

// client is the Lease as one replica sees it: an update of what another has changed is refused.
type client struct {
	*server
	self string
	seen int
}

func (c *client) Identity() string   { return c.self }
func (c *client) Describe() string   { return "agents/node-drainer" }
func (c *client) RecordEvent(string) {}

func leases() schema.GroupResource {
	return schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
}

func (c *client) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var record resourcelock.LeaderElectionRecord
	err := c.call(ctx, func() error {
		if c.version == 0 {
			return apierrors.NewNotFound(leases(), "node-drainer")
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
	return c.write(ctx, record, 0, apierrors.NewAlreadyExists(leases(), "node-drainer"))
}

func (c *client) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.write(ctx, record, c.seen, apierrors.NewConflict(leases(), "node-drainer", errors.New("changed")))
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

// world is what replicas do, in the time of the bubble.
type world struct {
	*server
	start time.Time

	mu    sync.Mutex
	lines []string // who began and ended to work, in order
	works map[string]bool
}

func newWorld() *world { return &world{server: &server{}, start: time.Now(), works: map[string]bool{}} }

func (w *world) line(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lines)
}

// leader is who works now; it fails the test if two do.
func (w *world) leader(t *testing.T) string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name, works := range w.works {
		if works {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		t.Errorf("%q work at the same time", names)
	}
	return strings.Join(names, "+")
}

// replica is an Elector that runs. It is its own Observer.
type replica struct {
	*Elector
	w     *world
	name  string
	takes time.Duration // that its work takes to stop
	stop  context.CancelCauseFunc
	kill  func() // as kill -9: nothing of it reaches the server any more
	line  *killable
	ended chan error
	fails chan error // has the work end by itself

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

func (w *world) replica(t *testing.T, name string, change ...func(*replica, *Config)) *replica {
	t.Helper()
	r := &replica{w: w, name: name, ended: make(chan error, 1), fails: make(chan error, 1)}
	cfg := settings()
	for _, c := range change {
		c(r, &cfg)
	}
	if errs := cfg.Validate(""); errs != nil {
		t.Fatal(errs)
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(t.Context()))
	dead := &killable{Interface: &client{server: w.server, self: name}}
	r.stop, r.kill, r.line = stop, dead.kill, dead
	r.Elector = newElector(dead, cfg, r)
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

func (r *replica) work(ctx context.Context) error {
	r.w.setWorks(r.name, true)
	defer r.w.setWorks(r.name, false)
	r.w.line("%s works", r.name)
	defer r.w.line("%s stops", r.name)
	select {
	case <-ctx.Done():
		time.Sleep(r.takes)
		return context.Cause(ctx)
	case err := <-r.fails:
		return err
	}
}

func (w *world) setWorks(name string, works bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.works[name] = works
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

// killable is a connection that may be cut for good.
type killable struct {
	resourcelock.Interface
	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // no call returns before it is closed, whatever its context says
}

func (k *killable) kill() { k.cut(true) }

func (k *killable) cut(dead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = dead
}

func (k *killable) freeze(frozen chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = frozen
}

func (k *killable) alive() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frozen != nil {
		<-k.frozen
	}
	if k.dead {
		return errDown
	}
	return nil
}

func (k *killable) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := k.alive(); err != nil {
		return nil, nil, err
	}
	return k.Interface.Get(ctx)
}

func (k *killable) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := k.alive(); err != nil {
		return err
	}
	return k.Interface.Update(ctx, record)
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until waits for a fact, and returns how long it took.
func until(t *testing.T, fact func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !fact() {
		if time.Since(start) > 10*time.Minute {
			t.Fatal("waited in vain")
		}
		after(100 * time.Millisecond)
	}
	return time.Since(start)
}

func wants(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOneLeadsAndTheOthersStandBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		after(time.Second)
		b, c := w.replica(t, "b"), w.replica(t, "c")
		after(time.Hour)
		wants(t, w.leader(t), "a")
		wants(t, a.Role(), "leading")
		for _, r := range []*replica{b, c} {
			wants(t, r.Role(), "standing by; a leads")
			wants(t, r.holders, []string{"a"})
		}
		for _, r := range []*replica{a, b, c} {
			if r.Ready() != nil || r.Healthy() != nil || len(r.failures) > 0 {
				t.Errorf("%s: %v, %v, failures %q", r.name, r.Ready(), r.Healthy(), r.failures)
			}
		}
	})
}

// TestAStoppedLeaderHandsOver: its work ends first, and nobody works meanwhile; then the other takes over
// within three seconds.
func TestAStoppedLeaderHandsOver(t *testing.T) {
	for _, takes := range []time.Duration{0, 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			a := w.replica(t, "a", func(r *replica, _ *Config) { r.takes = takes })
			after(time.Second)
			w.replica(t, "b")
			after(time.Minute)
			a.stop(errStop)
			after(takes)
			if took := until(t, func() bool { return w.leader(t) == "b" }); took > 3*time.Second {
				t.Errorf("the hand-over took %v", took)
			}
			wants(t, w.told(), []string{"a works", "a stops", "b works"})
			if err := <-a.ended; !errors.Is(err, errStop) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}

func TestAKilledLeaderIsFollowedAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		after(time.Second)
		b := w.replica(t, "b")
		after(time.Minute)
		a.kill()
		w.setWorks("a", false)
		if took := until(t, func() bool { return w.leader(t) == "b" }); took > 20*time.Second {
			t.Errorf("the hand-over took %v", took)
		}
		wants(t, b.holders, []string{"a", "b"})
	})
}

// TestALostLeaseStopsTheWork: and this process stands by again, without a restart.
func TestALostLeaseStopsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		after(time.Minute)
		w.refuse(true)
		if took := until(t, func() bool { return w.leader(t) == "" }); took > 12*time.Second {
			t.Errorf("it worked on for %v", took)
		}
		after(time.Minute)
		if a.Healthy() != nil || a.Ready() == nil || len(a.failures) == 0 {
			t.Errorf("healthy %v, ready %v, failures %q; want to be alive and not ready", a.Healthy(), a.Ready(), a.failures)
		}
		wants(t, a.Role(), "standing by; no leader")
		w.refuse(false)
		until(t, func() bool { return w.leader(t) == "a" })
		if a.Ready() != nil {
			t.Error(a.Ready())
		}
		wants(t, w.told(), []string{"a works", "a stops", "a works"})
	})
}

// heard tells whether the replica may take on something new.
func (r *replica) heard() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	waits := r.lock.silence() != nil
	r.WaitForLease(ctx) // returns, whatever it waits for
	return !waits
}

// TestSilentAPIServer: the leader keeps what it has in hand, and takes on nothing new, for as long as that lasts.
func TestSilentAPIServer(t *testing.T) {
	for name, hangs := range map[string]bool{"it cannot be reached": false, "it hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				a := w.replica(t, "a")
				after(time.Second)
				b := w.replica(t, "b")
				after(time.Minute)
				w.set(!hangs, hangs)
				after(10 * time.Minute)
				wants(t, w.told(), []string{"a works"})
				wants(t, a.Role(), "leading, but the API server does not answer")
				if a.heard() || !b.heard() || a.Ready() == nil || b.Ready() == nil || a.Healthy() != nil || b.Healthy() != nil {
					t.Errorf("heard %v and %v, ready %v and %v, healthy %v and %v",
						a.heard(), b.heard(), a.Ready(), b.Ready(), a.Healthy(), b.Healthy())
				}
				again := make(chan struct{})
				go func() { a.WaitForLease(t.Context()); close(again) }()
				w.set(false, false)
				<-again
				after(10 * time.Second) // a call that hangs is given up, and another made; either has the Lease, which had run out
				if leader := w.leader(t); leader == "" || !a.heard() || a.Ready() != nil || b.Ready() != nil {
					t.Errorf("%q leads, heard %v, ready %v and %v", leader, a.heard(), a.Ready(), b.Ready())
				}
			})
		})
	}
}

// TestLeaderThatIsCutOff: another leads, and when the first hears of it, it stops at once.
func TestLeaderThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		after(time.Second)
		w.replica(t, "b")
		after(time.Minute)
		a.line.cut(true)
		after(20 * time.Second)
		wants(t, w.told(), []string{"a works", "b works"})
		if a.heard() {
			t.Error("it takes on more")
		}
		a.line.cut(false)
		after(2 * time.Second)
		wants(t, w.leader(t), "b")
		wants(t, w.told(), []string{"a works", "b works", "a stops"})
		after(5 * time.Second)
		wants(t, a.Role(), "standing by; b leads")
	})
}

// TestWorkThatDoesNotStop: the lease is not released before the work has stopped, and the process is told of
// as not healthy after a minute.
func TestWorkThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a", func(r *replica, _ *Config) { r.takes = 5 * time.Minute })
		after(time.Minute)
		w.refuse(true)
		after(time.Minute)
		if a.Healthy() != nil {
			t.Errorf("not healthy too early: %v", a.Healthy())
		}
		w.refuse(false)
		after(30 * time.Second)
		if a.Healthy() == nil || a.Ready() == nil {
			t.Errorf("healthy %v, ready %v while the work does not stop", a.Healthy(), a.Ready())
		}
		after(5 * time.Minute)
		wants(t, w.leader(t), "a")
		if a.Healthy() != nil || a.Ready() != nil {
			t.Errorf("healthy %v, ready %v after it had stopped", a.Healthy(), a.Ready())
		}
	})
}

// TestElectionThatStandsStill: only a new process can help.
func TestElectionThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.replica(t, "a")
		after(time.Second)
		b := w.replica(t, "b")
		after(time.Minute)
		frozen := make(chan struct{})
		b.line.freeze(frozen)
		after(29 * time.Second)
		if b.Healthy() != nil {
			t.Errorf("not healthy too early: %v", b.Healthy())
		}
		after(5 * time.Second)
		if b.Healthy() == nil || b.Ready() == nil {
			t.Errorf("healthy %v, ready %v", b.Healthy(), b.Ready())
		}
		close(frozen)
		after(5 * time.Second)
		if b.Healthy() != nil || b.Ready() != nil {
			t.Errorf("healthy %v, ready %v when it goes on", b.Healthy(), b.Ready())
		}
	})
}

func TestWorkThatEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		after(time.Second)
		w.replica(t, "b")
		after(time.Minute)
		a.fails <- errWork
		if err := <-a.ended; !errors.Is(err, errWork) {
			t.Errorf("Run returned %v, want the work's error", err)
		}
		after(3 * time.Second)
		wants(t, w.leader(t), "b")
	})
}

func TestAStandbyThatStopsLeavesTheLeaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.replica(t, "a")
		after(time.Second)
		b := w.replica(t, "b")
		after(time.Minute)
		b.stop(errStop)
		start := time.Now()
		for range b.ended {
		}
		after(0)
		wants(t, w.leader(t), "a")
		wants(t, w.record.HolderIdentity, "a")
		if took := time.Since(start); took > 0 {
			t.Errorf("it took %v to stop", took)
		}
	})
}

func TestStopWhileTheAPIServerIsDown(t *testing.T) {
	for name, hangs := range map[string]bool{"refuses": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				a := w.replica(t, "a")
				after(time.Minute)
				w.set(!hangs, hangs)
				a.stop(errStop)
				start := time.Now()
				for range a.ended {
				}
				if took := time.Since(start); took > 6*time.Second {
					t.Errorf("it took %v to stop", took)
				}
			})
		})
	}
}

func TestWithoutElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.set(true, false)
		a := w.replica(t, "a", func(_ *replica, c *Config) { *c = Config{} })
		after(time.Hour)
		wants(t, w.leader(t), "a")
		wants(t, a.Role(), "leading")
		if a.Ready() != nil || a.Healthy() != nil || a.HandOver("node-1") || len(a.failures) > 0 {
			t.Errorf("ready %v, healthy %v, failures %q", a.Ready(), a.Healthy(), a.failures)
		}
		a.stop(errStop)
		if err := <-a.ended; !errors.Is(err, errStop) {
			t.Errorf("Run returned %v", err)
		}
	})
}
