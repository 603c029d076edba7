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

// ControlPlane is the processes of a cluster and its API server.
type ControlPlane struct {
	*API // Nil until the API server has been started.

	name       string
	binaries   string
	folder     *folder
	components *components
}

// start starts the components, and returns when the controllers work. Those that need the API server start when it is
// ready: they try to reach it once a second at first.
func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.components.start(etcd, apiServer); err != nil {
		return err
	}
	var err error
	if c.API, err = newAPI(c.folder.path(kubeconfigFile)); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	return c.waitControllers(ctx)
}

// Dir returns the folder of the control plane; its components' logs are in Dir/logs.
func (c *ControlPlane) Dir() string { return c.folder.dir }

// waitControllers returns when the controller manager works: it creates the ServiceAccount without which no
// pod is admitted. It starts components that have exited again, as a kubelet would.
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
	cmd := exec.CommandContext(ctx, filepath.Join(c.binaries, Kubectl), args...)
	cmd.Env = append(environment(c.folder.dir), "KUBECONFIG="+c.Kubeconfig())
	output, err := cmd.Output()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), explain(err))
	}
	return string(output), nil
}

// Stop kills the API server, as a crash does. The other components keep running and the data is kept. It
// returns when nothing listens any more.
func (c *ControlPlane) Stop(context.Context) error { return c.components.kill(apiServer) }

// StartAgain starts the components that do not run, and returns when the API server is ready.
func (c *ControlPlane) StartAgain(ctx context.Context) error {
	if _, err := c.components.startExited(); err != nil {
		return err
	}
	return c.Ready(ctx)
}

// StartExited starts the components that have exited by themselves, and reports whether there were any. The
// scheduler exits when it finds its cache corrupted, which an outage of the API server can cause, and relies
// on a kubelet to start it again. Do not call it while the API server is stopped: it would start that too.
func (c *ControlPlane) StartExited(ctx context.Context) (started bool, err error) {
	if started, err = c.components.startExited(); err != nil || !started {
		return started, err
	}
	return true, c.Ready(ctx)
}

// Restart kills a component, such as kube-controller-manager, and starts it again.
func (c *ControlPlane) Restart(ctx context.Context, component string) error {
	if err := c.components.kill(component); err != nil {
		return err
	}
	_, err := c.StartExited(ctx)
	return err
}

// logTails returns the last lines of the logs, because the folder that holds them is about to be removed.
func (c *ControlPlane) logTails() string {
	if c.folder == nil {
		return ""
	}
	var tails strings.Builder
	logs, _ := filepath.Glob(c.folder.path(logsDir, "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil || filepath.Base(log) == auditLog {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		lines = lines[max(0, len(lines)-5):]
		fmt.Fprintf(&tails, "\n%s:\n  %s", filepath.Base(log), strings.Join(lines, "\n  "))
	}
	return tails.String()
}
