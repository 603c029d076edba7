package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// startTimeout bounds a start, which takes some 6 s on an idle machine.
	startTimeout = 10 * time.Minute
	// closeTimeout bounds Close, which must end even where the caller's context has.
	closeTimeout = 30 * time.Second
)

// Options says how a control plane is started. The zero value is good for tests.
type Options struct {
	Name string    // Appears in the kubeconfig; unique if empty.
	Dir  string    // Must be empty or absent, and is left behind with the logs; a temporary folder if empty.
	Log  io.Writer // Hears of builds and of what kwokctl says; nothing is written if nil.
}

// Cluster is a running control plane. Its methods may be called from several goroutines.
type Cluster struct {
	name     string
	binaries string
	log      io.Writer
	folder   *folder
	ports    *ports
	config   *rest.Config
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	kinds    meta.RESTMapper
	close    func() error
}

// Start runs a control plane of its own folder, name and ports, so that several can stand side by
// side, and returns when it serves. If it fails, nothing is left behind. It lives until Close is
// called or this process dies, in whatever way.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Name == "" {
		o.Name = "test-" + strings.ToLower(rand.Text()[:6])
	}
	binaries, err := Binaries(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	removeLeftovers(ctx)

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &Cluster{name: o.Name, binaries: binaries, log: o.Log}
	c.close = sync.OnceValue(c.end)
	if err := c.start(ctx, o.Dir); err != nil {
		err = fmt.Errorf("start control plane %s: %w%s", c.name, err, c.lastWords())
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// start does the work of Start; what it leaves half-done, Close ends.
func (c *Cluster) start(ctx context.Context, dir string) error {
	var err error
	if c.folder, err = newFolder(dir); err != nil {
		return err
	}
	if c.ports, err = reservePorts(); err != nil {
		return err
	}
	if err := c.folder.writeConfig(c.binaries, c.ports); err != nil {
		return err
	}
	if err := c.kwokctl(ctx, "create", "cluster", "--config", c.folder.path("kwokctl.yaml"),
		"--kubeconfig", c.Kubeconfig()); err != nil {
		return err
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return err
	}
	c.config.QPS = -1
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return err
	}
	c.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	if err := c.Ready(ctx); err != nil {
		return err
	}
	return c.controlled(ctx)
}

// controlled returns when the controller manager works too: only it makes the ServiceAccount without which no
// pod is admitted. It and kwok wait some ten seconds for the API server, and end if that takes longer.
func (c *Cluster) controlled(ctx context.Context) error {
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

// Close stops every process of the control plane and removes its folder. It may be called more than
// once, and on a nil Cluster.
func (c *Cluster) Close() error {
	if c == nil {
		return nil
	}
	return c.close()
}

func (c *Cluster) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if c.folder != nil {
		err = c.folder.remove(ctx)
	}
	if c.ports != nil {
		err = errors.Join(err, c.ports.release())
	}
	if err != nil {
		return fmt.Errorf("close control plane %s: %w", c.name, err)
	}
	return nil
}

// Kubeconfig returns the path of a kubeconfig that may do everything.
func (c *Cluster) Kubeconfig() string { return c.folder.path("kubeconfig") }

// Config returns a copy of the administrator's configuration, without a limit on requests.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns the administrator's client, without a limit on requests.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Dir returns the folder of the control plane; its components' logs are in Dir/clusters/NAME/logs.
func (c *Cluster) Dir() string { return c.folder.dir }

// Kubectl runs the control plane's own kubectl as administrator and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.binaries, "kubectl"), args...)
	cmd.Env = append(c.environment(), "KUBECONFIG="+c.Kubeconfig())
	output, err := cmd.Output()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), explain(err))
	}
	return string(output), nil
}

// Ready returns when the API server says that it is ready.
func (c *Cluster) Ready(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		last = c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server: %w (last answer: %w)", err, last)
	}
	return nil
}

// Stop kills the API server, as a crash does; all else keeps running and the data stay. It returns
// when nothing listens any more.
func (c *Cluster) Stop(ctx context.Context) error {
	err := c.folder.kill(ctx, "kube-apiserver")
	// kwokctl takes a left-over number for a running process.
	return errors.Join(err, os.Remove(c.folder.path("clusters", c.name, "pids", "kube-apiserver.pid")))
}

// StartAgain starts what does not run of the control plane, and returns when it is ready.
func (c *Cluster) StartAgain(ctx context.Context) error {
	if err := c.kwokctl(ctx, "start", "cluster"); err != nil {
		return err
	}
	return c.Ready(ctx)
}

// StartExited starts the components that have exited by themselves, and reports whether there were any. The
// scheduler does so when it finds its cache corrupted, as it may when the API server was away, and relies on
// a kubelet to be started again. It must not run beside Stop, whose work it would undo.
func (c *Cluster) StartExited(ctx context.Context) (started bool, err error) {
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
func (c *Cluster) Restart(ctx context.Context, component string) error {
	if err := c.folder.kill(ctx, component); err != nil {
		return err
	}
	_, err := c.StartExited(ctx)
	return err
}

// kwokctl runs kwokctl on this cluster. Its number is kept in a file while it runs, for the reaper.
func (c *Cluster) kwokctl(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.binaries, "kwokctl"), append(args, "--name", c.name)...)
	cmd.Env = c.environment()
	// The components that kwokctl starts must not hold a pipe of ours open, so a file takes its output.
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

// environment keeps kwokctl's and kubectl's state inside the cluster's folder, and what the user has
// set for clusters of his own out of it.
func (c *Cluster) environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "KWOK_") && !strings.HasPrefix(e, "KUBECONFIG=") {
			env = append(env, e)
		}
	}
	return append(env,
		"HOME="+c.folder.dir,
		"KWOK_WORKDIR="+c.folder.dir,
		"PATH="+c.binaries+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// lastWords returns the ends of the logs, because the folder that holds them is about to go.
func (c *Cluster) lastWords() string {
	if c.folder == nil {
		return ""
	}
	var words strings.Builder
	logs, _ := filepath.Glob(c.folder.path("clusters", c.name, "logs", "*.log"))
	for _, log := range append([]string{c.folder.path("kwokctl.log")}, logs...) {
		text, err := os.ReadFile(log)
		if err != nil || filepath.Base(log) == "audit.log" {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		lines = lines[max(0, len(lines)-5):]
		fmt.Fprintf(&words, "\n%s:\n  %s", filepath.Base(log), strings.Join(lines, "\n  "))
	}
	return words.String()
}
