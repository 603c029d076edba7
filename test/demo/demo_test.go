//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// demo is a run of the program without a terminal, whose temporary folder is its own.
type demo struct {
	cmd    *exec.Cmd
	temp   string
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// newDemo builds it. Its arguments may be added to before it starts.
func newDemo(t *testing.T, env ...string) *demo {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "demo")
	if output, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the demo: %v\n%s", err, output)
	}
	// Not t.TempDir, whose name holds the test's and is too long for some sockets.
	temp, err := os.MkdirTemp("", "demo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	d := &demo{cmd: exec.CommandContext(ctx, binary), temp: temp}
	d.cmd.Env = append(append(os.Environ(), "TMPDIR="+temp, "DEMO_KEEP="), env...)
	d.cmd.Stdout, d.cmd.Stderr = &d.stdout, &d.stderr
	return d
}

// end checks the exit code, and that nothing is left of the run.
func (d *demo) end(t *testing.T, code int) {
	t.Helper()
	_ = d.cmd.Wait()
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d\n%s\n%s", got, code, &d.stdout, &d.stderr)
	}
	left, err := os.ReadDir(d.temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v %v", left, err)
	}
	commands, err := exec.Command("ps", "-axww", "-o", "args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(commands)) {
		if strings.Contains(line, d.temp) {
			t.Errorf("still running: %s", line)
		}
	}
}

// TestDemoWithRealNodes: the demo drains a node whose containers run, and no request to them fails.
func TestDemoWithRealNodes(t *testing.T) {
	if why := realnodes.Lacking(); why != "" {
		t.Skip("containers cannot run here: " + why)
	}
	d := newDemo(t, "DEMO_NODES=real")
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.end(t, 0)
	if !regexp.MustCompile(`(?m)^  ok   requests +\d{3,} of clients, 0 failed$`).MatchString(d.stdout.String()) {
		t.Errorf("the output says nothing of requests:\n%s", &d.stdout)
	}
}

func TestDemo(t *testing.T) {
	d := newDemo(t)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.end(t, 0)
	text := d.stdout.String()
	t.Log("\n" + text)
	if i := strings.IndexAny(text, "\x1b\r\b"); i >= 0 {
		t.Errorf("a control character at byte %d", i)
	}
	rest := text
	for _, step := range []string{
		"Real:", "Simulated:", "control plane", "agent", "TerminateInstanceInAutoScalingGroup", "event received",
		"node cordoned", "taint   node-drainer.io/", "cordon", "label", "blocked:", "PodDisruptionBudget shop/shop",
		"/12 moved", "12/12 moved", "node drained", "hook completed with CONTINUE", "message deleted",
		"instance terminated", "12 of 12", "pods killed          0", "the agent, with CONTINUE, naming the token",
	} {
		_, after, found := strings.Cut(rest, step)
		if !found {
			t.Fatalf("%q is missing, or comes too early:\n%s", step, text)
		}
		rest = after
	}
	printed := templates(text)
	for _, line := range recordedLines(t) {
		if !slices.Contains(printed, line) {
			t.Errorf("demo-replay shows a line that the demo does not print, so run make demo-record: %q", line)
		}
	}
	if strings.Contains(text, "installation problem") {
		t.Errorf("the agent's check of the installation finds a problem in the demo:\n%s", text)
	}
	if before, _, _ := strings.Cut(text, "node drained"); !strings.Contains(before, "heartbeat 2") {
		t.Errorf("the drain did not outlast a heartbeat:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > defaultWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestInterrupt(t *testing.T) {
	d := newDemo(t)
	d.cmd.Stdout = nil
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "node cordoned") {
			_ = d.cmd.Process.Signal(os.Interrupt)
		}
		_, _ = d.stdout.WriteString(lines.Text() + "\n")
	}
	d.end(t, harness.ExitInterrupted)
	if !strings.Contains(d.stderr.String(), "interrupted") {
		t.Errorf("it does not say why it ended: %s", &d.stderr)
	}
}

func TestNoControlPlane(t *testing.T) {
	empty := t.TempDir()
	d := newDemo(t, "KUBE_BINARIES="+empty)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.end(t, harness.ExitFailed)
	for _, want := range []string{"FAILED:", "KUBE_BINARIES=" + empty, "lacks etcd", "unset"} {
		if !strings.Contains(d.stderr.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &d.stderr)
		}
	}
}

// TestRecordedNode: the node that the pages show has what the agent sets today, and so have the metrics.
func TestRecordedNode(t *testing.T) {
	d, folder := newDemo(t), t.TempDir()
	d.cmd.Args = append(d.cmd.Args, "-record", folder)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.end(t, 0)
	for file, shape := range map[string]func(string) []string{nodeFile: shapeOfNode, metricsFile: seriesOf} {
		got, want := shape(read(t, filepath.Join(folder, file))), shape(read(t, filepath.Join("replay", file)))
		if !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("run make demo-record: %s is recorded as\n%s\nand today it is\n%s", file,
				strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
	}
}

// shapeOfNode returns the labels, annotations, taints, conditions and Events in the output of kubectl describe node,
// without what differs from run to run.
func shapeOfNode(description string) (all []string) {
	date := regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} [\d:]+ \+0000`)
	section := ""
	for line := range strings.Lines(description) {
		if !strings.HasPrefix(line, " ") {
			section, _, _ = strings.Cut(line, ":")
		}
		fields := strings.Fields(date.ReplaceAllString(line, ""))
		switch {
		case strings.Contains(line, "{"): // The value of an annotation.
		case slices.Contains([]string{"Labels", "Annotations", "Taints", "Unschedulable"}, section):
			all = append(all, section+": "+template(line))
		case section == "Conditions" && len(fields) > 2:
			all = append(all, section+": "+strings.Join(fields[:3], " "))
		case section == "Events" && len(fields) > 2 && fields[1] != "RegisteredNode": // Kubernetes may add it later.
			all = append(all, section+": "+strings.Join(fields[:2], " "))
		}
	}
	return all
}

// seriesOf returns the names of the series with their labels.
func seriesOf(metrics string) (all []string) {
	for line := range strings.Lines(metrics) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, name)
	}
	return all
}
