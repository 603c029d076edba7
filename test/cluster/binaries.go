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

// binariesVariable names a folder with binaries that the user already has; nothing is built then.
const binariesVariable = "KUBE_BINARIES"

// binary is one program of the control plane and the way to build it.
type binary struct {
	name   string
	module string // A folder below binaries/, with its own go.mod.
	pkg    string // The main package, as go build takes it.
}

// programs is the control plane, in the order in which builds gain most from each other.
func programs() []binary {
	all := []binary{{etcd, "etcd", "."}}
	for _, name := range []string{apiServer, controllerManager, scheduler, "kubectl"} {
		all = append(all, binary{name, "kubernetes", "k8s.io/kubernetes/cmd/" + name})
	}
	return append(all, binary{kwok, "kwok", "sigs.k8s.io/kwok/cmd/kwok"})
}

// Binaries returns a folder that holds the programs of the control plane. It is the folder that KUBE_BINARIES
// names, if that is set; otherwise a folder in the user's cache that is named after the versions. Binaries
// builds the missing programs first, and writes its progress to log. Several processes may call it at the
// same time: one builds, the others wait.
func Binaries(ctx context.Context, log io.Writer) (string, error) {
	if log == nil {
		log = io.Discard
	}
	if dir := os.Getenv(binariesVariable); dir != "" {
		return given(dir)
	}
	b, err := newBuilder(ctx, log)
	if err != nil {
		return "", err
	}
	if len(missing(b.out)) == 0 {
		return b.out, nil
	}
	return b.out, b.run(ctx)
}

// given checks the folder that the user named, so that the error comes now and says what to do,
// and not from deep inside a start.
func given(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	lacking := missing(dir)
	if len(lacking) == 0 {
		return dir, nil
	}
	names := make([]string, 0, len(lacking))
	for _, p := range lacking {
		names = append(names, p.name)
	}
	return "", fmt.Errorf("%s=%s lacks %s (or they cannot be executed): put them there, or unset %s "+
		"to have the whole control plane built", binariesVariable, dir, strings.Join(names, ", "), binariesVariable)
}

// missing returns the programs that dir does not hold as executable files.
func missing(dir string) []binary {
	var lacking []binary
	for _, p := range programs() {
		info, err := os.Stat(filepath.Join(dir, p.name))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			lacking = append(lacking, p)
		}
	}
	return lacking
}

// builder builds the control plane from the modules below sources into out.
type builder struct {
	sources  string
	out      string
	versions map[string]string // By module folder, such as 1.36.3, without the v.
	log      io.Writer
}

// newBuilder reads the versions from the nested modules, which alone decide them.
func newBuilder(ctx context.Context, log io.Writer) (*builder, error) {
	sources, err := nestedModules(ctx)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder for the control plane's binaries: %w", err)
	}
	b := &builder{sources: sources, versions: map[string]string{}, log: log}
	for folder, module := range map[string]string{
		"etcd": "go.etcd.io/etcd/server/v3", "kubernetes": "k8s.io/kubernetes", "kwok": "sigs.k8s.io/kwok",
	} {
		version, err := b.goCommand(ctx, folder, "list", "-m", "-f", "{{.Version}}", module).Output()
		if err != nil {
			return nil, fmt.Errorf("read the version of %s: %w", module, explain(err))
		}
		b.versions[folder] = strings.TrimPrefix(strings.TrimSpace(string(version)), "v")
	}
	name := fmt.Sprintf("kubernetes-%s_etcd-%s_kwok-%s_%s-%s", b.versions["kubernetes"], b.versions["etcd"],
		b.versions["kwok"], runtime.GOOS, runtime.GOARCH)
	b.out = filepath.Join(cache, "node-drainer", name)
	return b, nil
}

// nestedModules finds test/cluster/binaries in the checkout. It cannot be embedded, because go:embed
// stops at the boundary of a module.
func nestedModules(ctx context.Context) (string, error) {
	gomod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("the control plane is built with Go, which did not answer: %w", explain(err))
	}
	root := filepath.Dir(strings.TrimSpace(string(gomod)))
	dir := filepath.Join(root, "test", "cluster", "binaries")
	if _, err := os.Stat(filepath.Join(dir, "kubernetes", "go.mod")); err != nil {
		return "", fmt.Errorf("%s is not there: run this inside a checkout of node-drainer, or set %s",
			dir, binariesVariable)
	}
	return dir, nil
}

// goCommand runs go in a nested module, untouched by a workspace or flags of the project around it.
func (b *builder) goCommand(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.sources, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run builds what is missing under a lock on the folder.
func (b *builder) run(ctx context.Context) error {
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	lacking := missing(b.out)
	if len(lacking) == 0 {
		return nil // Another process built it meanwhile.
	}
	fmt.Fprintf(b.log, "Building a Kubernetes control plane: about 20 minutes on two cores, "+
		"seconds if Go's build cache is warm. Once only: it is kept in %s\n", b.out)
	for i, p := range lacking {
		if err := b.build(ctx, p, fmt.Sprintf("(%d of %d)", i+1, len(lacking))); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	return nil
}

// lock waits until no other process builds into the same folder.
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
				fmt.Fprintf(b.log, "Waiting: another process builds the control plane into %s\n", b.out)
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

// build builds one program beside its place and moves it there, so that an interrupted build leaves
// nothing that looks whole.
func (b *builder) build(ctx context.Context, p binary, nth string) error {
	began := time.Now()
	fmt.Fprintf(b.log, "Building %s %s %s ...\n", p.name, b.versions[p.module], nth)
	building, stop := context.WithCancel(ctx)
	var progress sync.WaitGroup
	progress.Go(func() { // A build of minutes that prints nothing looks hung.
		_ = wait.PollUntilContextCancel(building, 15*time.Second, false, func(context.Context) (bool, error) {
			fmt.Fprintf(b.log, "  still building %s: %.0f s\n", p.name, time.Since(began).Seconds())
			return false, nil
		})
	})
	half := filepath.Join(b.out, "."+p.name+".half")
	output, err := b.goCommand(ctx, p.module, "build", "-p", fmt.Sprint(runtime.NumCPU()), "-trimpath",
		"-ldflags="+b.linkerFlags(p), "-o", half, p.pkg).CombinedOutput()
	stop()
	progress.Wait()
	if err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, output), os.Remove(half))
	}
	if err := os.Rename(half, filepath.Join(b.out, p.name)); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	fmt.Fprintf(b.log, "Building %s %s %s ... %.0f s\n", p.name, b.versions[p.module], nth, took)
	return nil
}

// linkerFlags stamps the version into Kubernetes, whose server would say v0.0.0 otherwise and whose
// clients then misjudge what it can do.
func (b *builder) linkerFlags(p binary) string {
	flags := "-s -w"
	if p.module != "kubernetes" {
		return flags
	}
	version := b.versions[p.module]
	parts := strings.SplitN(version, ".", 3)
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=v%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s"+
			" -X %[1]s.gitTreeState=clean", pkg, version, parts[0], parts[1])
	}
	return flags
}

// explain adds what the program said to the bare exit status.
func explain(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
