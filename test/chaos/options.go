package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// options is what the user chose.
type options struct {
	seed         uint64
	terminations int
	agents       int
	each         time.Duration // From one termination to the next, on average.
	drain        time.Duration // The longest that a drain may take: pods are deleted as its end comes near.
	elect        bool
	race         bool
	agent        string // A binary; built if empty.
	dir          string // For all logs, which are kept there; a temporary folder if empty.
}

const helpText = `Usage: make chaos, or: go run ./test/chaos [flags]

Has instances terminated in every way there is, while agents are killed, the API server is stopped and
AWS fails, and judges what became of nodes and pods. docs/chaos.md tells what is promised.

Examples:
  make chaos CHAOS='-seed 7'                      the schedule of seed 7 again
  make chaos CHAOS='-terminations 40'             a short look, about a minute and a half
  make chaos CHAOS='-elect=false'                 all agents work at the same time

Flags:
`

// parse reads the arguments. It returns flag.ErrHelp when help was asked for, and has been given.
func parse(args []string, help io.Writer) (options, error) {
	o := options{}
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Uint64Var(&o.seed, "seed", 0, "decides everything that is random; 0 takes any")
	f.IntVar(&o.terminations, "terminations", 300, "how many instances go")
	f.IntVar(&o.agents, "agents", 3, "how many agents run")
	f.DurationVar(&o.each, "each", 650*time.Millisecond, "time from one termination to the next, on average")
	f.DurationVar(&o.drain, "drain-timeout", time.Minute, "the agents' DRAIN_TIMEOUT")
	f.BoolVar(&o.elect, "elect", true, "whether the agents elect a leader")
	f.BoolVar(&o.race, "race", false, "whether the agents are built with the race detector")
	f.StringVar(&o.agent, "agent", "", "a built agent; it is built from the source if not set")
	f.StringVar(&o.dir, "dir", "", "an empty folder for all logs, which stay there")
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
		return o, fmt.Errorf("chaos: %w; see go run ./test/chaos --help", err)
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1_000_000)
	}
	return o, nil
}
