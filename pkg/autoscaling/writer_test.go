package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// changes records the calls of a Writer. A call whose name is in fails returns that error.
type changes struct {
	ChangesAPI
	fails map[string]error
	done  []string
	start *sdk.StartInstanceRefreshInput
}

func (c *changes) note(call, detail string) error {
	c.done = append(c.done, strings.TrimSpace(call+" "+detail))
	return c.fails[call]
}

func (c *changes) StartInstanceRefresh(
	_ context.Context, in *sdk.StartInstanceRefreshInput, _ ...func(*sdk.Options),
) (*sdk.StartInstanceRefreshOutput, error) {
	c.start = in
	return &sdk.StartInstanceRefreshOutput{}, c.note("start", "")
}

func (c *changes) SetDesiredCapacity(
	_ context.Context, in *sdk.SetDesiredCapacityInput, _ ...func(*sdk.Options),
) (*sdk.SetDesiredCapacityOutput, error) {
	return nil, c.note("set", fmt.Sprint(*in.DesiredCapacity))
}

func (c *changes) CreateOrUpdateTags(
	_ context.Context, in *sdk.CreateOrUpdateTagsInput, _ ...func(*sdk.Options),
) (*sdk.CreateOrUpdateTagsOutput, error) {
	return nil, c.note("tag", *in.Tags[0].Value)
}

func (c *changes) DeleteTags(
	_ context.Context, in *sdk.DeleteTagsInput, _ ...func(*sdk.Options),
) (*sdk.DeleteTagsOutput, error) {
	return nil, c.note("untag", *in.Tags[0].ResourceId)
}

func TestRaise(t *testing.T) {
	t.Parallel()
	refused := &smithy.GenericAPIError{Code: "ValidationError", Message: "above max value"}
	for _, tt := range []struct {
		name    string
		desired int
		tag     string
		by      int
		fails   map[string]error
		want    refresh.Surge
		done    []string
		failed  string
	}{
		{name: "the tag is set before the capacity", desired: 3, by: 2, want: refresh.Surge{From: 3, To: 5}, done: []string{"tag 3-5", "set 5"}},
		{name: "above the group's maximum: nothing is changed", desired: 3, by: 3, failed: "from 3 to 6: its maximum is 5"},
		{name: "by nothing", desired: 3, failed: "by 0"},
		{name: "an earlier run ended between tag and call", desired: 3, tag: "3-4", by: 2, want: refresh.Surge{From: 3, To: 4}, done: []string{"set 4"}},
		{name: "raised already", desired: 4, tag: "3-4", by: 1, want: refresh.Surge{From: 3, To: 4}},
		{name: "a part is undone already", desired: 4, tag: "3-5", by: 2, want: refresh.Surge{From: 3, To: 5}},
		{name: "lowered by another client since: raised from there", desired: 2, tag: "3-4", by: 1, want: refresh.Surge{From: 2, To: 3}, done: []string{"tag 2-3", "set 3"}},
		{name: "the group's maximum is below the tag", desired: 4, tag: "4-6", by: 2, failed: "from 4 to 6: its maximum is 5"},
		{name: "without a tag nothing is raised", desired: 3, by: 1, fails: map[string]error{"tag": errors.New("denied")}, done: []string{"tag 3-4"}, failed: "denied"},
		{
			name: "refused: the tag is removed", desired: 3, by: 1, fails: map[string]error{"set": refused},
			want: refresh.Surge{From: 3, To: 4}, done: []string{"tag 3-4", "set 4", "untag workers"}, failed: "above max value",
		},
		{
			name: "no answer: the tag stays, since the capacity may have been raised", desired: 3, by: 1, fails: map[string]error{"set": errors.New("timeout")},
			want: refresh.Surge{From: 3, To: 4}, done: []string{"tag 3-4", "set 4"}, failed: "timeout",
		},
	} {
		g := refresh.Group{Name: "workers", Desired: tt.desired, Max: 5, Tags: map[string]string{}}
		if tt.tag != "" {
			g.Tags[refresh.SurgeTag] = tt.tag
		}
		api := &changes{fails: tt.fails}
		got, err := NewWriter(api).Raise(t.Context(), g, tt.by)
		if got != tt.want || !slices.Equal(api.done, tt.done) || !fails(err, tt.failed) {
			t.Errorf("%s: got %v, %v, done %v", tt.name, got, err, api.done)
		}
	}
}

