package program

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// The reasons of Events.
const (
	reasonSurgeStarted = "SurgeStarted"
	reasonSurgeEnded   = "SurgeEnded"
)

// observer writes what happens to the log, and surges to Events of the pods that move.
type observer struct {
	log    zerolog.Logger
	events *node.Events
}

// Answered is that of server.Observer.
func (o *observer) Answered(pod string, a handover.Answer, err error, took time.Duration) {
	l := o.log.Info()
	if err != nil {
		l = o.log.Warn().Err(err)
	}
	l.Str("pod", pod).Bool("go", a.Go).Str("outcome", string(a.Outcome)).Str("reason", a.Message).Str("leader", a.Leader).
		Dur("took", took).Msg("answered")
}

// ReconcileFailed is that of server.Observer.
func (o *observer) ReconcileFailed(err error) {
	o.log.Warn().Err(err).Msg("reconcile failed, and is retried")
}

// EventDropped is that of node.EventObserver.
func (o *observer) EventDropped(object, name, reason string, err error) {
	o.log.Warn().Err(err).Str("object", object).Str("name", name).Str("event", reason).Msg("Event not written")
}

// SurgeStarted records that a StatefulSet gets one more pod while another one moves.
func (o *observer) SurgeStarted(s workload.Surge) {
	describe(o.log.Info(), s).Msg("surge started")
	o.events.OnPod(s.Namespace, s.For, s.ForUID, reasonSurgeStarted, fmt.Sprintf(
		"StatefulSet %s has %d replicas instead of %d until the pod has moved: %s takes over meanwhile",
		s.StatefulSet, s.Replicas+1, s.Replicas, s.Pod), false)
}

// SurgePutOff is that of server.Observer.
func (o *observer) SurgePutOff(s workload.Surge, why string) {
	describe(o.log.Info(), s).Str("reason", why).Msg("surge not ended yet")
}

// SurgeEnded records that nothing is left of a surge. The Event is on the pod that has moved.
func (o *observer) SurgeEnded(s workload.Surge, reason string) {
	describe(o.log.Info(), s).Str("reason", reason).Msg("surge ended")
	o.events.OnPod(s.Namespace, s.For, s.ForUID, reasonSurgeEnded, fmt.Sprintf(
		"The surge of StatefulSet %s has ended: %s", s.StatefulSet, reason), false)
}

func describe(l *zerolog.Event, s workload.Surge) *zerolog.Event {
	return l.Str("statefulset", s.Namespace+"/"+s.StatefulSet).Int32("replicas", s.Replicas).Str("pod", s.Pod).
		Str("for", s.For)
}
