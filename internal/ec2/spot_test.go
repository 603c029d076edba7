package ec2

import (
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestSpotRequest: concurrent questions share a call, and an instance without a request does not fail it.
func TestSpotRequest(t *testing.T) {
	t.Parallel()
	s, i := simulateInstances(t)
	must(t, s.SetMarket(block, awsim.Spot, ""))
	must(t, s.Interrupt(block, time.Hour))
	i.spot.Max, i.spot.Window = 4, time.Minute // the fourth question starts the call
	want := map[string]SpotStatus{spot: "fulfilled", block: "marked-for-termination", onDemand: "", unknown: ""}
	var calls sync.WaitGroup
	for id := range want {
		calls.Go(func() {
			if got, err := i.SpotRequest(bounded(t), id); err != nil || got.Status != want[id] || got.Since.IsZero() != (want[id] == "") {
				t.Errorf("%s: got %+v, %v, want %q", id, got, err, want[id])
			}
		})
	}
	calls.Wait()
	if n := s.Requests()["ec2.DescribeSpotInstanceRequests"]; n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestSpotStatusRunning(t *testing.T) {
	t.Parallel()
	for code, want := range map[SpotStatus]bool{
		"fulfilled": true, "request-canceled-and-instance-running": true, "marked-for-termination": false,
		"marked-for-stop": false, "instance-terminated-no-capacity": false, "instance-stopped-by-user": false,
		"something-new": false, "": false,
	} {
		if code.Running() != want {
			t.Errorf("%q: %v", code, !want)
		}
	}
}
