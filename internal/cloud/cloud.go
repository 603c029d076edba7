// Package cloud configures the AWS SDK for the programs: the Region, the credentials and the connections.
package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
)

// Config overrides the SDK's own chain (environment, shared files, the pod's or the instance's role). Its
// zero value leaves everything to the chain.
type Config struct {
	Region  string // Instead of the chain's.
	Profile string // Of the shared files.
	RoleARN string // A role to assume with the chain's credentials.

	ExternalID string // What the trust policy of that role requires, or empty.

	AnswerTimeout time.Duration // Until the response to one attempt begins; 0 is no limit.
}

// Load returns the configuration of the clients. It is an error if no Region is configured.
func Load(ctx context.Context, c Config) (aws.Config, error) {
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		// As many idle connections as package queue uses at the same time: a new one costs more than a call.
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 128
		t.ResponseHeaderTimeout = c.AnswerTimeout
	})
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithHTTPClient(client), awsconfig.WithRegion(c.Region), awsconfig.WithLogger(logging.Nop{}),
	}
	if c.Profile != "" {
		options = append(options, awsconfig.WithSharedConfigProfile(c.Profile))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("configure the AWS SDK: %w%s", err, profileHint(err, c.Profile))
	}
	if cfg.Region == "" {
		return aws.Config{}, errors.New("no AWS region is set: set AWS_REGION, the Region of the profile, " +
			"--region of the trigger or aws.region of the chart")
	}
	cfg.HTTPClient = InMemory(cfg.HTTPClient)
	if c.RoleARN != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), c.RoleARN, func(o *stscreds.AssumeRoleOptions) {
			if c.ExternalID != "" {
				o.ExternalID = &c.ExternalID
			}
		})
		cfg.Credentials = aws.NewCredentialsCache(role)
	}
	return cfg, nil
}

// profileHint says how to go on if there is no such profile, or if it needs an MFA code, which nobody can enter; else
// it is empty.
func profileHint(err error, profile string) string {
	if _, missing := errors.AsType[awsconfig.SharedConfigProfileNotExistError](err); missing {
		return "; aws configure list-profiles shows those that exist"
	}
	if _, needed := errors.AsType[awsconfig.AssumeRoleTokenProviderNotSetError](err); !needed {
		return ""
	}
	profile = cmp.Or(profile, os.Getenv("AWS_PROFILE"), "default")
	return fmt.Sprintf(" The profile %s needs an MFA code, which this program does not ask for. Get credentials with "+
		`eval "$(aws configure export-credentials --profile %s --format env)", then run it without the profile`,
		profile, profile)
}
