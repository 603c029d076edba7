package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/node-drainer/node-drainer/internal/migrate"
)

// configuration writes a file, and returns its name.
func configuration(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMigrate: the result is on standard output alone, and the rest on standard error; the exit code says whether all was
// translated.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, peer, text string
		code             int
		stdout, stderr   string // FILE stands for the name of the file
	}{
		{
			"all is translated", "nth", "queueURL: q\nworkers: 20\n", 0,
			"# Required as well: config.clusterName, the name of the cluster in the tags of its groups\nconfig:\n  queue:\n    url: q\n",
			"trigger: not needed: workers: a message costs only memory, and stays in flight until the instance is done\n",
		},
		{
			"something is missing", "aws-asg-roller", "ROLLER_ASG=a\nROLLER_X=::error::\nROLLER_Y=1", 7,
			"# Required as well: config.clusterName, the name of the cluster in the tags of its groups\n# Required as well: config.queue.url\n" +
				"watch:\n  enabled: true\n  options:\n    asg:\n      - a\n    surge: 1\n",
			"trigger: FILE:2: ROLLER_X is unknown: docs/configuration.md and docs/trigger-flags.md list what there is\n" +
				"trigger: FILE:3: ROLLER_Y is unknown: docs/configuration.md and docs/trigger-flags.md list what there is\n",
		},
		{
			"a command line", "eks-rolling-update", "RUN_MODE=1\nK8S_CONTEXT=arn:aws:eks:eu-central-1:1:cluster/a&b", 0,
			"# Required as well: --cluster NAME\ntrigger --mode unhealthy --surge 100% --taint-outdated hard " +
				"--context 'arn:aws:eks:eu-central-1:1:cluster/a&b' --raise-max\n", "",
		},
		{
			"two mistakes", "nth", "workers: 1\nheartbeatInterval: x\nreplicas: '::error::'\n", 1, "",
			"trigger: read FILE: line 2: heartbeatInterval must be a whole number\nline 3: replicas must be a whole number\n",
		},
		{"no YAML", "nth", "a: b: c", 1, "", "trigger: read FILE: line 1: mapping values are not allowed in this context\n"},
		{
			"too large", "nth", strings.Repeat("#", migrate.MaxSize+1), 1, "",
			"trigger: read FILE: it is larger than 1 MiB\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := configuration(t, tt.text)
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"migrate", tt.peer, file}, nil, &stdout, &stderr)
			if got := strings.ReplaceAll(stderr.String(), file, "FILE"); code != tt.code || got != tt.stderr {
				t.Errorf("exit code %d, want %d; stderr:\n%s\nwant\n%s", code, tt.code, got, tt.stderr)
			}
			if stdout.String() != tt.stdout {
				t.Errorf("got\n%s\nwant\n%s", &stdout, tt.stdout)
			}
		})
	}
}

// TestMigrateArguments: a program and one file are required.
func TestMigrateArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"migrate":                   "0 ",
		"migrate nth --help":        "0 ",
		"migrate nht":               `1 trigger: unknown program "nht": must be nth, lifecycle-manager, eks-rolling-update or aws-asg-roller`,
		"migrate nth":               "1 trigger: trigger migrate nth needs one file, or - for standard input",
		"migrate nth a b":           "1 trigger: trigger migrate nth needs one file",
		"migrate nth --asg a":       "1 trigger: unknown flag: --asg",
		"migrate nth testdata/none": "1 trigger: open testdata/none: no such file or directory",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(args), nil, &stdout, &stderr)
		if got := string(rune('0'+code)) + " " + stderr.String(); !strings.HasPrefix(got, want) {
			t.Errorf("trigger %s: got %q, want %q", args, got, want)
		}
		if code == 0 && !strings.Contains(stdout.String(), "trigger migrate") {
			t.Errorf("trigger %s: %s", args, &stdout)
		}
	}
}

// broken is an output that fails.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// TestMigrateOutput: that nobody reads the result is no error; another failure is.
func TestMigrateOutput(t *testing.T) {
	t.Parallel()
	file := configuration(t, "queueURL: q")
	for _, tt := range []struct {
		err  error
		want int
	}{{syscall.EPIPE, 0}, {errors.New("no space"), 1}} {
		if code := run(t.Context(), []string{"migrate", "nth", file}, nil, broken{tt.err}, io.Discard); code != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, code, tt.want)
		}
	}
}

// TestMigratedCommands: the command lines that are printed are valid.
func TestMigratedCommands(t *testing.T) {
	t.Parallel()
	files := []string{filepath.Join("..", "migrate", "testdata", "eks-rolling-update.env")}
	for _, mode := range migrate.RunModes() {
		files = append(files, configuration(t, "RUN_MODE="+mode.Number+"\nASG_NAMES=a\nMAX_ALLOWABLE_NODE_AGE=30\nDRY_RUN=1\n"))
	}
	for _, file := range files {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"migrate", "eks-rolling-update", file}, nil, &stdout, &stderr); code == 1 {
			t.Fatalf("%s: %s", file, &stderr)
		}
		line, _, _ := strings.Cut(stdout.String(), "\n")
		args, ours := strings.CutPrefix(line, "trigger ")
		if !ours {
			t.Errorf("%s: %s", file, line)
		}
		accepted(t, file, nil, strings.Fields(args))
	}
}

// TestProgramName: as a plugin of kubectl it has the name that users type.
func TestProgramName(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"trigger": "trigger", "/usr/bin/trigger": "trigger", "trigger.test": "trigger", "trigger.exe": "trigger",
		"/root/.krew/bin/kubectl-node_drainer": "kubectl node-drainer", "kubectl-node_drainer.exe": "kubectl node-drainer",
	} {
		if got := programName(file); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	for args, want := range map[string]string{
		"--help":       "Usage:\n  kubectl node-drainer [flags]\n  kubectl node-drainer COMMAND [flags]",
		"--help-all":   "    kubectl node-drainer plan --asg workers\n",
		"plan --help":  "Usage:\n  kubectl node-drainer plan [flags]",
		"migrate nth":  "kubectl node-drainer migrate nth needs one file",
		"plan workers": `unknown command "workers" for "kubectl node-drainer plan"`,
	} {
		var out bytes.Buffer
		p := newProgram(nil, &out, &out)
		p.name = "kubectl node-drainer"
		if p.run(t.Context(), strings.Fields(args)); !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s does not contain %q", args, &out, want)
		}
	}
}
