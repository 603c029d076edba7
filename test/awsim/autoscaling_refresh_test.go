package awsim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefreshDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 1})
		f.call("StartInstanceRefresh")
		f.ends(refreshSuccessful)
		f.s.asg.mu.Lock()
		defer f.s.asg.mu.Unlock()
		got := refreshAPI{f.s.asg}.refreshWire(f.s.asg.groups["g"].refreshes[0])
		p := f.s.asg.groups["g"].refreshes[0].requested
		if p.min != 90 || p.max != 0 || p.warmup != 0 || p.skipMatching || p.autoRollback || p.protected != "Wait" ||
			p.standby != "Wait" || p.delay != time.Hour || p.bake != 0 {
			t.Errorf("the preferences are %+v", p)
		}
		if got.Preferences != nil || got.DesiredConfiguration != nil || *got.PercentageComplete != 100 || got.EndTime == "" {
			t.Errorf("got %+v", got)
		}
	})
}

// A refresh begins after a while. Until then it cannot be rolled back, and has neither a start nor progress.
func TestPendingRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 1}, launchHook)
		f.s.SetDelays(Delays{RefreshStart: 7 * time.Second})
		f.refresh("MinHealthyPercentage", "0", "SkipMatching", "true")
		shown := func() string {
			body, err := encodeQuery("", "Describe", "", f.call("DescribeInstanceRefreshes"))
			f.must(err)
			return string(body)
		}
		got := shown()
		for field, there := range map[string]bool{
			"<Status>Pending<": true, "<StartTime>": false, "<PercentageComplete>": false, "<InstancesToUpdate>": false,
			"<MinHealthyPercentage>0<": true, "<SkipMatching>true<": true, "<InstanceWarmup>": false, "<AutoRollback>": false,
			"<StandbyInstances>": false,
		} {
			if strings.Contains(got, field) != there {
				t.Errorf("%s: want %t in %s", field, there, got)
			}
		}
		if _, err := f.try("RollbackInstanceRefresh"); err == nil || asError(err).Code != "ActiveInstanceRefreshNotFound" {
			t.Errorf("rolled back: %v", err)
		}
		f.want("1 InService v1")
		elapse(7 * time.Second)
		if got := shown(); !strings.Contains(got, "<Status>InProgress<") || !strings.Contains(got, "<StartTime>") ||
			!strings.Contains(got, "<PercentageComplete>0<") || !strings.Contains(got, "<InstancesToUpdate>1<") {
			t.Errorf("when it has begun: %s", got)
		}
		f.want("1 Pending:Wait v2")
	})
}

