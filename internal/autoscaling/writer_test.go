package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
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
	wrong bool // A call honors a cooldown, or its tag propagates to instances.
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
	c.wrong = *in.HonorCooldown
	return nil, c.note("set", fmt.Sprint(*in.DesiredCapacity))
}

func (c *changes) UpdateAutoScalingGroup(
	_ context.Context, in *sdk.UpdateAutoScalingGroupInput, _ ...func(*sdk.Options),
) (*sdk.UpdateAutoScalingGroupOutput, error) {
	return nil, c.note("max", fmt.Sprint(*in.MaxSize))
}

func (c *changes) CreateOrUpdateTags(
	_ context.Context, in *sdk.CreateOrUpdateTagsInput, _ ...func(*sdk.Options),
) (*sdk.CreateOrUpdateTagsOutput, error) {
	c.wrong = *in.Tags[0].PropagateAtLaunch
	return nil, c.note("tag", *in.Tags[0].Value)
}

func (c *changes) DeleteTags(
	_ context.Context, in *sdk.DeleteTagsInput, _ ...func(*sdk.Options),
) (*sdk.DeleteTagsOutput, error) {
	return nil, c.note("untag", *in.Tags[0].ResourceId)
}

func (c *changes) SuspendProcesses(
	_ context.Context, in *sdk.SuspendProcessesInput, _ ...func(*sdk.Options),
) (*sdk.SuspendProcessesOutput, error) {
	return nil, c.note("suspend", strings.Join(in.ScalingProcesses, ","))
}

func (c *changes) ResumeProcesses(
	_ context.Context, in *sdk.ResumeProcessesInput, _ ...func(*sdk.Options),
) (*sdk.ResumeProcessesOutput, error) {
	return nil, c.note("resume", strings.Join(in.ScalingProcesses, ","))
}

var errDeny = errors.New("denied")

// surgedGroup has a maximum of 5 and a minimum of 2.
func surgedGroup(desired int, surge string) refresh.Group {
	g := refresh.Group{Name: "workers", Desired: desired, Min: 2, Max: 5, Tags: map[string]string{}}
	if surge != "" {
		g.Tags[refresh.SurgeTag] = surge
	}
	return g
}

func suspendedGroup(ours string, suspended ...string) refresh.Group {
	return refresh.Group{Name: "workers", Suspended: suspended, Tags: map[string]string{refresh.SuspendedTag: ours}}
}

func raisedGroup(desired int, raised string) refresh.Group {
	g := surgedGroup(desired, "")
	g.Tags[refresh.MaxTag] = raised
	return g
}

func (c *changes) SetInstanceProtection(
	_ context.Context, in *sdk.SetInstanceProtectionInput, _ ...func(*sdk.Options),
) (*sdk.SetInstanceProtectionOutput, error) {
	return nil, c.note("protect", fmt.Sprint(strings.Join(in.InstanceIds, " "), " ", *in.ProtectedFromScaleIn))
}

// protectedGroup has instances a to d, of which a, b and c are protected. The tag lists some.
func protectedGroup(ours string) refresh.Group {
	g := refresh.Group{Name: "workers", Tags: map[string]string{}}
	for _, id := range []string{"i-a", "i-b", "i-c", "i-d"} {
		g.Instances = append(g.Instances, refresh.Instance{ID: id, State: "InService", Protected: id != "i-d"})
	}
	g.Instances[1].State = "Terminating:Wait"
	if ours != "" {
		g.Tags[refresh.ProtectedTag] = ours
	}
	return g
}

func protect(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
	return w.Protect(ctx, g, []string{"i-d"})
}

func unprotect(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
	return w.Unprotect(ctx, g)
}

func raiseMax(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
	return w.RaiseMax(ctx, g, 7)
}

func restoreMax(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
	return w.RestoreMax(ctx, g)
}

