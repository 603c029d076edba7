package sim

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/app"
)

// hasOld reports whether the agent of an older commit is compiled in, as make sim-upgrade does: with testdata/old.go in
// place of this file.
const hasOld = false

func oldVariables() []string { return nil }

func runOld(context.Context, []string, app.Environment, zerolog.Logger) error {
	return errors.ErrUnsupported
}
