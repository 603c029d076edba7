package sim

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/app"
	oldapp "github.com/node-drainer/node-drainer/test/sim/old/app"
	oldconfig "github.com/node-drainer/node-drainer/test/sim/old/config"
)

// hasOld: make sim-upgrade compiles this file in place of test/sim/old.go, with the packages of an older commit.
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
	return oldapp.RunIn(ctx, cfg, oldapp.Environment{
		AWS: env.AWS, Kubernetes: env.Kubernetes, Listener: env.Listener, Version: "old", HandOvers: env.HandOvers,
	}, logger)
}
