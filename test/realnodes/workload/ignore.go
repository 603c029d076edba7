package main

import (
	"errors"
	"flag"
	"os"
	"time"

	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// ignore runs on after SIGTERM, and records that it does, until it is killed.
func ignore(j *journal, signals <-chan os.Signal, _ []string) error {
	j.write(record.Ready, "")
	s := <-signals
	j.write(record.Signal, s.String())
	for range time.Tick(100 * time.Millisecond) {
		j.write(record.Alive, "")
	}
	return nil
}

// end ends a while after SIGTERM, with the exit code 0 or 1.
func end(j *journal, signals <-chan os.Signal, args []string) error {
	flags := flag.NewFlagSet("end", flag.ContinueOnError)
	after := flags.Duration("after", 0, "how long it goes on after SIGTERM")
	fail := flags.Bool("fail", false, "whether its exit code is 1")
	if err := flags.Parse(args); err != nil {
		return err
	}
	j.write(record.Ready, "")
	s := <-signals
	j.write(record.Signal, s.String())
	await(j, signals, time.After(*after))
	if *fail {
		return errors.New("it was to fail")
	}
	return nil
}
