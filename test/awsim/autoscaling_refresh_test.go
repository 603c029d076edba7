package awsim_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// templated is a server with a group of n instances of version 1 of a launch template that has a version 2.
func templated(t testing.TB, n int, version string) (*awsim.Server, *autoscaling.Client) {
	t.Helper()
	s := start(t, awsim.Options{})
	_, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	do(t, machineClient(t, s).CreateLaunchTemplateVersion, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: new("node"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: new("ami-2")},
	})
	must(t, s.CreateGroup(awsim.Group{
		Name: groupName, Max: n, Desired: n, LaunchTemplate: "node", LaunchTemplateVersion: version,
	}))
	settled(t, s)
	return s, groupClient(t, s)
}

// toVersion2 asks for a refresh to version 2.
func toVersion2(prefs *types.RefreshPreferences) *autoscaling.StartInstanceRefreshInput {
	return &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: new(groupName),
		Preferences:          prefs,
		DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: &types.LaunchTemplateSpecification{
			LaunchTemplateName: new("node"), Version: new("2"),
		}},
	}
}

func refreshes(t testing.TB, c *autoscaling.Client, ids ...string) []types.InstanceRefresh {
	t.Helper()
	var out []types.InstanceRefresh
	p := autoscaling.NewDescribeInstanceRefreshesPaginator(c, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: new(groupName), InstanceRefreshIds: ids, MaxRecords: new(int32(2)),
	})
	for p.HasMorePages() {
		page, err := p.NextPage(t.Context())
		must(t, err)
		out = append(out, page.InstanceRefreshes...)
	}
	return out
}

func TestRefreshAsTheSDKSeesIt(t *testing.T) {
	s, c := templated(t, 2, "1")
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	began := do(t, c.StartInstanceRefresh, toVersion2(&types.RefreshPreferences{
		MinHealthyPercentage: new(int32(100)), MaxHealthyPercentage: new(int32(200)), InstanceWarmup: new(int32(7)),
		CheckpointPercentages: []int32{50, 100}, CheckpointDelay: new(int32(9)), BakeTime: new(int32(8)),
		AutoRollback: new(true), SkipMatching: new(true),
		ScaleInProtectedInstances: types.ScaleInProtectedInstancesIgnore,
		StandbyInstances:          types.StandbyInstancesTerminate,
		AlarmSpecification:        &types.AlarmSpecification{Alarms: []string{"errors"}},
	}))
	_, err := s.WaitRefresh(within(t), groupName, "InProgress")
	must(t, err)
	got := refreshes(t, c)[0]
	p := got.Preferences
	if *got.InstanceRefreshId != *began.InstanceRefreshId || got.Status != types.InstanceRefreshStatusInProgress ||
		*got.InstancesToUpdate != 2 || *got.PercentageComplete != 0 || got.StartTime == nil || got.EndTime != nil ||
		got.Strategy != types.RefreshStrategyRolling || *got.DesiredConfiguration.LaunchTemplate.Version != "2" ||
		*got.DesiredConfiguration.LaunchTemplate.LaunchTemplateName != "node" || got.RollbackDetails != nil {
		t.Errorf("got %+v", got)
	}
	if *p.MinHealthyPercentage != 100 || *p.MaxHealthyPercentage != 200 || *p.InstanceWarmup != 7 ||
		!slices.Equal(p.CheckpointPercentages, []int32{50, 100}) || *p.CheckpointDelay != 9 || *p.BakeTime != 8 ||
		!*p.AutoRollback || !*p.SkipMatching || p.ScaleInProtectedInstances != types.ScaleInProtectedInstancesIgnore ||
		p.StandbyInstances != types.StandbyInstancesTerminate ||
		!slices.Equal(p.AlarmSpecification.Alarms, []string{"errors"}) {
		t.Errorf("got %+v", p)
	}
	do(t, c.RollbackInstanceRefresh,
		&autoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: new(groupName)})
	_, err = s.WaitRefresh(within(t), groupName, "RollbackSuccessful")
	must(t, err)
	back := refreshes(t, c)[0].RollbackDetails
	if back == nil || *back.RollbackReason == "" || back.RollbackStartTime == nil ||
		*back.PercentageCompleteOnRollback != 0 || *back.InstancesToUpdateOnRollback != 2 {
		t.Errorf("got %+v", back)
	}
}

