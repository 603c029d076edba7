package ec2

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
)

type machinesAPI struct {
	MachinesAPI
	stopped, started []string
	err              error
}

func (m *machinesAPI) StartInstances(
	_ context.Context, in *sdk.StartInstancesInput, _ ...func(*sdk.Options),
) (*sdk.StartInstancesOutput, error) {
	m.started = append(m.started, in.InstanceIds...)
	return nil, m.err
}

func (m *machinesAPI) StopInstances(
	_ context.Context, in *sdk.StopInstancesInput, _ ...func(*sdk.Options),
) (*sdk.StopInstancesOutput, error) {
	m.stopped = append(m.stopped, in.InstanceIds...)
	return nil, m.err
}

func TestStopAndStart(t *testing.T) {
	t.Parallel()
	api := &machinesAPI{}
	if err := NewMachines(api).Stop(t.Context(), []string{"i-1", "i-2"}); err != nil || !slices.Equal(api.stopped, []string{"i-1", "i-2"}) {
		t.Errorf("stopped %v, %v", api.stopped, err)
	}
	if err := NewMachines(api).StartMachines(t.Context(), []string{"i-2"}); err != nil || !slices.Equal(api.started, []string{"i-2"}) {
		t.Errorf("started %v, %v", api.started, err)
	}
	api.err = errors.New("denied")
	if err := NewMachines(api).Stop(t.Context(), []string{"i-3"}); !errors.Is(err, api.err) || !strings.Contains(err.Error(), "i-3") {
		t.Errorf("got %v", err)
	}
}
