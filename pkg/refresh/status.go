package refresh

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Errors of the calls that package autoscaling makes, by errors.Is.
var (
	ErrNoGroup    = errors.New("there is no such Auto Scaling group")
	ErrBusy       = errors.New("another scaling activity of the group is in progress")
	ErrInProgress = errors.New("another instance refresh or update is in progress")
	ErrNoRefresh  = errors.New("no instance refresh is in progress")
	// ErrMayNotLaunch says what the caller lacks: AWS's own message names the launch template alone.
	ErrMayNotLaunch = errors.New("the caller needs ec2:RunInstances for the launch template, and, as far as that has " +
		"an instance profile, tags or a parameter as its image, iam:PassRole, ec2:CreateTags or ssm:GetParameters " +
		"(docs/iam.md, permission to launch)")
	ErrIrreversible = errors.New("the instance refresh cannot be rolled back")
	ErrGone         = errors.New("the instance or lifecycle action is no longer active")
)

// Preferences are how an instance refresh replaces instances. A nil value or an empty list leaves the choice
// to AWS; everything else is sent with every refresh, since the API's defaults differ from the console's.
// Source: RefreshPreferences in the API reference.
type Preferences struct {
	MinHealthy, MaxHealthy *int // Percent of the desired capacity.
	Warmup                 *time.Duration
	Checkpoints            []int // Percent.
	CheckpointDelay        *time.Duration
	Bake                   *time.Duration
	Alarms                 []string // CloudWatch alarms that fail the refresh.
	AutoRollback           bool
	SkipMatching           bool
	Protected              string // Refresh, Ignore or Wait.
	Standby                string // Terminate, Ignore or Wait.
}

// String lists what is sent, in the API's words.
func (p Preferences) String() string {
	return strings.Join(slices.Concat(
		setting("MinHealthyPercentage", p.MinHealthy), setting("MaxHealthyPercentage", p.MaxHealthy),
		setting("InstanceWarmup", p.Warmup), settings("CheckpointPercentages", p.Checkpoints),
		setting("CheckpointDelay", p.CheckpointDelay), setting("BakeTime", p.Bake),
		settings("AlarmSpecification", p.Alarms), setting("AutoRollback", &p.AutoRollback),
		setting("SkipMatching", &p.SkipMatching), setting("ScaleInProtectedInstances", &p.Protected),
		setting("StandbyInstances", &p.Standby),
	), ", ")
}

func setting[T any](name string, value *T) []string {
	if value == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s %v", name, *value)}
}

func settings[T any](name string, values []T) []string {
	if len(values) == 0 {
		return nil
	}
	return setting(name, &values)
}

// DifferencesFrom describes where the preferences of a refresh differ from requested ones, in the API's words. What the
// request leaves to AWS is no difference, but a checkpoint, a bake time, an alarm and a rollback have to be requested.
// What a refresh has not set has the API's default. Source: RefreshPreferences in the API reference.
func (p Preferences) DifferencesFrom(requested Preferences) []string {
	bake := cmp.Or(requested.Bake, new(time.Duration))
	if p.Bake == nil && *bake == 0 {
		bake = nil
	}
	return slices.Concat(
		difference("MinHealthyPercentage", p.MinHealthy, requested.MinHealthy),
		difference("MaxHealthyPercentage", p.MaxHealthy, requested.MaxHealthy),
		difference("InstanceWarmup", p.Warmup, requested.Warmup),
		difference("CheckpointPercentages", new(fmt.Sprint(p.Checkpoints)), new(fmt.Sprint(requested.Checkpoints))),
		difference("CheckpointDelay", p.CheckpointDelay, requested.CheckpointDelay),
		difference("BakeTime", p.Bake, bake),
		difference("AlarmSpecification", new(fmt.Sprint(p.Alarms)), new(fmt.Sprint(requested.Alarms))),
		difference("AutoRollback", &p.AutoRollback, &requested.AutoRollback),
		difference("SkipMatching", &p.SkipMatching, &requested.SkipMatching),
		difference("ScaleInProtectedInstances", new(cmp.Or(p.Protected, preferWait)), &requested.Protected),
		difference("StandbyInstances", new(cmp.Or(p.Standby, preferWait)), &requested.Standby),
	)
}

// difference is how a value differs from the requested one; nothing if none was requested.
func difference[T comparable](name string, value, requested *T) []string {
	switch {
	case requested == nil || value != nil && *value == *requested:
		return nil
	case value == nil:
		return []string{fmt.Sprintf("%s is unset, not %v", name, *requested)}
	default:
		return []string{fmt.Sprintf("%s is %v, not %v", name, *value, *requested)}
	}
}

// Refresh is an instance refresh as it was described, or an update of a managed node group.
type Refresh struct {
	ID, Group      string
	Status         string // In the API's words: InProgress, Successful, …
	Reason         string
	Percent        int // PercentageComplete: the instances that were replaced and have warmed up.
	ToUpdate       int // InstancesToUpdate.
	Started, Ended time.Time
	Desired        *Source // Its desired configuration, or nil.
	RollbackReason string
	Preferences    Preferences
	Update         *NodeVersion // What an update of a managed node group is to; nil for an instance refresh.
	Resources      []string     // The nodes or instances that EKS names in the errors of an update.
	Evictions      bool         // An update has failed because pods could not be evicted.
}

// Name says which one it is.
func (r Refresh) Name() string {
	if r.Update != nil {
		return ModeNodegroup.Operation() + " " + r.ID
	}
	return ModeRefresh.Operation() + " " + r.ID
}

// Active reports whether the refresh may still replace instances, or roll that back.
func (r Refresh) Active() bool {
	return slices.Contains([]string{
		StatusPending, StatusInProgress, StatusBaking, StatusCancelling, StatusRollbackInProgress,
	}, r.Status)
}

// Statuses of an instance refresh, in the API's words.
const (
	StatusPending            = "Pending"
	StatusInProgress         = "InProgress"
	StatusSuccessful         = "Successful"
	StatusFailed             = "Failed"
	StatusCancelling         = "Cancelling"
	StatusCancelled          = "Cancelled"
	StatusRollbackInProgress = "RollbackInProgress"
	StatusRollbackFailed     = "RollbackFailed"
	StatusRollbackSuccessful = "RollbackSuccessful"
	StatusBaking             = "Baking"
)

// IsEnding reports whether the refresh is active, and is being cancelled or rolled back.
func (r Refresh) IsEnding() bool {
	return r.Status == StatusCancelling || r.Status == StatusRollbackInProgress
}

// HasTarget reports whether the refresh is active and replaces instances as a refresh to the target would.
func (r Refresh) HasTarget(t Target) bool {
	return r.Active() && !r.IsEnding() && r.StartedFor(t)
}

// StartedFor reports whether the refresh, active or not, was started for the target. One without a desired
// configuration has the group itself as its target. $Latest is the same as $Latest, but not as the number
// that it stands for now.
func (r Refresh) StartedFor(t Target) bool {
	switch {
	case t.Problem != "":
		return false
	case r.Update != nil:
		return t.Nodes != nil && r.Update.agrees(*t.Nodes)
	case r.Desired == nil:
		return t.FromGroup
	default:
		return r.Desired.same(t.Source) || r.Desired.same(t.AsWritten)
	}
}
