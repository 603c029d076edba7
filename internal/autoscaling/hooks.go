// Package autoscaling makes all calls to Amazon EC2 Auto Scaling; the SDK's types do not leave it.
//
// For the agent, Hooks keeps lifecycle actions pending and completes them, and Groups reads what the agent
// has to know of groups and their instances. For the trigger, a Reader describes groups and their instance
// refreshes, and a Writer changes them. A Reader and a Writer take and return the types of package refresh.
package autoscaling

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Action is one lifecycle action: one hook that waits for one instance.
type Action struct {
	Group      string // Auto Scaling group name
	Hook       string // lifecycle hook name
	InstanceID string
	Token      string    // may be empty: group, hook and instance name the action as well
	Launch     bool      // of a launching instance; else of a terminating one
	Found      bool      // no message says when it began: it was found to be pending when it was first seen
	Seen       time.Time // when the agent first saw that it is pending; zero if that is not known
	Latest     time.Time // until when its completion may wait for those of others; zero if it may not
	InTurn     bool      // it is not confirmed: its heartbeats wait for those of others that are not
}

// name is what tells the action from others.
func (a Action) name() Action {
	return Action{Group: a.Group, Hook: a.Hook, InstanceID: a.InstanceID, Launch: a.Launch}
}

func (a Action) String() string { return a.Group + "/" + a.Hook + " for " + a.InstanceID }

// pending reports whether the hook may hold an instance in the state, now or soon.
func (a Action) pending(s State) bool {
	if a.Launch {
		return s.Launching()
	}
	return s.Terminating()
}

// over reports whether an instance in the state is past the hook.
func (a Action) over(s State) bool {
	if a.Launch {
		return !s.Launching() && !s.Unknown() && !s.ReplacingRootVolume()
	}
	return s.Gone()
}

// transition is what the action's hook waits for.
func (a Action) transition() Transition {
	if a.Launch {
		return Launching
	}
	return Terminating
}

// token is the action's token, or nil without one.
func (a Action) token() *string { return textOrNil(a.Token) }

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// afterError is the action as the next call names it: without its token if Auto Scaling does not know that.
func (a Action) afterError(err error) Action {
	if isNotActive(err) {
		a.Token = ""
	}
	return a
}

// Result is how an action is completed.
type Result string

// The results that Auto Scaling knows. A terminating instance is terminated after both; Abandon also stops
// its other hooks. A launching instance is terminated after Abandon. Source: "Add lifecycle hooks" in the
// Amazon EC2 Auto Scaling user guide.
const (
	Continue Result = "CONTINUE"
	Abandon  Result = "ABANDON"
)

// Transition is what a lifecycle hook waits for, in Auto Scaling's own words.
type Transition string

// The transitions.
const (
	Launching   Transition = "autoscaling:EC2_INSTANCE_LAUNCHING"
	Terminating Transition = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// ErrGone is returned when a lifecycle action has ended (it timed out, or another client completed it), and
// when an instance is in no group or terminating.
var ErrGone = refresh.ErrGone

// ErrUnknownToken is returned when Auto Scaling knows no active action with the token, and the instance may be held all
// the same: the action has ended, and another one of its hook has begun, or the token was forged.
var ErrUnknownToken = errors.New("no active lifecycle action has the token")

// Config is what a user can set, by environment variables that begin with HOOK_.
type Config struct {
	HeartbeatInterval time.Duration `env:"HEARTBEAT_INTERVAL" envDefault:"0s" help:"Time between two heartbeats. 0s: half of the hook's HeartbeatTimeout."`
	ConfirmTimeout    time.Duration `env:"CONFIRM_TIMEOUT" envDefault:"1m" help:"How long AWS may contradict a message before it is unconfirmed."`
	Names             []string      `env:"NAMES" envDefault:"" help:"Names of the lifecycle hooks that this agent handles, separated by commas; it ignores all others. Set it: other tools may have hooks on the same groups. Empty: the hooks that notify the queue or name no target."`
	Margin            time.Duration `env:"MARGIN" envDefault:"30s" help:"How long before the hook's global timeout a drain must end; at most a tenth of it."`
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
			errs = append(errs, fmt.Errorf("HOOK_NAMES is %q: %q is not the name of a lifecycle hook: "+
				"must be 1 to 255 letters, digits, hyphens, underscores and slashes", strings.Join(c.Names, ","), name))
			break
		}
	}
	return errors.Join(errs...)
}

// isHookName reports whether a lifecycle hook can have the name. Source: PutLifecycleHook in the API
// reference.
func isHookName(s string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/"
	return s != "" && len(s) <= 255 && strings.Trim(s, allowed) == ""
}

// Observer is notified of what happens to lifecycle actions. Its methods are called from several goroutines
// and must not block.
type Observer interface {
	HeartbeatSent(a Action)
	AutoScalingFailed(operation string, err error) // the call is retried
}

// Hooks keeps lifecycle actions pending and completes them. Make it with New.
type Hooks struct {
	*Groups
	*unconfirmed
	Health
	api      API
	cfg      Config
	observer Observer
	pace     *pace
	beats    beats
	held     atomic.Int64 // actions
}

// New returns Hooks that call api, for an agent that reads the queue. The client must not retry by itself:
// Hooks does, and reports each failure to the observer.
func New(api API, cfg Config, queueURL string, observer Observer) *Hooks {
	groups := newGroups(api, cfg, queueURL)
	return &Hooks{
		Groups: groups, unconfirmed: newUnconfirmed(groups.describe), Health: Health{api: api, limit: callTimeout},
		api: api, cfg: cfg, observer: observer, pace: newPace(),
	}
}
