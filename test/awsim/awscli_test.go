//go:build e2e

package awsim_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// debianClient is the client of Debian's package. It is preferred, so that the tests run alike everywhere,
// and because it speaks to SQS in the Query protocol, which nobody else here does.
const debianClient = "/usr/bin/aws"

// clientPath finds the client: the one that AWSCLI names, Debian's, or any on PATH.
func clientPath() (string, error) {
	if path := os.Getenv("AWSCLI"); path != "" {
		return path, nil
	}
	if _, err := os.Stat(debianClient); err == nil {
		return debianClient, nil
	}
	return exec.LookPath("aws")
}

// together calls functions at the same time, and returns when all are done.
func together(calls ...func()) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	all.Wait()
}

// awscli runs the aws command-line client, which nobody here wrote, against a server. Debian's is older than
// some of the API: testdata/botocore adds to its model what it lacks and is needed here, and changes nothing
// for a client that knows it. An error holds what
// the client said. The test fails where the client is missing: without it, nobody but the SDK checks us. It
// may be called by many goroutines of a test.
func awscli(t testing.TB, url string, args ...string) (stdout string, err error) {
	t.Helper()
	path, err := clientPath()
	if err != nil {
		t.Errorf("the AWS command-line client is not here (%v): apt-get install awscli", err)
		return "", err
	}
	models, err := filepath.Abs("testdata/botocore")
	if err != nil {
		t.Error(err)
		return "", err
	}
	home := t.TempDir()
	// The first version of the client heeds AWS_ENDPOINT_URL for every service but SQS.
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--endpoint-url", url}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
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
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		// The second version of the client adds to every error that it may not try again.
		said := strings.ReplaceAll(complaint.String(), " (reached max retries: 0)", "")
		return out.String(), errors.New(said + err.Error())
	}
	return out.String(), nil
}
