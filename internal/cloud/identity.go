package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// identityTimeout bounds Identify: in a network without a route to AWS the SDK would try for minutes.
const identityTimeout = 15 * time.Second

// ErrNoCredentials is returned when no provider of the SDK has credentials.
var ErrNoCredentials = errors.New("no AWS credentials")

// Identity is whom AWS takes the process for.
type Identity struct {
	Account string // empty if AWS did not say
	ARN     string // arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION of a role; empty if AWS did not say

	// Provider is the SDK's name of what had the credentials, such as WebIdentityCredentials, or EC2RoleProvider for
	// the instance profile of the node.
	Provider string
}

// FromNode reports whether the credentials are those of the node, which each pod on it may have.
func (i Identity) FromNode() bool { return i.Provider == "EC2RoleProvider" }

// Identify returns whom AWS takes the process for. The error is ErrNoCredentials if there are none. Beside any other
// error the Identity has the provider. GetCallerIdentity needs no permission. Source: "GetCallerIdentity" in the AWS
// STS API reference.
func Identify(ctx context.Context, cfg aws.Config) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	if cfg.Credentials == nil {
		return Identity{}, ErrNoCredentials
	}
	found, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrNoCredentials, err)
	}
	identity := Identity{Account: found.AccountID, Provider: found.Source}
	out, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return identity, fmt.Errorf("get the caller identity: %w", err)
	}
	identity.Account, identity.ARN = aws.ToString(out.Account), aws.ToString(out.Arn)
	return identity, nil
}
