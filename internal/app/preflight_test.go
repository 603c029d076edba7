package app

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/access"
	"github.com/node-drainer/node-drainer/internal/check"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/observe"
)

// noCredentials is an AWS without credentials for the agent: all other methods panic.
type noCredentials struct{ check.AWS }

func (noCredentials) Identity(context.Context) (cloud.Identity, error) {
	return cloud.Identity{}, cloud.ErrNoCredentials
}

// cluster grants everything, and fails to answer for as long as silent is set.
type cluster struct{ silent atomic.Bool }

func (c *cluster) Nodes(context.Context) (node.Survey, error) { return node.Survey{}, nil }

func (c *cluster) User(context.Context) (string, error) { return "me", nil }

func (c *cluster) Allowed(context.Context, access.Right) (bool, error) {
	if c.silent.Load() {
		return false, errors.New("no answer")
	}
	return true, nil
}

// TestPreflight: the installation is checked soon after the start and then each hour, each problem is logged with its fix,
// and the metric has the numbers of the last check, until this replica stops leading.
func TestPreflight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, log := prometheus.NewRegistry(), new(bytes.Buffer)
		kubernetes := &cluster{}
		kubernetes.silent.Store(true)
		p := preflight{
			check.Installation{AWS: noCredentials{}, Kubernetes: kubernetes},
			observe.New(zerolog.New(log), registry, observe.Silence{}, observe.Silence{}, nil),
		}
		expect := func(failed float64) {
			t.Helper()
			synctest.Wait()
			if got := problemsOf(t, registry, "failed"); got != failed {
				t.Errorf("the metric has %v failed checks, want %v", got, failed)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.run(ctx)
		}()
		time.Sleep(firstPreflight - time.Second)
		expect(0)
		time.Sleep(time.Second)
		expect(2)
		kubernetes.silent.Store(false)
		time.Sleep(preflightInterval)
		expect(1)
		stop()
		<-ended
		expect(0)
		if n := strings.Count(log.String(), `"installation problem"`); n != 3 {
			t.Errorf("%d problems were logged, want 3:\n%s", n, log)
		}
		if !strings.Contains(log.String(), `"check":"credentials"`) || !strings.Contains(log.String(), "create-pod-identity-association") {
			t.Errorf("the log does not have the check and its fix:\n%s", log)
		}
	})
}

// TestProblemsToLog: a failure is logged at each check, and a warning once.
func TestProblemsToLog(t *testing.T) {
	t.Parallel()
	one := func(s check.Status, found string) check.Result {
		return check.Result{Check: "rules", Status: s, Found: found}
	}
	fails, warns, other := one(check.Failed, "a"), one(check.Warning, "b"), one(check.Warning, "c")
	results := []check.Result{one(check.OK, "d"), fails, warns, other, one(check.NotChecked, "e")}
	for name, tt := range map[string]struct{ before, want []check.Result }{
		"the first check": {nil, []check.Result{fails, warns, other}},
		"the same again":  {results, []check.Result{fails}},
		"a new warning":   {[]check.Result{fails, warns}, []check.Result{fails, other}},
	} {
		if got := problemsToLog(results, tt.before); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// problemsOf returns the number of problems with the status.
func problemsOf(t *testing.T, registry *prometheus.Registry, status string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "node_drainer_installation_problems" && m.GetLabel()[0].GetValue() == status {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatal("there is no metric of problems")
	return 0
}
