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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// bench is a whole run.
type bench struct {
	options
	log io.Writer

	binaries    string
	agentBinary string
	started     int // Rounds so far.
	figures     []figures

	mu    sync.Mutex
	begun time.Time
}

// run measures what the options ask for. The figures of what went well are kept when something fails.
func (b *bench) run(ctx context.Context) error {
	b.begun = time.Now()
	var err error
	// On a first run this takes long, and says so.
	if b.binaries, err = cluster.Binaries(ctx, b.log); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "node-drainer-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.agentBinary = b.agent; b.agent == "" && slices.Contains(b.contestants, agentName) {
		b.tell("building the agent (a minute or two the first time)")
		if b.agentBinary, err = buildAgent(ctx, dir); err != nil {
			return err
		}
	}
	for _, s := range b.scenarios {
		if err := b.play(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// tell writes a line of progress.
func (b *bench) tell(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := time.Since(b.begun).Round(time.Second)
	_, _ = fmt.Fprintf(b.log, "%6s  %s\n", since, fmt.Sprintf(format, args...))
}

// play runs one scenario on a control plane of its own, which all its contestants share: one after the other,
// and in each round another one first.
func (b *bench) play(ctx context.Context, s scenario) (err error) {
	names := b.contestants
	if s.AgentOnly {
		if names = []string{agentName}; !slices.Contains(b.contestants, agentName) {
			return nil
		}
	}
	b.tell("%s: %s", s.Name, s.Tell)
	c, err := cluster.Start(ctx, cluster.Options{Name: "bench", Log: b.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	_, err = c.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: home},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for number := range b.rounds {
		for i := range names {
			r, err := b.newRound(c, s, names[(i+number)%len(names)], number+1)
			if err != nil {
				return err
			}
			r.last = number == b.rounds-1 && i == len(names)-1
			f, err := r.run(ctx)
			if err != nil {
				return err
			}
			b.figures = append(b.figures, f)
		}
	}
	return nil
}

// newRound is a round of one contestant, with a name that no other has.
func (b *bench) newRound(c *cluster.Cluster, s scenario, name string, number int) (*round, error) {
	client, err := quickClient(c.Config())
	if err != nil {
		return nil, err
	}
	b.started++
	return &round{
		scenario: s, contestant: name, number: number, id: fmt.Sprintf("%s-%d", name, b.started),
		cluster: c, client: client, binaries: b.binaries, agentBinary: b.agentBinary,
		tell: func(format string, args ...any) { b.tell("  %-8s %s", name, fmt.Sprintf(format, args...)) },
	}, nil
}
