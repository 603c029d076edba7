package ec2_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"go.uber.org/goleak"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	group       = "workers"
	reservation = "cr-0a1b2c3d4e5f60718"
	onDemand    = "i-00000000000000001"
	spot        = "i-00000000000000002"
	block       = "i-00000000000000003"
	strange     = "i-0ffffffffffffffff"
)

// world is a simulated group of three instances, and Instances over the SDK's client.
func world(t *testing.T) (*awsim.Server, *ec2.Instances) {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	must(t, err)
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		must(t, s.Close())
	})
	must(t, s.CreateGroup(awsim.Group{Name: group, Max: 10}))
	for _, id := range []string{onDemand, spot, block} {
		must(t, s.AddInstance(group, id, ""))
	}
	must(t, s.SetMarket(spot, awsim.Spot, ""))
	must(t, s.SetMarket(block, awsim.CapacityBlock, reservation))
	return s, ec2.New(sdk.New(sdk.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("agent", "secret", ""),
		HTTPClient:  cloud.InMemory(&http.Client{Transport: tr}),
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestDescribe: an instance that EC2 does not know spoils no answer.
func TestDescribe(t *testing.T) {
	t.Parallel()
	_, i := world(t)
	want := map[string]ec2.Instance{
		onDemand: {State: "running"},
		spot:     {State: "running", Spot: true},
		block:    {State: "running", Reserved: true},
		strange:  {},
	}
	var asked sync.WaitGroup
	for id, expected := range want {
		asked.Go(func() {
			if got, err := i.Describe(within(t), id); err != nil || got != expected {
				t.Errorf("%s: got %+v, %v, want %+v", id, got, err, expected)
			}
		})
	}
	asked.Wait()
}

// counting is an EC2 without instances.
type counting struct {
	ec2.API
	calls atomic.Int32
}

func (c *counting) DescribeInstances(
	context.Context, *sdk.DescribeInstancesInput, ...func(*sdk.Options),
) (*sdk.DescribeInstancesOutput, error) {
	c.calls.Add(1)
	return &sdk.DescribeInstancesOutput{}, nil
}

// TestQuestionsThatComeTogether go in one call.
func TestQuestionsThatComeTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &counting{}
		i := ec2.New(api)
		var asked sync.WaitGroup
		for _, id := range []string{onDemand, spot, block, spot} {
			asked.Go(func() {
				if got, err := i.Describe(t.Context(), id); err != nil || got != (ec2.Instance{}) {
					t.Errorf("%s: got %+v, %v", id, got, err)
				}
			})
		}
		asked.Wait()
		if n := api.calls.Load(); n != 1 {
			t.Errorf("asked in %d calls", n)
		}
	})
}

func TestReserved(t *testing.T) {
	t.Parallel()
	_, i := world(t)
	for id, want := range map[string][]string{reservation: {block}, "cr-00000000000000000": nil} {
		if got, err := i.InReservation(within(t), id); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", id, got, err, want)
		}
	}
}

// TestScheduled: a change counts until it is canceled or done, for the instances that it is of.
func TestScheduled(t *testing.T) {
	t.Parallel()
	s, i := world(t)
	expect := func(when string, want map[string]bool) {
		t.Helper()
		for id, scheduled := range want {
			if got, err := i.HasScheduledEvent(within(t), id); err != nil || got != scheduled {
				t.Errorf("%s: %s: got %v, %v", when, id, got, err)
			}
		}
	}
	expect("before", map[string]bool{onDemand: false, strange: false})
	first, err := s.ScheduleChange("instance-reboot", time.Now().Add(time.Hour), onDemand, spot)
	must(t, err)
	second, err := s.ScheduleChange("instance-stop", time.Now().Add(time.Hour), spot)
	must(t, err)
	expect("planned", map[string]bool{onDemand: true, spot: true, block: false, strange: false})
	must(t, s.CancelChange(first))
	expect("the first is off", map[string]bool{onDemand: false, spot: true})
	must(t, s.CompleteChange(second))
	expect("the second is done", map[string]bool{onDemand: false, spot: false})
}

// TestNoAnswer: a failure is none, and no part of it is taken for an answer.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	s, i := world(t)
	s.Inject(awsim.Fault{Service: "ec2", Code: "RequestLimitExceeded", Status: 503})
	if got, err := i.Describe(within(t), spot); err == nil || got != (ec2.Instance{}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := i.HasScheduledEvent(within(t), spot); err == nil || got {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := i.InReservation(within(t), reservation); err == nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the process is asked to stop")
	cancel(why)
	if _, err := i.Describe(ctx, spot); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	for state, want := range map[ec2.State]struct{ going, dead bool }{
		"pending": {}, "running": {}, "stopping": {going: true}, "shutting-down": {going: true},
		"stopped": {dead: true}, "terminated": {dead: true}, "": {dead: true},
	} {
		if state.ShuttingDown() != want.going || state.Stopped() != want.dead {
			t.Errorf("%q: going %v, dead %v", state, state.ShuttingDown(), state.Stopped())
		}
	}
}
