// Package lifecycle holds and completes EC2 Auto Scaling lifecycle actions: the pause in which an instance
// that is to be terminated may be emptied.
package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/batch"
)

// Action is one lifecycle action: one hook that waits for one instance.
type Action struct {
	Group      string // Auto Scaling group name
	Hook       string // lifecycle hook name
	InstanceID string
	Token      string // may be empty: group, hook and instance name the action as well
	Launch     bool   // of a launching instance; else of a terminating one
}

// pending tells whether the hook may hold an instance that is in the state, or be about to.
func (a Action) pending(s State) bool {
	if a.Launch {
		return s.Launching()
	}
	return s.Terminating()
}

// over tells whether an instance that is in the state is past the hook.
func (a Action) over(s State) bool {
	if a.Launch {
		return !s.Launching() && !s.Unknown()
	}
	return s.Gone()
}

// Result is how an action is completed.
type Result string

// The results that Auto Scaling knows. For a terminating action both end in termination; Abandon also stops
// the other hooks of the instance. A launch that is abandoned ends in termination (Amazon EC2 Auto Scaling
// user guide, "Add lifecycle hooks").
const (
	Continue Result = "CONTINUE"
	Abandon  Result = "ABANDON"
)

// ErrGone is returned when the group has given up on the action: it timed out, or somebody else completed it.
var ErrGone = errors.New("the lifecycle action is no longer active")

// Config is what a user can set, by environment variables that begin with HOOK_.
type Config struct {
	HeartbeatInterval time.Duration `env:"HEARTBEAT_INTERVAL" envDefault:"0s" help:"Time between two heartbeats of a lifecycle action. 0s: half of the hook's own HeartbeatTimeout, which is right for every hook."`
	ConfirmTimeout    time.Duration `env:"CONFIRM_TIMEOUT" envDefault:"1m" help:"How long Auto Scaling may contradict a message (the instance is not terminating) before the message counts as forged. Auto Scaling's answers are eventually consistent."`
	Names             []string      `env:"NAMES" envDefault:"" help:"Names of the lifecycle hooks that this agent answers, separated by commas; others are neither held nor completed. Empty: every hook that a message tells of, and, for instances that no message tells of, the hooks that send to the queue or have no target of their own (EventBridge)."`
	Margin            time.Duration `env:"MARGIN" envDefault:"30s" help:"How long before the hook's global timeout a drain must have ended, so that it is completed by the agent and not by the timeout. At most a tenth of the global timeout is used."`
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.HeartbeatInterval != 0 && (c.HeartbeatInterval < time.Second || c.HeartbeatInterval > 2*time.Hour) {
		errs = append(errs, fmt.Errorf("HOOK_HEARTBEAT_INTERVAL is %v: must be 0s, or from 1s to 2h",
			c.HeartbeatInterval))
	}
	if c.ConfirmTimeout < time.Second || c.ConfirmTimeout > 10*time.Minute {
		errs = append(errs, fmt.Errorf("HOOK_CONFIRM_TIMEOUT is %v: must be from 1s to 10m", c.ConfirmTimeout))
	}
	if c.Margin < 0 || c.Margin > time.Hour {
		errs = append(errs, fmt.Errorf("HOOK_MARGIN is %v: must be from 0s to 1h", c.Margin))
	}
	for _, name := range c.Names {
		if !isHookName(name) {
			errs = append(errs, fmt.Errorf("HOOK_NAMES is %q: %q is no name of a lifecycle hook: "+
				"must be 1 to 255 letters, digits, hyphens, underscores and slashes", strings.Join(c.Names, ","), name))
			break
		}
	}
	return errors.Join(errs...)
}

// isHookName tells whether Auto Scaling could have a lifecycle hook of the name (its API reference,
// "PutLifecycleHook").
func isHookName(s string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/"
	return s != "" && len(s) <= 255 && strings.Trim(s, allowed) == ""
}

// API is the part of the Auto Scaling client that Hooks calls.
type API interface {
	DescribeAutoScalingInstances(context.Context, *sdk.DescribeAutoScalingInstancesInput,
		...func(*sdk.Options)) (*sdk.DescribeAutoScalingInstancesOutput, error)
	DescribeLifecycleHooks(context.Context, *sdk.DescribeLifecycleHooksInput,
		...func(*sdk.Options)) (*sdk.DescribeLifecycleHooksOutput, error)
	DescribeInstanceRefreshes(context.Context, *sdk.DescribeInstanceRefreshesInput,
		...func(*sdk.Options)) (*sdk.DescribeInstanceRefreshesOutput, error)
	DescribeTags(context.Context, *sdk.DescribeTagsInput,
		...func(*sdk.Options)) (*sdk.DescribeTagsOutput, error)
	DescribeAutoScalingGroups(context.Context, *sdk.DescribeAutoScalingGroupsInput,
		...func(*sdk.Options)) (*sdk.DescribeAutoScalingGroupsOutput, error)
	SetInstanceHealth(context.Context, *sdk.SetInstanceHealthInput,
		...func(*sdk.Options)) (*sdk.SetInstanceHealthOutput, error)
	RecordLifecycleActionHeartbeat(context.Context, *sdk.RecordLifecycleActionHeartbeatInput,
		...func(*sdk.Options)) (*sdk.RecordLifecycleActionHeartbeatOutput, error)
	CompleteLifecycleAction(context.Context, *sdk.CompleteLifecycleActionInput,
		...func(*sdk.Options)) (*sdk.CompleteLifecycleActionOutput, error)
}