func TestRefreshErrors(t *testing.T) {
	start := func(prefs ...string) func(f fleet) error {
		return func(f fleet) error {
			_, err := f.try("StartInstanceRefresh", f.toVersion2(prefs...)...)
			return err
		}
	}
	call := func(action string, pairs ...string) func(f fleet) error {
		return func(f fleet) error {
			_, err := f.try(action, pairs...)
			return err
		}
	}
	rollBack := call("RollbackInstanceRefresh")
	for name, row := range map[string]struct {
		group Group
		first func(f fleet) error // Starts a refresh that is under way.
		call  func(f fleet) error
		code  string // ValidationError, if empty.
	}{
		"a second refresh":                  {first: start(), call: start(), code: "InstanceRefreshInProgress"},
		"cancel without one":                {call: call("CancelInstanceRefresh"), code: "ActiveInstanceRefreshNotFound"},
		"roll back without one":             {call: rollBack, code: "ActiveInstanceRefreshNotFound"},
		"roll back without a configuration": {first: call("StartInstanceRefresh"), call: rollBack, code: "IrreversibleInstanceRefresh"},
		"roll back to $Latest":              {group: Group{LaunchTemplateVersion: "$Latest"}, first: start(), call: rollBack, code: "IrreversibleInstanceRefresh"},
		"roll back to an override's $Default": {
			group: Group{Overrides: []Override{{InstanceType: "c5.large", LaunchTemplate: fleetTemplate}}},
			first: start(), call: rollBack, code: "IrreversibleInstanceRefresh",
		},
		"a maximum without a minimum":                      {call: start("MaxHealthyPercentage", "110")},
		"a maximum below 100":                              {call: start("MinHealthyPercentage", "50", "MaxHealthyPercentage", "99")},
		"percentages too far apart":                        {call: start("MinHealthyPercentage", "50", "MaxHealthyPercentage", "151")},
		"more than two days of baking":                     {call: start("BakeTime", "172801")},
		"a word that the API does not know":                {call: start("StandbyInstances", "Leave")},
		"no number":                                        {call: start("InstanceWarmup", "long"), code: "MalformedInput"},
		"automatic rollback to nothing":                    {call: call("StartInstanceRefresh", "Preferences.AutoRollback", "true")},
		"an unknown strategy":                              {call: call("StartInstanceRefresh", "Strategy", "ReplaceInstance")},
		"new root volumes without a desired configuration": {call: call("StartInstanceRefresh", "Strategy", strategyRootVolume)},
		"new root volumes without an image in each override": {call: call("StartInstanceRefresh", "Strategy", strategyRootVolume,
			mixedPrefix+"LaunchTemplateSpecification.LaunchTemplateName", fleetTemplate,
			mixedPrefix+"Overrides.member.1.ImageId", "ami-2", mixedPrefix+"Overrides.member.2.InstanceType", "c5.large")},
		"a template version that is not there": {call: call("StartInstanceRefresh",
			"DesiredConfiguration.LaunchTemplate.LaunchTemplateName", fleetTemplate,
			"DesiredConfiguration.LaunchTemplate.Version", "3")},
		"a template by both id and name": {call: call("StartInstanceRefresh",
			"DesiredConfiguration.LaunchTemplate.LaunchTemplateName", fleetTemplate,
			"DesiredConfiguration.LaunchTemplate.LaunchTemplateId", "lt-1")},
		"the group's template while a refresh to another is under way": {first: start(), call: call("UpdateAutoScalingGroup",
			"LaunchTemplate.LaunchTemplateName", fleetTemplate, "LaunchTemplate.Version", "2")},
	} {
		bubble(t, name, func(t *testing.T) {
			row.group.Desired = 1
			f := newFleet(t, row.group, launchHook)
			if row.first != nil {
				f.must(row.first(f))
			}
			if row.code == "" {
				row.code = "ValidationError"
			}
			if err := row.call(f); err == nil || asError(err).Code != row.code {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSkipMatchingComparesOverrides(t *testing.T) {
	for name, row := range map[string]struct {
		before, desired []Override
		replaced        int // Of two instances.
	}{
		"the same again": {before: []Override{{InstanceType: "c5.large"}}, desired: []Override{{InstanceType: "c5.large"}}},
		"one type more":  {before: []Override{{InstanceType: "c5.large"}}, desired: []Override{{InstanceType: "c5.large"}, {InstanceType: "m5.large"}}},
		"one type less": {
			before:  []Override{{InstanceType: "c5.large"}, {InstanceType: "m5.large"}},
			desired: []Override{{InstanceType: "c5.large"}}, replaced: 1,
		},
		"version 1 of another template": {
			before:  []Override{{InstanceType: "c5.large"}},
			desired: []Override{{InstanceType: "c5.large", LaunchTemplate: "arm"}}, replaced: 2,
		},
		"the type of the template":             {before: []Override{{InstanceType: defaultType}}},
		"a type that the base has not":         {desired: []Override{{InstanceType: "c5.large"}}, replaced: 2},
		"another image, which is not compared": {desired: []Override{{ImageID: "ami-own"}}},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 2, Overrides: row.before})
			_, err := f.s.CreateLaunchTemplate("arm", "ami-arm")
			f.must(err)
			f.s.asg.mu.Lock()
			defer f.s.asg.mu.Unlock()
			want := Group{LaunchTemplate: fleetTemplate, LaunchTemplateVersion: "1", Overrides: row.desired}.source()
			replaced := 0
			for _, inst := range f.s.asg.groups["g"].members {
				replaced += score(!f.s.asg.catalog.matchesSource(want, inst.template))
			}
			if replaced != row.replaced {
				t.Errorf("%d are replaced", replaced)
			}
		})
	}
}

// Each override is the source of every n-th instance, with what it leaves empty from the base.
func TestOverridesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3, Overrides: []Override{
			{InstanceType: "c5.large"},
			{InstanceType: "c7g.large", LaunchTemplate: fleetTemplate, LaunchTemplateVersion: "$Latest"},
			{ImageID: "ami-own"},
		}})
		for n, want := range []string{"c5.large ami-1", "c7g.large ami-2", "m5.large ami-own"} {
			if i := f.s.Instances("g")[n]; i.Type+" "+i.Image != want {
				t.Errorf("got %+v, want %s", i, want)
			}
		}
	})
}
