package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

// The ports of a group's servers and sentinels.
const (
	Port         = 6379
	SentinelPort = 26379
)

// Find returns the path of a program that is redis-server, or redis-sentinel, when its argv[0] says so. The package
// redis-tools of Debian has it as redis-check-rdb.
func Find() (string, error) {
	for _, name := range []string{"redis-server", "redis-check-rdb"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("redis-server is not on PATH: apt-get install redis-tools")
}

// Server is a Redis server or a sentinel, with what its pod would have.
type Server struct {
	instance
	Name     string
	Sentinel bool
	Prefer   bool // its pod is to lead when it can

	dir    string
	config func() string                            // the file that it begins with, and may change
	args   func(ip string) []string                 // of the command line: what depends on the address, and on who leads
	script func(context.Context) (*exec.Cmd, error) // what it is started by instead of that, if it is not nil
}

// newServer returns a server, which is not started, with a folder below dir.
func newServer(dir, name, ip string, config func() string) (*Server, error) {
	s := &Server{Name: name, instance: instance{ip: ip}, dir: filepath.Join(dir, name), config: config}
	return s, s.clear()
}

// clear has the server begin without data.
func (s *Server) clear() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(s.config()), 0o600)
}

// Address returns where the server listens.
func (s *Server) Address() string {
	port := Port
	if s.Sentinel {
		port = SentinelPort
	}
	return net.JoinHostPort(s.IP(), fmt.Sprint(port))
}

// Start starts the server and waits until it accepts connections.
func (s *Server) Start(ctx context.Context) error {
	cmd, err := command(context.WithoutCancel(ctx), s)
	if err != nil {
		return err
	}
	cmd.Dir = s.dir
	process := harness.NewProcess(cmd)
	if err := process.Start(); err != nil {
		return err
	}
	s.run(process)
	ctx, cancel := process.WhileRunning(ctx)
	defer cancel()
	return wait(ctx, func() error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// command returns what starts a server.
func command(ctx context.Context, s *Server) (*exec.Cmd, error) {
	if s.script != nil {
		return s.script(ctx)
	}
	program, err := Find()
	if err != nil {
		return nil, err
	}
	ip := s.IP()
	args := append([]string{"redis.conf", "--bind", ip, "--bind-source-addr", ip}, s.args(ip)...)
	cmd := exec.CommandContext(ctx, program, args...)
	if cmd.Args[0] = "redis-server"; s.Sentinel {
		cmd.Args[0] = "redis-sentinel"
	}
	return cmd, nil
}

// Stop stops the server as a kubelet does, and returns when it has exited.
func (s *Server) Stop() error {
	process := s.run(nil)
	if process == nil {
		return nil
	}
	process.Signal(syscall.SIGCONT)
	return process.Terminate()
}

// Freeze stops the server without its knowledge: it keeps its connections and does not answer.
func (s *Server) Freeze() { s.running().Signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.running().Signal(syscall.SIGCONT) }

// Move stops the server, and starts it at another address with the data that it has, as a StatefulSet moves a pod.
func (s *Server) Move(ctx context.Context, ip string) error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.setIP(ip)
	return s.Start(ctx)
}

// Replace stops the server, and starts it at another address without the data that it had.
func (s *Server) Replace(ctx context.Context, ip string) error {
	if err := errors.Join(s.Stop(), s.clear()); err != nil {
		return err
	}
	s.setIP(ip)
	return s.Start(ctx)
}

// FullSyncs returns how often the server has copied all data of a leader since it was started.
func (s *Server) FullSyncs() int {
	process := s.running()
	if process == nil {
		return 0
	}
	return strings.Count(process.Output(), "Full resync from master")
}

// WaitRole waits until the server has a role, which is master or slave.
func (s *Server) WaitRole(ctx context.Context, role string) error {
	return wait(ctx, func() error {
		info, err := s.Info(ctx, "replication")
		if err == nil && info["role"] != role {
			err = fmt.Errorf("%s is a %s", s.Name, info["role"])
		}
		return err
	})
}

// wait calls do until it succeeds. The error is the last one of do, if ctx ends before.
func wait(ctx context.Context, do func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
