// Package observe records what happens, with one method for each fact: as a log line, in metrics and, if it
// concerns a Node or a Pod, as a Kubernetes Event.
package observe

import (
	"cmp"
	"io"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Config configures the log, by environment variables that begin with LOG_.
type Config struct {
	Level  string `env:"LEVEL" envDefault:"info" values:"debug,info,warn,error" help:"debug, info, warn or error."`
	Format string `env:"FORMAT" envDefault:"json" values:"json,console" help:"json, or console, which is easier to read."`
}

// NewLogger returns a logger that writes to w. cfg must be valid. It sets the time format of all zerolog
// loggers in the process, with milliseconds.
func NewLogger(cfg Config, w io.Writer) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	if cfg.Format == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
	}
	level, _ := zerolog.ParseLevel(cfg.Level)
	return zerolog.New(cleanWriter{w}).Level(level).With().Timestamp().Logger()
}

// cleanWriter writes lines of JSON without characters that a terminal would interpret: kubectl logs shows them, and
// they quote what others write.
type cleanWriter struct{ io.Writer }

func (w cleanWriter) Write(line []byte) (int, error) {
	_, err := io.WriteString(w.Writer, text.CleanJSON(string(line)))
	return len(line), err
}

// Events records Kubernetes Events.
type Events interface {
	OnNode(name, uid, reason, message string, warning bool)
	OnPod(namespace, name, uid, reason, message string, warning bool)
}

// Conditions writes the progress of drains to the status of Nodes.
type Conditions interface {
	Report(name, uid string, c node.Condition)
}

// Silence drops Events and conditions: in a dry run they must not change the cluster.
type Silence struct{}

// OnNode does nothing.
func (Silence) OnNode(_, _, _, _ string, _ bool) {}

// OnPod does nothing.
func (Silence) OnPod(_, _, _, _, _ string, _ bool) {}

// Report does nothing.
func (Silence) Report(_, _ string, _ node.Condition) {}

// Observer records what happens. Make it with New.
type Observer struct {
	log        zerolog.Logger
	metrics    metrics
	events     Events
	conditions Conditions
	history    History
	notifier   Notifier
	notified   *prometheus.CounterVec // drains in messages
	drains     drains
}

// The reasons of Events and of the condition.
const (
	reasonDraining        = "Draining"
	reasonCordoned        = "Cordoned"
	reasonBlocked         = "Blocked"
	reasonDrained         = "Drained"
	reasonLeftBehind      = "PodsLeftBehind" // node.ReasonLeftBehind
	reasonReturned        = "PodsReturned"
	reasonLost            = "NodeLost"
	reasonVolumesLeft     = "VolumesLeftAttached"
	reasonControlled      = "DrainChanged"
	reasonUncordoned      = "Uncordoned"
	reasonDrainPostponed  = "DrainPostponed"
	reasonDrainCanceled   = "DrainCanceled"
	reasonEvictionBlocked = "EvictionBlocked"
	reasonBudget          = "BudgetMisconfigured"
	reasonPostponed       = "EvictionPostponed"
	reasonAtDeadline      = "DeletedAtDeadline"
	reasonEvicted         = "EvictedAtDeadline"
	reasonGraceCut        = "GracePeriodCut"
	reasonUnhealthy       = "DeletedUnhealthy"
	reasonOthersLeft      = "DeletedAfterOthers"
	reasonHandedOver      = "HandedOver"
	reasonHandOverFailed  = "HandOverFailed"
	reasonHandOverPutOff  = "HandOverPutOff"
	reasonRollingRestart  = "RollingRestart"
	reasonRestartFailed   = "RollingRestartFailed"
)

// MessageReceived records that a message was received.
func (o *Observer) MessageReceived(m queue.Message) {
	o.log.Debug().Str("message_id", m.ID).Int("receives", m.Receives).Int("bytes", len(m.Body)).
		Msg("message received")
}

