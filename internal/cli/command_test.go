package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/report"
)

// run runs the trigger and returns its exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	return newProgram(environ, stdout, stderr).run(ctx, args)
}

// read parses a command line, and returns what would be executed, or the error on stderr.
func read(t *testing.T, environ []string, args ...string) (s *settings, op operation, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := newProgram(environ, &out, &errs)
	p.perform = func(_ context.Context, v operation) (int, error) {
		s, op = p.executor.settings, v
		return 0, nil
	}
	if code := p.run(t.Context(), args); (code == 0) != (s != nil) || (code == 0) != (errs.Len() == 0) {
		t.Fatalf("exit code %d, settings %v, and %q", code, s, errs.String())
	}
	return s, op, errs.String()
}

// TestCommands: each command has its operation and its flags.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, args string
		want       operation
		err        string
	}{
		{"no command", "--asg workers", opRun, ""},
		{"plan", "plan --asg workers", opPlan, ""},
		{"flags before the command", "--asg workers plan", opPlan, ""},
		{"plan with the flags of a run", "plan --asg workers --mode unhealthy --max-age 24h --timeout 1h --detailed-exitcode", opPlan, ""},
		{"status", "status --asg workers -o json", opStatus, ""},
		{"nodes without a group", "nodes -o json --kubeconfig file --context prod", opNodes, ""},
		{"nodes, again and again", "nodes -w -o ndjson", opNodes, ""},
		{"several documents", "nodes --watch -o json", "", "--watch writes more than one document"},
		{"a rollout is not watched", "--asg workers --watch", "", "unknown flag: --watch"},
		{"nodes takes no group", "nodes --asg workers", "", "unknown flag: --asg"},
		{"nodes without Kubernetes", "nodes --no-kubernetes", "", "unknown flag: --no-kubernetes"},
		{"watch", "watch --asg workers --surge 1 --interval 1m", "watch", ""},
		{"a watch with windows", "watch --asg workers --window 22:00-05:00 --window Sat_00:00-24:00_Europe/Berlin", "watch", ""},
		{"a rollout has no interval", "--asg workers --interval 1m", "", "unknown flag: --interval"},
		{"cancel", "cancel --asg workers --no-wait", "cancel", ""},
		{"rollback", "rollback --asg workers --timeout 1h", "rollback", ""},
		{"pause", "pause --cluster prod", "pause", ""},
		{"resume", "resume --tag role=worker", "resume", ""},
		{"status has no limit of a stall", "status --asg workers --stall-timeout 1h", "", "unknown flag: --stall-timeout: trigger status does not have it"},
		{"a flag of another command", "--detailed-exitcode --asg workers", "", "unknown flag: --detailed-exitcode: it is a flag of trigger plan"},
		{"a flag without a value that does not exist", "--fail-fas --asg workers", "", "unknown flag: --fail-fas: did you mean --fail-fast?"},
		{"mistyped flag", "--asg workers --time-out 2h", "", "unknown flag: --time-out: did you mean --timeout?"},
		{"a long flag with one hyphen", "plan -asg workers", "", "unknown shorthand flag: 'a' in -asg: did you mean --asg?"},
		{"a group without --asg", "workers", "", `unknown command "workers" for "trigger": groups are named by --asg`},
		{"a group without --asg after a command", "plan workers", "", `"trigger plan": groups are named by --asg`},
		{"a dash instead of hyphens", "plan –asg workers", "", "it begins with a dash: flags begin with hyphens, as in --asg"},
		{"a boolean flag with a value", "plan --asg workers --all yes", "", "a flag without a value is true; for false, write --flag=false"},
		{"groups with spaces", "plan --asg workers batch", "", "groups are named by --asg, several with commas"},
		{"the ARN of a group", "plan --asg arn:aws:autoscaling:eu-central-1:1:autoScalingGroup:2:autoScalingGroupName/workers", "", "must be a name, which has no colon; in an ARN it follows autoScalingGroupName/"},
		{"an Availability Zone as the Region", "plan --asg workers --region eu-central-1a", "", "must be a Region, such as eu-central-1"},
		{"a Region of a government", "plan --asg workers --region us-gov-west-1", opPlan, ""},
		{"flag without its value", "--asg", "", "flag needs an argument: --asg"},
		{"cancel has no preferences", "cancel --asg workers --surge 1", "", "unknown flag: --surge"},
		{"unknown command", "plann --asg workers", "", `unknown command "plann" for "trigger"`},
		{"mistyped command, and a flag of another", "paln --detailed-exitcode", "", `unknown command "paln" for "trigger"`},
		{"mistyped command", "stat --asg workers", "", "status"},
		{"unexpected argument", "plan workers", "", `unknown command "workers" for "trigger plan"`},
		{"no group", "", "", "trigger plan --asg workers"},
		{"status without a group", "status", "", "trigger --cluster prod"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(tt.args)
			for n := range args {
				args[n] = strings.ReplaceAll(args[n], "_", " ")
			}
			_, got, stderr := read(t, nil, args...)
			if got != tt.want || !strings.Contains(stderr, tt.err) {
				t.Errorf("operation %q and error %q, want %q and %q", got, stderr, tt.want, tt.err)
			}
		})
	}
}

