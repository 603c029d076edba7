package realnodes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// isolatedVariable is set in the namespaces, to the folder that is removed afterwards.
const isolatedVariable = "NODE_DRAINER_ISOLATED"

// cgroupsDir is where the hierarchies of cgroups are mounted.
const cgroupsDir = "/sys/fs/cgroup"

// reaper waits until its standard input ends, which it does when its parent dies, by SIGKILL too. By then, or a moment
// later, the namespaces are gone with all that ran in them, and it removes the folder and the cgroups.
const reaper = `cat >/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do
  find ` + cgroupsDir + ` -depth -type d -path "*/$2*" -exec rmdir {} + 2>/dev/null
  rm -rf "$1" 2>/dev/null && exit 0
  sleep 1
done`

// Isolated returns the folder of the namespaces in which this process runs, empty if it runs in none.
func Isolated() string { return os.Getenv(isolatedVariable) }

// Isolate runs this program again, with the same arguments and in namespaces of its own, and returns its exit code.
// Nothing that it starts, mounts or configures is left when this process ends. Its temporary files go to the folder of
// Isolated, which is removed.
func Isolate(env ...string) (code int, err error) {
	dir, err := os.MkdirTemp("", "node-drainer-nodes-")
	if err != nil {
		return 1, err
	}
	program, err := os.Executable()
	if err != nil {
		return 1, err
	}
	end, err := startReaper(dir)
	if err != nil {
		return 1, errors.Join(err, os.RemoveAll(dir))
	}
	// The signal of Pdeathsig is sent when the thread ends that has started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(append(os.Environ(), isolatedVariable+"="+dir, "TMPDIR="+dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	err = cmd.Run()
	if ended := end(); err == nil {
		err = ended
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return cmd.ProcessState.ExitCode(), err
}

// startReaper starts the reaper. end has it do its work, and returns when that is done.
func startReaper(dir string) (end func() error, err error) {
	input, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	cmd := exec.Command("/bin/sh", "-c", reaper, "node-drainer-reaper", dir, cgroupOf(dir))
	// In a process group of its own, so that a Ctrl-C does not reach it.
	cmd.Stdin, cmd.SysProcAttr = input, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return func() error { return errors.Join(pipe.Close(), cmd.Wait()) }, nil
}

// cgroupOf returns the name of the cgroups of all pods.
func cgroupOf(dir string) string { return filepath.Base(dir) }

// prepare makes the namespaces usable: /proc shows the processes of this namespace, mounts stay in it, and there is a
// loopback interface.
func prepare() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := ip("link", "set", "lo", "up"); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// ip runs the program ip.
func ip(args ...string) error {
	if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, output)
	}
	return nil
}

// lacking returns why containers cannot run here, empty if they can.
func lacking() string {
	if os.Getuid() != 0 {
		return "it needs root"
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not on PATH: apt-get install containerd runc containernetworking-plugins iproute2 nftables"
		}
	}
	if _, err := os.Stat(filepath.Join(pluginsDir, "bridge")); err != nil {
		return pluginsDir + "/bridge is missing: apt-get install containernetworking-plugins"
	}
	probe := exec.Command("ip", "link", "add", "nd-probe", "type", "bridge")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET}
	if output, err := probe.CombinedOutput(); err != nil {
		return "namespaces and bridges cannot be made here: " + strconv.Quote(string(output)) + ": " + err.Error()
	}
	return ""
}
