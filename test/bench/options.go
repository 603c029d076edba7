package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// options is what the user chose.
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
A full run takes about 25 minutes on two cores. The tables are written to standard output, the
progress to standard error. A missed target is told and does not fail the run.

Examples:
  go run ./test/bench -scenario one                       the shortest look, about two minutes
  go run ./test/bench -scenario budgets,plain -scale 0.2  a fifth of the nodes
  go run ./test/bench -contestants agent -rounds 3        only the agent, the median of three rounds
  go run ./test/bench -agent bin/agent -json after.json   an agent that is built already; figures to compare

Contestants:
  kubectl   one "kubectl drain" for each node, all at once
  agent     the agent, told by the messages of a lifecycle hook
  limit     a greedy evictor, which asks again each 50 ms: about what is possible here

Scenarios:
`

// parse reads the arguments. It returns flag.ErrHelp when help was asked for, and has been given.
func parse(args []string, help io.Writer) (options, error) {
	o := options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	chosen := f.String("scenario", strings.Join(parts(), ","), "the scenarios, by commas")
	names := f.String("contestants", strings.Join(contestantNames(), ","), "who drains, by commas")
	f.IntVar(&o.rounds, "rounds", 1, "how often each contestant drains; the median round is shown")
	f.Float64Var(&o.scale, "scale", 1, "part of the scenarios' nodes, above 0 and up to 1")
	f.StringVar(&o.json, "json", "", "a file for all figures of all rounds")
	f.StringVar(&o.agent, "agent", "", "a built agent; it is built from the source if not set")
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
		return o, fmt.Errorf("bench: %w; see go run ./test/bench --help", err)
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

// among reads a list of known words.
func among(name, list string, known []string) ([]string, error) {
	words := strings.Split(list, ",")
	for _, w := range words {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("%s has %q, and knows %s", name, w, strings.Join(known, ", "))
		}
	}
	return words, nil
}

// parts returns the names by which scenarios are chosen.
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
		_, _ = fmt.Fprintf(to, "  %-11s %s\n", s.Name, s.Tell)
	}
	_, _ = io.WriteString(to, "\nFlags:\n")
	f.SetOutput(to)
	f.PrintDefaults()
}
