package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/test/harness"
)

// options are the flags.
type options struct {
	scenarios   []scenario
	contestants []string
	rounds      int
	scale       float64
	json        string
	agent       string // A binary; built if empty.
}

const helpText = `Usage: make bench, or: go run ./test/bench [flags]

Measures how nodes are drained, on a real control plane and a simulated AWS, on this machine.
A full run takes about 40 minutes on two cores. Tables go to standard output, progress to standard
error. A missed target is reported and does not fail the run.

Examples:
  go run ./test/bench -scenario one                       the shortest run, about two minutes
  go run ./test/bench -scenario budgets,plain -scale 0.2  a fifth of the nodes
  go run ./test/bench -contestants agent -rounds 3        only the agent, the median of three rounds
  go run ./test/bench -scenario stateful -rounds 20       the leaders' nodes of Redis, 20 times
  go run ./test/bench -agent bin/agent -json after.json   a built agent; figures to compare

Contestants:
  kubectl   one "kubectl drain" for each node, all at once
  agent     the agent, triggered by the messages of a lifecycle hook
  limit     a greedy evictor that retries every 50 ms: about what is possible here

Contestants with Redis, besides kubectl and the agent with hand-over:
  unannotated  the agent, and pods without the annotation for a hand-over
  failover     SENTINEL FAILOVER, then kubectl drain

Scenarios:
`

// parse reads the arguments. It returns flag.ErrHelp after it has printed the help.
func parse(args []string, help io.Writer) (options, error) {
	o := options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	chosen := f.String("scenario", strings.Join(parts(), ","), "comma-separated scenarios")
	names := f.String("contestants", strings.Join(contestantNames(), ","), "comma-separated contestants")
	f.IntVar(&o.rounds, "rounds", 1, "how often each contestant drains; the report shows the median round")
	f.Float64Var(&o.scale, "scale", 1, "fraction of the scenarios' nodes, above 0 and up to 1")
	f.StringVar(&o.json, "json", "", "file to write the figures of all rounds to")
	f.StringVar(&o.agent, "agent", "", "agent binary; built from source if empty")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printHelp(f, help)
		return o, err
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", f.Arg(0))
	default:
		err = o.choose(*chosen, *names)
	}
	if err != nil {
		return o, harness.NewUsageError("bench: %w; see go run ./test/bench --help", err)
	}
	return o, nil
}

func (o *options) choose(chosen, names string) error {
	if o.rounds < 1 {
		return fmt.Errorf("-rounds is %d, and must be at least 1", o.rounds)
	}
	if !(o.scale > 0 && o.scale <= 1) {
		return fmt.Errorf("-scale is %v, and must be above 0 and at most 1", o.scale)
	}
	wanted, err := among("-scenario", chosen, parts())
	if err != nil {
		return err
	}
	for _, s := range scenarios() {
		if slices.Contains(wanted, s.part()) {
			o.scenarios = append(o.scenarios, s.scaled(o.scale))
		}
	}
	o.contestants, err = among("-contestants", names, contestantNames())
	return err
}

// among reads a comma-separated list of known words.
func among(name, list string, known []string) ([]string, error) {
	words := strings.Split(list, ",")
	for _, w := range words {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("unknown value %[2]q of %[1]s; known are %[3]s", name, w, strings.Join(known, ", "))
		}
	}
	return words, nil
}

// parts returns the names for -scenario.
func parts() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.part())
	}
	return slices.Compact(names)
}

func printHelp(f *flag.FlagSet, to io.Writer) {
	_, _ = io.WriteString(to, helpText)
	for _, s := range scenarios() {
		_, _ = fmt.Fprintf(to, "  %-11s %s\n", s.Name, s.Description)
	}
	_, _ = io.WriteString(to, "\nFlags:\n")
	f.SetOutput(to)
	f.PrintDefaults()
}
