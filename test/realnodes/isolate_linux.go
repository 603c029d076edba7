package realnodes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

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

// isolate runs this program again, with the same arguments and in namespaces of its own, and returns its exit code.
// Nothing that it starts, mounts or configures is left when this process ends. Its temporary files go to the folder.
func isolate(dir string) (code int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.Command(program, os.Args[1:]...) //nolint:gosec // It is this program.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), isolatedVariable+"="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	// The signal is sent when the thread ends that has started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
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

// Lacking returns why containers cannot run here, empty if they can.
func Lacking() string {
	if Isolated() != "" {
		return ""
	}
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

// unmountBelow unmounts everything in a folder, the last mount first.
func unmountBelow(dir string) (err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], dir+"/") {
			continue
		}
		if e := syscall.Unmount(fields[1], syscall.MNT_DETACH); e != nil {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", fields[1], e))
		}
	}
	return err
}

// hierarchies returns the roots of the hierarchies of cgroups: there is one of version 2, or one for each controller.
func hierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupsDir, "cgroup.controllers")); err == nil {
		return []string{cgroupsDir}
	}
	all, _ := filepath.Glob(filepath.Join(cgroupsDir, "*", "cgroup.procs")) // The pattern is good.
	for i, procs := range all {
		all[i] = filepath.Dir(procs)
	}
	return all
}

// makeCgroup makes a cgroup in each hierarchy. The reaper removes it.
func makeCgroup(name string) error {
	for _, dir := range hierarchies() {
		for part := range strings.SplitSeq(name, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			if err := setUpCgroup(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// setUpCgroup gives a new cgroup the processors and the memory of its parent, where it is about these, and a larger
// share of the processors' time: all containers in it would otherwise count as one process beside other ones.
func setUpCgroup(parent, dir string) error {
	values := map[string][]byte{"cpu.shares": []byte("65536"), "cpu.weight": []byte("10000")}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if value = bytes.TrimSpace(value); len(value) > 0 {
			values[name] = value
		}
	}
	for name, value := range values {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // The hierarchy is about something else.
		}
		if err != nil {
			return err
		}
		_, err = file.Write(value)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}
