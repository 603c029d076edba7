package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/harness"
)

// fleet is the agents. Each is started again after it has exited.
type fleet struct {
	binary string
	logs   string // The folder of their logs.
	pids   string // The folder in which the control plane's reaper looks for processes to end.
	env    func(number int) []string

	agents  []*agent
	stopped sync.Once
	mu      sync.Mutex
	records []processRecord
	kills   int
	terms   int
}

// agent is one agent of the fleet, which is one process after the other.
type agent struct {
	*fleet
	number  int
	turn    sync.Mutex // Held while the agent is ended and started again.
	started int        // Processes.
	now     *process
}

// process is one process of an agent.
type process struct {
	*harness.Process
	name      string
	log       string
	startedAt time.Time
}

// start starts n agents.
func (f *fleet) start(n int) error {
	for i := range n {
		a := &agent{fleet: f, number: i + 1}
		f.agents = append(f.agents, a)
		if err := a.run(); err != nil {
			return err
		}
	}
	return nil
}

// run starts the agent's next process.
func (a *agent) run() error {
	a.started++
	name := fmt.Sprintf("agent-%d.%03d", a.number, a.started)
	p := &process{name: name, log: filepath.Join(a.logs, name+".log"), startedAt: time.Now()}
	cmd := exec.Command(a.binary)
	cmd.Env, cmd.Stdout = a.env(a.number), io.Discard // The output is in the log file alone.
	var err error
	if p.Process, err = harness.Spawn(cmd, p.log, filepath.Join(a.pids, name+".pid")); err != nil {
		return err
	}
	a.now = p
	return nil
}

// restart ends the agent's process by killing or stopping it, and starts the next one after the pause. It
// does nothing, and returns false, while the agent is being restarted already.
func (a *agent) restart(ctx context.Context, how string, pause time.Duration) (bool, error) {
	if !a.turn.TryLock() {
		return false, nil
	}
	defer a.turn.Unlock()
	a.end(how)
	if !retry.Sleep(ctx, pause) {
		return true, nil
	}
	return true, a.run()
}

// end ends the process that runs, and records it.
func (a *agent) end(how string) {
	p := a.now
	select {
	case <-p.Ended():
		how = ""
	default:
		if how == killed {
			p.Kill()
		} else if err := p.Terminate(); err != nil {
			how = err.Error()
		}
	}
	a.record(p, how)
}

// record records a process that has exited. One that was stopped must exit with 0, unless it did not handle
// signals yet.
func (a *agent) record(p *process, how string) {
	r := processRecord{
		Name: p.name, span: span{p.startedAt, time.Now()}, Ended: how, Led: p.hasLogged("started leading"),
	}
	if how == stopped && p.Cmd.ProcessState.ExitCode() != 0 && !p.stoppedEarly() || how == "" {
		r.Ended = p.Cmd.ProcessState.String()
	}
	if r.Ended != killed && r.Ended != stopped {
		r.LastLines = lastLines(p.log)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records = append(a.records, r)
	switch how {
	case killed:
		a.kills++
	case stopped:
		a.terms++
	}
}

// stoppedEarly reports whether SIGTERM ended the process before it logged that it had started: it had no
// message that it could have returned to the queue.
func (p *process) stoppedEarly() bool {
	state, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && state.Signal() == syscall.SIGTERM && !p.hasLogged("agent started")
}

// hasLogged reports whether the log has a line with the message, or cannot be read.
func (p *process) hasLogged(message string) bool {
	text, err := os.ReadFile(p.log)
	return err != nil || bytes.Contains(text, []byte(`"`+message+`"`))
}

// restartExited starts agents again that have exited by themselves.
func (f *fleet) restartExited() error {
	var errs []error
	for _, a := range f.agents {
		if !a.turn.TryLock() {
			continue
		}
		select {
		case <-a.now.Ended():
			a.record(a.now, "")
			errs = append(errs, a.run())
		default:
		}
		a.turn.Unlock()
	}
	return errors.Join(errs...)
}

// stop ends all agents, which are not started again.
func (f *fleet) stop() {
	f.stopped.Do(func() {
		var all sync.WaitGroup
		for _, a := range f.agents {
			all.Go(func() {
				a.turn.Lock() // Until the end of the program.
				a.end(stopped)
			})
		}
		all.Wait()
	})
}

func (f *fleet) signals() (kills, terms int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kills, f.terms
}

// lastLines returns the last lines of a file, from a data race on if it reports one.
func lastLines(file string) []string {
	const most = 20
	text, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	if at := bytes.Index(text, []byte("DATA RACE")); at >= 0 {
		text = text[at:]
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[max(0, len(lines)-most):]
}
