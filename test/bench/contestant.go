package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	kubectlName = "kubectl"
	agentName   = "agent"
	limitName   = "limit"

	unannotatedName = "unannotated" // the agent, and pods that ask for no hand-over
	failoverName    = "failover"    // SENTINEL FAILOVER, then kubectl
)

// drainers are the contestants of scenarios that name no others.
func drainers() []string { return []string{kubectlName, agentName, limitName} }

func contestantNames() []string { return append(drainers(), unannotatedName, failoverName) }

// contestant drains the nodes of one round.
type contestant interface {
	// prepare returns when the contestant is ready to drain.
	prepare(ctx context.Context) error
	// start requests the drain of all nodes.
	start(ctx context.Context) error
	// wait returns when the contestant reports that all nodes are drained.
	wait(ctx context.Context) error
	// used returns what its processes have used since start.
	used() usage
	// stop ends everything that it has started.
	stop() error
}

// usage is what processes have used.
type usage struct {
	CPU    time.Duration
	Before int64   // Peak memory before the start, in bytes.
	Peaks  []int64 // Peak memory of each process, in bytes.

	Calls          int     // To Auto Scaling.
	CallsPerSecond float64 // Of these at most, after the first heartbeats.
}

func (r *round) newContestant() contestant {
	switch r.contestant {
	case kubectlName:
		return &kubectl{round: r}
	case limitName:
		return &limit{round: r}
	case failoverName:
		return &failover{kubectl: kubectl{round: r}}
	default:
		return &agent{round: r}
	}
}

// sampleInterval is how often the peak of a process's memory is read: /proc has it only while the process
// runs.
const sampleInterval = 200 * time.Millisecond

// process is a program of a contestant, whose use of memory and CPU is measured.
type process struct {
	*harness.Process
	peak atomic.Int64 // Peak memory in bytes; 0 if unknown.
}

// spawn starts a program. name is that of its log and pid file in the control plane's folder.
func (r *round) spawn(name string, cmd *exec.Cmd) (*process, error) {
	path := filepath.Join(r.cluster.Dir(), name)
	running, err := harness.Spawn(cmd, path+".log", path+".pid")
	if err != nil {
		return nil, err
	}
	p := &process{Process: running}
	go func() {
		tick := time.NewTicker(sampleInterval)
		defer tick.Stop()
		for {
			p.readPeak()
			select {
			case <-tick.C:
			case <-p.Ended():
				return
			}
		}
	}()
	return p, nil
}

func (p *process) readPeak() int64 {
	if peak := peakMemory(p.Cmd.Process.Pid); peak > p.peak.Load() {
		p.peak.Store(peak)
	}
	return p.peak.Load()
}

// cpu is the processor time that the process has used so far.
func (p *process) cpu() time.Duration {
	select {
	case <-p.Ended():
		return p.Cmd.ProcessState.UserTime() + p.Cmd.ProcessState.SystemTime()
	default:
		return runningCPU(p.Cmd.Process.Pid)
	}
}

// stop ends the process, if it runs.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	return p.Terminate()
}

// measured is the use of one process since a moment.
type measured struct {
	process *process
	cpu     time.Duration // Used before that moment.
	before  int64
}

// begin sets the moment.
func (m *measured) begin() { m.cpu, m.before = m.process.cpu(), m.process.readPeak() }

func (m *measured) used() usage {
	return usage{CPU: m.process.cpu() - m.cpu, Before: m.before, Peaks: []int64{m.process.readPeak()}}
}
