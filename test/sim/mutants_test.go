package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	nodes "github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/rollouts"
)

// writer forgets what concerns nodes.
type writer struct {
	rollout.Writer
	untaints, requests bool // which of them it makes
}

func (w writer) Untaint(ctx context.Context, n nodes.Node) error {
	if !w.untaints {
		return nil
	}
	return w.Writer.Untaint(ctx, n)
}

func (w writer) RequestDrain(ctx context.Context, n nodes.Node) error {
	if !w.requests {
		return nil
	}
	return w.Writer.RequestDrain(ctx, n)
}

// neverResumes never resumes the Cluster Autoscaler.
type neverResumes struct{ plan.Autoscaler }

func (neverResumes) Resume(context.Context, autoscaler.Pause) (bool, error) { return true, nil }

// view sees what is not so.
type view struct {
	plan.Cluster
	ready, drained bool // each node is
}

func (v view) Node(id string) (nodes.Node, bool) {
	n, known := v.Cluster.Node(id)
	if v.ready {
		n.Name, n.Ready, known = id, true, true
	}
	if v.drained {
		n.DrainRequested, n.Marked, n.Drain = true, true, &nodes.Drain{Done: true}
	}
	return n, known
}

// poolless sees no instance of a warm pool.
type poolless struct{ plan.Reader }

func (poolless) Pool(context.Context, string) ([]refresh.Instance, error) { return nil, nil }

// misses is a connection on which events of watches are missed that contain a text.
type misses struct {
	http.RoundTripper
	text []byte
}

func (m misses) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := m.RoundTripper.RoundTrip(r)
	if err != nil || !r.URL.Query().Has("watch") {
		return answer, err
	}
	out, in := io.Pipe()
	events := json.NewDecoder(answer.Body)
	go func() {
		for {
			var event json.RawMessage
			err := events.Decode(&event)
			if err == nil && !bytes.Contains(event, m.text) {
				_, err = in.Write(event)
			}
			if err != nil {
				_ = in.CloseWithError(err)
				return
			}
		}
	}()
	answer.Body = body{out, answer.Body}
	return answer, nil
}

// body is what is left of the body of an answer.
type body struct {
	*io.PipeReader
	whole io.Closer
}

func (b body) Close() error { return errors.Join(b.whole.Close(), b.PipeReader.Close()) }

// hangs has the container runtime of a node hang, whose instance is terminated before the node is not Ready. Its pods are
// evicted at once.
func hangs(s *Spec) {
	c := &s.Clusters[0]
	group := c.Groups[0].Name
	c.Workloads = []Workload{{Name: "web", Kind: "deployment", Replicas: 6, Grace: 30 * time.Second, Start: time.Second}}
	s.Faults, s.Triggers, s.Steps = nil, nil, []Step{
		{At: 0, Do: "hang", On: group}, {At: 3 * time.Minute, Do: "terminate", On: group, N: 1},
	}
}

// onlyPool has only the instances of a warm pool be outdated when the trigger begins.
func onlyPool(s *Spec) {
	in(refresh.ModeRefresh, func(o *rollouts.Options) { o.Windows, o.Gate, o.All = false, false, false })(s)
	s.Clusters, s.Clusters[0].Autoscaler, s.Steps = s.Clusters[:1], false, nil
	for i := range s.Clusters[0].Groups {
		one := &s.Clusters[0].Groups[i]
		one.Nodes, one.Max, one.Spot, one.Hooks, one.Broken = 1, 0, false, nil, 0
		one.Pool = &Pool{Size: 1, Kept: true}
		s.Steps = append(s.Steps, Step{At: time.Second, Do: "version", On: one.Name},
			Step{At: 10 * time.Second, Do: "replace", On: one.Name, N: 1})
	}
	s.Triggers = s.Triggers[:1]
	s.Triggers[0].Command, s.Triggers[0].At, s.Triggers[0].Kill, s.Triggers[0].Interrupt = rollouts.Trigger, time.Hour, 0, 0
}

