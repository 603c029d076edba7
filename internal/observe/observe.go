// Package observe tells the world what happens: one method for each fact worth telling, as a log line, a
// metric and, where it concerns one object of the cluster, a Kubernetes Event.
package observe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/lifecycle"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Config is what a user can set, by environment variables that begin with LOG_.
type Config struct {
	Level  string `env:"LEVEL" envDefault:"info" help:"Least severe level that is logged: debug, info, warn or error."`
	Format string `env:"FORMAT" envDefault:"json" help:"Form of the log lines: json, or console for people."`
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

// Observer tells what happens. Make it with New.
type Observer struct {
	log     zerolog.Logger
	metrics metrics
	events  Events
}

// The reasons of our Kubernetes Events.
const (
	reasonDraining   = "Draining"
	reasonDrained    = "Drained"
	reasonLeftBehind = "PodsLeftBehind"
	reasonRestored   = "TerminationNotConfirmed"
	reasonBlocked    = "EvictionBlocked"
	reasonForced     = "DeletedAtDeadline"
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
		Msg("message settled")
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
	o.log.Warn().Str("api", api).Str("operation", operation).Err(err).Msg("call failed, will be tried again")
}

// EventReceived tells what a message says.
func (o *Observer) EventReceived(m queue.Message, e event.Event) {
	o.metrics.events.WithLabelValues(string(e.Kind)).Inc()
	o.log.Info().Str("event", string(e.Kind)).Str("event_id", e.ID).Str("instance", e.InstanceID).
		Str("message_id", m.ID).Msg("event received")
}

// EventIgnored tells that an event asks for nothing that the agent does.
func (o *Observer) EventIgnored(m queue.Message, e event.Event) {
	o.log.Debug().Str("event", string(e.Kind)).Str("message_id", m.ID).Msg("event ignored")
}

func (o *Observer) about(e *zerolog.Event, a lifecycle.Action) *zerolog.Event {
	return e.Str("instance", a.InstanceID).Str("group", a.Group).Str("hook", a.Hook)
}

// TerminationBegan tells that the agent has taken up a lifecycle action.
func (o *Observer) TerminationBegan(a lifecycle.Action) {
	o.metrics.active.Inc()
	o.about(o.log.Debug(), a).Msg("termination taken up")
}

// NodeAwaited tells that a terminating instance is no Node yet.
func (o *Observer) NodeAwaited(a lifecycle.Action) {
	o.about(o.log.Info(), a).Msg("no node is registered for the instance, waiting for one")
}

// NodeRetired tells that a node has been taken out of service.
func (o *Observer) NodeRetired(a lifecycle.Action, n node.Node, mark node.Mark) {
	o.about(o.log.Info(), a).Str("node", n.Name).Time("deadline", mark.Deadline).Msg("node taken out of service")
	o.events.OnNode(n.Name, n.UID, reasonDraining, fmt.Sprintf(
		"Instance %s is terminating: draining until %s (hook %s of group %s)",
		a.InstanceID, mark.Deadline.Format(time.RFC3339), a.Hook, a.Group), false)
}

// NodeRestored tells that a node is back in service, because its termination was not confirmed.
func (o *Observer) NodeRestored(a lifecycle.Action, n node.Node) {
	o.about(o.log.Warn(), a).Str("node", n.Name).Msg("node put back into service")
	o.events.OnNode(n.Name, n.UID, reasonRestored, "Auto Scaling does not confirm the termination of "+
		a.InstanceID+": the node is back in service", true)
}

// NodeDrained tells what a drain came to.
func (o *Observer) NodeDrained(a lifecycle.Action, n node.Node, r drain.Report) {
	o.metrics.drains.Observe(r.Took.Seconds())
	e := o.about(o.log.Info(), a).Str("node", n.Name).Int("pods", r.Total).Int("forced", r.Forced).
		Dur("took", r.Took)
	if len(r.Left) == 0 {
		e.Msg("node drained")
		o.events.OnNode(n.Name, n.UID, reasonDrained, fmt.Sprintf("All %d pods have left the node", r.Total), false)
		return
	}
	e.Strs("left", r.Left).Msg("deadline came with pods left on the node")
	o.events.OnNode(n.Name, n.UID, reasonLeftBehind, fmt.Sprintf(
		"The deadline came with %d of %d pods left: %s", len(r.Left), r.Total, someOf(r.Left)), true)
}

// someOf names the first of many, for an Event's message is bounded.
func someOf(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// TerminationEnded tells how a termination ended.
func (o *Observer) TerminationEnded(a lifecycle.Action, outcome string, took time.Duration) {
	o.metrics.active.Dec()
	o.metrics.terminations.WithLabelValues(outcome).Inc()
	level := zerolog.InfoLevel
	if outcome == "forged" || outcome == "left-behind" {
		level = zerolog.WarnLevel
	}
	o.about(o.log.WithLevel(level), a).Str("outcome", outcome).Dur("took", took).Msg("termination ended")
}

// Retrying tells that a step of a termination failed.
func (o *Observer) Retrying(a lifecycle.Action, doing string, err error) {
	o.about(o.log.Warn(), a).Str("operation", doing).Err(err).Msg("step failed, will be tried again")
}

// HeartbeatSent tells that the lifecycle action has been prolonged.
func (o *Observer) HeartbeatSent(a lifecycle.Action) {
	o.metrics.heartbeats.Inc()
	o.about(o.log.Debug(), a).Msg("heartbeat sent")
}

// DrainProgressed tells how far a drain is.
func (o *Observer) DrainProgressed(p drain.Progress) {
	o.log.Info().Str("node", p.Node).Int("pods", p.Total).Int("left", p.Left).Int("blocked", p.Blocked).
		Msg("draining")
}

// PodEvicted tells that the eviction of a pod was accepted.
func (o *Observer) PodEvicted(nodeName string, p drain.Pod) {
	o.metrics.pods.WithLabelValues("evicted").Inc()
	o.log.Debug().Str("node", nodeName).Str("pod", p.Namespace+"/"+p.Name).Msg("pod evicted")
}

// PodBlocked tells that a pod must wait, and for what.
func (o *Observer) PodBlocked(nodeName string, p drain.Pod, why string) {
	o.metrics.pods.WithLabelValues("blocked").Inc()
	o.log.Info().Str("node", nodeName).Str("pod", p.Namespace+"/"+p.Name).Strs("budgets", p.Budgets).
		Str("reason", why).Msg("eviction blocked")
	what := "PodDisruptionBudget " + strings.Join(p.Budgets, ", ")
	if len(p.Budgets) == 0 { // none that is known here: the API server's own words
		what = why
	}
	o.events.OnPod(p.Namespace, p.Name, p.UID, reasonBlocked,
		fmt.Sprintf("Node %s is being drained; the pod waits for %s", nodeName, what), true)
}

// PodForced tells that a pod was deleted past its budget.
func (o *Observer) PodForced(nodeName string, p drain.Pod, grace time.Duration) {
	o.metrics.pods.WithLabelValues("forced").Inc()
	o.log.Warn().Str("node", nodeName).Str("pod", p.Namespace+"/"+p.Name).Dur("grace", grace).
		Msg("pod deleted at the deadline")
	o.events.OnPod(p.Namespace, p.Name, p.UID, reasonForced, fmt.Sprintf(
		"Deleted with a grace of %v: node %s must be empty by its deadline", grace, nodeName), true)
}
