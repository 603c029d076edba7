package cli

import (
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
)

// nodes shows the marked nodes. It uses Kubernetes only.
func (e *executor) nodes(ctx context.Context, r report.Reporter) error {
	_, view, stop, err := e.watch(ctx)
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	defer stop()
	l := &nodeList{executor: e, view: view}
	now := l.read(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.Nodes(now); r.Err() != nil {
		return fmt.Errorf("write the nodes: %w", r.Err())
	}
	if err := e.summarize(report.NodesSummary(now)); err != nil || !e.settings.follow {
		return err
	}
	return l.follow(ctx, r, now)
}

// nodeList reads the marked nodes.
type nodeList struct {
	*executor
	view    *cluster.View
	noted   string // the note that was printed last
	refused bool   // The Leases of agents may not be read.
}

// read reads the marked nodes and their pods. If something cannot be read, it prints a note.
func (l *nodeList) read(ctx context.Context) report.Nodes {
	marked := l.view.MarkedNodes()
	var names []string
	for _, m := range marked {
		names = append(names, m.Name)
	}
	loads, err := l.view.Loads(ctx, names)
	note := ""
	switch stale := l.view.Stale(); {
	case stale != nil:
		note = fmt.Sprintf("the nodes may have changed since they were read: %v", stale)
	case err != nil && ctx.Err() == nil:
		note = fmt.Sprintf("the numbers of pods are not shown: %v", err)
	}
	if note != l.noted && note != "" {
		_, _ = fmt.Fprintf(l.stderr, "trigger: %s\n", note)
	}
	l.noted = note
	all := report.NewNodes(time.Now(), marked, loads)
	all.Stopped = l.stopped(ctx, all.At)
	return all
}

// stopped returns the Leases that no agent renews. Where Leases may not be read, as in the pod of an agent, it returns
// none, and does not ask again.
func (l *nodeList) stopped(ctx context.Context, now time.Time) (leases []string) {
	if l.refused {
		return nil
	}
	agents, err := l.view.Agents(ctx)
	l.refused = apierrors.IsForbidden(err)
	for _, a := range agents {
		if !a.IsLive(now) {
			leases = append(leases, a.Lease)
		}
	}
	return leases
}

// follow shows the nodes again after each change, until ctx ends.
func (l *nodeList) follow(ctx context.Context, r report.Reporter, last report.Nodes) error {
	ticker := time.NewTicker(l.settings.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		now := l.read(ctx)
		last.At = now.At
		if ctx.Err() != nil || reflect.DeepEqual(now, last) {
			continue
		}
		last = now
		if r.Nodes(now); r.Err() != nil {
			return fmt.Errorf("write the nodes: %w", r.Err())
		}
	}
}
