package observe

import (
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
)

// The reasons of Events on launching Nodes.
const (
	reasonNotReadyInTime   = "NodeNotReadyInTime"
	reasonLaunchUncordoned = "Uncordoned"
)

// LaunchStarted records that the agent handles a launch.
func (o *Observer) LaunchStarted(e event.Event) {
	o.metrics.activeLaunches.Inc()
	o.withEvent(o.log.Info(), e).Msg("launch started")
}

// LaunchWaiting records a change of what the node of a launching instance lacks. The name is empty before the
// instance has registered.
func (o *Observer) LaunchWaiting(e event.Event, nodeName string, missing []string) {
	o.withEvent(o.log.Info(), e).Str("node", nodeName).Str("missing", strings.Join(missing, ", ")).
		Msg("waiting for the node to become ready")
}

// LaunchOverdue records that a node was not ready in time. The Node is zero if the instance has not
// registered.
func (o *Observer) LaunchOverdue(e event.Event, n node.Node, missing []string, outcome launch.Outcome) {
	o.withEvent(o.log.Warn(), e).Str("node", n.Name).Str("missing", strings.Join(missing, ", ")).
		Str("outcome", string(outcome)).Msg("node not ready in time")
	if n.Name == "" {
		return
	}
	end := "the launch is abandoned, and the group terminates the instance"
	if outcome == launch.Continued {
		end = "the instance enters service nevertheless"
	}
	o.events.OnNode(n.Name, n.UID, reasonNotReadyInTime,
		withNames("The node of launching instance "+e.InstanceID+" still waits for ", missing, ": "+end), true)
}

// LaunchUncordoned records that a node was uncordoned, which an earlier termination had cordoned.
func (o *Observer) LaunchUncordoned(e event.Event, n node.Node) {
	o.withEvent(o.log.Info(), e).Str("node", n.Name).Msg("node uncordoned")
	o.events.OnNode(n.Name, n.UID, reasonLaunchUncordoned,
		"Instance "+e.InstanceID+" is launching again: uncordoned after its earlier termination", false)
}

// LaunchEnded records the outcome of a launch.
func (o *Observer) LaunchEnded(e event.Event, outcome launch.Outcome, took time.Duration) {
	o.metrics.activeLaunches.Dec()
	o.metrics.launches.WithLabelValues(string(outcome)).Inc()
	if outcome == launch.Ready {
		o.metrics.launchTook.Observe(took.Seconds())
	}
	level := zerolog.InfoLevel
	switch outcome {
	case launch.Unconfirmed, launch.Abandoned, launch.Continued:
		level = zerolog.WarnLevel
	}
	l := o.withEvent(o.log.WithLevel(level), e)
	withSender(l, e, string(outcome)).Str("outcome", string(outcome)).Dur("took", took).Msg("launch ended")
}

// NodeProtected records that the Cluster Autoscaler must not remove a node during a rollout.
func (o *Observer) NodeProtected(n node.Node, group string) {
	o.log.Info().Str("node", n.Name).Str("group", group).Msg("scale-down disabled during the rollout")
}

// NodeUnprotected records that the Cluster Autoscaler may remove the node again.
func (o *Observer) NodeUnprotected(n node.Node, group string) {
	o.log.Info().Str("node", n.Name).Str("group", group).Msg("scale-down enabled after the rollout")
}

// AutoscalerResumed records that the Cluster Autoscaler was scaled back, which a trigger that was killed had paused.
func (o *Observer) AutoscalerResumed(deployment, owner string, replicas int) {
	o.log.Warn().Str("deployment", deployment).Str("owner", owner).Int("replicas", replicas).
		Msg("resumed the Cluster Autoscaler")
}

// AutoscalerFailed records that the Deployment of the Cluster Autoscaler could not be read or scaled back.
func (o *Observer) AutoscalerFailed(deployment string, err error) {
	o.log.Warn().Str("deployment", deployment).Err(err).Msg("failed to resume the Cluster Autoscaler")
}

// ProtectionFailed records that the scale-down annotation of a node could not be written or removed.
func (o *Observer) ProtectionFailed(nodeName, group string, err error) {
	o.log.Warn().Str("node", nodeName).Str("group", group).Err(err).
		Msg("failed to update the scale-down annotation")
}
