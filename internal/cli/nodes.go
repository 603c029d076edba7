package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/cluster"
)

// nodes shows the marked nodes. It uses Kubernetes only.
func (e *executor) nodes(ctx context.Context, r report.Reporter) error {
	_, view, stop, err := e.watch(ctx)
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	defer stop()
	now := e.markedNodes(ctx, view)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.Nodes(now); r.Err() != nil {
		return fmt.Errorf("write the nodes: %w", r.Err())
	}
	return e.summarize(report.NodesSummary(now))
}

// markedNodes reads the marked nodes and their pods. If the pods cannot be read, it prints a note.
func (e *executor) markedNodes(ctx context.Context, view *cluster.View) report.Nodes {
	marked := view.MarkedNodes()
	var names []string
	for _, m := range marked {
		names = append(names, m.Name)
	}
	loads, err := view.Loads(ctx, names)
	if err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintf(e.stderr, "trigger: the numbers of pods are not shown: %v\n", err)
	}
	return report.NewNodes(time.Now(), marked, loads)
}

// nodesConflict returns an error if the settings exclude Kubernetes.
func (s *settings) nodesConflict() error {
	if !s.noKubernetes {
		return nil
	}
	return errors.New("trigger nodes reads Kubernetes only: leave " + s.flagName("no-kubernetes") + " out")
}
