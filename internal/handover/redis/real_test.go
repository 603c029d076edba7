//go:build e2e

package redis_test

import (
	"context"
	"flag"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// fixture is a group of real servers, and a Releaser that may do what the documentation says.
type fixture struct {
	*redisserver.Group
	t        *testing.T
	ctx      context.Context
	releaser *redis.Releaser
}

func newFixture(t *testing.T, group *redisserver.Group, err error) *fixture {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{Group: group, t: t, ctx: t.Context(), releaser: newReleaser(redisserver.Password, nil)}
}

// longest is the time after which a test gives up.
const longest = 2 * time.Minute

// TestMain has more groups than processors work at the same time: their tests wait more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func newReleaser(password string, dial dialer, scaler ...workload.Scaler) *redis.Releaser {
	secret := map[string][]byte{"username": []byte(redisserver.Username), "password": []byte(password)}
	return releaserWith(secret, dial, scaler...)
}

func releaserWith(secret map[string][]byte, dial dialer, scaler ...workload.Scaler) *redis.Releaser {
	scaler = append(scaler, nil)
	return redis.New(redis.Options{
		Secret:   func(context.Context, string, string) (map[string][]byte, error) { return secret, nil },
		Networks: loopback(),
		Scaler:   scaler[0],
		Dial:     dial,

		PasswordsInClear: true,
	})
}

// release repeats calls until the pod of a server may go, as a drain does, and returns the answer that moved the
// leadership, or the last one.
func (f *fixture) release(s *redisserver.Server, leaving ...*redisserver.Server) handover.Answer {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, longest)
	defer cancel()
	var moved handover.Answer
	for {
		start := time.Now()
		answer, err := f.releaser.Release(ctx, f.Request(s, leaving...))
		f.t.Logf("release %s: %+v in %s", s.Name, answer, time.Since(start).Round(time.Millisecond))
		if err != nil {
			f.t.Fatalf("release %s: %v", s.Name, err)
		}
		if answer.Leader != "" {
			moved = answer
		}
		switch {
		case answer.Go && moved.Leader != "":
			if moved.Go = true; moved.Outcome == handover.GroupBehind { // Another member did not answer then.
				moved.Outcome = answer.Outcome
			}
			return moved
		case answer.Go:
			return answer
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("%s was not released: %+v", s.Name, answer)
		case <-time.After(max(answer.Again, 100*time.Millisecond)):
		}
	}
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// stop ends a writer, and expects that nothing was lost.
func (f *fixture) stop(what string, w *redisserver.Writer, most time.Duration) {
	f.t.Helper()
	report, err := w.Stop(f.ctx)
	f.check(err)
	f.t.Logf("%s: %s", what, report)
	if err := report.Check(most); err != nil {
		f.t.Errorf("%s: %v", what, err)
	}
}

// stopWithoutHandOver ends a writer, and expects the gap that there is without a hand-over.
func (f *fixture) stopWithoutHandOver(w *redisserver.Writer) {
	f.t.Helper()
	report, err := w.Stop(f.ctx)
	f.check(err)
	f.t.Log(report)
	if report.Gap < redisserver.DownAfter {
		f.t.Errorf("%s; want a gap of %s at least", report, redisserver.DownAfter)
	}
}

// TestDocumentedRights holds that the documentation lists the rights that all tests run with.
func TestDocumentedRights(t *testing.T) {
	page, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rights := range []string{redisserver.ServerRights, redisserver.SentinelRights} {
		if line := "user node-drainer on >PASSWORD " + rights + "\n"; !strings.Contains(string(page), line) {
			t.Errorf("docs/redis.md has no line %q", line)
		}
	}
}
