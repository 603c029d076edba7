package cluster

import (
	"context"
	_ "embed" // For the files below.
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// workdirVariable is the variable by which kwokctl, and whatever it starts, is known to belong to a folder.
const workdirVariable = "KWOK_WORKDIR"

var (
	//go:embed kwokctl.yaml.tmpl
	kwokctlConfig string
	//go:embed stages.yaml
	stages string
	//go:embed audit-policy.yaml
	auditPolicy []byte
)

// reaper waits until its standard input ends, which it does when the owner of the folder dies, by
// SIGKILL too; then it ends what kwokctl started, because those processes have no other tie to us.
const reaper = `cat >/dev/null
for pid in "$1"/*.pid "$1"/clusters/*/pids/*.pid; do
  [ -f "$pid" ] && kill -9 "$(cat "$pid")" 2>/dev/null
done
[ "$2" = remove ] && rm -rf "$1"
exit 0`

// folder holds one control plane: its data, its logs, and by the paths in their command lines the
// processes that belong to it.
type folder struct {
	dir    string
	remain bool // The user named it, and finds the logs there.
	reaper *exec.Cmd
	pipe   io.Closer
}

// newFolder creates the folder and starts its reaper.
func newFolder(dir string) (*folder, error) {
	f := &folder{dir: dir, remain: dir != ""}
	if err := f.make(); err != nil {
		return f, err
	}
	return f, f.guard()
}

func (f *folder) make() error {
	var err error
	if !f.remain {
		f.dir, err = os.MkdirTemp("", "node-drainer-cluster-")
	} else {
		err = os.MkdirAll(f.dir, 0o755)
	}
	if err != nil {
		return err
	}
	if f.dir, err = filepath.Abs(f.dir); err != nil {
		return err
	}
	if f.dir, err = filepath.EvalSymlinks(f.dir); err != nil {
		return err
	}
	if entries, err := os.ReadDir(f.dir); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("%s must be empty", f.dir))
	}
	return nil
}

// guard starts the reaper, in a session of its own so that a Ctrl-C does not reach it first.
func (f *folder) guard() error {
	after := "remove"
	if f.remain {
		after = "remain"
	}
	f.reaper = exec.Command("/bin/sh", "-c", reaper, "node-drainer-reaper", f.dir, after)
	f.reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := f.reaper.StdinPipe()
	if err != nil {
		return err
	}
	f.pipe = pipe
	return f.reaper.Start()
}

// path returns a path inside the folder.
func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// writeConfig writes what kwokctl reads.
func (f *folder) writeConfig(binaries string, p *ports) error {
	config, err := template.New("kwokctl.yaml").Parse(kwokctlConfig)
	if err != nil {
		return err
	}
	var text strings.Builder
	err = config.Execute(&text, map[string]any{"Dir": f.dir, "Binaries": binaries, "Ports": p})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(f.path("kwokctl.yaml"), []byte(text.String()+stages), 0o600),
		os.WriteFile(f.path("audit-policy.yaml"), auditPolicy, 0o600))
}

// remove ends every process of the folder, then the folder, unless the user named it.
func (f *folder) remove(ctx context.Context) error {
	err := f.kill(ctx, "")
	if f.pipe != nil {
		_ = f.pipe.Close() // The reaper takes this for our death, and removes the folder.
		_ = f.reaper.Wait()
	}
	if f.remain {
		return err
	}
	return errors.Join(err, os.RemoveAll(f.dir))
}

// kill kills the folder's processes, or the one of the given name, and returns when they have exited.
func (f *folder) kill(ctx context.Context, name string) error {
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		left, err := processes(f.dir, name)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0, err
	})
}

// processes returns the process ids of the programs that kwokctl started from dir: those whose command is a path in
// it, or has the given base name there. Without a name, they include kwokctl itself and each child that it has forked
// and that has not executed its program yet, so that killing all leaves none behind.
func processes(dir, name string) ([]int, error) {
	commands, err := commandLines()
	var pids []int
	for pid, command := range commands {
		isComponent := strings.HasPrefix(command, dir+"/") && (name == "" || filepath.Base(command) == name)
		if isComponent || name == "" && isKwokctl(pid, dir) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, err
}

// isKwokctl reports whether the process has the environment that kwokctl gets for dir. It is false where there is no
// /proc.
func isKwokctl(pid int, dir string) bool {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // It may have exited.
	return slices.Contains(strings.Split(string(env), "\x00"), workdirVariable+"="+dir)
}

// commandLines returns the command, without its arguments, of every process that runs. Zombies have
// none, and are left out.
func commandLines() (map[int]string, error) {
	commands := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		text, _ := os.ReadFile(file) // It may have ended meanwhile.
		command, _, _ := strings.Cut(string(text), "\x00")
		commands[pid] = command
	}
	if len(files) > 0 {
		return commands, nil
	}
	output, err := exec.Command("ps", "-axo", "pid=,args=").Output()
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		if pid, err := strconv.Atoi(fields[0]); err == nil && len(fields) > 1 {
			commands[pid] = fields[1]
		}
	}
	return commands, err
}
