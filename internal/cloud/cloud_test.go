package cloud_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/smithy-go/logging"

	"github.com/node-drainer/node-drainer/internal/cloud"
)

// isolate sets the environment so that only the file configures the SDK.
func isolate(t *testing.T, file string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": path, "AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "", "AWS_REGION": "eu-central-1",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

// TestSilentSDK: the SDK writes no lines of its own between those of the programs, such as about the instance metadata.
func TestSilentSDK(t *testing.T) {
	isolate(t, "")
	cfg, err := cloud.Load(t.Context(), cloud.Config{})
	if err != nil || cfg.Logger != (logging.Nop{}) {
		t.Errorf("the SDK logs to %T; %v", cfg.Logger, err)
	}
}

// TestMissingProfile: the error says how to find the name of one.
func TestMissingProfile(t *testing.T) {
	isolate(t, "")
	_, err := cloud.Load(t.Context(), cloud.Config{Profile: "nope"})
	if err == nil || !strings.HasSuffix(err.Error(), "nope; aws configure list-profiles shows those that exist") {
		t.Errorf("got %v", err)
	}
}

// TestProfileWithMFA: nobody can enter a code, so that the error says how to go on.
func TestProfileWithMFA(t *testing.T) {
	isolate(t, `
[default]
aws_access_key_id = key
aws_secret_access_key = secret

[profile admin]
role_arn = arn:aws:iam::123456789012:role/admin
source_profile = default
mfa_serial = arn:aws:iam::123456789012:mfa/me
`)
	_, err := cloud.Load(t.Context(), cloud.Config{Profile: "admin"})
	for _, want := range []string{"profile admin", "MFA", "aws configure export-credentials --profile admin --format env"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	t.Setenv("AWS_PROFILE", "admin")
	if _, err := cloud.Load(t.Context(), cloud.Config{}); err == nil || !strings.Contains(err.Error(), "--profile admin ") {
		t.Errorf("by the variable: %v", err)
	}
}

// TestAssumeRole: the external id is sent if there is one.
func TestAssumeRole(t *testing.T) {
	for _, id := range []string{"", "team-7"} {
		asked := make(chan string, 1)
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.FormValue("RoleArn") + " " + r.FormValue("ExternalId")
			http.Error(w, "", http.StatusForbidden)
		}))
		defer service.Close()
		isolate(t, "")
		t.Setenv("AWS_ACCESS_KEY_ID", "key")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		t.Setenv("AWS_ENDPOINT_URL_STS", service.URL)
		cfg, err := cloud.Load(t.Context(), cloud.Config{RoleARN: "arn:aws:iam::123456789012:role/rollouts", ExternalID: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.Credentials.Retrieve(t.Context()); err == nil {
			t.Error("credentials although the call was refused")
		}
		if got := <-asked; got != "arn:aws:iam::123456789012:role/rollouts "+id {
			t.Errorf("got %q", got)
		}
	}
}
