package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ControlPlane is the processes of a cluster, which kwokctl starts and stops, and its API server.
type ControlPlane struct {
	*API // Nil until the API server has been started.

	name     string
	binaries string
	folder   *folder
}

// start creates the cluster from the configuration in the folder, and returns when its controllers work.
func (c *ControlPlane) start(ctx context.Context) error {
	kubeconfig := c.folder.path("kubeconfig")
	err := c.kwokctl(ctx, "create", "cluster", "--config", c.folder.path("kwokctl.yaml"),
		"--kubeconfig", kubeconfig)
	if err != nil {
		return err
	}
	if c.API, err = newAPI(kubeconfig); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	return c.waitControllers(ctx)
}

// Dir returns the folder of the control plane; its components' logs are in Dir/clusters/NAME/logs.
func (c *ControlPlane) Dir() string { return c.folder.dir }

// waitControllers returns when the controller manager works: it creates the ServiceAccount without which no
// pod is admitted. The controller manager and kwok exit if the API server takes longer than some ten seconds
// to start, so waitControllers starts them again.
func (c *ControlPlane) waitControllers(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if _, err := c.StartExited(ctx); err != nil {
			return false, err
		}
		_, last = c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the controller manager: %w", errors.Join(err, last))
	}
	return nil
}

// Kubectl runs the control plane's own kubectl as administrator and returns what it printed.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.binaries, "kubectl"), args...)
	cmd.Env = append(c.environment(), "KUBECONFIG="+c.Kubeconfig())
	output, err := cmd.Output()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), explain(err))
	}
	return string(output), nil
}

// Stop kills the API server, as a crash does. The other components keep running and the data is kept. It
// returns when nothing listens any more.
func (c *ControlPlane) Stop(ctx context.Context) error {
	err := c.folder.kill(ctx, "kube-apiserver")
	// kwokctl assumes that the process of a PID file runs.
	return errors.Join(err, os.Remove(c.folder.path("clusters", c.name, "pids", "kube-apiserver.pid")))
}

// StartAgain starts the components that do not run, and returns when the API server is ready.
func (c *ControlPlane) StartAgain(ctx context.Context) error {
	if err := c.kwokctl(ctx, "start", "cluster"); err != nil {
		return err
	}
	return c.Ready(ctx)
}

// StartExited starts the components that have exited by themselves, and reports whether there were any. The
// scheduler exits when it finds its cache corrupted, which an outage of the API server can cause, and relies
// on a kubelet to start it again. Do not call it while the API server is stopped: it would start that too.
func (c *ControlPlane) StartExited(ctx context.Context) (started bool, err error) {
	ids, err := filepath.Glob(c.folder.path("clusters", c.name, "pids", "*.pid"))
	for _, id := range ids {
		name := strings.TrimSuffix(filepath.Base(id), ".pid")
		if running, e := processes(c.folder.dir, name); e != nil || len(running) > 0 {
			err = errors.Join(err, e)
			continue
		}
		started = true
		err = errors.Join(err, os.Remove(id)) // As in Stop.
	}
	if err != nil || !started {
		return started, err
	}
	return true, c.StartAgain(ctx)
}

// Restart kills a component, such as kube-controller-manager, and starts it again.
func (c *ControlPlane) Restart(ctx context.Context, component string) error {
	if err := c.folder.kill(ctx, component); err != nil {
		return err
	}
	_, err := c.StartExited(ctx)
	return err
}

// kwokctl runs kwokctl on this cluster. A file holds its PID while it runs, for the reaper.
func (c *ControlPlane) kwokctl(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.binaries, "kwokctl"), append(args, "--name", c.name)...)
	cmd.Env = c.environment()
	// The components that kwokctl starts would keep a pipe open, so its output is written to a file.
	log, err := os.OpenFile(c.folder.path("kwokctl.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := c.folder.path("kwokctl.pid")
	err = errors.Join(os.WriteFile(pid, fmt.Append(nil, cmd.Process.Pid), 0o600), cmd.Wait(), os.Remove(pid))
	if err != nil {
		return fmt.Errorf("kwokctl %s: %w", strings.Join(args[:2], " "), err)
	}
	return nil
}

// environment returns the environment of kwokctl and kubectl. It keeps their state in the cluster's folder,
// and excludes the user's settings for other clusters.
func (c *ControlPlane) environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "KWOK_") && !strings.HasPrefix(e, "KUBECONFIG=") {
			env = append(env, e)
		}
	}
	return append(env,
		"HOME="+c.folder.dir,
		workdirVariable+"="+c.folder.dir,
		"PATH="+c.binaries+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// logTails returns the last lines of the logs, because the folder that holds them is about to be removed.
func (c *ControlPlane) logTails() string {
	if c.folder == nil {
		return ""
	}
	var tails strings.Builder
	logs, _ := filepath.Glob(c.folder.path("clusters", c.name, "logs", "*.log"))
	for _, log := range append([]string{c.folder.path("kwokctl.log")}, logs...) {
		text, err := os.ReadFile(log)
		if err != nil || filepath.Base(log) == "audit.log" {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		lines = lines[max(0, len(lines)-5):]
		fmt.Fprintf(&tails, "\n%s:\n  %s", filepath.Base(log), strings.Join(lines, "\n  "))
	}
	return tails.String()
}
