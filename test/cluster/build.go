package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// reportInterval is how often a download or a build reports that it goes on.
const reportInterval = 15 * time.Second

// builder puts the control plane into the folder out: downloaded, or built from the module in the folder sources.
type builder struct {
	sources  string
	out      string
	versions map[string]string // By module, such as 1.36.3, without the v.
	log      io.Writer
}

// newBuilder reads the versions from the nested module, which alone decides them.
func newBuilder(ctx context.Context, log io.Writer) (*builder, error) {
	sources, err := nestedModule(ctx)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder for the control plane's binaries: %w", err)
	}
	b := &builder{sources: sources, versions: map[string]string{}, log: log}
	versions, err := b.goCommand(ctx, "list", "-m", "-f", "{{.Path}} {{.Version}}",
		etcdModule, kubernetesModule, kwokModule).Output()
	if err != nil {
		return nil, fmt.Errorf("read the versions of the control plane: %w", explain(err))
	}
	for line := range strings.Lines(string(versions)) {
		module, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		b.versions[module] = strings.TrimPrefix(version, "v")
	}
	name := fmt.Sprintf("kubernetes-%s_etcd-%s_kwok-%s_%s-%s", b.versions[kubernetesModule], b.versions[etcdModule],
		b.versions[kwokModule], runtime.GOOS, runtime.GOARCH)
	b.out = filepath.Join(cache, "node-drainer", name)
	return b, nil
}

func (b *builder) version(p program) string { return b.versions[p.module] }

// nestedModule finds test/cluster/binaries in the checkout. It cannot be embedded, because go:embed stops at the
// boundary of a module.
func nestedModule(ctx context.Context) (string, error) {
	gomod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("the versions of the control plane are read with Go, which failed: %w", explain(err))
	}
	root := filepath.Dir(strings.TrimSpace(string(gomod)))
	dir := filepath.Join(root, "test", "cluster", "binaries")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("%s is not there: run this inside a checkout of node-drainer, or set %s",
			dir, binariesVariable)
	}
	return dir, nil
}

// goCommand runs go in the nested module, without a workspace or flags of the project around it.
func (b *builder) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.sources
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run downloads or builds what is missing under a lock on the folder.
func (b *builder) run(ctx context.Context, wanted []program) error {
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	lacking := missing(b.out, wanted) // Another process may have been here meanwhile.
	if only := os.Getenv(buildVariable); only == "" || only == "0" {
		if lacking, err = b.download(ctx, lacking); err != nil {
			return err
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return b.build(ctx, lacking)
}

// lock waits until no other process writes into the same folder.
func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(b.out, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	said := false
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			if !said {
				fmt.Fprintf(b.log, "Waiting: another process puts the control plane into %s\n", b.out)
			}
			said = true
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", b.out, err), file.Close())
	}
	return func() { _ = file.Close() }, nil // Closing gives the lock up.
}

// build builds the programs beside their places and moves them there, so that an interrupted build leaves nothing
// that looks whole.
func (b *builder) build(ctx context.Context, lacking []program) error {
	fmt.Fprintf(b.log, "Building %s from Go modules: %s on two cores, seconds if Go's build cache is warm. "+
		"Once only: they are kept in %s\n", names(lacking), buildTime, b.out)
	done := b.report(ctx, func(took time.Duration) string { return fmt.Sprintf("still building: %.0f s", took.Seconds()) })
	half, err := os.MkdirTemp(b.out, ".half-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(half)
	args := []string{"build", "-trimpath", "-ldflags=" + b.linkerFlags(), "-o", half + string(filepath.Separator)}
	for _, p := range lacking {
		args = append(args, p.pkg)
	}
	output, err := b.goCommand(ctx, args...).CombinedOutput()
	took := done()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", names(lacking), err, output)
	}
	for _, p := range lacking {
		if err := os.Rename(filepath.Join(half, p.name), filepath.Join(b.out, p.name)); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.log, "Built %s in %.0f s\n", names(lacking), took.Seconds())
	return nil
}

// buildTime is the time of a build of all programs with empty caches: 564 s of processor time.
const buildTime = "5 to 12 minutes"

// linkerFlags stamps the version into Kubernetes, whose server would say v0.0.0 otherwise and whose
// clients then misjudge what it can do.
func (b *builder) linkerFlags() string {
	flags := []string{"-s", "-w"}
	version := b.versions[kubernetesModule]
	parts := strings.SplitN(version, ".", 3)
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, fmt.Sprintf("-X %[1]s.gitVersion=v%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s"+
			" -X %[1]s.gitTreeState=clean", pkg, version, parts[0], parts[1]))
	}
	return strings.Join(flags, " ")
}

// report writes a line now and then until done is called, which returns how long that took. Minutes without output
// look like a hang.
func (b *builder) report(ctx context.Context, line func(took time.Duration) string) (done func() time.Duration) {
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, reportInterval, false, func(context.Context) (bool, error) {
			fmt.Fprintf(b.log, "  %s\n", line(time.Since(began)))
			return false, nil
		})
	})
	return func() time.Duration {
		stop()
		work.Wait()
		return time.Since(began)
	}
}

// explain adds what the program said to the bare exit status.
func explain(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
