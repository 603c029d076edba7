package awsim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	reservationID = "cr-0123456789abcdef0"
	secondID      = "i-0123456789abcdef1"
)

// warnings are the events of one detail type that are in the queue now.
func warnings(t testing.TB, s *awsim.Server, url, detailType string) (out []map[string]any) {
	t.Helper()
	for _, m := range inbox(t, s, url) {
		if m["detail-type"] == detailType {
			out = append(out, m)
		}
	}
	return out
}

// states waits for n states of the instance that the bus tells of. The bus keeps no order, so that they are
// sorted.
func states(t testing.TB, s *awsim.Server, url string, n int) (out []string) {
	t.Helper()
	c := queueClient(t, s)
	for len(out) < n {
		got := do(t, c.ReceiveMessage, &sqs.ReceiveMessageInput{
			QueueUrl: new(url), MaxNumberOfMessages: 10, VisibilityTimeout: 600, WaitTimeSeconds: 20,
		})
		if len(got.Messages) == 0 {
			break
		}
		for _, m := range got.Messages {
			body := object(t, *m.Body)
			if detail := unwrap(t, body); body["detail-type"] == awsim.StateChanged && detail["instance-id"] == instanceID {
				out = append(out, detail["state"].(string))
			}
		}
	}
	return slices.Sorted(slices.Values(out))
}

func moment(t testing.TB, text any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text.(string))
	must(t, err)
	return at
}

// near: events tell whole seconds, rounded down.
func near(told, due time.Time) bool { return !told.After(due) && due.Sub(told) < time.Second }

func TestInterruptionDoesNotWait(t *testing.T) {
	for name, row := range map[string]struct {
		hooks    []awsim.Hook
		prepare  func(*testing.T, *awsim.Server)
		closedBy awsim.ClosedBy
		pods     []string // At the close of the action.
		state    string
	}{
		"of an instance without hooks": {state: "Terminated"},
		"of an instance in service: its hook runs for a dead machine": {
			hooks: []awsim.Hook{{Name: "drain"}}, state: "Terminating:Wait",
		},
		"of an instance that waits for its hook, which is then over": {
			hooks: []awsim.Hook{{Name: "drain"}}, state: "Terminated", closedBy: awsim.ByInterruption,
			pods: []string{"default/a"},
			prepare: func(t *testing.T, s *awsim.Server) {
				must(t, s.Terminate(instanceID, true))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			world := &cluster{pods: map[string][]string{instanceID: {"default/a"}}}
			s := workers(t, awsim.Options{Machines: world}, row.hooks...)
			url, changes := s.CreateQueue("warnings", nil), s.CreateQueue("changes", nil)
			s.AddRule(s.QueueARN(url), awsim.SpotWarning)
			s.AddRule(s.QueueARN(changes), awsim.StateChanged)
			must(t, s.SetMarket(instanceID, awsim.Spot, ""))
			if row.prepare != nil {
				row.prepare(t, s)
			}
			must(t, s.Interrupt(instanceID, 300*time.Millisecond))
			warned := warnings(t, s, url, awsim.SpotWarning)
			if len(warned) != 1 || unwrap(t, warned[0])["instance-action"] != "terminate" {
				t.Fatalf("warned by %v", warned)
			}
			got, err := s.WaitInterrupted(within(t), instanceID)
			must(t, err)
			if at := moment(t, warned[0]["time"]); !near(at.Add(2*time.Minute), got.DueAt) {
				t.Errorf("warned at %v of an end at %v", at, got.DueAt)
			}
			if got.Sent != 1 || got.TakenAt.Before(got.DueAt) || got.GoneAt.Before(got.TakenAt) ||
				!slices.Equal(got.PodsAtEnd, []string{"default/a"}) || !slices.Equal(got.Killed, got.PodsAtEnd) {
				t.Errorf("the record is %+v", got)
			}
			must(t, s.WaitState(within(t), instanceID, row.state))
			if got := states(t, s, changes, 2); !slices.Equal(got, []string{"shutting-down", "terminated"}) {
				t.Errorf("the bus told of %v", got)
			}
			if len(row.hooks) == 0 {
				return
			}
			act := only(t, s)
			if act.ClosedBy != row.closedBy || !slices.Equal(act.PodsAtClose, row.pods) ||
				!slices.Equal(act.Killed, []string{"default/a"}) {
				t.Errorf("the action is %+v", act)
			}
			err = complete(t, groupClient(t, s), "drain", instanceID, "CONTINUE")
			if over := row.closedBy != ""; over != (code(err) == "ValidationError") {
				t.Errorf("completion after the end: %v", err)
			}
			must(t, s.WaitState(within(t), instanceID, "Terminated"))
		})
	}
}

