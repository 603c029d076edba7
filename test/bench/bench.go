package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// bench is a whole run.
type bench struct {
	options
	log io.Writer

	binaries                    string
	agentBinary, handoverBinary string
	started                     int // Rounds so far.
	figures                     []figures
	writes                      []writeFigures

	mu        sync.Mutex
	startedAt time.Time
}

// run measures what the options select. The figures measured before a failure are kept.
func (b *bench) run(ctx context.Context) error {
	b.startedAt = time.Now()
	var err error
	// The first run builds them for minutes, and says so.
	if b.binaries, err = cluster.Binaries(ctx, b.log, cluster.Kubectl); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "node-drainer-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.agentBinary = b.agent; b.agent == "" && b.needsAgent() {
		b.progress("building the agent (a minute or two the first time)")
		if b.agentBinary, err = harness.Build(ctx, dir, harness.Agent, harness.Options{}); err != nil {
			return err
		}
		if b.handoverBinary, err = harness.Build(ctx, dir, harness.Handover, harness.Options{}); err != nil {
			return err
		}
	}
	for _, s := range b.scenarios {
		if err := b.runScenario(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) needsAgent() bool {
	return slices.Contains(b.contestants, agentName) || slices.Contains(b.contestants, unannotatedName)
}

// progress writes a line of progress.
func (b *bench) progress(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := time.Since(b.startedAt).Round(time.Second)
	_, _ = fmt.Fprintf(b.log, "%6s  %s\n", since, fmt.Sprintf(format, args...))
}

// runScenario runs a scenario on a control plane of its own. Its contestants drain one after the other, each
// round beginning with another one.
func (b *bench) runScenario(ctx context.Context, s scenario) (err error) {
	names := s.among(b.contestants)
	if len(names) == 0 {
		return nil
	}
	b.progress("%s: %s", s.Name, s.Description)
	c, err := cluster.Start(ctx, cluster.Options{Name: "bench", Log: b.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := harness.CreateNamespace(ctx, c.Client(), accountNamespace); err != nil {
		return err
	}
	for number := range b.rounds {
		for i := range names {
			r, err := b.newRound(c, s, names[(i+number)%len(names)], number+1)
			if err != nil {
				return err
			}
			r.last = number == b.rounds-1 && i == len(names)-1
			if err := b.runRound(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// runRound runs a round, and keeps its figures.
func (b *bench) runRound(ctx context.Context, r *round) error {
	if r.scenario.Redis != "" {
		f, err := b.runRedis(ctx, r)
		if err == nil {
			b.writes = append(b.writes, f)
		}
		return err
	}
	f, err := r.run(ctx)
	if err == nil {
		b.figures = append(b.figures, f)
	}
	return err
}

// newRound returns a round of one contestant, with a unique id.
func (b *bench) newRound(c *cluster.Cluster, s scenario, name string, number int) (*round, error) {
	client, err := fastClient(c.Config())
	if err != nil {
		return nil, err
	}
	b.started++
	return &round{
		scenario: s, contestant: name, number: number, id: fmt.Sprintf("%s-%d", name, b.started),
		cluster: c, client: client, binaries: b.binaries, agentBinary: b.agentBinary,
		handoverBinary: b.handoverBinary,
		progress:       func(format string, args ...any) { b.progress("  %-11s %s", name, fmt.Sprintf(format, args...)) },
	}, nil
}