func reads(by func(plan.Reader) plan.Reader) mutant { return mutant{reader: by} }

func forgets(f rollouts.Forgetful) mutant {
	return mutant{writer: func(w rollout.Writer) rollout.Writer { f.Writer = w; return f }}
}

func writes(w writer) mutant {
	return mutant{writer: func(all rollout.Writer) rollout.Writer { w.Writer = all; return w }}
}

func sees(v view) mutant {
	return mutant{view: func(c plan.Cluster) plan.Cluster { v.Cluster = c; return v }}
}

func configures(c func(*plan.Config)) mutant { return mutant{config: c} }

// in returns what has all triggers of a world work in a mode. Nothing fails, the groups launch nothing first by
// themselves, and they have no room for a surge.
func in(mode refresh.Mode, change func(*rollouts.Options)) func(*Spec) {
	return func(s *Spec) {
		s.Faults = nil
		for _, c := range s.Clusters {
			for i := range c.Groups {
				c.Groups[i].MinHealthy, c.Groups[i].Max = 0, c.Groups[i].Nodes
				c.Groups[i].Managed = mode == refresh.ModeNodegroup
			}
		}
		for i := range s.Triggers {
			o := &s.Triggers[i].Options
			o.Mode, o.Surge, o.Then, o.RaiseMax, o.Timeout = mode, refresh.Amount{N: 1}, refresh.ThenTerminate, true, 0
			if mode != refresh.ModeUnhealthy {
				o.Surge, o.RaiseMax = refresh.Amount{}, false
			}
			change(o)
		}
	}
}

// mostWorlds is in how many worlds a fault must be found.
const mostWorlds = 12