func TestInterruptionOfAMachineThatIsGone(t *testing.T) {
	s := workers(t, awsim.Options{})
	must(t, s.Interrupt(instanceID, time.Hour))
	must(t, s.Terminate(instanceID, true))
	got, err := s.WaitInterrupted(within(t), instanceID)
	must(t, err)
	if !got.TakenAt.IsZero() || got.GoneAt.IsZero() || len(s.Interruptions()) != 1 {
		t.Errorf("the record is %+v of %d", got, len(s.Interruptions()))
	}
	if err := s.Interrupt(instanceID, time.Hour); err == nil {
		t.Error("a machine that is gone was interrupted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.WaitInterrupted(ctx, "i-00000000"); err == nil {
		t.Error("an interruption that nobody announced came")
	}
}

func TestReservations(t *testing.T) {
	s := workers(t, awsim.Options{})
	must(t, s.AddInstance(groupName, secondID, ""))
	url := s.CreateQueue("events", nil)
	s.AddRule(s.QueueARN(url), awsim.ReservationWarning, awsim.BlockWarning)
	for _, id := range []string{instanceID, secondID} {
		must(t, s.SetMarket(id, awsim.CapacityBlock, reservationID))
	}
	must(t, s.ReclaimReservation(secondID, time.Hour))
	warned := warnings(t, s, url, awsim.ReservationWarning)
	if len(warned) != 1 {
		t.Fatalf("warned by %v", warned)
	}
	detail, due := unwrap(t, warned[0]), s.Interruptions()[0].DueAt
	if _, text := warned[0]["resources"].(string); !text || detail["instance-id"] != secondID ||
		detail["instance-lifecycle"] != "capacity-block" || !near(moment(t, detail["instance-termination-time"]), due) {
		t.Errorf("warned by %v of an end at %v", warned[0], due)
	}

	must(t, s.ExpireBlock(reservationID, 0))
	warned = warnings(t, s, url, awsim.BlockWarning)
	if len(warned) != 1 {
		t.Fatalf("warned by %v", warned)
	}
	for _, id := range []string{instanceID, secondID} {
		got, err := s.WaitInterrupted(within(t), id)
		must(t, err)
		detail, end := unwrap(t, warned[0]), got.DueAt.Add(30*time.Minute)
		if got.Warning != awsim.BlockWarning || detail["capacity-reservation-id"] != reservationID ||
			!near(moment(t, detail["end-date"]), end) ||
			!near(moment(t, warned[0]["time"]).Add(40*time.Minute), end) {
			t.Errorf("warned by %v of %+v", warned[0], got)
		}
	}
	if err := s.ExpireBlock(reservationID, 0); err == nil {
		t.Error("a block without machines ended")
	}
}

func TestMarketsAreShown(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 3, Market: awsim.Spot}))
	must(t, s.AddInstance(groupName, instanceID, ""))
	must(t, s.AddInstance(groupName, secondID, ""))
	must(t, s.SetMarket(secondID, awsim.CapacityBlock, reservationID))
	c := machineClient(t, s)
	got := describe(t, c, &ec2.DescribeInstancesInput{})
	if len(got) != 2 || got[0].InstanceLifecycle != types.InstanceLifecycleTypeSpot ||
		got[0].SpotInstanceRequestId == nil || got[1].InstanceLifecycle != types.InstanceLifecycleTypeCapacityBlock ||
		*got[1].CapacityReservationId != reservationID || got[1].SpotInstanceRequestId != nil {
		t.Errorf("got %+v", got)
	}
	if err := s.SetMarket("i-00000000", awsim.Spot, ""); err == nil {
		t.Error("an unknown instance was bought")
	}
}

