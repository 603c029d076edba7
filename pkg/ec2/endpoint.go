package ec2

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
)

// SystemsManager returns the endpoint of Systems Manager for a client with these options: in the same Region and
// partition, and like that of EC2 with FIPS, dual stack, or at a fixed address. Both services name their endpoints in
// the same way. Source: "Service endpoints" of both in the AWS General Reference.
func SystemsManager(o sdk.Options) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if o.BaseEndpoint != nil {
			return *o.BaseEndpoint, nil
		}
		found, err := o.EndpointResolverV2.ResolveEndpoint(ctx, sdk.EndpointParameters{
			Region:       aws.String(o.Region),
			UseFIPS:      aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
			UseDualStack: aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
		})
		if err != nil {
			return "", fmt.Errorf("find the endpoint of Systems Manager: %w", err)
		}
		host := "ssm" + strings.TrimPrefix(found.URI.Host, "ec2")
		return (&url.URL{Scheme: "https", Host: host}).String(), nil
	}
}
