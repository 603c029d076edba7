package autoscaling

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

const (
	// ActionSettings is the permission for DescribeAccountSettings.
	ActionSettings = "autoscaling:DescribeAccountSettings"
	// settingsPages is the most pages of account settings that are read, of 50 settings each. In 2026 there is one.
	settingsPages = 20
)

// AccountSetting is a setting of Auto Scaling for the account and Region.
type AccountSetting struct {
	Name, Value string    // such as launchBeforeTerminate and enabled
	Enforced    string    // the value from EnforcedAt on
	EnforcedAt  time.Time // zero if AWS has announced no such date
}

// SettingsAPI is the call that describes account settings.
type SettingsAPI interface {
	DescribeAccountSettings(context.Context, *sdk.DescribeAccountSettingsInput,
		...func(*sdk.Options)) (*sdk.DescribeAccountSettingsOutput, error)
}

func describeSettings(ctx context.Context, api SettingsAPI, limit time.Duration) ([]AccountSetting, error) {
	var all []AccountSetting
	in := &sdk.DescribeAccountSettingsInput{}
	for range settingsPages {
		out, err := call(ctx, limit, api.DescribeAccountSettings, in)
		if err != nil {
			return nil, wrap(err, "describe account settings")
		}
		all = append(all, convert(out.Settings, toSetting)...)
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			break
		}
	}
	return all, nil
}

func toSetting(s types.AccountSetting) AccountSetting {
	return AccountSetting{
		Name: aws.ToString(s.Name), Value: aws.ToString(s.Value),
		Enforced: aws.ToString(s.EnforcedValue), EnforcedAt: aws.ToTime(s.EnforcementDate),
	}
}

// readAccountPolicy returns how instances of groups without a maintenance policy are replaced. It is kept for five
// minutes, also if AWS denies the call, or does not know it in this Region.
func (r *Reader) readAccountPolicy(ctx context.Context, _ string) (refresh.Maintenance, error) {
	all, err := describeSettings(ctx, r.api, retriedTimeout)
	switch {
	case cloud.IsTransient(err):
		return refresh.Maintenance{}, err
	case err != nil:
		return refresh.Maintenance{Unknown: err}, nil
	}
	for _, s := range all {
		if s.Name == refresh.LaunchBeforeTerminate && s.Value == "enabled" {
			return refresh.AccountMaintenance(), nil
		}
	}
	return refresh.Maintenance{}, nil
}

// addAccountPolicy gives groups without a maintenance policy that of the account. If it cannot be read, they have it as
// unknown: the rest of a plan does not need it.
func (r *Reader) addAccountPolicy(ctx context.Context, groups []refresh.Group) {
	for i := range groups {
		if groups[i].Maintenance != (refresh.Maintenance{}) {
			continue
		}
		policy, err := r.account.get(ctx, "")
		if err != nil {
			policy = refresh.Maintenance{Unknown: err}
		}
		groups[i].Maintenance = policy
	}
}
