package notify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/notify"
)

const timeout = 5 * time.Second

// fixture is a Notifier that runs in virtual time. It plays the service, and records the requests and the facts.
type fixture struct {
	*notify.Notifier
	begin   time.Time
	stop    func() // ends Run's context, and waits until it returns
	mu      sync.Mutex
	answers []answer // the last one is for all further requests; none is 200
	bodies  []string
	at      []time.Duration
	facts   []string
}

// answer is that to a request.
type answer struct {
	code       int
	retryAfter string
	takes      time.Duration
	err        error
}

func start(t *testing.T, change func(*notify.Config), answers ...answer) *fixture {
	t.Helper()
	f := &fixture{begin: time.Now(), answers: answers}
	n, err := notify.New(configure(change), "prod", f)
	if err != nil {
		t.Fatal(err)
	}
	f.Notifier = n
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx, f) })
	f.stop = func() {
		cancel()
		running.Wait()
	}
	return f
}

// RoundTrip implements http.RoundTripper.
func (f *fixture) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	a := answer{code: http.StatusOK}
	if len(f.answers) > 0 {
		a = f.answers[0]
		f.answers = f.answers[min(1, len(f.answers)-1):]
	}
	f.bodies, f.at = append(f.bodies, string(body)), append(f.at, time.Since(f.begin))
	f.mu.Unlock()
	select {
	case <-time.After(a.takes):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	if a.err != nil {
		return nil, a.err
	}
	header := http.Header{"Retry-After": {a.retryAfter}, "Location": {"https://other.example.com/"}}
	return &http.Response{StatusCode: a.code, Header: header, Body: io.NopCloser(strings.NewReader(secret)), Request: r}, nil
}

func (f *fixture) NotificationSent(drains int, recovered bool) {
	f.fact("sent %d at %v recovered=%v", drains, time.Since(f.begin).Truncate(time.Second), recovered)
}

func (f *fixture) NotificationFailed(drains int, err error, changed bool) {
	f.fact("failed %d at %v changed=%v: %v", drains, time.Since(f.begin).Truncate(time.Second), changed, err)
}

func (f *fixture) fact(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.facts = append(f.facts, fmt.Sprintf(format, args...))
}

func (f *fixture) want(t *testing.T, facts ...string) {
	t.Helper()
	f.stop()
	if diff := cmp.Diff(facts, f.facts); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if strings.Contains(fmt.Sprint(f.facts), secret) {
		t.Errorf("the secret was recorded: %q", f.facts)
	}
}

// TestBatches: what happens within a second, or during a request, is in one message.
func TestBatches(t *testing.T) {
	t.Parallel()
	type event struct {
		at     time.Duration
		node   int
		status notify.Status
	}
	const ms, s = time.Millisecond, time.Second
	for _, tt := range []struct {
		name    string
		when    string
		events  []event
		answers []answer
		want    []string
	}{
		{"one", "", []event{{0, 1, notify.Drained}}, nil, []string{"sent 1 at 1s recovered=false"}},
		{
			"three within a second", "",
			[]event{{0, 1, notify.Drained}, {500 * ms, 2, notify.Drained}, {999 * ms, 3, notify.Failed}},
			nil,
			[]string{"sent 3 at 1s recovered=false"},
		},
		{
			"two apart", "",
			[]event{{0, 1, notify.Drained}, {3 * s, 2, notify.Drained}},
			nil,
			[]string{"sent 1 at 1s recovered=false", "sent 1 at 4s recovered=false"},
		},
		{
			"three during a request", "",
			[]event{{0, 1, notify.Drained}, {2 * s, 2, notify.Drained}, {3 * s, 3, notify.Drained}, {4 * s, 4, notify.Drained}},
			[]answer{{code: 200, takes: 4 * s}, {code: 200}},
			[]string{"sent 1 at 5s recovered=false", "sent 3 at 6s recovered=false"},
		},
		{
			"a drain that is recorded twice", "",
			[]event{{0, 1, notify.Drained}, {0, 1, notify.Drained}, {5 * s, 1, notify.Drained}},
			nil,
			[]string{"sent 1 at 1s recovered=false"},
		},
		{
			"the start and the end of a drain", "",
			[]event{{0, 1, notify.Started}, {5 * s, 1, notify.Failed}},
			nil,
			[]string{"sent 1 at 1s recovered=false", "sent 1 at 6s recovered=false"},
		},
		{
			"only what is configured", "failed",
			[]event{{0, 1, notify.Started}, {0, 1, notify.Drained}, {0, 2, notify.Failed}},
			nil,
			[]string{"sent 1 at 1s recovered=false"},
		},
		{"nothing is configured", " ", []event{{0, 1, notify.Started}, {0, 1, notify.Drained}, {0, 2, notify.Failed}}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := start(t, func(c *notify.Config) {
					if tt.when != "" {
						c.When = tt.when
					}
				}, tt.answers...)
				for _, e := range tt.events {
					time.Sleep(e.at - time.Since(f.begin))
					if !f.Add(drainOf(e.node, e.status)) {
						t.Errorf("dropped: %+v", e)
					}
				}
				time.Sleep(time.Minute)
				f.want(t, tt.want...)
			})
		})
	}
}

// TestNextDrain: a node that was uncordoned, and is drained again later, is reported again.
func TestNextDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		again := drainOf(1, notify.Drained)
		again.Since = again.Since.Add(time.Hour)
		f.Add(drainOf(1, notify.Drained))
		f.Add(again)
		time.Sleep(time.Minute)
		f.want(t, "sent 2 at 1s recovered=false")
	})
}

