package cloud_test

import (
	"errors"
	"testing"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestIdentify(t *testing.T) {
	s, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	isolate(t, "")
	t.Setenv("AWS_ENDPOINT_URL", s.URL())
	cfg, err := cloud.Load(t.Context(), cloud.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.Identify(t.Context(), cfg); !errors.Is(err, cloud.ErrNoCredentials) {
		t.Errorf("without credentials: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "agent")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if cfg, err = cloud.Load(t.Context(), cloud.Config{}); err != nil {
		t.Fatal(err)
	}
	got, err := cloud.Identify(t.Context(), cfg)
	want := cloud.Identity{
		Account: "123456789012", ARN: "arn:aws:sts::123456789012:assumed-role/agent/session", Provider: "EnvConfigCredentials",
	}
	if err != nil || got != want || got.FromNode() {
		t.Errorf("got %+v, %v", got, err)
	}
	s.Inject(awsim.Fault{Action: "GetCallerIdentity", Code: "ServiceUnavailable", Status: 400})
	if got, err = cloud.Identify(t.Context(), cfg); err == nil || got.Provider != want.Provider || got.ARN != "" {
		t.Errorf("without an answer: %+v, %v", got, err)
	}
}
