package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// fakes are the programs that the action runs: a trigger, and a gh that records its calls, and what it was given.
const fakeTrigger = `#!/bin/sh
echo "$@" >>"$RECORD"
[ "$1" = plan ] && [ "$2" = --summary-file ] || exit 1
[ "$CODE" = 1 ] && { echo "trigger: AccessDenied" >&2; exit 1; }
echo "- workers: 3 of 5 outdated" >"$3"
exit "$CODE"
`

const fakeGitHub = `#!/bin/sh
echo "gh $1 $2 $3 $4 $5" >>"$RECORD"
for last; do :; done
case "$last" in
body=@*) cat "${last#body=@}" >>"$RECORD" ;;
*) [ -z "$COMMENTS" ] || echo "$COMMENTS" ;;
esac
`

// TestPlanAction: the action comments the plan, updates its own comment, and fails as the plan does.
func TestPlanAction(t *testing.T) {
	const heading = "<!-- node-drainer plan prod -->\n### trigger plan prod\n\n"
	for _, tt := range []struct {
		name, code, comments string
		exit                 int
		want                 string
	}{
		{"a first comment", "0", "", 0, "gh api --silent --method POST repos/o/r/issues/7/comments\n" + heading + "- workers: 3 of 5 outdated\n"},
		{"outdated instances", "2", "", 0, "- workers: 3 of 5 outdated\n"},
		{"its comment of before", "0", "42\n43", 0, "gh api --silent --method PATCH repos/o/r/issues/comments/42\n" + heading},
		{"a refused rollout", "6", "", 6, "- workers: 3 of 5 outdated\n"},
		{"an error", "1", "", 1, heading + "It failed with exit code 1:\n\n    trigger: AccessDenied\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, script := range map[string]string{"trigger": fakeTrigger, "gh": fakeGitHub} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			record := filepath.Join(folder, "record")
			script := exec.Command("../../.github/actions/plan/plan.sh")
			script.Env = []string{
				"PATH=" + folder + ":" + os.Getenv("PATH"), "RECORD=" + record, "CODE=" + tt.code, "COMMENTS=" + tt.comments,
				"ARGUMENTS=--asg workers,$(false)", "NAME=prod", "PULL_REQUEST=7", "GITHUB_REPOSITORY=o/r",
				"GITHUB_OUTPUT=" + filepath.Join(folder, "output"), "TMPDIR=" + folder,
			}
			out, _ := script.CombinedOutput()
			got := read(t, record)
			if code := script.ProcessState.ExitCode(); code != tt.exit || !strings.Contains(got, tt.want) {
				t.Errorf("exit code %d, want %d, and %q in\n%s%s", code, tt.exit, tt.want, got, out)
			}
			if line, _, _ := strings.Cut(got, "\n"); !strings.HasSuffix(line, " --asg workers,$(false)") {
				t.Errorf("the trigger was run with %s", line)
			}
			if output := read(t, filepath.Join(folder, "output")); output != "exit-code="+tt.code+"\n" {
				t.Errorf("the output is %q", output)
			}
			if left, _ := filepath.Glob(filepath.Join(folder, "tmp.*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestPlanActionInputs: the script gets each input as a variable, and no expression is a part of a command.
func TestPlanActionInputs(t *testing.T) {
	var action struct {
		Inputs map[string]any
		Runs   struct {
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../.github/actions/plan/action.yml")), &action); err != nil || len(action.Runs.Steps) != 1 {
		t.Fatal(err)
	}
	step := action.Runs.Steps[0]
	if strings.Contains(step.Run, "${{") {
		t.Errorf("an expression is a part of the command: %s", step.Run)
	}
	given := map[string]bool{}
	for _, value := range step.Env {
		given[value] = true
	}
	for name := range action.Inputs {
		if !given["${{ inputs."+name+" }}"] {
			t.Errorf("the script does not get %s", name)
		}
	}
}
