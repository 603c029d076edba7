package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/pkg/ec2"
)

// TestSystemsManager compares with "Service endpoints" of Systems Manager in the AWS General Reference.
func TestSystemsManager(t *testing.T) {
	t.Parallel()
	fips := func(o *sdk.EndpointResolverOptions) { o.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled }
	dual := func(o *sdk.EndpointResolverOptions) { o.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled }
	for _, tt := range []struct {
		region, want string
		set          func(*sdk.EndpointResolverOptions)
		fixed        *string
	}{
		{"eu-central-1", "https://ssm.eu-central-1.amazonaws.com", nil, nil},
		{"us-east-1", "https://ssm-fips.us-east-1.amazonaws.com", fips, nil},
		{"us-gov-west-1", "https://ssm.us-gov-west-1.amazonaws.com", nil, nil},
		{"cn-north-1", "https://ssm.cn-north-1.amazonaws.com.cn", nil, nil},
		{"eu-central-1", "https://ssm.eu-central-1.api.aws", dual, nil},
		{"eu-central-1", "http://127.0.0.1:1234", nil, aws.String("http://127.0.0.1:1234")},
	} {
		client := sdk.NewFromConfig(aws.Config{Region: tt.region, BaseEndpoint: tt.fixed}, func(o *sdk.Options) {
			if tt.set != nil {
				tt.set(&o.EndpointOptions)
			}
		})
		if got, err := ec2.SystemsManager(client.Options())(t.Context()); got != tt.want || err != nil {
			t.Errorf("%s: got %s, %v; want %s", tt.region, got, err, tt.want)
		}
	}
}