func TestRefreshDefaults(t *testing.T) {
	s, c := templated(t, 2, "1")
	do(t, c.UpdateAutoScalingGroup, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: new(groupName), HealthCheckGracePeriod: new(int32(0)),
	})
	do(t, c.StartInstanceRefresh, &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: new(groupName)})
	_, err := s.WaitRefresh(within(t), groupName, "Successful")
	must(t, err)
	got := refreshes(t, c)[0]
	p := got.Preferences
	if *p.MinHealthyPercentage != 90 || p.MaxHealthyPercentage != nil || *p.InstanceWarmup != 0 || *p.SkipMatching ||
		*p.AutoRollback || p.ScaleInProtectedInstances != types.ScaleInProtectedInstancesWait ||
		p.StandbyInstances != types.StandbyInstancesWait || p.CheckpointDelay != nil || p.BakeTime != nil ||
		got.DesiredConfiguration != nil || *got.PercentageComplete != 100 || got.EndTime == nil {
		t.Errorf("got %+v with %+v", got, p)
	}
}

func TestRefreshHistory(t *testing.T) {
	s, c := templated(t, 1, "1")
	var ids []string
	for range 5 {
		out := do(t, c.StartInstanceRefresh,
			&autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: new(groupName)})
		_, err := s.WaitRefresh(within(t), groupName, "Successful")
		must(t, err)
		ids = append(ids, *out.InstanceRefreshId)
	}
	slices.Reverse(ids)
	var got []string
	for _, r := range refreshes(t, c) {
		got = append(got, *r.InstanceRefreshId)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("got %v, want the newest first: %v", got, ids)
	}
	if one := refreshes(t, c, ids[3]); len(one) != 1 || *one[0].InstanceRefreshId != ids[3] {
		t.Errorf("by its id: %v", one)
	}
}

