package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Known returns those of the instances that EC2 knows in this account and Region: one call for each 200. It needs
// ec2:DescribeInstances.
func (i *Instances) Known(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	for some := range slices.Chunk(ids, describeMax) {
		err := eachInstance(ctx, i.api, callTimeout, "instance-id", some, func(one types.Instance) {
			known[aws.ToString(one.InstanceId)] = true
		})
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}
