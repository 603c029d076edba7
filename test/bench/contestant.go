package main

import (
	"context"
	"time"
)

const (
	kubectlName = "kubectl"
	agentName   = "agent"
	limitName   = "limit"
)

func contestantNames() []string { return []string{kubectlName, agentName, limitName} }

// contestant drains the nodes of one round.
type contestant interface {
	// prepare returns when it could begin.
	prepare(ctx context.Context) error
	// start asks for the drain of all nodes.
	start(ctx context.Context) error
	// wait returns when the contestant says that all nodes are drained.
	wait(ctx context.Context) error
	// used tells what its processes have used since start.
	used() usage
	// stop ends whatever runs of it.
	stop() error
}

// usage is what processes have used.
type usage struct {
	CPU    time.Duration
	Before int64   // Most memory before the start, in bytes.
	Peaks  []int64 // Most memory of each process, in bytes.
}

func (r *round) newContestant() contestant {
	switch r.contestant {
	case kubectlName:
		return &kubectl{round: r}
	case limitName:
		return &limit{round: r}
	default:
		return &agent{round: r}
	}
}