// fails reports whether the error contains the text, or is nil if the text is empty.
func fails(err error, text string) bool {
	if text == "" || err == nil {
		return text == "" && err == nil
	}
	return strings.Contains(err.Error(), text)
}

func TestLower(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		desired int
		tag     string
		fails   map[string]error
		want    bool
		done    []string
		failed  string
	}{
		{name: "the tag is removed last", desired: 5, tag: "3-5", want: true, done: []string{"set 3", "untag workers"}},
		{name: "not below the group's minimum", desired: 5, tag: "1-5", want: true, done: []string{"set 2", "untag workers"}},
		{name: "a part is undone already", desired: 4, tag: "3-5", want: true, done: []string{"set 3", "untag workers"}},
		{name: "undone already: only the tag is removed", desired: 3, tag: "3-5", done: []string{"untag workers"}},
		{name: "raised by another client: only the tag is removed", desired: 5, tag: "3-4", done: []string{"untag workers"}},
		{name: "lowered by another client: only the tag is removed", desired: 2, tag: "3-5", done: []string{"untag workers"}},
		{name: "an invalid tag is removed", desired: 4, tag: "x", done: []string{"untag workers"}},
		{name: "no tag", desired: 4},
		{name: "refused: the tag stays", desired: 5, tag: "3-5", fails: map[string]error{"set": errors.New("denied")}, done: []string{"set 3"}, failed: "denied"},
	} {
		g := refresh.Group{Name: "workers", Desired: tt.desired, Min: 2, Max: 5, Tags: map[string]string{}}
		if tt.tag != "" {
			g.Tags[refresh.SurgeTag] = tt.tag
		}
		api := &changes{fails: tt.fails}
		got, err := NewWriter(api).Lower(t.Context(), g)
		if got != tt.want || !slices.Equal(api.done, tt.done) || !fails(err, tt.failed) {
			t.Errorf("%s: got %v, %v, done %v", tt.name, got, err, api.done)
		}
	}
}

func TestStartDesiredConfiguration(t *testing.T) {
	t.Parallel()
	byID := func(id, version string) *types.LaunchTemplateSpecification {
		return &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id), Version: aws.String(version)}
	}
	pinned := mixedPolicy()
	pinned.LaunchTemplate.LaunchTemplateSpecification = byID("lt-1", "7")
	pinned.LaunchTemplate.Overrides[1].LaunchTemplateSpecification = byID("lt-2", "3")
	mixed := refresh.Group{Source: toSource(types.AutoScalingGroup{MixedInstancesPolicy: mixedPolicy()})}
	target := refresh.Mixed{Template: *template("lt-1", "node", "7"), Overrides: slices.Clone(mixed.Source.Mixed.Overrides)}
	target.Overrides[1].Template = template("lt-2", "arm", "3")
	for _, tt := range []struct {
		name   string
		group  refresh.Group
		source refresh.Source
		free   bool // Not pinned.
		want   *types.DesiredConfiguration
		failed string
	}{
		{name: "a template is named by its id only", source: refresh.Source{Template: template("lt-1", "node", "7")}, want: &types.DesiredConfiguration{LaunchTemplate: byID("lt-1", "7")}},
		{
			name: "a template without an id", source: refresh.Source{Template: &refresh.Template{Name: "node"}},
			want: &types.DesiredConfiguration{LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("node"), Version: aws.String("$Default")}},
		},
		{name: "not pinned", source: refresh.Source{Template: template("lt-1", "node", "7")}, free: true},
		{name: "a launch configuration cannot be desired", source: refresh.Source{Configuration: "lc"}},
		{name: "a mixed instances policy is sent as it was described, with other versions", group: mixed, source: refresh.Source{Mixed: &target}, want: &types.DesiredConfiguration{MixedInstancesPolicy: pinned}},
		{name: "a policy that was not described", group: refresh.Group{Name: "workers"}, source: refresh.Source{Mixed: &target}, failed: "group workers"},
		{name: "another policy", group: mixed, source: refresh.Source{Mixed: &refresh.Mixed{}}, failed: "is not made of"},
	} {
		api := &changes{}
		_, err := NewWriter(api).Start(t.Context(), tt.group, refresh.Target{Source: tt.source}, !tt.free, refresh.Preferences{})
		if !fails(err, tt.failed) || err != nil != (api.start == nil) {
			t.Errorf("%s: %v, sent %v", tt.name, err, api.start)
		} else if err == nil && !reflect.DeepEqual(api.start.DesiredConfiguration, tt.want) {
			t.Errorf("%s: sent %+v", tt.name, api.start.DesiredConfiguration)
		}
	}
	if !reflect.DeepEqual(policyOf(&mixed.Source), *mixedPolicy()) {
		t.Error("the described policy was changed")
	}
}