// TestMutants: the judge finds faults of a trigger, and one of the agents, in a few worlds.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("TestJointWorlds is enough")
	}
	const unhealthy, standby = refresh.ModeUnhealthy, refresh.ModeStandby
	same := func(*rollouts.Options) {}
	blind := reads(func(r plan.Reader) plan.Reader { return rollouts.Blind{Reader: r, Aged: true} })
	for name, tt := range map[string]struct {
		mutant mutant
		change func(*Spec)
		want   string
	}{
		"compares wrongly, in mode unhealthy": {blind, in(unhealthy, same), "current instances stay"},
		"compares wrongly, in mode standby":   {blind, in(standby, same), "current instances stay"},
		"sees no warm pool":                   {reads(func(r plan.Reader) plan.Reader { return poolless{r} }), onlyPool, "outcome truthful"},
		"compares wrongly, in mode nodegroup": {blind, in(refresh.ModeNodegroup, same), "current instances stay"},
		"keeps a surge":                       {forgets(rollouts.Forgetful{Surge: true}), in(unhealthy, same), "capacity restored"},
		"keeps instances in Standby":          {forgets(rollouts.Forgetful{Standby: true}), in(standby, same), "nothing left"},
		"keeps the maximum":                   {forgets(rollouts.Forgetful{Most: true}), in(unhealthy, same), "capacity restored"},
		"keeps processes suspended": {forgets(rollouts.Forgetful{Processes: true}), in(standby, func(o *rollouts.Options) {
			o.Suspend = []string{"AZRebalance"}
		}), "nothing left"},
		"waits for no node in mode unhealthy": {sees(view{ready: true}), in(unhealthy, same), "capacity kept"},
		"waits for no node in mode standby":   {sees(view{ready: true}), in(standby, same), "capacity kept"},
		"keeps taints": {writes(writer{requests: true}), func(s *Spec) {
			in(unhealthy, func(o *rollouts.Options) { o.Taint = nodes.SoftTaint })(s)
			for _, one := range s.Clusters[0].Groups {
				at := s.Triggers[0].At + 3*time.Minute
				s.Steps = append(s.Steps, Step{At: at, Do: "back", On: one.Name})
			}
			slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
		}, "nothing left"},
		"stops without a drain": {mutant{
			writer: writes(writer{untaints: true}).writer, view: sees(view{drained: true}).view,
		}, in(standby, func(o *rollouts.Options) { o.Then = refresh.ThenStop }), "drained before the stop"},
		"keeps the Cluster Autoscaler paused": {configures(func(c *plan.Config) {
			c.Autoscaler = neverResumes{c.Autoscaler}
		}), func(s *Spec) {
			in(unhealthy, func(o *rollouts.Options) { o.Autoscaler = true })(s)
			s.Clusters[0].Autoscaler = true
		}, "nothing left"},
		"takes larger batches": {configures(func(c *plan.Config) { c.Pace.Batch.N = 3 }), func(s *Spec) {
			s.Clusters[0].Groups[0].Nodes, s.Clusters[0].Groups[0].Max = 6, 0
			in(unhealthy, func(o *rollouts.Options) { o.Batch = refresh.Amount{N: 1} })(s)
		}, "capacity kept"},
		"ignores windows": {configures(func(c *plan.Config) { c.Windows = nil }), in(unhealthy, func(o *rollouts.Options) {
			o.Windows = true
		}), "windows kept"},
		"ignores the gate": {configures(func(c *plan.Config) { c.Gate = nil }), in(standby, func(o *rollouts.Options) {
			o.Gate = true
		}), "gate passed"},
		"ignores which instances are named": {configures(func(c *plan.Config) { c.Only = nil }), func(s *Spec) {
			in(unhealthy, func(o *rollouts.Options) { o.Only = 1 })(s)
			s.Clusters[0].Groups[0].Nodes, s.Clusters[0].Groups[0].Max = 3, 0
		}, "current instances stay"},
		"ignores ages": {configures(func(c *plan.Config) { c.MaxAge = 0 }), func(s *Spec) {
			in(unhealthy, func(o *rollouts.Options) { o.MaxAge = longAgo / 2 })(s)
			s.Steps, s.Clusters[0].Groups[0].Aged = nil, 1
		}, "rollouts end"},
		"replaces what is outdated instead of all": {configures(func(c *plan.Config) { c.All = false }), func(s *Spec) {
			in(standby, func(o *rollouts.Options) { o.All = true })(s)
			s.Steps = nil
		}, "rollouts end"},
		"misses that nodes become not Ready": {mutant{agents: func(to http.RoundTripper) http.RoundTripper {
			return misses{to, []byte(`"type":"Ready","status":"False"`)}
		}}, hangs, "hung drains end"},
		"selects another cluster": {
			configures(func(c *plan.Config) { c.Selection.Cluster = "other" }), twoClusters, "others untouched",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := foundIn(t, tt.mutant, tt.change, tt.want); n == 0 {
				t.Errorf("no violation of %q in %d worlds", tt.want, mostWorlds)
			} else {
				t.Logf("found in world %d", n)
			}
		})
	}
}

// foundIn returns the seed of the first world that violates an invariant only because of a fault; 0 if none does.
func foundIn(t *testing.T, m mutant, change func(*Spec), want string) uint64 {
	t.Helper()
	for seed := uint64(1); seed <= mostWorlds; seed++ {
		spec := GenerateJoint(seed)
		change(&spec)
		violates := func(m mutant) bool {
			return slices.ContainsFunc(run(t, spec, m).Violations, func(v Violation) bool { return v.Invariant == want })
		}
		if violates(m) && !violates(mutant{}) {
			return seed
		}
	}
	return 0
}

// twoClusters adds a cluster like the first, without triggers.
func twoClusters(s *Spec) {
	in(refresh.ModeUnhealthy, func(*rollouts.Options) {})(s)
	other := changed(s.Clusters[0], func(c *Cluster) {
		c.Name = "other"
		for i := range c.Groups {
			c.Groups[i].Name, c.Groups[i].Hooks = "other-"+c.Groups[i].Name, nil
			s.Steps = append(s.Steps, Step{At: time.Minute, Do: "version", On: c.Groups[i].Name})
		}
		for i := range c.Installs {
			c.Installs[i].Name = "other-" + c.Installs[i].Name
		}
	})
	s.Clusters = append(s.Clusters, other)
}