// TestStderrIsClean: names and answers of others neither change what a terminal shows, nor are commands of a workflow,
// nor begin lines of their own. What is wrong with the flags keeps its lines.
func TestStderrIsClean(t *testing.T) {
	t.Parallel()
	const evil = "group a\r\n::error::x\u009b1m\x1b[31m\u202e ##[stop-commands]y"
	const clean = "group a  ::error::x1m[31m ## [stop-commands]y"
	for name, tt := range map[string]struct {
		perform func(*program) error
		want    string
	}{
		"an error": {func(*program) error { return errors.New(evil) }, "trigger: " + clean + "\n"},
		"a note": {func(p *program) error {
			(&watchProcess{executor: &p.executor}).log(evil)
			return nil
		}, "trigger: " + clean + "\n"},
		"wrong flags": {nil, "trigger: invalid flags or variables (trigger --help-all lists them):\n" +
			"  --asg is \"a:x\": must be a name, which has no colon; in an ARN it follows autoScalingGroupName/\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			p, args := newProgram(nil, io.Discard, &stderr), []string{"plan", "--asg", "a"}
			if tt.perform == nil {
				args[2] = "a:x"
			}
			p.perform = func(context.Context, operation) (int, error) { return 0, tt.perform(p) }
			if p.run(t.Context(), args); stderr.String() != tt.want {
				t.Errorf("got %q, want %q", stderr.String(), tt.want)
			}
		})
	}
}

// TestInformation: what a command prints about the trigger itself.
func TestInformation(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"version":         "0 trigger version dev",
		"--version":       "0 trigger version dev",
		"completion tcsh": `1 trigger: unknown shell "tcsh": must be bash, zsh, fish or powershell`,
		"completion":      "0 Generate the autocompletion script",
	} {
		var out bytes.Buffer
		code := run(t.Context(), strings.Fields(args), nil, &out, &out)
		if got := fmt.Sprint(code, " ", out.String()); !strings.HasPrefix(got, want) {
			t.Errorf("trigger %s: got %q, want %q", args, got, want)
		}
	}
}

// TestClosedPipe: that nobody reads the rest of what is only shown is no error: trigger plan | head.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	for op, want := range map[operation]string{
		opPlan: "2 ", opStatus: "2 ", opNodes: "2 ", opHistory: "2 ",
		opRun: "2 trigger: write /dev/stdout: broken pipe\n",
	} {
		var out bytes.Buffer
		p := newProgram(nil, &out, &out)
		p.perform = func(context.Context, operation) (int, error) {
			return 2, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
		}
		args := []string{string(op), "--asg", "workers"}
		switch op {
		case opRun:
			args = args[1:]
		case opNodes, opHistory:
			args = args[:1]
		}
		if got := fmt.Sprint(p.run(t.Context(), args), " ", out.String()); got != want {
			t.Errorf("%s: got %q, want %q", op, got, want)
		}
	}
}

// TestFailures: an error is printed, and sets the exit code.
func TestFailures(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		code int
		err  error
		want int
	}{
		{"error", t.Context(), 0, errors.New("AccessDenied"), 1},
		{"error after an interrupt", stopped, 0, context.Canceled, 130},
		{"failed rollout, and an error of the summary", t.Context(), 3, errors.New("no space"), 3},
		{"failed rollout", t.Context(), 7, nil, 7},
		{"interrupted rollout", stopped, 130, nil, 130},
		{"rollout that ended before the interrupt", stopped, 0, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			p := newProgram(nil, &stdout, &stderr)
			p.perform = func(context.Context, operation) (int, error) { return tt.code, tt.err }
			if code := p.run(tt.ctx, []string{"--asg", "workers"}); code != tt.want {
				t.Errorf("exit code %d, want %d", code, tt.want)
			}
			if want := tt.err; want != nil && stderr.String() != "trigger: "+want.Error()+"\n" {
				t.Errorf("stderr is %q", stderr.String())
			}
		})
	}
}

var update = flag.Bool("update", false, "update the generated files")

// golden fails the test unless the file has this text.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test ./internal/cli -run %s -update updates it (-want +got):\n%s", t.Name(), diff)
	}
}

// TestHelpOfNodes: a command that replaces nothing has no outcome of a rollout.
func TestHelpOfNodes(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"nodes", "--help"}, nil, &stdout, &stderr)
	if help := stdout.String(); code != 0 || !strings.Contains(help, "the nodes were read") || strings.Contains(help, "stalled") {
		t.Errorf("exit code %d: %s", code, help)
	}
}

// TestHelp: the help is the reviewed one. The short one fits on a screen.
func TestHelp(t *testing.T) {
	t.Parallel()
	for flag, file := range map[string]string{"--help": "help.txt", "--help-all": "help-all.txt"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{flag}, nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		got := strings.Replace(stdout.String(), indent(report.ExitCodes()), "  (of internal/report)\n", 1)
		golden(t, filepath.Join("testdata", file), got)
		for line := range strings.Lines(got) {
			if len(strings.TrimRight(line, "\n")) > 110 {
				t.Errorf("the line is too long: %s", line)
			}
		}
		if lines := strings.Count(got, "\n"); flag == "--help" && lines > 45 {
			t.Errorf("trigger --help has %d lines", lines)
		}
	}
}

// TestHelpOfCommands: each command has a short help, and one with all flags.
func TestHelpOfCommands(t *testing.T) {
	t.Parallel()
	for _, v := range allCommands()[1:] {
		for flag, want := range map[string]string{"--help": "--help-all", "--help-all": "Exit codes:"} {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{string(v), flag}, nil, &stdout, &stderr)
			if code != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), want) {
				t.Errorf("trigger %s %s: exit code %d, stderr %q: %s", v, flag, code, stderr.String(), stdout.String())
			}
		}
	}
}
