package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	agentPackage = "github.com/node-drainer/node-drainer/cmd/agent"
	// stopTimeout is how long an agent may take to leave when it is asked to.
	stopTimeout = 20 * time.Second
	// tail is how much of what an agent said last is told when it has ended by itself.
	tail = 20
)

// buildAgent builds the agent as it is shipped, or with the race detector.
func buildAgent(ctx context.Context, dir string, race bool) (string, error) {
	binary := filepath.Join(dir, "agent")
	args := []string{"build", "-trimpath", "-o", binary}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if race {
		args, env = append(args, "-race"), os.Environ()
	}
	cmd := exec.CommandContext(ctx, "go", append(args, agentPackage)...)
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // So that it removes its work folder.
	cmd.WaitDelay = stopTimeout
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, output)
	}
	return binary, nil
}

// fleet is the agents. Each is started again when it has ended, however that was.
type fleet struct {
	binary string
	logs   string // The folder of their logs.
	pids   string // The folder where the control plane's reaper looks for processes to end.
	env    func(number int) []string

	agents []*agent
	over   sync.Once
	mu     sync.Mutex
	lives  []life
	kills  int
	terms  int
}

// agent is one of the fleet, with one process after the other.
type agent struct {
	*fleet
	number int
	turn   sync.Mutex // Held while the agent is being ended and started again.
	born   int
	now    *process
}

// process is one of an agent.
type process struct {
	name  string
	log   string
	cmd   *exec.Cmd
	begun time.Time
	ended chan struct{} // Closed when it has exited.
	at    time.Time     // Of its end; read it when ended is closed.
	asked time.Time     // When we wanted it to end.
}

// start runs so many agents.
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
	a.born++
	name := fmt.Sprintf("agent-%d.%03d", a.number, a.born)
	p := &process{name: name, log: filepath.Join(a.logs, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(a.binary)
	p.cmd.Env = a.env(a.number)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us, who then end it.
	p.begun = time.Now()
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	pid := filepath.Join(a.pids, name+".pid")
	err = os.WriteFile(pid, fmt.Append(nil, p.cmd.Process.Pid), 0o600)
	go func() {
		_ = p.cmd.Wait()
		p.at = time.Now()
		_ = os.Remove(pid)
		close(p.ended)
	}()
	a.now = p
	return err
}

// end ends the agent's process, unless it is being ended already, and starts the next one after the pause. It
// tells whether it did.
func (a *agent) end(ctx context.Context, how string, pause time.Duration) (bool, error) {
	if !a.turn.TryLock() {
		return false, nil
	}
	defer a.turn.Unlock()
	a.finish(how)
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return true, nil
	}
	return true, a.run()
}

// finish ends the process that runs, and keeps the record of its life.
func (a *agent) finish(how string) {
	p := a.now
	select {
	case <-p.ended:
		how = ""
	default:
		signal := syscall.SIGTERM
		if how == killed {
			signal = syscall.SIGKILL
		}
		p.asked = time.Now()
		_ = p.cmd.Process.Signal(signal)
	}
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		how = fmt.Sprintf("it had not stopped %v after SIGTERM", stopTimeout)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	a.bury(p, how)
}

// bury keeps the record of a process that has ended. One that we asked to stop must exit with 0, unless it
// was not listening to signals yet.
func (a *agent) bury(p *process, how string) {
	l := life{Name: p.name, span: span{p.begun, p.at}, Asked: p.asked, Ended: how}
	if how == stopped && p.cmd.ProcessState.ExitCode() != 0 && !p.unborn() || how == "" {
		l.Ended = p.cmd.ProcessState.String()
	}
	if l.Ended != killed && l.Ended != stopped {
		l.Last = lastLines(p.log)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lives = append(a.lives, l)
	switch how {
	case killed:
		a.kills++
	case stopped:
		a.terms++
	}
}

// unborn tells whether SIGTERM has ended the process before it said that it had started: it held nothing that
// it could have given back.
func (p *process) unborn() bool {
	state, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	text, err := os.ReadFile(p.log)
	started := err != nil || bytes.Contains(text, []byte(`"agent started"`))
	return ok && state.Signal() == syscall.SIGTERM && !started
}

// revive starts agents again that have ended by themselves.
func (f *fleet) revive() error {
	var errs []error
	for _, a := range f.agents {
		if !a.turn.TryLock() {
			continue
		}
		select {
		case <-a.now.ended:
			a.bury(a.now, "")
			errs = append(errs, a.run())
		default:
		}
		a.turn.Unlock()
	}
	return errors.Join(errs...)
}

// stop ends all for good.
func (f *fleet) stop() { f.over.Do(f.stopAll) }

func (f *fleet) stopAll() {
	var all sync.WaitGroup
	for _, a := range f.agents {
		all.Go(func() {
			a.turn.Lock() // For good.
			a.finish(stopped)
		})
	}
	all.Wait()
}

func (f *fleet) deaths() (kills, terms int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kills, f.terms
}

// lastLines are those at the end of a file.
func lastLines(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	if at := bytes.Index(text, []byte("DATA RACE")); at >= 0 {
		text = text[at:]
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[max(0, len(lines)-tail):]
}