func TestFromPreferences(t *testing.T) {
	t.Parallel()
	always := func(change func(*types.RefreshPreferences)) *types.RefreshPreferences {
		p := &types.RefreshPreferences{
			AutoRollback: aws.Bool(false), SkipMatching: aws.Bool(false),
			ScaleInProtectedInstances: types.ScaleInProtectedInstancesIgnore, StandbyInstances: types.StandbyInstancesIgnore,
		}
		change(p)
		return p
	}
	for _, tt := range []struct {
		name string
		p    refresh.Preferences
		want *types.RefreshPreferences
	}{
		{"sent always", refresh.Preferences{}, always(func(*types.RefreshPreferences) {})},
		{"matching, protected, standby", refresh.Preferences{SkipMatching: true, Protected: "Wait", Standby: "Terminate"}, always(func(p *types.RefreshPreferences) {
			p.SkipMatching, p.ScaleInProtectedInstances, p.StandbyInstances = aws.Bool(true), "Wait", "Terminate"
		})},
		{"a warmup of 0 is sent", refresh.Preferences{Warmup: new(time.Duration(0))}, always(func(p *types.RefreshPreferences) {
			p.InstanceWarmup = aws.Int32(0)
		})},
		{"parts of a second are rounded up", refresh.Preferences{Bake: new(1500 * time.Millisecond)}, always(func(p *types.RefreshPreferences) {
			p.BakeTime = aws.Int32(2)
		})},
		{"percentages, checkpoints and alarms", refresh.Preferences{
			MinHealthy: new(100), MaxHealthy: new(150), Checkpoints: []int{20, 100}, CheckpointDelay: new(time.Minute), Alarms: []string{"a"}, AutoRollback: true,
		}, always(func(p *types.RefreshPreferences) {
			p.MinHealthyPercentage, p.MaxHealthyPercentage = aws.Int32(100), aws.Int32(150)
			p.CheckpointPercentages, p.CheckpointDelay = []int32{20, 100}, aws.Int32(60)
			p.AlarmSpecification, p.AutoRollback = &types.AlarmSpecification{Alarms: []string{"a"}}, aws.Bool(true)
		})},
	} {
		if got := fromPreferences(tt.p); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code, message string
		want          error
	}{
		{"InstanceRefreshInProgress", "An Instance Refresh is already in progress.", refresh.ErrInProgress},
		{"ActiveInstanceRefreshNotFound", "No in progress or pending Instance Refresh found.", refresh.ErrNoRefresh},
		{"IrreversibleInstanceRefresh", "It has no desired configuration.", refresh.ErrIrreversible},
		{"ValidationError", "Instance Id not found - No managed instance found for instance ID: i-1", refresh.ErrGone},
		{"ValidationError", "The instance i-1 is not part of Auto Scaling group workers.", refresh.ErrGone},
		{"ValidationError", "The instance i-1 is not in InService or Standby.", refresh.ErrGone},
		{"ValidationError", "Currently, desiredSize equals minSize (1).", nil},
		{"ValidationError", "AutoScalingGroup name not found - AutoScalingGroup 'x' not found", nil},
		{"AccessDenied", "Instance Id not found", nil},
	} {
		err := wrap(&smithy.GenericAPIError{Code: tt.code, Message: tt.message}, "do %s", "it")
		for _, one := range []error{refresh.ErrInProgress, refresh.ErrNoRefresh, refresh.ErrIrreversible, refresh.ErrGone} {
			if errors.Is(err, one) != errors.Is(tt.want, one) {
				t.Errorf("%s, %q is %v: %v", tt.code, tt.message, one, errors.Is(err, one))
			}
		}
		if !strings.HasPrefix(err.Error(), "do it: ") || !strings.Contains(err.Error(), tt.message) || cloud.ErrorCode(err) != tt.code {
			t.Errorf("%s: %v", tt.code, err)
		}
	}
	if err := wrap(nil, "do it"); err != nil {
		t.Errorf("success is %v", err)
	}
}

func policyOf(s *refresh.Source) types.MixedInstancesPolicy {
	return s.Mixed.Policy.(types.MixedInstancesPolicy)
}
