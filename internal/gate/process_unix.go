//go:build unix

package gate

import (
	"os/exec"
	"syscall"
)

// isolate gives the command a process group of its own, which is killed with it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		kill(cmd)
		return nil
	}
}

// kill kills what is left of the process group of the command.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
