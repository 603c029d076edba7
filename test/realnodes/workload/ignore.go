package main

import (
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
