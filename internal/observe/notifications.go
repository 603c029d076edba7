package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/notify"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// Notifier posts messages about drains.
type Notifier interface {
	// Add does not block. It returns false if it drops the drain, because too many wait for a message.
	Add(d notify.Drain) bool
}

// Add does nothing.
func (Silence) Add(notify.Drain) bool { return true }

// NotifyWith adds drains to n from now on. Call it before anything is recorded. Without it there are no messages.
func (o *Observer) NotifyWith(n Notifier) { o.notifier = n }

// The results of messages.
const (
	notified            = "sent"
	notificationFailed  = "failed"
	notificationDropped = "dropped"
)

func newNotified(r promauto.Factory) *prometheus.CounterVec {
	return counters(r, "notifications_total", "Drains in messages to NOTIFY_URL, by result.", "result",
		[]string{notified, notificationFailed, notificationDropped})
}

// DrainStarted records that the drain of a node starts. n has the mark of the drain.
func (o *Observer) DrainStarted(e event.Event, n node.Node) {
	o.withEvent(o.log.Debug(), e).Str("node", n.Name).Time("deadline", n.Mark.Deadline).Msg("drain started")
	o.notify(describeDrain(notify.Started, e, n))
}

// DrainCutShort records that the lifecycle action ended before the drain. n has the mark of the drain.
func (o *Observer) DrainCutShort(e event.Event, n node.Node) {
	o.withEvent(o.log.Debug(), e).Str("node", n.Name).Msg("drain cut short")
	d := describeDrain(notify.Failed, e, n)
	d.Result, d.Took = "The lifecycle action ended before the drain did", time.Since(n.Mark.Since)
	o.notify(d)
	if n.Name != "" && !n.Mark.Since.IsZero() {
		o.history.Add(recordOf(e, n, drain.Report{}, history.CutShort, time.Now()))
	}
}

// notifyDrained adds a drain that has ended, with its result in words.
func (o *Observer) notifyDrained(e event.Event, n node.Node, r drain.Report, result string) {
	status := notify.Drained
	if isLeftBehind(r) {
		status = notify.Failed
	}
	d := describeDrain(status, e, n)
	d.Result, d.Took, d.Pods, d.Forced, d.Left = result, r.Took, r.Total, r.Forced, r.Left
	o.notify(d)
}

func describeDrain(status notify.Status, e event.Event, n node.Node) notify.Drain {
	return notify.Drain{
		Status: status, Node: n.Name, NodeUID: n.UID, Instance: e.InstanceID, Event: string(e.Kind),
		Group: e.Hook.Group, Hook: e.Hook.Name, Cause: causeOf(e), Since: n.Mark.Since, Deadline: n.Mark.Deadline,
	}
}

func (o *Observer) notify(d notify.Drain) {
	if o.notifier.Add(d) {
		return
	}
	o.notified.WithLabelValues(notificationDropped).Inc()
	o.log.Debug().Str("node", d.Node).Str("status", string(d.Status)).Msg("notification dropped")
}

// NotificationSent records that a message about so many drains was accepted; recovered, that the one before failed.
func (o *Observer) NotificationSent(drains int, recovered bool) {
	o.notified.WithLabelValues(notified).Add(float64(drains))
	level := zerolog.DebugLevel
	if recovered {
		level = zerolog.InfoLevel
	}
	o.log.WithLevel(level).Int("drains", drains).Msg("notification sent")
}

// NotificationFailed records that a message was given up. It is a warning if the reason has changed.
func (o *Observer) NotificationFailed(drains int, err error, changed bool) {
	o.notified.WithLabelValues(notificationFailed).Add(float64(drains))
	level := zerolog.DebugLevel
	if changed {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Int("drains", drains).Err(err).Msg("notification failed")
}
