package trigger

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMigrate: the process translates its standard input without AWS, Kubernetes or variables, and its exit code says
// whether that is all.
func TestMigrate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, tt := range []struct {
		peer, text     string
		code           int
		stdout, stderr string
	}{
		{"nth", "queueURL: https://sqs.example.com/1/q", 0, "url: https://sqs.example.com/1/q", ""},
		{"lifecycle-manager", "containers: [{args: [serve, --drain-timeout=600, --extra=1]}]", 7, "timeout: 1800s", "-:1: --extra is unknown"},
		{"eks-rolling-update", "ASG_NAMES=workers", 0, "trigger --asg workers --mode unhealthy", ""},
		{"aws-asg-roller", "ROLLER_ASG", 1, "", "no container has an option that is known"},
	} {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		process := exec.CommandContext(waits(t), program, "migrate", tt.peer, "-")
		process.Env = []string{asTrigger + "=1"}
		process.Stdin = strings.NewReader(tt.text)
		var stdout, stderr bytes.Buffer
		process.Stdout, process.Stderr = &stdout, &stderr
		err = process.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if code := process.ProcessState.ExitCode(); code != tt.code ||
			!strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", tt.peer, code, tt.code, &stdout, &stderr)
		}
	}
}
