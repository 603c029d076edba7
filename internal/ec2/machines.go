package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// MachinesAPI are the calls of Machines.
type MachinesAPI interface {
	sdk.DescribeInstancesAPIClient
	StartInstances(context.Context, *sdk.StartInstancesInput,
		...func(*sdk.Options)) (*sdk.StartInstancesOutput, error)
	StopInstances(context.Context, *sdk.StopInstancesInput,
		...func(*sdk.Options)) (*sdk.StopInstancesOutput, error)
}

// Machines stops instances, and starts them again.
type Machines struct{ api MachinesAPI }

// NewMachines returns Machines. The client must retry what AWS throttles.
func NewMachines(api MachinesAPI) *Machines { return &Machines{api} }

// Stop stops the instances. Those that are stopped, or being stopped, stay so.
func (m *Machines) Stop(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, retriedTimeout)
	defer cancel()
	if _, err := m.api.StopInstances(ctx, &sdk.StopInstancesInput{InstanceIds: ids}); err != nil {
		return fmt.Errorf("stop instances %s: %w", strings.Join(ids, ", "), err)
	}
	return nil
}

// StartMachines starts stopped instances. The error is one of EC2 if one of them is being stopped yet.
func (m *Machines) StartMachines(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, retriedTimeout)
	defer cancel()
	if _, err := m.api.StartInstances(ctx, &sdk.StartInstancesInput{InstanceIds: ids}); err != nil {
		return fmt.Errorf("start instances %s: %w", strings.Join(ids, ", "), err)
	}
	return nil
}

// MachineStates returns the states of the instances that EC2 knows, in its own words.
func (m *Machines) MachineStates(ctx context.Context, ids []string) (map[string]string, error) {
	states := map[string]string{}
	for chunk := range slices.Chunk(ids, describeMax) {
		err := eachInstance(ctx, m.api, retriedTimeout, "instance-id", chunk, func(one types.Instance) {
			states[aws.ToString(one.InstanceId)] = string(toInstance(one).State)
		})
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}
