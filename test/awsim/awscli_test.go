package awsim_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// awscli runs the aws command-line client, which nobody here wrote, against a server. An error holds what
// the client said. The test fails where the client is missing: without it, nobody but the SDK checks us.
func awscli(t testing.TB, url string, args ...string) (stdout string, err error) {
	t.Helper()
	path, err := exec.LookPath("aws")
	if err != nil {
		t.Fatal("the aws command-line client is not on PATH: apt-get install awscli")
	}
	home := t.TempDir()
	// The first version of the client heeds AWS_ENDPOINT_URL for every service but SQS.
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--endpoint-url", url}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		"AWS_CONFIG_FILE=" + filepath.Join(home, "config"),
		"AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(home, "credentials"),
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_MAX_ATTEMPTS=1",
		"AWS_PAGER=",
		"AWS_REGION=eu-central-1",
		"AWS_DEFAULT_REGION=eu-central-1", // The only name that the client's first version knows.
		"AWS_ACCESS_KEY_ID=cli",
		"AWS_SECRET_ACCESS_KEY=secret",
	}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), errors.New(complaint.String() + err.Error())
	}
	return out.String(), nil
}
