// Package ec2 makes all calls to Amazon EC2; the SDK's types do not leave it.
//
// For the agent, Instances reads the states of instances and what is scheduled for them. For the trigger, a
// LaunchReader reads launch templates, and from what image and when instances were launched.
package ec2

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/time/rate"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/cloud"
)

// API are the calls of Instances.
type API interface {
	sdk.DescribeInstancesAPIClient
	sdk.DescribeInstanceStatusAPIClient
	sdk.DescribeSpotInstanceRequestsAPIClient
}

// Instance is what EC2 knows of an instance.
type Instance struct {
	State    State
	Spot     bool      // a Spot Instance: EC2 may reclaim it
	Reserved bool      // it runs in a Capacity Reservation or a Capacity Block
	Launched time.Time // when it was launched, or last started
}

// State is the state of an instance in EC2's own words. It is empty for one that EC2 does not know: it was
// terminated some time ago, or never was.
type State string

// ShuttingDown reports whether the instance is being stopped or terminated.
func (s State) ShuttingDown() bool { return s == "stopping" || s == "shutting-down" }

// Stopped reports whether nothing runs on the instance any more.
func (s State) Stopped() bool { return s == "stopped" || s == "terminated" || s.Unknown() }

// Unknown reports whether EC2 does not know the instance.
func (s State) Unknown() bool { return s == "" }

// Instances reads instances. Concurrent questions share a call. Make it with New.
type Instances struct {
	described batch.Batcher[string, Instance]
	scheduled batch.Batcher[string, Schedule]
	spot      batch.Batcher[string, SpotRequest]
	lists     *rate.Limiter // of the instances of a reservation, which cannot share a call
	api       API
}

const (
	// describeMax is the most values of one filter (Amazon EC2 API reference, "DescribeInstances").
	describeMax = 200
	// scheduledMax bounds how many questions one list of all scheduled events answers.
	scheduledMax = 1000
	// listRate and listBurst bound the lists a second of the instances of a reservation. A warning may be forged, and EC2
	// throttles all callers of an account and Region together.
	listRate, listBurst = 1, 10
	// window is how long a question waits for others.
	window = 50 * time.Millisecond
	// callTimeout bounds a call of the agent. If the endpoint does not answer, the agent calls again.
	callTimeout = 10 * time.Second
	// retriedTimeout bounds a call of the trigger, with all of the SDK's retries.
	retriedTimeout = time.Minute
)

// New returns Instances that call api.
func New(api API) *Instances {
	i := &Instances{api: api, lists: rate.NewLimiter(listRate, listBurst)}
	i.described = batch.Batcher[string, Instance]{Max: describeMax, Window: window, Call: i.describe}
	i.scheduled = batch.Batcher[string, Schedule]{Max: scheduledMax, Window: window, Call: i.schedule}
	i.spot = batch.Batcher[string, SpotRequest]{Max: describeMax, Window: window, Call: i.describeSpot}
	return i
}

// Describe returns what EC2 knows of an instance.
func (i *Instances) Describe(ctx context.Context, id string) (Instance, error) {
	return i.described.Do(ctx, id)
}

func (i *Instances) describe(ctx context.Context, ids []string) []batch.Result[Instance] {
	found := map[string]Instance{}
	err := eachInstance(ctx, i.api, callTimeout, "instance-id", ids, func(one types.Instance) {
		found[aws.ToString(one.InstanceId)] = toInstance(one)
	})
	return batch.Results(ids, found, err)
}

// InReservation returns the ids of the instances that run in a Capacity Reservation or a Capacity Block. Questions take
// turns.
func (i *Instances) InReservation(ctx context.Context, reservationID string) ([]string, error) {
	if err := i.lists.Wait(ctx); err != nil {
		return nil, fmt.Errorf("list the instances of a reservation in turn: %w", err)
	}
	var ids []string
	values := []string{reservationID}
	err := eachInstance(ctx, i.api, callTimeout, "capacity-reservation-id", values, func(one types.Instance) {
		if !toInstance(one).State.Stopped() {
			ids = append(ids, aws.ToString(one.InstanceId))
		}
	})
	if err != nil {
		return nil, err // what the pages before had is incomplete
	}
	slices.Sort(ids)
	return ids, nil
}

