package autoscaling

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// simulate starts a simulated AWS, and returns it with the SDK's client of it.
func simulate(t *testing.T, options ...func(*sdk.Options)) (*awsim.Server, *sdk.Client) {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	must(t, err)
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		must(t, s.Close())
	})
	return s, sdk.New(sdk.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		HTTPClient:  cloud.InMemory(&http.Client{Transport: tr}),
	}, options...)
}

// simulateTrigger returns a Reader and a Writer. Their client retries with short pauses.
func simulateTrigger(t *testing.T) (*awsim.Server, *Reader, *Writer) {
	t.Helper()
	s, client := simulate(t, func(o *sdk.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = 5 * time.Millisecond })
	})
	return s, NewReader(client), NewWriter(client)
}

// simulateHooks returns Hooks of a group with one terminating instance that waits for these hooks. Their client
// does not retry.
func simulateHooks(t *testing.T, hooks ...awsim.Hook) (*awsim.Server, *Hooks, *fakeAPI) {
	t.Helper()
	s, client := simulate(t, func(o *sdk.Options) { o.RetryMaxAttempts = 1 })
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 3, Tags: map[string]string{
		"kubernetes.io/cluster/blue": "owned", "team": "x",
	}}))
	must(t, s.AddInstance(groupName, instanceID, ""))
	for _, hook := range hooks {
		must(t, s.PutHook(groupName, hook))
	}
	must(t, s.Terminate(instanceID, true))
	observer := newAPI()
	return s, newHooks(client, observer), observer
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// machineID is the id of the n-th instance of a test.
func machineID(n int) string { return fmt.Sprintf("i-%017x", n+1) }

// createWorkers creates a group of n instances on version 1 of a launch template of the same name.
func createWorkers(t *testing.T, s *awsim.Server, name string, n int, tags map[string]string) {
	t.Helper()
	_, err := s.CreateLaunchTemplate(name, "ami-1")
	must(t, err)
	must(t, s.CreateGroup(awsim.Group{
		Name: name, Max: 10, LaunchTemplate: name, Tags: tags, GracePeriod: 90 * time.Second, RetainOnAbandon: true,
		MinHealthy: 100, MaxHealthy: 150,
	}))
	for i := range n {
		must(t, s.AddInstance(name, machineID(i), ""))
	}
}
