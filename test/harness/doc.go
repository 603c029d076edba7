// Package harness runs the programs of this repository as processes, against a simulated AWS and a control
// plane. It does not use package testing: what fails returns an error, and what waits ends with its context.
package harness
