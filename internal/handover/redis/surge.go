package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// addReplica has a surge bring a replica for the pod, which leads without one, if its annotation permits that. It is
// repeated until the additional pod replicates from the pod. The error says what the call waits for, or why there is
// no replica; why is that without a surge.
func addReplica(ctx context.Context, c *call, why error, join func(context.Context, *member) error) error {
	switch {
	case c.request.Pod.Annotations[workload.SurgeAnnotation] != "true":
		return why
	case c.session.options.Scaler == nil:
		return noReplica("no replica, and no surge: SURGES is false")
	case c.request.Last:
		return noReplica("the surge has brought no replica in time")
	}
	name, err := startSurge(ctx, c)
	if err != nil {
		return err
	}
	added := peer(c, name)
	if added == nil || added.IP == "" || added.Deleting || !added.Stays {
		return behind("%s, which is to take over, does not run yet", name)
	}
	m := newMember(*added)
	if err := m.ask(ctx, c.session); err != nil {
		return behind("%s, which is to take over: %v", name, err)
	}
	return join(ctx, m)
}

// isSurging reports whether a surge for the pod is recorded: a pod that is not in the cluster yet may be the additional
// one, which nobody else joins to it.
func isSurging(ctx context.Context, c *call) bool {
	if c.session.options.Scaler == nil || c.request.Pod.Annotations[workload.SurgeAnnotation] != "true" {
		return false
	}
	surges, err := c.session.options.Scaler.Surges(ctx)
	return err == nil && slices.ContainsFunc(surges, func(s workload.Surge) bool {
		return s.Namespace == c.request.Pod.Namespace && s.For == c.request.Pod.Name &&
			s.UID == c.request.Pod.ControllerUID
	})
}

// startSurge returns the name of the additional pod.
func startSurge(ctx context.Context, c *call) (string, error) {
	surge, err := c.session.options.Scaler.Start(ctx, c.request.Pod)
	var never workload.NoSurge
	switch {
	case errors.As(err, &never):
		return "", noReplica("no replica, and no surge: %v", err)
	case err != nil:
		return "", behind("start a surge: %v", err)
	case surge.For != c.request.Pod.Name:
		return "", behind("the surge of %s for %s has not ended", surge.StatefulSet, surge.For)
	}
	return surge.Pod, nil
}

// peer returns another pod of the same StatefulSet, or nil.
func peer(c *call, name string) *workload.Pod {
	at := slices.IndexFunc(c.request.Peers, func(p workload.Pod) bool {
		return p.Name == name && p.Namespace == c.request.Pod.Namespace && hasController(p, c.request.Pod)
	})
	if at < 0 {
		return nil
	}
	return &c.request.Peers[at]
}

// isNoReplica reports whether an error says that nobody could take over.
func isNoReplica(err error) bool {
	var later *putOff
	return errors.As(err, &later) && later.outcome == handover.NoReplica
}

// joining returns the answer that a new member is not in sync yet.
func joining(m *member, leader workload.Pod) error {
	later := &putOff{outcome: handover.GroupBehind, again: retryInterval}
	later.message = printable(m.Name + " does not replicate from " + leader.Name + " yet")
	return later
}

// joinReplication has an additional pod that has no replicas replicate from the pod. Usually its start script has done
// so.
func joinReplication(ctx context.Context, leader, added *member) error {
	switch {
	case leader.isAt(added.leader):
	case !added.master || len(added.replicas) > 0:
		return behind("%s does not replicate from %s, and is not alone", added.Name, leader.Name)
	default:
		if _, err := added.server.do(ctx, "REPLICAOF", leader.IP, leader.port); err != nil {
			return err
		}
	}
	return joining(added, leader.Pod)
}

// withoutSurge returns an error that also says that a surge brings no replica here, if the pod permits one.
func withoutSurge(pod workload.Pod, err error) error {
	if isNoReplica(err) && pod.Annotations[workload.SurgeAnnotation] != "" {
		return noReplica("no replica, and %s has no effect with plain replication", workload.SurgeAnnotation)
	}
	return err
}
