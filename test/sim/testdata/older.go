package sim

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/app"
	"github.com/node-drainer/node-drainer/pkg/handover"
	oldapp "github.com/node-drainer/node-drainer/test/sim/old/app"
	oldconfig "github.com/node-drainer/node-drainer/test/sim/old/config"
	oldhandover "github.com/node-drainer/node-drainer/test/sim/old/pkg/handover"
)

// hasOld: make sim-upgrade compiles this file in place of test/sim/old.go, with the packages of a commit before hand-overs
// of Redis had a program of their own.
const hasOld = true

// oldVariables returns the variables that the agent of the older commit knows.
func oldVariables() (names []string) {
	for _, v := range oldconfig.Variables() {
		names = append(names, v.Name)
	}
	return names
}

// runOld runs the agent of the older commit. What its RunIn expects is adapted here.
func runOld(ctx context.Context, environ []string, env app.Environment, logger zerolog.Logger) error {
	cfg, err := oldconfig.ReadAgent(environ)
	if err != nil {
		panic(err) // Else no agent of the older commit would run, and nothing would say so.
	}
	kinds := map[string]oldhandover.Kind{}
	for name, releaser := range env.HandOvers {
		kinds[name] = oldhandover.Kind{Releaser: oldReleaser{releaser}, Peers: true}
	}
	return oldapp.RunIn(ctx, cfg, oldapp.Environment{
		AWS: env.AWS, Kubernetes: env.Kubernetes, Listener: env.Listener, Version: "old", HandOvers: kinds,
	}, logger)
}

// oldReleaser asks as the older agent does: which nodes leave, it says with the pods of the namespace.
type oldReleaser struct{ now handover.Releaser }

func (o oldReleaser) Release(ctx context.Context, r oldhandover.Request) (oldhandover.Answer, error) {
	request := handover.Request{Deadline: r.Deadline, Last: r.Last, Pod: handover.Pod{
		Namespace: r.Pod.Namespace, Name: r.Pod.Name, UID: r.Pod.UID, Node: r.Pod.Node, Labels: r.Pod.Labels,
		Controller: r.Pod.Controller, Annotations: r.Pod.Annotations,
	}}
	for _, p := range r.Peers {
		if !p.Stays {
			request.Leaving = append(request.Leaving, p.Node)
		}
	}
	a, err := o.now.Release(ctx, request)
	return oldhandover.Answer{
		Go: a.Go, Outcome: oldhandover.Outcome(a.Outcome), Message: a.Message, Leader: a.Leader, Again: a.Again,
	}, err
}