func raise(by int) func(context.Context, *Writer, refresh.Group) (any, error) {
	return func(ctx context.Context, w *Writer, g refresh.Group) (any, error) { return w.Raise(ctx, g, by) }
}

func writeSurge(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
	s, _ := refresh.SurgeOf(g)
	s.Terminating = "i-1"
	return nil, w.WriteSurge(ctx, g.Name, s)
}

func lower(ctx context.Context, w *Writer, g refresh.Group) (any, error) { return w.Lower(ctx, g) }

func suspend(processes ...string) func(context.Context, *Writer, refresh.Group) (any, error) {
	return func(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
		return w.Suspend(ctx, g, processes)
	}
}

func release(ctx context.Context, w *Writer, g refresh.Group) (any, error) { return w.Release(ctx, g) }

func releaseOnly(processes ...string) func(context.Context, *Writer, refresh.Group) (any, error) {
	return func(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
		return w.Release(ctx, g, processes...)
	}
}

func pause(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
	return nil, w.Pause(ctx, g.Name)
}

func resume(ctx context.Context, w *Writer, g refresh.Group) (any, error) {
	return nil, w.Resume(ctx, g.Name)
}

// TestChangesThatCanBeUndone: a tag says what the trigger changed, from before the change until it is undone.
func TestChangesThatCanBeUndone(t *testing.T) {
	t.Parallel()
	refused := &smithy.GenericAPIError{Code: "ValidationError", Message: "above max value"}
	for _, tt := range []struct {
		name   string
		group  refresh.Group
		do     func(context.Context, *Writer, refresh.Group) (any, error)
		fails  map[string]error
		want   string
		calls  string
		failed string
	}{
		{"raise: the tag is set first", surgedGroup(3, ""), raise(2), nil, "3-5", "tag raising 3-5 3 NOW, set 5, tag 3-5", ""},
		{"raise: above the group's maximum", surgedGroup(3, ""), raise(3), nil, "0-0", "", "from 3 to 6: its maximum is 5"},
		{"raise: by nothing", surgedGroup(3, ""), raise(0), nil, "0-0", "", "by 0"},
		{"raise: an earlier run ended between tag and call", surgedGroup(3, "raising 3-4"), raise(2), nil, "3-5", "tag raising 3-5 3 NOW, set 5, tag 3-5", ""},
		{"raise: another client has raised it after an earlier run ended", surgedGroup(4, "raising 2-3"), raise(1), nil, "4-5", "tag raising 4-5 4 NOW, set 5, tag 4-5", ""},
		{"raise: another step", surgedGroup(4, "3-4"), raise(1), nil, "3-5", "tag raising 3-5 4 NOW, set 5, tag 3-5", ""},
		{"raise: another step, of which a part was undone", surgedGroup(4, "3-5"), raise(1), nil, "3-5", "tag raising 3-5 4 NOW, set 5, tag 3-5", ""},
		{"raise: another step, and another client has raised it since", surgedGroup(4, "2-3"), raise(1), nil, "3-5", "tag raising 3-5 4 NOW, set 5, tag 3-5", ""},
		{"raise: an earlier run ended in another step", surgedGroup(4, "raising 3-5 4 2000-01-01T00:00:00Z"), raise(1), nil, "3-5", "tag raising 3-5 4 NOW, set 5, tag 3-5", ""},
		{"raise: another step is refused", surgedGroup(4, "3-4"), raise(1), map[string]error{"set": refused}, "raising 3-5 4 NOW", "tag raising 3-5 4 NOW, set 5, tag 3-4", "above max value"},
		{"raise: another client has lowered it since", surgedGroup(2, "3-4"), raise(1), nil, "2-3", "tag raising 2-3 2 NOW, set 3, tag 2-3", ""},
		{"raise: without a tag nothing is raised", surgedGroup(3, ""), raise(1), map[string]error{"tag": errDeny}, "0-0", "tag raising 3-4 3 NOW", "denied"},
		{"raise: refused, the tag is removed", surgedGroup(3, ""), raise(1), map[string]error{"set": refused}, "raising 3-4 3 NOW", "tag raising 3-4 3 NOW, set 4, untag workers", "above max value"},
		{"raise: no answer, the tag stays", surgedGroup(3, ""), raise(1), map[string]error{"set": errDropped}, "raising 3-4 3 NOW", "tag raising 3-4 3 NOW, set 4", "connection reset"},

		{"lower: the tag is removed last", surgedGroup(5, "3-5"), lower, nil, "3", "set 3, untag workers", ""},
		{"lower: not below the group's minimum", surgedGroup(5, "1-5"), lower, nil, "2", "set 2, untag workers", ""},
		{"lower: a part is undone already", surgedGroup(4, "3-5"), lower, nil, "3", "set 3, untag workers", ""},
		{"lower: all is undone already", surgedGroup(3, "3-5"), lower, nil, "3", "untag workers", ""},
		{"lower: another client has raised it: that stays", surgedGroup(5, "3-4"), lower, nil, "4", "set 4, untag workers", ""},
		{"lower: another client has lowered it", surgedGroup(2, "3-5"), lower, nil, "2", "untag workers", ""},
		{"lower: it was never raised", surgedGroup(4, "raising 3-5"), lower, nil, "4", "untag workers", ""},
		{"lower: an invalid tag", surgedGroup(4, "x"), lower, nil, "4", "untag workers", ""},
		{"lower: no tag", surgedGroup(4, ""), lower, nil, "4", "", ""},
		{"lower: refused, the tag stays", surgedGroup(5, "3-5"), lower, map[string]error{"set": errDeny}, "5", "set 3", "denied"},

		{"what is left of a surge", surgedGroup(4, "3-4"), writeSurge, nil, "<nil>", "tag 3-4 i-1", ""},
		{"nothing is left of a surge", surgedGroup(3, ""), writeSurge, nil, "<nil>", "untag workers", ""},

		{"suspend: the tag is set first", suspendedGroup(""), suspend("AZRebalance", "AlarmNotification"), nil, "[AZRebalance AlarmNotification]", "tag AZRebalance AlarmNotification, suspend AZRebalance,AlarmNotification", ""},
		{"suspend: another client has suspended one", suspendedGroup("", "AZRebalance"), suspend("AZRebalance", "ScheduledActions"), nil, "[ScheduledActions]", "tag ScheduledActions, suspend ScheduledActions", ""},
		{"suspend: another client has suspended all", suspendedGroup("", "AZRebalance"), suspend("AZRebalance"), nil, "[]", "", ""},
		{"suspend: an earlier run has suspended all", suspendedGroup("AZRebalance", "AZRebalance"), suspend("AZRebalance"), nil, "[]", "", ""},
		{"suspend: an earlier run ended between tag and call", suspendedGroup("AZRebalance"), suspend("AZRebalance"), nil, "[AZRebalance]", "suspend AZRebalance", ""},
		{"suspend: one more than an earlier run", suspendedGroup("AZRebalance", "AZRebalance"), suspend("AZRebalance", "ScheduledActions"), nil, "[ScheduledActions]", "tag AZRebalance ScheduledActions, suspend ScheduledActions", ""},
		{"suspend: without a tag nothing is suspended", suspendedGroup(""), suspend("AZRebalance"), map[string]error{"tag": errDeny}, "[]", "tag AZRebalance", "denied"},
		{"suspend: refused, the tag stays", suspendedGroup(""), suspend("AZRebalance"), map[string]error{"suspend": errDeny}, "[]", "tag AZRebalance, suspend AZRebalance", "denied"},

		{"release: the tag is removed last", suspendedGroup("AZRebalance ScheduledActions"), release, nil, "[AZRebalance ScheduledActions]", "resume AZRebalance,ScheduledActions, untag workers", ""},
		{"release: one of two", suspendedGroup("AZRebalance ScheduledActions"), releaseOnly("ScheduledActions", "InstanceRefresh"), nil, "[ScheduledActions]", "resume ScheduledActions, tag AZRebalance", ""},
		{"release: the only one", suspendedGroup("ScheduledActions"), releaseOnly("ScheduledActions"), nil, "[ScheduledActions]", "resume ScheduledActions, untag workers", ""},
		{"release: another one", suspendedGroup("AZRebalance"), releaseOnly("ScheduledActions"), nil, "[]", "", ""},
		{"release: no tag", suspendedGroup(""), release, nil, "[]", "", ""},
		{"release: what the trigger does not suspend", suspendedGroup("Launch AZRebalance"), release, nil, "[AZRebalance]", "resume AZRebalance, untag workers", ""},
		{"release: refused, the tag stays", suspendedGroup("AZRebalance"), release, map[string]error{"resume": errDeny}, "[]", "resume AZRebalance", "denied"},

		{"raise max: the tag is set first", surgedGroup(5, ""), raiseMax, nil, "5-7", "tag 5-7, max 7", ""},
		{"raise max: without a tag nothing is raised", surgedGroup(5, ""), raiseMax, map[string]error{"tag": errDeny}, "0", "tag 5-7", "denied"},
		{"raise max: refused, the tag stays", surgedGroup(5, ""), raiseMax, map[string]error{"max": errDeny}, "5-7", "tag 5-7, max 7", "denied"},
		{"restore max: the tag is removed last", raisedGroup(4, "4-5"), restoreMax, nil, "true", "max 4, untag workers", ""},
		{"restore max: the desired capacity keeps it", raisedGroup(5, "4-5"), restoreMax, nil, "false", "", ""},
		{"restore max: the desired capacity keeps a part of it", raisedGroup(4, "3-5"), restoreMax, nil, "false", "tag 3-5-4, max 4", ""},
		{"restore max: another client has set it", raisedGroup(4, "4-6"), restoreMax, nil, "false", "untag workers", ""},
		{"restore max: an earlier run ended before it was raised, or AWS describes it as before", raisedGroup(4, "5-6"), restoreMax, nil, "false", "max 5, untag workers", ""},
		{"restore max: no tag", surgedGroup(4, ""), restoreMax, nil, "false", "", ""},
		{"restore max: refused, the tag stays", raisedGroup(4, "4-5"), restoreMax, map[string]error{"max": errDeny}, "false", "max 4", "denied"},

		{"protect: the tag is set first", protectedGroup(""), protect, nil, "[]", "tag d, protect i-d true", ""},
		{"protect: an earlier run has protected others", protectedGroup("a"), protect, nil, "[]", "tag a d, protect i-d true", ""},
		{"protect: without a tag nothing is protected", protectedGroup(""), protect, map[string]error{"tag": errDeny}, "[]", "tag d", "denied"},
		{"unprotect: the tag is removed last", protectedGroup("a b"), unprotect, nil, "[i-a]", "protect i-a false, untag workers", ""},
		{"unprotect: AWS may describe one as before", protectedGroup("a b d"), unprotect, nil, "[i-a i-d]", "protect i-a i-d false, untag workers", ""},
		{"unprotect: no tag", protectedGroup(""), unprotect, nil, "[]", "", ""},
		{"unprotect: refused, the tag stays", protectedGroup("a"), unprotect, map[string]error{"protect": errDeny}, "[]", "protect i-a false", "denied"},

		{"pause", suspendedGroup(""), pause, nil, "<nil>", "suspend InstanceRefresh", ""},
		{"resume", suspendedGroup(""), resume, nil, "<nil>", "resume InstanceRefresh", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &changes{fails: tt.fails}
			got, err := tt.do(t.Context(), NewWriter(api), tt.group)
			now := strings.NewReplacer("NOW", time.Now().UTC().Format(time.RFC3339))
			if fmt.Sprint(got) != now.Replace(tt.want) || strings.Join(api.done, ", ") != now.Replace(tt.calls) ||
				!fails(err, tt.failed) || api.wrong {
				t.Errorf("%s: got %v, %v, calls %v", tt.name, got, err, api.done)
			}
		})
	}
}

