package cloud

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
)

// InstanceID asks the instance metadata service which EC2 instance this process runs on. Elsewhere that
// takes until ctx ends, since nobody may answer there; where AWS_EC2_METADATA_DISABLED is true, it fails
// at once. Source: "Access instance metadata" in the EC2 user guide.
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
		return "", fmt.Errorf("the instance metadata service tells no instance id: %q", id)
	}
	return id, nil
}
