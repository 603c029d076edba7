package harness

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The programs of this repository.
const (
	Agent    = "agent"
	Trigger  = "trigger"
	Handover = "handover"
)

// Options of Build.
type Options struct {
	Race    bool   // With the race detector, which needs cgo.
	Package string // In this repository; cmd/PROGRAM if empty.
}

// Build builds a program into the folder, and returns its path.
func Build(ctx context.Context, dir, program string, o Options) (string, error) {
	binary := filepath.Join(dir, program)
	args, env := []string{"build", "-trimpath", "-o", binary}, append(os.Environ(), "CGO_ENABLED=0")
	if o.Race {
		args, env = append(args, "-race"), os.Environ()
	}
	args = append(args, "github.com/node-drainer/node-drainer/"+cmp.Or(o.Package, "cmd/"+program))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = env
	// When it is interrupted, go build removes its work folder.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the %s: %w\n%s", program, err, output)
	}
	return binary, nil
}

// Environ returns the environment of a program that reaches the simulated AWS at url, under the access key.
// home should be a folder of its own, so that no file of the user's is read.
func Environ(home, url, accessKey string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GORACE=halt_on_error=1",
		"AWS_REGION=eu-central-1", "AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=test",
		"AWS_ENDPOINT_URL=" + url, "AWS_EC2_METADATA_DISABLED=true",
	}
}
