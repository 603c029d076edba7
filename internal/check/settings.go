package check

import (
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloud"
)

// enforcementNotice is how long before AWS changes a setting of the account the check warns.
const enforcementNotice = 90 * 24 * time.Hour

// judgeSettings warns of settings of Auto Scaling that AWS will change: they change how instances are replaced.
func judgeSettings(f Facts) (results []Result) {
	switch err := f.SettingsErr; {
	case cloud.IsDenied(err):
		return one(checkSettings, NotChecked, "AWS denies "+autoscaling.ActionSettings+", which only this check needs",
			grant(f, autoscaling.ActionSettings))
	case err != nil:
		return one(checkSettings, NotChecked, err.Error()+"; only this check needs the settings", reach(f, "autoscaling"))
	}
	for _, s := range f.Settings {
		if s.EnforcedAt.Sub(f.Now) > enforcementNotice || s.EnforcedAt.Before(f.Now) || s.Value == s.Enforced {
			continue
		}
		results = append(results, Result{
			checkSettings, Warning, fmt.Sprintf("AWS sets %s to %q on %s; it is %q now, and changes how instances are replaced",
				s.Name, s.Enforced, s.EnforcedAt.UTC().Format(time.DateOnly), s.Value),
			fmt.Sprintf("test it: aws autoscaling put-account-setting --region %s --name %s --value %s",
				f.Region, s.Name, s.Enforced),
		})
	}
	if len(results) > 0 {
		return results
	}
	return one(checkSettings, OK, "AWS changes no setting of Auto Scaling within 90 days", "")
}
