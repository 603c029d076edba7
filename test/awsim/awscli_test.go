//go:build e2e

package awsim_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// awscli runs the aws command-line client against a server: a client that is not the SDK. An error has the client's error
// output. Several goroutines may call it.
func awscli(t testing.TB, url string, args ...string) (stdout string, err error) {
	t.Helper()
	path, env := client(t)
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--endpoint-url", url}, args...)...)
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		// The second version of the client adds to every error that it may not try again.
		said := strings.ReplaceAll(complaint.String(), " (reached max retries: 0)", "")
		return out.String(), errors.New(said + err.Error())
	}
	return out.String(), nil
}

// client returns the client and its environment, without PATH. Debian's version lacks some of the API, and the protocol
// in which the server speaks SQS: testdata/botocore adds that to its model, and changes nothing for a newer client. The
// test fails if there is no client.
func client(t testing.TB) (path string, env []string) {
	t.Helper()
	path, err := exec.LookPath("/usr/bin/aws") // Debian's, if it is there.
	if err != nil {
		path, err = exec.LookPath("aws")
	}
	if err != nil {
		t.Errorf("there is no AWS command-line client (%v): apt-get install awscli", err)
	}
	models, err := filepath.Abs("testdata/botocore")
	if err != nil {
		t.Error(err)
	}
	home := t.TempDir()
	return path, []string{
		"HOME=" + home,
		"AWS_CONFIG_FILE=" + filepath.Join(home, "config"),
		"AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(home, "credentials"),
		"AWS_DATA_PATH=" + models,
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_MAX_ATTEMPTS=1",
		"AWS_PAGER=",
		"AWS_REGION=eu-central-1",
		"AWS_DEFAULT_REGION=eu-central-1", // The only name that the client's first version knows.
		"AWS_ACCESS_KEY_ID=cli",
		"AWS_SECRET_ACCESS_KEY=secret",
	}
}