// eachInstance calls visit with every instance for which the filter has one of the values. Each page may take
// as long as limit. Ids are a filter too: as a parameter, one that EC2 does not know would fail the whole
// call.
func eachInstance(
	ctx context.Context, api sdk.DescribeInstancesAPIClient, limit time.Duration, filter string, values []string,
	visit func(types.Instance),
) error {
	pages := sdk.NewDescribeInstancesPaginator(api, &sdk.DescribeInstancesInput{
		Filters:                 []types.Filter{{Name: aws.String(filter), Values: unique(values)}},
		IncludeManagedResources: includeManaged(),
	})
	return cloud.EachPage(ctx, limit, "describe instances", pages, func(out *sdk.DescribeInstancesOutput) {
		for _, r := range out.Reservations {
			for _, one := range r.Instances {
				visit(one)
			}
		}
	})
}

// includeManaged asks for resources that an AWS service manages too. Without it, EC2 omits them if the account hides
// them, and an instance would look as if it were another account's, or gone.
func includeManaged() *bool { return aws.Bool(true) }

func toInstance(one types.Instance) Instance {
	return Instance{
		State: State(cmp.Or(one.State, &types.InstanceState{}).Name),
		Spot:  one.InstanceLifecycle == types.InstanceLifecycleTypeSpot,
		Reserved: aws.ToString(one.CapacityReservationId) != "" ||
			one.InstanceLifecycle == types.InstanceLifecycleTypeCapacityBlock,
		Launched: aws.ToTime(one.LaunchTime),
	}
}

// Schedule is what EC2 has scheduled for an instance.
type Schedule struct {
	Any       bool      // an event that is neither completed nor canceled: maintenance, a reboot, a retirement or a stop
	NotBefore time.Time // the earliest of these events starts then at the earliest; zero if EC2 does not say
}

// Scheduled returns what EC2 has scheduled for an instance.
func (i *Instances) Scheduled(ctx context.Context, id string) (Schedule, error) {
	return i.scheduled.Do(ctx, id)
}

// Schedules returns those of the instances for which EC2 has scheduled something, by one list of the events in the
// Region. There is none without the permission to list them.
func (i *Instances) Schedules(ctx context.Context, ids []string) (map[string]Schedule, error) {
	scheduled, err := i.listSchedules(ctx)
	if cloud.IsDenied(err) {
		return nil, nil
	}
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	maps.DeleteFunc(scheduled, func(id string, s Schedule) bool { return !wanted[id] || !s.Any })
	return scheduled, err
}

// schedule answers all questions by one list of the events in the Region: there are few, often at the same
// time.
func (i *Instances) schedule(ctx context.Context, ids []string) []batch.Result[Schedule] {
	scheduled, err := i.listSchedules(ctx)
	return batch.Results(ids, scheduled, err)
}

func (i *Instances) listSchedules(ctx context.Context) (map[string]Schedule, error) {
	var codes []string
	for _, code := range types.EventCode("").Values() {
		codes = append(codes, string(code))
	}
	scheduled := map[string]Schedule{}
	pages := sdk.NewDescribeInstanceStatusPaginator(i.api, &sdk.DescribeInstanceStatusInput{
		IncludeAllInstances:     aws.Bool(true),
		IncludeManagedResources: includeManaged(),
		Filters:                 []types.Filter{{Name: aws.String("event.code"), Values: codes}},
	})
	const doing = "describe scheduled events"
	err := cloud.EachPage(ctx, callTimeout, doing, pages, func(out *sdk.DescribeInstanceStatusOutput) {
		for _, one := range out.InstanceStatuses {
			scheduled[aws.ToString(one.InstanceId)] = scheduleOf(one.Events)
		}
	})
	return scheduled, err
}

func scheduleOf(events []types.InstanceStatusEvent) (s Schedule) {
	for _, e := range events {
		if !isUnfinished(e) {
			continue
		}
		s.Any = true
		if start := aws.ToTime(e.NotBefore); s.NotBefore.IsZero() || !start.IsZero() && start.Before(s.NotBefore) {
			s.NotBefore = start
		}
	}
	return s
}

// isUnfinished reports whether the event is scheduled or in progress. EC2 describes one that is over for up
// to a week, with that at the beginning of its description. Source: "Scheduled events for your instances" in
// the Amazon EC2 user guide.
func isUnfinished(e types.InstanceStatusEvent) bool {
	text := aws.ToString(e.Description)
	return !strings.HasPrefix(text, "[Completed]") && !strings.HasPrefix(text, "[Canceled]")
}

func unique(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }
