package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long a process may take to leave when it is asked to.
	stopTimeout = 15 * time.Second
	// sampleInterval is how often the peak of a process's memory is read, which is known only while it runs.
	sampleInterval = 200 * time.Millisecond
	// tailLines is how much of what a process said is told when it fails.
	tailLines = 5
)

// command is a program to be run.
type command struct {
	name string // Of its log and of its process number, in dir.
	dir  string // The control plane's folder: it goes with this process, even if that is killed.
	path string
	args []string
	env  []string
	line func(string) // Hears of each line of its standard output; may be nil.
}

// process is a program that runs. It is in a process group of its own: Ctrl-C is for the benchmark, which
// then ends it.
type process struct {
	command
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // Closed when it has exited.
	peak  atomic.Int64  // The most memory it has had, in bytes; 0 if unknown.

	mu   sync.Mutex
	tail []string
}

// start runs the command.
func (c command) start() (*process, error) {
	p := &process{command: c, cmd: exec.Command(c.path, c.args...), ended: make(chan struct{})}
	p.cmd.Env = c.env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(c.dir, c.name+".log"))
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = writer(func(text []byte) { _, _ = log.Write(text); p.remember(string(text)) })
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.name, err), log.Close())
	}
	// The control plane's reaper ends what has left its number there, if this process is killed.
	err = os.WriteFile(p.pidFile(), fmt.Append(nil, p.cmd.Process.Pid), 0o600)
	go p.attend(out, log)
	go p.sample()
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) pidFile() string { return filepath.Join(p.dir, p.name+".pid") }

// attend reads what the process says until it has ended.
func (p *process) attend(out io.Reader, log io.WriteCloser) {
	lines := bufio.NewReader(io.TeeReader(out, log))
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		p.remember(line)
		if p.line != nil {
			p.line(strings.TrimSpace(line))
		}
	}
	_ = p.cmd.Wait()
	_ = log.Close()
	_ = os.Remove(p.pidFile())
	close(p.ended)
}

// sample keeps the peak of the process's memory up to date.
func (p *process) sample() {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		p.readPeak()
		select {
		case <-tick.C:
		case <-p.ended:
			return
		}
	}
}

func (p *process) readPeak() int64 {
	if peak := peakMemory(p.cmd.Process.Pid); peak > p.peak.Load() {
		p.peak.Store(peak)
	}
	return p.peak.Load()
}

// writer makes an io.Writer of a function.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func (p *process) remember(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, strings.TrimSpace(text))
	p.tail = p.tail[max(0, len(p.tail)-tailLines):]
}

// failure says that the process has ended by itself, and what it said last.
func (p *process) failure() error {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%s exited (%s); its last words:\n  %s", p.name, p.cmd.ProcessState,
		strings.Join(p.tail, "\n  "))
}

// cpu is the processor time that the process has used so far.
func (p *process) cpu() time.Duration {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	default:
		return runningCPU(p.cmd.Process.Pid)
	}
}

// stop ends the process, if it has not ended, and returns when it has.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s had not stopped %v after SIGTERM", p.name, stopTimeout)
	}
}
