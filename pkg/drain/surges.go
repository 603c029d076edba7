package drain

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// longestSurgePause bounds the pause between two looks at the surges that have not ended.
const longestSurgePause = 15 * time.Second

// EndSurges ends surges until ctx ends: those that are recorded already, and those that drains start. There is no
// limit of time for that: the pod that left may have to wait for a node. One process at a time may call it.
func (d *Drainer) EndSurges(ctx context.Context) {
	if d.rules.Surger == nil {
		return
	}
	pause, said := reconcilePause, map[string]string{}
	for {
		left, err := d.endSurges(ctx, said)
		if err != nil && ctx.Err() == nil {
			d.observer.KubernetesFailed("read the recorded surges", err)
		}
		next := time.After(jittered(pause))
		pause = min(pause*3/2, longestSurgePause)
		if err == nil && left == 0 {
			next, pause = nil, reconcilePause
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		case <-d.surged:
		}
	}
}

// expectSurge has EndSurges look for a surge that a call to the pod may start.
func (d *Drainer) expectSurge(pod handover.Pod) {
	if pod.Annotations[handover.SurgeAnnotation] == "" {
		return
	}
	select {
	case d.surged <- struct{}{}:
	default:
	}
}

// endSurges does what can be done now, and returns how many surges are left. What they wait for is reported once, and
// recorded in said.
func (d *Drainer) endSurges(ctx context.Context, said map[string]string) (left int, err error) {
	surges, err := d.rules.Surger.Surges(ctx)
	for _, s := range surges {
		answer, err := d.endSurge(ctx, s)
		name := s.Namespace + "/" + s.StatefulSet
		switch {
		case ctx.Err() != nil:
			return left, ctx.Err()
		case err != nil:
			d.observer.KubernetesFailed("end the surge of StatefulSet "+name, err)
		case answer.Go:
			delete(said, name)
			continue
		case answer.Message != "" && answer.Message != said[name]:
			said[name] = answer.Message
			d.observer.SurgePutOff(s, answer.Message)
		}
		left++
	}
	return left, err
}

// endSurge does so for one surge, unless a pod of its namespace is asked meanwhile.
func (d *Drainer) endSurge(ctx context.Context, s handover.Surge) (handover.Answer, error) {
	if !d.turns.take(s.Namespace) {
		return handover.Answer{}, nil
	}
	defer d.turns.end(s.Namespace)
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	pods, err := d.listPods(ctx, s.Namespace)
	if err != nil {
		return handover.Answer{}, err
	}
	return d.rules.Surger.EndSurge(ctx, s, pods)
}