func TestRefreshErrors(t *testing.T) {
	begin := func(t *testing.T, c *autoscaling.Client, in *autoscaling.StartInstanceRefreshInput) error {
		t.Helper()
		in.AutoScalingGroupName = new(groupName)
		_, err := c.StartInstanceRefresh(t.Context(), in)
		return err
	}
	with := func(p types.RefreshPreferences) func(*testing.T, *autoscaling.Client) error {
		return func(t *testing.T, c *autoscaling.Client) error { return begin(t, c, toVersion2(&p)) }
	}
	rollBack := func(t *testing.T, c *autoscaling.Client) error {
		_, err := c.RollbackInstanceRefresh(t.Context(),
			&autoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: new(groupName)})
		return err
	}
	for name, row := range map[string]struct {
		version string
		first   *autoscaling.StartInstanceRefreshInput // A refresh that is on.
		call    func(*testing.T, *autoscaling.Client) error
		code    string
	}{
		"a second refresh": {first: toVersion2(nil), call: with(types.RefreshPreferences{}), code: "InstanceRefreshInProgress"},
		"cancel without one": {code: "ActiveInstanceRefreshNotFound", call: func(t *testing.T, c *autoscaling.Client) error {
			_, err := c.CancelInstanceRefresh(t.Context(),
				&autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: new(groupName)})
			return err
		}},
		"roll back without one":             {call: rollBack, code: "ActiveInstanceRefreshNotFound"},
		"roll back without a configuration": {first: &autoscaling.StartInstanceRefreshInput{}, call: rollBack, code: "IrreversibleInstanceRefresh"},
		"roll back to $Latest":              {version: "$Latest", first: toVersion2(nil), call: rollBack, code: "IrreversibleInstanceRefresh"},
		"roll back to $Default":             {version: "$Default", first: toVersion2(nil), call: rollBack, code: "IrreversibleInstanceRefresh"},
		"a maximum without a minimum":       {call: with(types.RefreshPreferences{MaxHealthyPercentage: new(int32(110))})},
		"a maximum below 100":               {call: with(types.RefreshPreferences{MinHealthyPercentage: new(int32(50)), MaxHealthyPercentage: new(int32(99))})},
		"percentages too far apart":         {call: with(types.RefreshPreferences{MinHealthyPercentage: new(int32(50)), MaxHealthyPercentage: new(int32(151))})},
		"checkpoints that fall":             {call: with(types.RefreshPreferences{CheckpointPercentages: []int32{50, 20}})},
		"a checkpoint twice":                {call: with(types.RefreshPreferences{CheckpointPercentages: []int32{50, 50}})},
		"a checkpoint beyond the end":       {call: with(types.RefreshPreferences{CheckpointPercentages: []int32{101}})},
		"a delay without checkpoints":       {call: with(types.RefreshPreferences{CheckpointDelay: new(int32(1))})},
		"more than two days of baking":      {call: with(types.RefreshPreferences{BakeTime: new(int32(172801))})},
		"eleven alarms":                     {call: with(types.RefreshPreferences{AlarmSpecification: &types.AlarmSpecification{Alarms: slices.Repeat([]string{"a"}, 11)}})},
		"a word that the API does not know": {call: with(types.RefreshPreferences{StandbyInstances: "Leave"})},
		"a template version that is not there": {call: func(t *testing.T, c *autoscaling.Client) error {
			in := toVersion2(nil)
			in.DesiredConfiguration.LaunchTemplate.Version = new("3")
			return begin(t, c, in)
		}},
		"automatic rollback to nothing": {call: func(t *testing.T, c *autoscaling.Client) error {
			return begin(t, c, &autoscaling.StartInstanceRefreshInput{
				Preferences: &types.RefreshPreferences{AutoRollback: new(true)},
			})
		}},
		"the group's template while a refresh to another is on": {
			first: toVersion2(nil),
			call: func(t *testing.T, c *autoscaling.Client) error {
				_, err := c.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
					AutoScalingGroupName: new(groupName),
					LaunchTemplate:       &types.LaunchTemplateSpecification{LaunchTemplateName: new("node"), Version: new("2")},
				})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if row.version == "" {
				row.version = "1"
			}
			s, c := templated(t, 1, row.version)
			must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
			if row.first != nil {
				must(t, begin(t, c, row.first))
			}
			if err := row.call(t, c); code(err) != orValidation(row.code) || status(err) != 400 {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRefreshTellsTheBus(t *testing.T) {
	s, c := templated(t, 4, "1")
	url := s.CreateQueue("bus", nil)
	s.AddRule(s.QueueARN(url), awsim.RefreshStarted, awsim.RefreshCheckpoint, awsim.RefreshSucceeded)
	out := do(t, c.StartInstanceRefresh, toVersion2(&types.RefreshPreferences{
		CheckpointPercentages: []int32{50, 100}, CheckpointDelay: new(int32(0)),
	}))
	_, err := s.WaitRefresh(within(t), groupName, "Successful")
	must(t, err)
	var got []string
	for len(got) < 4 {
		for _, m := range receive(t, queueClient(t, s), url, 5) {
			event := object(t, *m.Body)
			detail := unwrap(t, event)
			if event["source"] != "aws.autoscaling" || detail["AutoScalingGroupName"] != groupName ||
				detail["InstanceRefreshId"] != *out.InstanceRefreshId {
				t.Errorf("got %s", *m.Body)
			}
			percentage, _ := detail["CheckpointPercentage"].(string)
			got = append(got, event["detail-type"].(string)+percentage)
		}
	}
	slices.Sort(got)
	want := []string{
		awsim.RefreshCheckpoint + "100", awsim.RefreshCheckpoint + "50", awsim.RefreshStarted, awsim.RefreshSucceeded,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
