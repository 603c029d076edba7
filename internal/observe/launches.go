package observe

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// The reasons of our Kubernetes Events on Nodes that are launching.
const (
	reasonNotServiceable = "NodeNotReadyInTime"
	reasonBack           = "Uncordoned"
)

// launchMetrics count launches.
type launchMetrics struct {
	ended  *prometheus.CounterVec
	active prometheus.Gauge
	took   prometheus.Histogram
}

func newLaunchMetrics() launchMetrics {
	return launchMetrics{
		ended: counters("launches_total", "Launches of instances with a hook, by how they ended.", "outcome"),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "launches_active", Help: "Launches in hand.",
		}),
		took: histogram("launch_duration_seconds", "Time until the node of a launching instance could serve.",
			1, 5, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600),
	}
}

// register has each counter begin at zero, so that the first increase shows as one.
func (m launchMetrics) register(registry *prometheus.Registry) {
	registry.MustRegister(m.ended, m.active, m.took)
	for _, o := range launch.Outcomes() {
		m.ended.WithLabelValues(string(o))
	}
}

// LaunchStarted tells that the agent has taken up the lifecycle action of a launching instance.
func (o *Observer) LaunchStarted(e event.Event) {
	o.metrics.launches.active.Inc()
	o.about(o.log.Info(), e).Msg("launch started")
}

// LaunchWaiting tells what the node of a launching instance lacks to serve, whenever that has changed. The name
// is empty before it has registered.
func (o *Observer) LaunchWaiting(e event.Event, nodeName string, missing []string) {
	o.about(o.log.Info(), e).Str("node", nodeName).Str("missing", strings.Join(missing, ", ")).
		Msg("waiting for the node to become ready")
}

// LaunchOverdue tells that a node cannot serve although its time is over. The Node is zero if none has
// registered.
func (o *Observer) LaunchOverdue(e event.Event, n node.Node, missing []string, outcome launch.Outcome) {
	o.about(o.log.Warn(), e).Str("node", n.Name).Str("missing", strings.Join(missing, ", ")).
		Str("outcome", string(outcome)).Msg("node not ready in time")
	if n.Name == "" {
		return
	}
	end := ": the launch is abandoned, and the group terminates the instance"
	if outcome == launch.Continued {
		end = ": it goes into service all the same"
	}
	o.events.OnNode(n.Name, n.UID, reasonNotServiceable,
		"The node of the launching instance "+e.InstanceID+" still waits for "+text.First(missing, mostNames)+end, true)
}

// LaunchUncordoned tells that what an earlier termination had left on a node is off it.
func (o *Observer) LaunchUncordoned(e event.Event, n node.Node) {
	o.about(o.log.Info(), e).Str("node", n.Name).Msg("node uncordoned")
	o.events.OnNode(n.Name, n.UID, reasonBack,
		"Instance "+e.InstanceID+" is launching again: what its termination had put on the node is off", false)
}

// LaunchEnded tells how a launch ended.
func (o *Observer) LaunchEnded(e event.Event, outcome launch.Outcome, took time.Duration) {
	m := o.metrics.launches
	m.active.Dec()
	m.ended.WithLabelValues(string(outcome)).Inc()
	if outcome == launch.Ready {
		m.took.Observe(took.Seconds())
	}
	level := zerolog.InfoLevel
	switch outcome {
	case launch.Unconfirmed, launch.Abandoned, launch.Continued:
		level = zerolog.WarnLevel
	}
	o.about(o.log.WithLevel(level), e).Str("outcome", string(outcome)).Dur("took", took).Msg("launch ended")
}

// NodeProtected tells that the cluster autoscaler is to leave a node alone while a refresh is on.
func (o *Observer) NodeProtected(n node.Node, group string) {
	o.log.Info().Str("node", n.Name).Str("group", group).Msg("scale-down disabled during the instance refresh")
}

// NodeUnprotected tells that the cluster autoscaler may take the node away again.
func (o *Observer) NodeUnprotected(n node.Node, group string) {
	o.log.Info().Str("node", n.Name).Str("group", group).Msg("scale-down enabled after the instance refresh")
}

// ProtectionFailed tells that it could not be seen to whether the cluster autoscaler may take a node away.
func (o *Observer) ProtectionFailed(nodeName, group string, err error) {
	o.log.Warn().Str("node", nodeName).Str("group", group).Err(err).
		Msg("failed to update the scale-down annotation")
}