// fails reports whether the error contains the text, or is nil if the text is empty.
func fails(err error, text string) bool {
	return strings.Contains(fmt.Sprint(err), cmp.Or(text, "<nil>"))
}

func TestStartDesiredConfiguration(t *testing.T) {
	t.Parallel()
	byID := func(id, version string) *types.LaunchTemplateSpecification {
		return &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id), Version: aws.String(version)}
	}
	byName := &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("node"), Version: aws.String("$Default")}
	pinned := mixedPolicy()
	pinned.LaunchTemplate.LaunchTemplateSpecification = byID("lt-1", "7")
	pinned.LaunchTemplate.Overrides[1].LaunchTemplateSpecification = byID("lt-2", "3")
	mixed := refresh.Group{Source: toSource(mixedPolicy(), nil, nil)}
	target := refresh.Source{Mixed: true, Template: template("lt-1", "node", "7"), Overrides: slices.Clone(mixed.Source.Overrides)}
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
		{name: "a template without an id", source: refresh.Source{Template: &refresh.Template{Name: "node"}}, want: &types.DesiredConfiguration{LaunchTemplate: byName}},
		{name: "not pinned", source: refresh.Source{Template: template("lt-1", "node", "7")}, free: true},
		{name: "a launch configuration cannot be desired", source: refresh.Source{Configuration: "lc"}},
		{name: "a mixed instances policy is sent as it was described, with other versions", group: mixed, source: target, want: &types.DesiredConfiguration{MixedInstancesPolicy: pinned}},
		{name: "a policy that was not described", group: refresh.Group{Name: "workers"}, source: target, failed: "group workers"},
		{name: "another policy", group: mixed, source: refresh.Source{Mixed: true}, failed: "has changed"},
	} {
		api := &changes{}
		_, err := NewWriter(api).Start(t.Context(), tt.group, refresh.Target{Source: tt.source}, !tt.free, refresh.Preferences{})
		if !fails(err, tt.failed) || err != nil != (api.start == nil) {
			t.Errorf("%s: %v, sent %v", tt.name, err, api.start)
		} else if err == nil && !reflect.DeepEqual(api.start.DesiredConfiguration, tt.want) {
			t.Errorf("%s: sent %+v", tt.name, api.start.DesiredConfiguration)
		}
	}
	if !reflect.DeepEqual(mixed.Source.Policy, *mixedPolicy()) {
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
		{"AccessDenied", "You are not authorized to use launch template: lt-1", refresh.ErrMayNotLaunch},
	} {
		err := wrap(&smithy.GenericAPIError{Code: tt.code, Message: tt.message}, "do %s", "it")
		for _, one := range []error{refresh.ErrInProgress, refresh.ErrNoRefresh, refresh.ErrIrreversible, refresh.ErrMayNotLaunch, refresh.ErrGone} {
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

// attempts is a retryer that limits the rate of attempts, as the SDK's mode adaptive does.
type attempts struct {
	*retry.Standard
	n *int
}

func (a attempts) GetAttemptToken(context.Context) (func(error) error, error) {
	*a.n++
	return func(error) error { return nil }, nil
}

// TestTerminateKeepsTheRateOfAttempts: a call that is retried only if AWS throttled it keeps what else the retryer does.
func TestTerminateKeepsTheRateOfAttempts(t *testing.T) {
	t.Parallel()
	n := 0
	_, client := simulate(t, func(o *sdk.Options) { o.Retryer = attempts{retry.NewStandard(), &n} })
	if err := NewWriter(client).Terminate(bounded(t), instanceID); err == nil || n != 1 {
		t.Errorf("%d attempts asked for a token; %v", n, err)
	}
}
