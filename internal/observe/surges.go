package observe

import (
	"fmt"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// SurgeStarted records that a StatefulSet gets one more pod while another one moves.
func (o *Observer) SurgeStarted(s handover.Surge) {
	describeSurge(o.log.Info(), s).Msg("surge started")
	o.events.OnPod(s.Namespace, s.For, s.ForUID, reasonSurgeStarted, fmt.Sprintf(
		"StatefulSet %s has %d replicas instead of %d until the pod has moved: %s takes over meanwhile",
		s.StatefulSet, s.Replicas+1, s.Replicas, s.Pod), false)
}

// SurgePutOff records what the end of a surge waits for.
func (o *Observer) SurgePutOff(s handover.Surge, why string) {
	describeSurge(o.log.Info(), s).Str("reason", why).Msg("surge not ended yet")
}

// SurgeEnded records that nothing is left of a surge. The Event is on the pod that has moved.
func (o *Observer) SurgeEnded(s handover.Surge, reason string) {
	describeSurge(o.log.Info(), s).Str("reason", reason).Msg("surge ended")
	o.events.OnPod(s.Namespace, s.For, s.ForUID, reasonSurgeEnded, fmt.Sprintf(
		"The surge of StatefulSet %s has ended: %s", s.StatefulSet, reason), false)
}

func describeSurge(l *zerolog.Event, s handover.Surge) *zerolog.Event {
	return l.Str("statefulset", s.Namespace+"/"+s.StatefulSet).Int32("replicas", s.Replicas).Str("pod", s.Pod).
		Str("for", s.For)
}
