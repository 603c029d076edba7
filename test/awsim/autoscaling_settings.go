package awsim

import "time"

// launchBeforeTerminate is the account setting that has groups without a maintenance policy launch first.
const launchBeforeTerminate = "launchBeforeTerminate"

// AccountSetting is a setting of the account. The value is enabled or disabled.
type AccountSetting struct {
	Name, Value     string
	EnforcementType string // none, flexible or hard; empty is none.
	EnforcedValue   string
	EnforcementDate time.Time // Zero without one.
}

// SetAccountSetting sets a setting, for all groups that there are. launchBeforeTerminate gives groups without a
// maintenance policy, and refreshes without percentages, a minimum of 100 %. Of its maximum only the beginning, 10, was
// readable; it is assumed to be 110 %, as in the console's "Launch before terminating".
func (s AutoScaling) SetAccountSetting(setting AccountSetting) {
	s.asg.update(func() {
		s.asg.settings[setting.Name] = setting
		for _, g := range s.asg.groups {
			s.asg.applySettings(g)
		}
	})
}

// applySettings gives the group the policy of the account. It needs mu.
func (a *engine) applySettings(g *group) {
	g.account = nil
	if a.settings[launchBeforeTerminate].Value == "enabled" {
		g.account = &maintenancePolicy{min: 100, max: 110}
	}
}

// maintenance is the policy by which instances of the group are replaced: its own, else the account's, else nil.
func (g *group) maintenance() *maintenancePolicy {
	if g.policy != nil {
		return g.policy
	}
	return g.account
}

type settingXML struct {
	Name            string
	Value           string
	EnforcementType string
	EnforcementDate string `xml:",omitempty"`
	EnforcedValue   string `xml:",omitempty"`
}

func (a groupAPI) describeAccountSettings(r *reader) (any, error) {
	r.refuse("NextToken")
	name := r.text("Name")
	_ = r.number("MaxRecords", 50, 1, 100)
	return view(a.engine, r, func() (any, error) {
		var out struct {
			Settings []settingXML `xml:"Settings>member"`
		}
		for _, key := range sortedKeys(a.settings) {
			one := a.settings[key]
			if name != "" && name != key {
				continue
			}
			wire := settingXML{Name: one.Name, Value: one.Value, EnforcementType: "none", EnforcedValue: one.EnforcedValue}
			if one.EnforcementType != "" {
				wire.EnforcementType = one.EnforcementType
			}
			if !one.EnforcementDate.IsZero() {
				wire.EnforcementDate = stamp(one.EnforcementDate)
			}
			out.Settings = append(out.Settings, wire)
		}
		return out, nil
	})
}