// TestRetries: an attempt is repeated if that can help, a few times; failures are warnings when they change.
func TestRetries(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for _, tt := range []struct {
		name     string
		answers  []answer
		attempts int
		want     string
	}{
		{"unavailable, then accepted", []answer{{code: 503}, {code: 503}, {code: 200}}, 3, "sent 1 at (4|5)s recovered=false"},
		{"always unavailable", []answer{{code: 502}}, 5, "failed 1 at (16|17|18|19)s changed=true: the answer is 502 Bad Gateway"},
		{"no connection, then accepted", []answer{{err: refused}, {code: 204}}, 2, "sent 1 at 2s recovered=false"},
		{"no connection", []answer{{err: refused}}, 5, "failed 1 at (16|17|18|19)s changed=true: connection refused"},
		{"too many requests", []answer{{code: 429, retryAfter: "30"}, {code: 202}}, 2, "sent 1 at 31s recovered=false"},
		{"too many requests until a date", []answer{{code: 429, retryAfter: "Sat, 01 Jan 2000 00:00:41 GMT"}, {code: 200}}, 2, "sent 1 at 41s recovered=false"},
		{"too many requests for an hour", []answer{{code: 429, retryAfter: "3600"}, {code: 200}}, 2, "sent 1 at 1m1s recovered=false"},
		{"no answer, then accepted", []answer{{takes: time.Hour}, {code: 200}}, 2, "sent 1 at 7s recovered=false"},
		{"no answer", []answer{{takes: time.Hour}}, 5, "failed 1 at 4[1-4]s changed=true: context deadline exceeded"},
		{"request timeout", []answer{{code: 408}, {code: 200}}, 2, "sent 1 at 2s recovered=false"},
		{"forbidden", []answer{{code: 403}}, 1, "failed 1 at 1s changed=true: the answer is 403 Forbidden"},
		{"not found", []answer{{code: 404}}, 1, "failed 1 at 1s changed=true: the answer is 404 Not Found"},
		{"redirected", []answer{{code: 307}}, 1, "failed 1 at 1s changed=true: the answer is 307 Temporary Redirect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nil, tt.answers...)
				f.Add(drainOf(1, notify.Drained))
				time.Sleep(10 * time.Minute)
				f.stop()
				if len(f.facts) != 1 || !matches(tt.want, f.facts[0]) || len(f.bodies) != tt.attempts {
					t.Errorf("%d attempts; facts %q, want %q", len(f.bodies), f.facts, tt.want)
				}
				if strings.Contains(fmt.Sprint(f.facts), secret) {
					t.Errorf("the secret was recorded: %q", f.facts)
				}
			})
		})
	}
}

// TestFailures: a failure is new once; the queue is bounded; and what waited is sent when the service answers.
func TestFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil, answer{code: 403}, answer{code: 403}, answer{code: 400}, answer{code: 200})
		for i := range 5 {
			f.Add(drainOf(i, notify.Drained))
			time.Sleep(time.Minute)
		}
		f.want(t,
			"failed 1 at 1s changed=true: the answer is 403 Forbidden",
			"failed 1 at 1m1s changed=false: the answer is 403 Forbidden",
			"failed 1 at 2m1s changed=true: the answer is 400 Bad Request",
			"sent 1 at 3m1s recovered=true",
			"sent 1 at 4m1s recovered=false")
	})
}

// TestFullQueue: what does not fit is dropped, without blocking the caller.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil, answer{code: 200, takes: 4 * time.Second}, answer{code: 200})
		f.Add(drainOf(0, notify.Drained))
		time.Sleep(2 * time.Second) // its request is under way
		dropped := 0
		for i := range 1003 {
			if !f.Add(drainOf(i+1, notify.Drained)) {
				dropped++
			}
		}
		if after := time.Since(f.begin); dropped != 3 || after != 2*time.Second {
			t.Errorf("%d were dropped, after %v", dropped, after)
		}
		time.Sleep(time.Minute)
		f.want(t, "sent 1 at 5s recovered=false", "sent 1000 at 6s recovered=false")
	})
}

// TestStop: what is queued is sent at once, by one attempt, and within two seconds.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		answers []answer
		after   time.Duration // of the first drain, the process stops
		took    time.Duration
		want    []string
	}{
		{"before the window ends", nil, 0, 0, []string{"sent 2 at 0s recovered=false"}},
		{"the service fails", []answer{{code: 503}}, 0, 0, []string{"failed 2 at 0s changed=true: the answer is 503 Service Unavailable"}},
		{"the service is slow", []answer{{code: 200, takes: time.Second}}, 0, time.Second, []string{"sent 2 at 1s recovered=false"}},
		{"no answer", []answer{{takes: time.Hour}}, 0, 2 * time.Second, []string{"failed 2 at 2s changed=true: context canceled"}},
		{
			"during a request, and more is queued",
			[]answer{{code: 200, takes: 2 * time.Second}, {code: 200}},
			2 * time.Second, time.Second,
			[]string{"sent 1 at 3s recovered=false", "sent 1 at 3s recovered=false"},
		},
		{
			"during a pause, and more is queued",
			[]answer{{code: 429, retryAfter: "60"}, {code: 200}},
			2 * time.Second, 0,
			[]string{"failed 1 at 2s changed=true: the answer is 429 Too Many Requests", "sent 1 at 2s recovered=true"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nil, tt.answers...)
				f.Add(drainOf(1, notify.Drained))
				time.Sleep(tt.after)
				f.Add(drainOf(2, notify.Drained))
				stopping := time.Now()
				f.want(t, tt.want...)
				if took := time.Since(stopping); took != tt.took {
					t.Errorf("it stopped after %v, want %v", took, tt.took)
				}
			})
		})
	}
}
