// Package observe tells the world what happens: one method for each fact worth telling, as a log line, a
// metric and, where it concerns one object of the cluster, a Kubernetes Event.
package observe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Config is what a user can set, by environment variables that begin with LOG_.
type Config struct {
	Level  string `env:"LEVEL" envDefault:"info" values:"debug,info,warn,error" help:"Least severe level that is logged: debug, info, warn or error."`
	Format string `env:"FORMAT" envDefault:"json" values:"json,console" help:"Form of the log lines: json, or console for people."`
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	switch c.Level {
	case "debug", "info", "warn", "error":
	default:
		errs = append(errs, fmt.Errorf("LOG_LEVEL is %q: must be debug, info, warn or error", c.Level))
	}
	if c.Format != "json" && c.Format != "console" {
		errs = append(errs, fmt.Errorf("LOG_FORMAT is %q: must be json or console", c.Format))
	}
	return errors.Join(errs...)
}

// NewLogger returns the logger that cfg, which is valid, describes. It makes every logger of the process tell
// the time in milliseconds.
func NewLogger(cfg Config, w io.Writer) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	if cfg.Format == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
	}
	level, err := zerolog.ParseLevel(cfg.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// Events records Kubernetes Events.
type Events interface {
	OnNode(name, uid, reason, message string, warning bool)
	OnPod(namespace, name, uid, reason, message string, warning bool)
}

// Conditions has Nodes show how far their drain is.
type Conditions interface {
	Report(name, uid string, c node.Condition)
}

// Silence stands for Events and Conditions in a dry run: both would change the cluster.
type Silence struct{}

// OnNode does nothing.
func (Silence) OnNode(_, _, _, _ string, _ bool) {}

// OnPod does nothing.
func (Silence) OnPod(_, _, _, _, _ string, _ bool) {}

// Report does nothing.
func (Silence) Report(_, _ string, _ node.Condition) {}

// Observer tells what happens. Make it with New.
type Observer struct {
	log        zerolog.Logger
	metrics    metrics
	events     Events
	conditions Conditions
	drains     drains
}

// The reasons of our Kubernetes Events, and of the condition.
const (
	reasonDraining      = "Draining"
	reasonCordoned      = "Cordoned"
	reasonBlocked       = "Blocked"
	reasonDrained       = "Drained"
	reasonLeftBehind    = "PodsLeftBehind"
	reasonVolumesLeft   = "VolumesLeftAttached"
	reasonRestored      = "Uncordoned"
	reasonHeld          = "EvictionBlocked"
	reasonMisconfigured = "BudgetMisconfigured"
	reasonPutOff        = "EvictionPostponed"
	reasonAtDeadline    = "DeletedAtDeadline"
	reasonUnhealthy     = "DeletedUnhealthy"
)

// MessageReceived tells that a message has come in.
func (o *Observer) MessageReceived(m queue.Message) {
	o.log.Debug().Str("message_id", m.ID).Int("receives", m.Receives).Int("bytes", len(m.Body)).
		Msg("message received")
}

// MessageSettled tells what became of a message.
func (o *Observer) MessageSettled(m queue.Message, outcome queue.Outcome, err error) {
	o.metrics.messages.WithLabelValues(string(outcome)).Inc()
	level := zerolog.DebugLevel
	if outcome == queue.Dropped {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("message_id", m.ID).Str("outcome", string(outcome)).AnErr("reason", err).
		Msg("message handled")
}

// MessageRefused tells that a message is none that the agent can act upon. What it holds is not logged.
func (o *Observer) MessageRefused(m queue.Message, reason string, err error) {
	o.metrics.refused.WithLabelValues(reason).Inc()
	o.log.Warn().Str("message_id", m.ID).Str("reason", reason).Int("bytes", len(m.Body)).
		Int("receives", m.Receives).Err(err).Msg("message refused")
}

// QueueFailed tells that a call to SQS failed.
func (o *Observer) QueueFailed(operation string, err error) { o.failed("sqs", operation, err) }

// AutoScalingFailed tells that a call to Auto Scaling failed.
func (o *Observer) AutoScalingFailed(operation string, err error) {
	o.failed("autoscaling", operation, err)
}

// KubernetesFailed tells that a call to the API server failed.
func (o *Observer) KubernetesFailed(operation string, err error) {
	o.failed("kubernetes", operation, err)
}

func (o *Observer) failed(api, operation string, err error) {
	o.metrics.apiErrors.WithLabelValues(api).Inc()
	o.log.Warn().Str("api", api).Str("operation", operation).Err(err).Msg("call failed, retrying")
}

// EventReceived tells what a message says.
func (o *Observer) EventReceived(m queue.Message, e event.Event) {
	o.metrics.events.WithLabelValues(string(e.Kind)).Inc()
	o.log.Debug().Str("event", string(e.Kind)).Str("event_id", e.ID).Str("instance", e.InstanceID).
		Str("message_id", m.ID).Msg("event received")
}

// EventIgnored tells that nothing is done about an event.
func (o *Observer) EventIgnored(e event.Event, why string) {
	o.log.Debug().Str("event", string(e.Kind)).Str("instance", e.InstanceID).Str("reason", why).
		Msg("event ignored")
}

// about names the event of a termination, and its hook if one waits.
func (o *Observer) about(l *zerolog.Event, e event.Event) *zerolog.Event {
	l = l.Str("event", string(e.Kind)).Str("instance", e.InstanceID)
	if e.Hook.Name == "" {
		return l
	}
	return l.Str("group", e.Hook.Group).Str("hook", e.Hook.Name)
}

// TerminationStarted tells that the agent has taken up a termination.
func (o *Observer) TerminationStarted(e event.Event) {
	o.metrics.active.Inc()
	o.about(o.log.Info(), e).Msg("termination started")
}

// NodeAwaited tells that a terminating instance is no Node yet.
func (o *Observer) NodeAwaited(e event.Event) {
	o.about(o.log.Info(), e).Msg("waiting for the instance to register as a node")
}

// TerminationEnded tells how a termination ended.
func (o *Observer) TerminationEnded(e event.Event, outcome string, took time.Duration) {
	o.metrics.active.Dec()
	o.metrics.terminations.WithLabelValues(outcome).Inc()
	level := zerolog.InfoLevel
	if slices.Contains([]string{"unconfirmed", "left-behind", "cut-short"}, outcome) {
		level = zerolog.WarnLevel
	}
	o.about(o.log.WithLevel(level), e).Str("outcome", outcome).Dur("took", took).Msg("termination ended")
}

// Retrying tells that a step of a termination failed.
func (o *Observer) Retrying(e event.Event, doing string, err error) {
	o.metrics.retries.Inc()
	o.about(o.log.Warn(), e).Str("operation", doing).Err(err).Msg("step failed, retrying")
}

// Resynced tells what a look at every instance of the cluster has brought: how many hooks hold one though no
// message of it is in hand, and of how many that an earlier look had found no message has told to the end.
func (o *Observer) Resynced(members, found, untold int) {
	o.metrics.swept.Add(float64(untold))
	level := zerolog.DebugLevel
	if found > 0 {
		level = zerolog.InfoLevel
	}
	o.log.WithLevel(level).Int("instances", members).Int("found", found).
		Msg("resync finished")
}

// ResyncFailed tells that such a look could not be finished.
func (o *Observer) ResyncFailed(err error) {
	o.failed("autoscaling", "resync", err)
}

// HeartbeatSent tells that the lifecycle action has been prolonged.
func (o *Observer) HeartbeatSent(a autoscaling.Action) {
	o.metrics.heartbeats.Inc()
	o.log.Debug().Str("instance", a.InstanceID).Str("group", a.Group).Str("hook", a.Hook).Msg("heartbeat sent")
}
