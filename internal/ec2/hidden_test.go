package ec2

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// requireManaged refuses calls that do not ask for managed resources though their parameters have a field for it.
func requireManaged(o *sdk.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("requireManaged", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (out middleware.InitializeOutput, meta middleware.Metadata, err error) {
			field := reflect.Indirect(reflect.ValueOf(in.Parameters)).FieldByName("IncludeManagedResources")
			if field.IsValid() && (field.IsNil() || !field.Elem().Bool()) {
				return out, meta, fmt.Errorf("%T does not ask for managed resources", in.Parameters)
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
	})
}

// TestHiddenResources: an account can hide the instances and templates that AWS services manage. They are no unknown
// instances, and not gone.
func TestHiddenResources(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	ctx, template := bounded(t), createVersions(t, s, client, "node", "ami-1")
	must(t, s.CreateGroup(awsim.Group{Name: group, Max: 10, LaunchTemplate: "node"}))
	must(t, s.AddInstance(group, block, ""))
	must(t, s.SetMarket(block, awsim.CapacityBlock, reservation))
	_, err := s.ScheduleChange("system-reboot", time.Now().Add(time.Hour), block)
	must(t, err)
	s.HideManaged(template, block)
	i := New(client)
	if got, err := i.Describe(ctx, block); err != nil || got.State != "running" {
		t.Errorf("described as %+v, %v", got, err)
	}
	if got, err := i.Scheduled(ctx, block); err != nil || !got.Any {
		t.Errorf("scheduled: %+v, %v", got, err)
	}
	if got, err := i.InReservation(ctx, reservation); err != nil || !slices.Equal(got, []string{block}) {
		t.Errorf("in the reservation: %v, %v", got, err)
	}
	if got, err := i.Known(ctx, []string{block}); err != nil || !got[block] {
		t.Errorf("known: %v, %v", got, err)
	}
	groups := []refresh.Group{on(template, "$Latest")}
	groups[0].Instances = []refresh.Instance{{ID: block}}
	must(t, NewLaunchReader(client).Complete(ctx, groups))
	if groups[0].Instances[0].Launched.IsZero() {
		t.Error("the time of the launch is unknown")
	}
	known, err := NewLaunchReader(client).Templates(ctx, groups, "")
	if target := known.Resolve(groups[0], ""); err != nil || target.Problem != "" {
		t.Errorf("the template: %q, %v", target.Problem, err)
	}
}
