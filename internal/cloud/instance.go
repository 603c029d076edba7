package cloud

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
)

// InstanceID returns the EC2 instance that this process runs on, from the instance metadata service. Outside
// of EC2 there may be no answer until ctx ends; if AWS_EC2_METADATA_DISABLED is true, InstanceID fails at
// once. Source: "Access instance metadata" in the EC2 user guide.
func InstanceID(ctx context.Context, cfg aws.Config) (string, error) {
	out, err := imds.NewFromConfig(cfg).GetMetadata(ctx, &imds.GetMetadataInput{Path: "instance-id"})
	if err != nil {
		return "", err
	}
	defer func() { _ = out.Content.Close() }()
	text, err := io.ReadAll(io.LimitReader(out.Content, 64))
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if !strings.HasPrefix(id, "i-") {
		return "", fmt.Errorf("read the instance id from the instance metadata service: got %q", id)
	}
	return id, nil
}
