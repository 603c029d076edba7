// Package instance asks EC2 what becomes of instances: whether they run, and what is scheduled for them.
package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/internal/batch"
)

// API is the part of the EC2 client that Instances calls.
type API interface {
	DescribeInstances(context.Context, *sdk.DescribeInstancesInput, ...func(*sdk.Options)) (
		*sdk.DescribeInstancesOutput, error)
	DescribeInstanceStatus(context.Context, *sdk.DescribeInstanceStatusInput, ...func(*sdk.Options)) (
		*sdk.DescribeInstanceStatusOutput, error)
}

// Instance is what EC2 knows of an instance.
type Instance struct {
	State    State
	Spot     bool // a Spot Instance: EC2 may take it back
	Reserved bool // it runs in a Capacity Reservation or a Capacity Block
}

// State is the state of an instance in EC2's own words. It is empty for one that EC2 does not know: it was
// terminated some time ago, or never was.
type State string

// ShuttingDown tells whether the instance is being stopped or terminated just now.
func (s State) ShuttingDown() bool { return s == "stopping" || s == "shutting-down" }

// Stopped tells whether nothing runs on the instance any more.
func (s State) Stopped() bool { return s == "stopped" || s == "terminated" || s == "" }

// Instances asks EC2. Questions that come together go in one call. Make it with New.
type Instances struct {
	described batch.Batcher[string, Instance]
	scheduled batch.Batcher[string, bool]
	api       API
}

const (
	// describeMax is the most values of one filter (Amazon EC2 API reference, "DescribeInstances").
	describeMax = 200
	// scheduledMax bounds how many questions one list of all scheduled events answers.
	scheduledMax = 1000
	// window is how long a question waits for others.
	window = 50 * time.Millisecond
	// callTimeout bounds a question: an endpoint that does not answer is asked again.
	callTimeout = 10 * time.Second
)

// New returns Instances that call api.
func New(api API) *Instances {
	i := &Instances{api: api}
	i.described = batch.Batcher[string, Instance]{Max: describeMax, Window: window, Call: i.describe}
	i.scheduled = batch.Batcher[string, bool]{Max: scheduledMax, Window: window, Call: i.schedule}
	return i
}

// Describe returns what EC2 knows of an instance.
func (i *Instances) Describe(ctx context.Context, id string) (Instance, error) {
	return i.described.Do(ctx, id)
}

// describe asks by a filter: an id that EC2 does not know is an empty answer there, and would fail the whole
// call as a parameter.
func (i *Instances) describe(ctx context.Context, ids []string) []batch.Result[Instance] {
	found, err := i.matching(ctx, "instance-id", ids)
	results := make([]batch.Result[Instance], len(ids))
	for n, id := range ids {
		results[n] = batch.Result[Instance]{Value: found[id], Err: err}
	}
	return results
}

// InReservation returns the ids of the instances that run in a Capacity Reservation or a Capacity Block.
func (i *Instances) InReservation(ctx context.Context, reservationID string) ([]string, error) {
	found, err := i.matching(ctx, "capacity-reservation-id", []string{reservationID})
	var ids []string
	for id, one := range found {
		if !one.State.Stopped() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, err
}

// matching returns the instances for which the filter has one of the values, by id.
func (i *Instances) matching(
	ctx context.Context, filter string, values []string,
) (map[string]Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found := map[string]Instance{}
	pages := sdk.NewDescribeInstancesPaginator(i.api, &sdk.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String(filter), Values: unique(values)}},
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe instances: %w", err)
		}
		for _, r := range out.Reservations {
			for _, one := range r.Instances {
				found[aws.ToString(one.InstanceId)] = toInstance(one)
			}
		}
	}
	return found, nil
}

func toInstance(one types.Instance) Instance {
	out := Instance{
		Spot:     one.InstanceLifecycle == types.InstanceLifecycleTypeSpot,
		Reserved: aws.ToString(one.CapacityReservationId) != "",
	}
	if one.InstanceLifecycle == types.InstanceLifecycleTypeCapacityBlock {
		out.Reserved = true
	}
	if one.State != nil {
		out.State = State(one.State.Name)
	}
	return out
}

// HasScheduledEvent tells whether EC2 has an event scheduled for an instance that is neither completed nor canceled:
// maintenance, a reboot, its retirement or its stop.
func (i *Instances) HasScheduledEvent(ctx context.Context, id string) (bool, error) {
	return i.scheduled.Do(ctx, id)
}

// schedule lists every event that is scheduled in the Region: mostly there are few, and many of them come
// together.
func (i *Instances) schedule(ctx context.Context, ids []string) []batch.Result[bool] {
	going, err := i.allScheduled(ctx)
	results := make([]batch.Result[bool], len(ids))
	for n, id := range ids {
		results[n] = batch.Result[bool]{Value: going[id], Err: err}
	}
	return results
}

func (i *Instances) allScheduled(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var codes []string
	for _, code := range types.EventCode("").Values() {
		codes = append(codes, string(code))
	}
	going := map[string]bool{}
	pages := sdk.NewDescribeInstanceStatusPaginator(i.api, &sdk.DescribeInstanceStatusInput{
		IncludeAllInstances: aws.Bool(true),
		Filters:             []types.Filter{{Name: aws.String("event.code"), Values: codes}},
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe scheduled events: %w", err)
		}
		for _, one := range out.InstanceStatuses {
			if slices.ContainsFunc(one.Events, isAhead) {
				going[aws.ToString(one.InstanceId)] = true
			}
		}
	}
	return going, nil
}

// isAhead tells whether the event is still to come or under way. One that is over is described for up to a
// week, and says so at the beginning of its description (Amazon EC2 user guide, "Scheduled events for your
// instances").
func isAhead(e types.InstanceStatusEvent) bool {
	text := aws.ToString(e.Description)
	return !strings.HasPrefix(text, "[Completed]") && !strings.HasPrefix(text, "[Canceled]")
}

func unique(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }
