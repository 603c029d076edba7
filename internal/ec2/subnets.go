package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// SubnetAPI is what a SubnetReader calls of EC2. It changes nothing.
type SubnetAPI = sdk.DescribeSubnetsAPIClient

// SubnetReader reads how many addresses are free in subnets.
type SubnetReader struct{ api SubnetAPI }

// NewSubnetReader returns a SubnetReader. The client must retry what AWS throttles.
func NewSubnetReader(api SubnetAPI) *SubnetReader { return &SubnetReader{api: api} }

// Subnets reads the subnets. One that does not exist is left out.
func (r *SubnetReader) Subnets(ctx context.Context, ids []string) ([]refresh.Subnet, error) {
	var all []refresh.Subnet
	pages := sdk.NewDescribeSubnetsPaginator(r.api, &sdk.DescribeSubnetsInput{Filters: []types.Filter{
		{Name: aws.String("subnet-id"), Values: ids}, // Unlike SubnetIds, a filter does not fail for one that is gone.
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Subnets {
			all = append(all, refresh.Subnet{
				ID: aws.ToString(s.SubnetId), Free: int(aws.ToInt32(s.AvailableIpAddressCount)),
			})
		}
	}
	return all, nil
}