// Observer is told what happens to lifecycle actions. Its methods are called from several goroutines and must
// not block.
type Observer interface {
	HeartbeatSent(a Action)
	AutoScalingFailed(operation string, err error) // the call is tried again
}

// Hooks holds and completes lifecycle actions. Make it with New.
type Hooks struct {
	api      API
	cfg      Config
	observer Observer
	queue    string // the end of its ARN

	instances batch.Batcher[string, State]
	listed    cache[[]types.LifecycleHook] // by group
	clusters  cache[[]string]
	refreshes cache[bool]
}

// New returns Hooks that call api, for an agent that reads the queue.
func New(api API, cfg Config, queueURL string, observer Observer) *Hooks {
	h := &Hooks{api: api, cfg: cfg, observer: observer, queue: arnOf(queueURL)}
	h.instances = batch.Batcher[string, State]{Max: describeMax, Window: describeWindow, Call: h.describe}
	h.listed.read = h.readHooks
	h.clusters.read = h.readClusters
	h.refreshes.read, h.refreshes.keep = h.readRefresh, keepRefresh
	return h
}

// State is the lifecycle state of an instance, in Auto Scaling's own words: "InService", "Terminating:Wait".
// It is empty for an instance that is in no group.
type State string

// Terminating tells whether the instance is on its way out of its group, or of service into the warm pool,
// and has not been let go: the hook may be waiting, or about to.
func (s State) Terminating() bool {
	switch s {
	case "Terminating", "Terminating:Wait", "Warmed:Terminating", "Warmed:Terminating:Wait",
		"Warmed:Pending", "Warmed:Pending:Wait":
		return true
	}
	return false
}

// Launching tells whether the instance is on its way into its group, or into the warm pool, and has not been
// let go: the hook may be waiting, or about to. On its way into the warm pool it may come from service, too.
func (s State) Launching() bool {
	switch s {
	case "Pending", "Pending:Wait", "Warmed:Pending", "Warmed:Pending:Wait":
		return true
	}
	return false
}

// Warmed tells whether the instance is in the warm pool, or on its way there.
func (s State) Warmed() bool { return strings.HasPrefix(string(s), "Warmed:") }

// Waiting tells whether a lifecycle hook holds the instance now.
func (s State) Waiting() bool { return strings.HasSuffix(string(s), ":Wait") }

// Gone tells whether the instance is past its hooks: on its way to the end, or in the warm pool.
func (s State) Gone() bool {
	switch s {
	case "Terminating:Proceed", "Terminated", "Terminating:Retained",
		"Warmed:Terminating:Proceed", "Warmed:Terminated", "Warmed:Terminating:Retained",
		"Warmed:Pending:Proceed", "Warmed:Pending:Retained",
		"Warmed:Stopped", "Warmed:Running", "Warmed:Hibernated":
		return true
	}
	return false
}

// Unknown tells whether the instance is in no group: terminated and forgotten, or never in one.
func (s State) Unknown() bool { return s == "" }

const (
	// describeMax is the most instances of one DescribeAutoScalingInstances call.
	describeMax = 50
	// describeWindow is how long a question waits for others: a burst of messages costs one call.
	describeWindow = 50 * time.Millisecond
)

// State asks Auto Scaling for the state of an instance. Questions that come together go in one call.
func (h *Hooks) State(ctx context.Context, instanceID string) (State, error) {
	return h.instances.Do(ctx, instanceID)
}

func (h *Hooks) describe(ctx context.Context, ids []string) []batch.Result[State] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unique := slices.Compact(slices.Sorted(slices.Values(ids)))
	out, err := h.api.DescribeAutoScalingInstances(ctx,
		&sdk.DescribeAutoScalingInstancesInput{InstanceIds: unique})
	results := make([]batch.Result[State], len(ids))
	if err != nil {
		for i := range results {
			results[i].Err = fmt.Errorf("describe Auto Scaling instances: %w", err)
		}
		return results
	}
	states := make(map[string]State, len(out.AutoScalingInstances))
	for _, i := range out.AutoScalingInstances {
		states[deref(i.InstanceId)] = State(deref(i.LifecycleState))
	}
	for i, id := range ids {
		results[i].Value = states[id]
	}
	return results
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
