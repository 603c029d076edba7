package ec2

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"go.uber.org/goleak"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	group       = "workers"
	reservation = "cr-0a1b2c3d4e5f60718"
	onDemand    = "i-00000000000000001"
	spot        = "i-00000000000000002"
	block       = "i-00000000000000003"
	unknown     = "i-0ffffffffffffffff"
)

// simulate starts a simulated AWS, and returns it with the SDK's client of it.
func simulate(t *testing.T) (*awsim.Server, *sdk.Client) {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	must(t, err)
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		must(t, s.Close())
	})
	return s, sdk.New(sdk.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		HTTPClient:  cloud.InMemory(&http.Client{Transport: tr}),
	}, requireManaged)
}

// simulateInstances returns Instances of a simulated group of three.
func simulateInstances(t *testing.T) (*awsim.Server, *Instances) {
	t.Helper()
	s, client := simulate(t)
	must(t, s.CreateGroup(awsim.Group{Name: group, Max: 10}))
	for _, id := range []string{onDemand, spot, block} {
		must(t, s.AddInstance(group, id, ""))
	}
	must(t, s.SetMarket(spot, awsim.Spot, ""))
	must(t, s.SetMarket(block, awsim.CapacityBlock, reservation))
	return s, New(client)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestDescribe: concurrent questions share a call, which an id that EC2 does not know does not fail for the others.
func TestDescribe(t *testing.T) {
	t.Parallel()
	s, i := simulateInstances(t)
	i.described.Max, i.described.Window = 5, time.Minute // the fifth question starts the call
	want := map[string]Instance{
		onDemand: {State: "running"},
		spot:     {State: "running", Spot: true},
		block:    {State: "running", Reserved: true},
		unknown:  {},
	}
	var calls sync.WaitGroup
	for _, id := range []string{onDemand, spot, block, unknown, spot} {
		calls.Go(func() {
			got, err := i.Describe(bounded(t), id)
			if launched := time.Since(got.Launched) < time.Hour; launched != (id != unknown) {
				t.Errorf("%s: launched at %v", id, got.Launched)
			}
			got.Launched = time.Time{}
			if err != nil || got != want[id] {
				t.Errorf("%s: got %+v, %v, want %+v", id, got, err, want[id])
			}
		})
	}
	calls.Wait()
	if n := s.Requests()["ec2.DescribeInstances"]; n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestInReservation(t *testing.T) {
	t.Parallel()
	_, i := simulateInstances(t)
	for id, want := range map[string][]string{reservation: {block}, "cr-00000000000000000": nil} {
		if got, err := i.InReservation(bounded(t), id); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", id, got, err, want)
		}
	}
}

// TestManyReservations: a flood of warnings costs a bounded number of calls.
func TestManyReservations(t *testing.T) {
	t.Parallel()
	s, i := simulateInstances(t)
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	var lists sync.WaitGroup
	for range 100 {
		lists.Go(func() { _, _ = i.InReservation(ctx, reservation) })
	}
	lists.Wait()
	if n := s.Requests()["ec2.DescribeInstances"]; n < 1 || n > listBurst+listRate {
		t.Errorf("%d calls for 100 questions in less than a second", n)
	}
}

// TestScheduled: an event counts for its instances until it is canceled or completed; the earliest one says when.
func TestScheduled(t *testing.T) {
	t.Parallel()
	s, i := simulateInstances(t)
	var none Schedule
	expect := func(when string, want map[string]Schedule) {
		t.Helper()
		for id, scheduled := range want {
			got, err := i.Scheduled(bounded(t), id)
			if err != nil || got.Any != scheduled.Any || !got.NotBefore.Equal(scheduled.NotBefore) {
				t.Errorf("%s: %s: got %v, %v", when, id, got, err)
			}
		}
	}
	expect("before", map[string]Schedule{onDemand: none, unknown: none})
	inAnHour := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	soon, late := Schedule{true, inAnHour}, Schedule{true, inAnHour.Add(time.Hour)}
	first, err := s.ScheduleChange("instance-reboot", soon.NotBefore, onDemand, spot)
	must(t, err)
	second, err := s.ScheduleChange("instance-stop", late.NotBefore, spot)
	must(t, err)
	expect("scheduled", map[string]Schedule{onDemand: soon, spot: soon, block: none, unknown: none})
	all, err := i.Schedules(bounded(t), []string{onDemand, block, unknown})
	if err != nil || len(all) != 1 || !all[onDemand].NotBefore.Equal(soon.NotBefore) {
		t.Errorf("of two instances: got %v, %v", all, err)
	}
	restore := s.Withdraw("", "ec2:DescribeInstanceStatus", 0)
	if all, err := i.Schedules(bounded(t), []string{onDemand}); err != nil || len(all) != 0 {
		t.Errorf("without the permission: got %v, %v", all, err)
	}
	restore()
	must(t, s.CancelChange(first))
	expect("the first is canceled", map[string]Schedule{onDemand: none, spot: late})
	must(t, s.CompleteChange(second))
	expect("the second is completed", map[string]Schedule{onDemand: none, spot: none})
}

// TestFailedCalls return the error and no value.
func TestFailedCalls(t *testing.T) {
	t.Parallel()
	s, i := simulateInstances(t)
	s.Inject(awsim.Fault{Service: "ec2", Code: "RequestLimitExceeded", Status: 503})
	if got, err := i.Describe(bounded(t), spot); err == nil || got != (Instance{}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := i.Scheduled(bounded(t), spot); err == nil || got.Any {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := i.InReservation(bounded(t), reservation); err == nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	for state, want := range map[State]struct{ shuttingDown, stopped bool }{
		"pending": {}, "running": {}, "stopping": {shuttingDown: true}, "shutting-down": {shuttingDown: true},
		"stopped": {stopped: true}, "terminated": {stopped: true}, "": {stopped: true},
	} {
		if state.ShuttingDown() != want.shuttingDown || state.Stopped() != want.stopped {
			t.Errorf("%q: shutting down %v, stopped %v", state, state.ShuttingDown(), state.Stopped())
		}
	}
}