func TestRecommendation(t *testing.T) {
	s := workers(t, awsim.Options{})
	url := s.CreateQueue("events", nil)
	s.AddRule(s.QueueARN(url))
	must(t, s.Recommend(instanceID))
	got := inbox(t, s, url)
	if len(got) != 1 || got[0]["detail-type"] != awsim.RebalanceAdvice ||
		unwrap(t, got[0])["instance-id"] != instanceID || s.Instances(groupName)[0].State != "InService" {
		t.Errorf("got %v", got)
	}
	if err := s.Recommend("i-00000000"); err == nil {
		t.Error("an unknown instance was advised about")
	}
}

func TestFilters(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 3, Tags: map[string]string{
		"kubernetes.io/cluster/blue": "owned", "odd*": "a*b?c",
	}}))
	must(t, s.AddInstance(groupName, instanceID, "eu-central-1a"))
	must(t, s.SetMarket(instanceID, awsim.CapacityBlock, reservationID))
	c := machineClient(t, s)
	for name, row := range map[string]struct {
		filter string
		values []string
		found  bool
	}{
		"by id":                        {"instance-id", []string{instanceID}, true},
		"any of the values will do":    {"instance-state-name", []string{"pending", "running"}, true},
		"none of the values":           {"instance-state-name", []string{"pending"}, false},
		"by reservation":               {"capacity-reservation-id", []string{reservationID}, true},
		"by another reservation":       {"capacity-reservation-id", []string{"cr-00000000"}, false},
		"by tag":                       {"tag:kubernetes.io/cluster/blue", []string{"owned"}, true},
		"by tag, in another case":      {"tag:kubernetes.io/cluster/blue", []string{"Owned"}, false},
		"by a tag that nobody has":     {"tag:kubernetes.io/cluster/red", []string{"owned", "*"}, false},
		"by tag key":                   {"tag-key", []string{"kubernetes.io/cluster/blue"}, true},
		"by tag key, with a wildcard":  {"tag-key", []string{"kubernetes.io/cluster/*"}, true},
		"a wildcard for nothing":       {"tag:kubernetes.io/cluster/blue", []string{"owned*"}, true},
		"a wildcard in the middle":     {"availability-zone", []string{"eu-*-1?"}, true},
		"a wildcard for one character": {"availability-zone", []string{"eu-central-1?"}, true},
		"not for none":                 {"availability-zone", []string{"eu-central-1a?"}, false},
		"a wildcard taken as it is":    {"tag:odd*", []string{`a\*b\?c`}, true},
		"and not for more":             {"availability-zone", []string{`eu-central-1\?`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := describe(t, c, &ec2.DescribeInstancesInput{
				Filters: []types.Filter{{Name: new(row.filter), Values: row.values}},
			})
			if found := len(got) == 1; found != row.found {
				t.Errorf("found %d", len(got))
			}
		})
	}
	_, err := c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: new("colour"), Values: []string{"blue"}}},
	})
	if code(err) != "InvalidParameterValue" {
		t.Errorf("an unknown filter: %v", err)
	}
	_, err = c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		InstanceIds: []string{"i-00000001", instanceID, "i-00000002"},
	})
	if code(err) != "InvalidInstanceID.NotFound" ||
		said(err) != "The instance IDs 'i-00000001, i-00000002' do not exist" {
		t.Errorf("two unknown instances: %v", err)
	}
}