// MessageSettled records the outcome of a message.
func (o *Observer) MessageSettled(m queue.Message, outcome queue.Outcome, err error) {
	o.metrics.messages.WithLabelValues(string(outcome)).Inc()
	level := zerolog.DebugLevel
	if outcome == queue.Dropped {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("message_id", m.ID).Str("outcome", string(outcome)).AnErr("reason", err).
		Msg("message handled")
}

// MessageRefused records that the agent cannot handle a message. Its body is not logged: it may contain
// secrets.
func (o *Observer) MessageRefused(m queue.Message, reason string, err error) {
	o.metrics.refused.WithLabelValues(reason).Inc()
	o.log.Warn().Str("message_id", m.ID).Str("sender", m.Sender).Str("reason", reason).Int("bytes", len(m.Body)).
		Int("receives", m.Receives).Err(err).Msg("message refused")
}

// QueueFailed records a failed call to SQS.
func (o *Observer) QueueFailed(operation string, err error) { o.failed("sqs", operation, err) }

// AutoScalingFailed records a failed call to Auto Scaling.
func (o *Observer) AutoScalingFailed(operation string, err error) {
	o.failed("autoscaling", operation, err)
}

// KubernetesFailed records a failed call to the API server.
func (o *Observer) KubernetesFailed(operation string, err error) {
	o.failed("kubernetes", operation, err)
}

// KubernetesUnanswered records for how long the API server has not answered, 0 if it answers, and the last error. One
// slow answer is no warning: a webhook may take ten seconds by default, and 30 at most.
func (o *Observer) KubernetesUnanswered(since time.Duration, err error) {
	o.metrics.unanswered.Set(since.Seconds())
	if since >= slowAnswer {
		o.log.Warn().Float64("seconds", since.Round(time.Second).Seconds()).Err(err).
			Msg("the API server does not answer")
	}
}

// slowAnswer is the time after which an answer of the API server is overdue.
const slowAnswer = 10 * time.Second

func (o *Observer) failed(api, operation string, err error) {
	o.metrics.apiErrors.WithLabelValues(api).Inc()
	o.log.Warn().Str("api", api).Str("operation", operation).Err(err).Msg("call failed, retrying")
}

// EventDropped records that a Kubernetes Event is not written. One on a Node says how its drain goes, and no other
// does.
func (o *Observer) EventDropped(object, name, reason string, err error) {
	o.metrics.eventsDropped.WithLabelValues(object).Inc()
	level := zerolog.DebugLevel
	if object == "node" {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("object", object).Str("name", name).Str("reason", reason).Err(err).Msg("event dropped")
}

// EventReceived records an event that a message announces.
func (o *Observer) EventReceived(m queue.Message, e event.Event) {
	o.metrics.events.WithLabelValues(string(e.Kind)).Inc()
	o.log.Debug().Str("event", string(e.Kind)).Str("event_id", e.ID).Str("instance", e.InstanceID).
		Str("message_id", m.ID).Str("sender", m.Sender).Msg("event received")
}

// EventIgnored records an event that requires no action.
func (o *Observer) EventIgnored(e event.Event, why string) {
	o.log.Debug().Str("event", string(e.Kind)).Str("instance", e.InstanceID).Str("reason", why).
		Msg("event ignored")
}

// withEvent adds the event to the log line, and its hook if it has one.
func (o *Observer) withEvent(l *zerolog.Event, e event.Event) *zerolog.Event {
	l = l.Str("event", string(e.Kind)).Str("instance", e.InstanceID)
	if e.Hook.Name == "" {
		return l
	}
	if e.Action != "" {
		l = l.Str("action", e.Action)
	}
	return l.Str("group", e.Hook.Group).Str("hook", e.Hook.Name)
}

// withSender adds who sent the message of an event that AWS contradicts: it may be forged.
func withSender(l *zerolog.Event, e event.Event, outcome string) *zerolog.Event {
	if outcome == string(launch.Unconfirmed) && e.Sender != "" { // The name is that of terminations too.
		l = l.Str("sender", e.Sender)
	}
	return l
}

// TerminationStarted records that the agent handles a termination.
func (o *Observer) TerminationStarted(e event.Event) {
	o.metrics.active.Inc()
	o.withEvent(o.log.Info(), e).Msg("termination started")
}

// NodeAwaited records that a terminating instance has not registered as a Node yet.
func (o *Observer) NodeAwaited(e event.Event) {
	o.withEvent(o.log.Info(), e).Msg("waiting for the instance to register as a node")
}

// TerminationEnded records the outcome of a termination.
func (o *Observer) TerminationEnded(e event.Event, outcome string, took time.Duration) {
	o.metrics.active.Dec()
	o.metrics.terminations.WithLabelValues(outcome).Inc()
	level := zerolog.InfoLevel
	if slices.Contains([]string{"unconfirmed", "left-behind", "node-lost", "cut-short"}, outcome) {
		level = zerolog.WarnLevel
	}
	l := o.withEvent(o.log.WithLevel(level), e)
	withSender(l, e, outcome).Str("outcome", outcome).Dur("took", took).Msg("termination ended")
}

// Retrying records that a step of a termination or launch failed.
func (o *Observer) Retrying(e event.Event, operation string, err error) {
	o.metrics.retries.Inc()
	o.withEvent(o.log.Warn(), e).Str("operation", operation).Err(err).Msg("step failed, retrying")
}

// SpotStatusRead records a status of the Spot Instance request of an instance whose interruption a message
// announces: the first one, and each that differs from the one before.
func (o *Observer) SpotStatusRead(e event.Event, status ec2.SpotStatus) {
	code := cmp.Or(string(status), "none")
	o.metrics.spotStatuses.WithLabelValues(code).Inc()
	o.withEvent(o.log.Info(), e).Str("code", code).Msg("Spot status read")
}

// SpotStatusFailed records that EC2 did not say the status. Of several failures only the first is a warning: the
// agent believes the message, as it does without the permission.
func (o *Observer) SpotStatusFailed(e event.Event, err error, first bool) {
	o.metrics.spotStatuses.WithLabelValues("no-answer").Inc()
	level := zerolog.DebugLevel
	if first {
		level = zerolog.WarnLevel
	}
	o.withEvent(o.log.WithLevel(level), e).Err(err).Msg("Spot status unknown, interruption believed")
}

// Resynced records a resync: how many instances it looked at, how many lifecycle actions it found without a
// message, and how many that an earlier resync found have ended without one.
func (o *Observer) Resynced(instances, found, lost int) {
	o.metrics.lost.Add(float64(lost))
	level := zerolog.DebugLevel
	if found > 0 {
		level = zerolog.InfoLevel
	}
	o.log.WithLevel(level).Int("instances", instances).Int("found", found).Msg("resync finished")
}

// NodesManaged records how many nodes have the manager; first, that there are some for the first time.
func (o *Observer) NodesManaged(m node.Manager, nodes int, first bool) {
	o.metrics.managed.WithLabelValues(string(m)).Set(float64(nodes))
	if first {
		o.log.Info().Str("manager", string(m)).Int("nodes", nodes).
			Msg("nodes of another manager found, which are drained only on request")
	}
}

// TerminationUnannounced records that an instance left its group without an event, although a hook should have
// held it.
func (o *Observer) TerminationUnannounced(instanceID, group string) {
	o.metrics.unannounced.Inc()
	o.log.Warn().Str("instance", instanceID).Str("group", group).Msg("instance terminated without an event")
}

// ResyncFailed records that a resync, or the handling of what it found, failed, for whatever reason: failed calls of
// Auto Scaling are recorded by themselves.
func (o *Observer) ResyncFailed(err error) {
	o.metrics.retries.Inc()
	o.log.Warn().Err(err).Msg("resync incomplete, retrying")
}

// HeartbeatSent records that Auto Scaling accepted a heartbeat.
func (o *Observer) HeartbeatSent(a autoscaling.Action) {
	o.metrics.heartbeats.Inc()
	o.log.Debug().Str("instance", a.InstanceID).Str("group", a.Group).Str("hook", a.Hook).Msg("heartbeat sent")
}
