package docs

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	transport "github.com/aws/smithy-go/endpoints"
)

// TestEndpoints: the AWS SDK calls the endpoints that docs/install.md lists, for a Region with and without the variables
// of the SDK.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| `([a-z]+-[a-z-]+-\\d)` \\| (.*?) \\| `(.*?)` \\| `(.*?)` \\| `(.*?)` \\|$")
	rows := row.FindAllStringSubmatch(Pages(t)["docs/install.md"], -1)
	if len(rows) < 5 {
		t.Fatalf("the page has only %d endpoints", len(rows))
	}
	for _, r := range rows {
		got, err := endpoints(t.Context(), r[1], strings.Contains(r[2], "FIPS"), strings.Contains(r[2], "DUALSTACK"))
		if want := strings.Join(r[3:], " "); err != nil || got != want {
			t.Errorf("%s %s: the page has %s, the SDK %s; %v", r[1], r[2], want, got, err)
		}
	}
}

// endpoints returns the names of the endpoints of SQS, Auto Scaling and EC2.
func endpoints(ctx context.Context, region string, fips, dualStack bool) (string, error) {
	var names []string
	add := func(e transport.Endpoint, err error) error {
		names = append(names, e.URI.Host)
		return err
	}
	if err := add(sqs.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, sqs.EndpointParameters{
		Region: &region, UseFIPS: &fips, UseDualStack: &dualStack,
	})); err != nil {
		return "", err
	}
	if err := add(autoscaling.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, autoscaling.EndpointParameters{
		Region: &region, UseFIPS: &fips, UseDualStack: &dualStack,
	})); err != nil {
		return "", err
	}
	err := add(ec2.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, ec2.EndpointParameters{
		Region: &region, UseFIPS: &fips, UseDualStack: &dualStack,
	}))
	return strings.Join(names, " "), err
}
