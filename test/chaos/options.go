package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

// options are the flags.
type options struct {
	seed         uint64
	terminations int
	agents       int
	each         time.Duration // From one termination to the next, on average.
	drain        time.Duration // The longest that a drain may take: pods are deleted shortly before it ends.
	elect        bool
	race         bool
}

const helpText = `Usage: make chaos, or: go run ./test/chaos [flags]

Terminates instances in every possible way while agents are killed, the API server is stopped and AWS
fails, and judges what happened to nodes and pods. docs/testing.md lists what is checked.

Examples:
  make chaos CHAOS='-seed 7'                      repeat the plan of seed 7
  make chaos CHAOS='-terminations 40'             a short run, about a minute and a half
  make chaos CHAOS='-elect=false'                 no leader: all agents work at the same time

Flags:
`

// parse reads the arguments. It returns flag.ErrHelp after it has printed the help.
func parse(args []string, help io.Writer) (options, error) {
	o := options{}
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Uint64Var(&o.seed, "seed", 0, "seed of everything that is random; 0 picks one")
	f.IntVar(&o.terminations, "terminations", 300, "number of instances to terminate")
	f.IntVar(&o.agents, "agents", 3, "number of agents")
	f.DurationVar(&o.each, "each", 650*time.Millisecond, "mean time from one termination to the next")
	f.DurationVar(&o.drain, "drain-timeout", time.Minute, "DRAIN_TIMEOUT of the agents")
	f.BoolVar(&o.elect, "elect", true, "elect a leader among the agents")
	f.BoolVar(&o.race, "race", false, "build the agents with the race detector")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(help, helpText)
		f.SetOutput(help)
		f.PrintDefaults()
		return o, err
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", f.Arg(0))
	case o.terminations < 1 || o.agents < 1 || o.each < 10*time.Millisecond:
		err = errors.New("-terminations and -agents must be at least 1, -each at least 10ms")
	}
	if err != nil {
		return o, harness.NewUsageError("chaos: %w; see go run ./test/chaos --help", err)
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1_000_000)
	}
	return o, nil
}
