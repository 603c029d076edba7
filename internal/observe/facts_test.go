package observe_test

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// fact is a call of the Observer. What it writes is in testdata/facts.txt.
type fact struct {
	name   string
	record func(r *recorder, s subject)
}

func facts() []fact {
	deadline := time.Date(2027, 3, 1, 10, 0, 0, 0, time.UTC)
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("web/%d", i)
	}
	missing := []string{"Ready", "DaemonSet kube-system/cni"}
	ofKind := func(s subject, k event.Kind) event.Event { return event.Event{Kind: k, InstanceID: s.event.InstanceID} }
	all := append(drainFacts(), []fact{
		{"MessageReceived", func(r *recorder, s subject) { r.MessageReceived(s.message) }},
		{"MessageSettled", func(r *recorder, s subject) { r.MessageSettled(s.message, queue.Retried, errOutage) }},
		{"MessageSettled, dropped", func(r *recorder, s subject) { r.MessageSettled(s.message, queue.Dropped, errOutage) }},
		{"MessageRefused", func(r *recorder, s subject) {
			_, err := event.Parse(s.message.Body)
			r.MessageRefused(s.message, event.Reason(err), err)
		}},
		{"QueueFailed", func(r *recorder, s subject) { r.QueueFailed("settle message "+s.message.ID, errOutage) }},
		{"AutoScalingFailed", func(r *recorder, s subject) { r.AutoScalingFailed("complete "+s.action.Hook, errOutage) }},
		{"KubernetesFailed", func(r *recorder, s subject) { r.KubernetesFailed("list the pods of "+s.node.Name, errOutage) }},
		{"KubernetesUnanswered", func(r *recorder, _ subject) { r.KubernetesUnanswered(15*time.Second, errOutage) }},
		{"KubernetesUnanswered, slow", func(r *recorder, _ subject) { r.KubernetesUnanswered(5*time.Second, nil) }},
		{"EventDropped, node", func(r *recorder, s subject) {
			r.EventDropped("node", s.node.Name, "PodsLeftBehind", errOutage)
		}},
		{"EventDropped, pod", func(r *recorder, s subject) { r.EventDropped("pod", s.pod.Name, "EvictionBlocked", errOutage) }},
		{"LeadershipStarted", func(r *recorder, _ subject) { r.LeadershipStarted() }},
		{"LeadershipEnded", func(r *recorder, _ subject) { r.LeadershipEnded(errOutage) }},
		{"LeaderChanged", func(r *recorder, _ subject) { r.LeaderChanged("agent-b") }},
		{"LeaderChanged, none", func(r *recorder, _ subject) { r.LeaderChanged("") }},
		{"EventReceived", func(r *recorder, s subject) { r.EventReceived(s.message, s.event) }},
		{"EventIgnored", func(r *recorder, s subject) { r.EventIgnored(s.event, "requires no action") }},
		{"TerminationStarted", func(r *recorder, s subject) { r.TerminationStarted(s.event) }},
		{"NodeAwaited", func(r *recorder, s subject) { r.NodeAwaited(s.event) }},
		{"NodeUncordoned", func(r *recorder, s subject) { r.NodeUncordoned(s.node, "it is not terminating") }},
		{"DrainPostponed", func(r *recorder, s subject) {
			r.DrainPostponed(s.node, node.Postponement{Maintenance: deadline, Until: deadline.Add(-24 * time.Hour)})
		}},
		{"DrainPostponed, busy", func(r *recorder, s subject) {
			r.DrainPostponed(s.node, node.Postponement{Maintenance: deadline, Until: deadline.Add(-time.Hour), Busy: true})
		}},
		{"DrainPostponed, no room", func(r *recorder, s subject) {
			r.DrainPostponed(s.node, node.Postponement{NoRoom: true})
		}},
		{"DrainCanceled", func(r *recorder, s subject) { r.DrainCanceled(s.node, "the maintenance was canceled") }},
		{"TerminationEnded", func(r *recorder, s subject) { r.TerminationEnded(s.event, "drained", time.Second) }},
		{"TerminationEnded, unconfirmed", func(r *recorder, s subject) { r.TerminationEnded(s.event, "unconfirmed", time.Second) }},
		{"Retrying", func(r *recorder, s subject) { r.Retrying(s.event, "cordon node "+s.node.Name, errOutage) }},
		{"HeartbeatSent", func(r *recorder, s subject) { r.HeartbeatSent(s.action) }},
		{"SpotStatusRead", func(r *recorder, s subject) { r.SpotStatusRead(ofKind(s, event.SpotInterruption), "fulfilled") }},
		{"SpotStatusRead, no request", func(r *recorder, s subject) { r.SpotStatusRead(ofKind(s, event.SpotInterruption), "") }},
		{"SpotStatusFailed", func(r *recorder, s subject) {
			r.SpotStatusFailed(ofKind(s, event.SpotInterruption), errOutage, true)
		}},
		{"SpotStatusFailed, again", func(r *recorder, s subject) {
			r.SpotStatusFailed(ofKind(s, event.SpotInterruption), errOutage, false)
		}},
		{"Resynced, found", func(r *recorder, _ subject) { r.Resynced(40, 2, 0) }},
		{"Resynced, lost", func(r *recorder, _ subject) { r.Resynced(40, 0, 2) }},
		{"Resynced, nothing", func(r *recorder, _ subject) { r.Resynced(40, 0, 0) }},
		{"NodesManaged, first", func(r *recorder, _ subject) { r.NodesManaged(node.Karpenter, 3, true) }},
		{"NodesManaged", func(r *recorder, _ subject) { r.NodesManaged(node.Fargate, 2, false) }},
		{"TerminationUnannounced", func(r *recorder, s subject) { r.TerminationUnannounced(s.event.InstanceID, s.action.Group) }},
		{"InstallationProblem", func(r *recorder, _ subject) {
			r.InstallationProblem("hooks", "group workers has no hook", "aws autoscaling put-lifecycle-hook", true)
		}},
		{"InstallationProblem, warning", func(r *recorder, _ subject) { r.InstallationProblem("queue", "short", "fix", false) }},
		{"InstallationChecked", func(r *recorder, _ subject) { r.InstallationChecked(2, 3) }},
		{"InstallationUnchecked", func(r *recorder, _ subject) { r.InstallationUnchecked() }},
		{"ResyncFailed", func(r *recorder, _ subject) { r.ResyncFailed(errOutage) }},
		{"NodeProtected", func(r *recorder, s subject) { r.NodeProtected(s.node, s.action.Group) }},
		{"NodeUnprotected", func(r *recorder, s subject) { r.NodeUnprotected(s.node, s.action.Group) }},
		{"ProtectionFailed", func(r *recorder, s subject) { r.ProtectionFailed(s.node.Name, s.action.Group, errOutage) }},
		{"AutoscalerResumed", func(r *recorder, _ subject) { r.AutoscalerResumed("kube-system/autoscaler", "ci-1/42", 2) }},
		{"AutoscalerFailed", func(r *recorder, _ subject) { r.AutoscalerFailed("kube-system/autoscaler", errOutage) }},
		{"LaunchStarted", func(r *recorder, s subject) { r.LaunchStarted(s.event) }},
		{"LaunchWaiting", func(r *recorder, s subject) { r.LaunchWaiting(s.event, s.node.Name, missing) }},
		{"LaunchOverdue", func(r *recorder, s subject) { r.LaunchOverdue(s.event, s.node, missing, launch.Abandoned) }},
		{"LaunchOverdue, continued", func(r *recorder, s subject) { r.LaunchOverdue(s.event, s.node, many, launch.Continued) }},
		{"LaunchOverdue, no node", func(r *recorder, s subject) { r.LaunchOverdue(s.event, node.Node{}, missing, launch.Abandoned) }},
		{"LaunchUncordoned", func(r *recorder, s subject) { r.LaunchUncordoned(s.event, s.node) }},
		{"NodeDrained", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Took: 20 * time.Second})
		}},
		{"NodeDrained, forced", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Forced: 1, Took: 20 * time.Second, Expected: 25 * time.Second})
		}},
		{"NodeDrained, no pods", func(r *recorder, s subject) { r.NodeDrained(s.event, s.node, drain.Report{Took: time.Second}) }},
		{"NodeDrained, pods left", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Left: []string{"web/a", "web/b"}, Took: time.Second})
		}},
		{"NodeDrained, node lost", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Left: []string{"web/a", "web/b"}, Lost: true, Took: time.Second})
		}},
		{"NodeDrained, pods left, and why", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{
				Total: 3, Left: []string{"web/a", "web/b"}, Took: time.Second, Why: []drain.WaitCount{
					{Reason: drain.RefusedByWebhook, Webhook: "guard.example.com", Pods: 1}, {Reason: drain.Terminating, Pods: 1},
				},
			})
		}},
		{"NodeDrained, not verified", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Unverified: true, Took: time.Second})
		}},
		{"NodeDrained, pods returned", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Returned: []string{"web/c"}, Took: time.Second})
		}},
		{"NodeDrained, many pods left", func(r *recorder, s subject) {
			r.NodeDrained(s.event, s.node, drain.Report{Total: 12, Left: many, Took: time.Second})
		}},
		{"NodeCordoned, without a deadline", func(r *recorder, s subject) {
			r.NodeCordoned(ofKind(s, event.RebalanceRecommendation), s.node, node.Mark{})
		}},
		{"NodeCordoned, hook", func(r *recorder, s subject) { r.NodeCordoned(s.event, s.node, node.Mark{Deadline: deadline}) }},
	}...)
	all = append(all, notificationFacts()...)
	for _, k := range []event.Kind{
		event.SpotInterruption, event.ScheduledChange, event.StateChange, event.CapacityReservationInterruption,
		event.CapacityBlockExpiration, "new-kind",
	} {
		all = append(all, fact{"NodeCordoned, " + string(k), func(r *recorder, s subject) {
			r.NodeCordoned(ofKind(s, k), s.node, node.Mark{Deadline: deadline})
		}})
	}
	for _, o := range launch.Outcomes() {
		all = append(all, fact{"LaunchEnded, " + string(o), func(r *recorder, s subject) { r.LaunchEnded(s.event, o, time.Minute) }})
	}
	return all
}

// notificationFacts returns the facts about messages, and those that only messages contain.
func notificationFacts() []fact {
	full := func(record func(r *recorder, s subject)) func(r *recorder, s subject) {
		return func(r *recorder, s subject) {
			r.full = true
			record(r, s)
		}
	}
	left := drain.Report{Total: 3, Left: []string{"web/a", "web/b"}, Took: time.Second}
	return []fact{
		{"DrainStarted", func(r *recorder, s subject) { r.DrainStarted(s.event, s.node) }},
		{"DrainStarted, too many wait", full(func(r *recorder, s subject) { r.DrainStarted(s.event, s.node) })},
		{"DrainInterrupted", func(r *recorder, s subject) {
			r.DrainInterrupted(s.event, s.node, drain.Report{
				Total: 2, Pods: []drain.PodReport{{Name: "web/a", How: drain.Evicted, At: s.target.Since}},
			})
		}},
		{"HistoryFailed", func(r *recorder, _ subject) { r.HistoryFailed(3, true, errOutage) }},
		{"HistoryFailed, at the end", func(r *recorder, _ subject) { r.HistoryFailed(3, false, errOutage) }},
		{"DrainCutShort", func(r *recorder, s subject) { r.DrainCutShort(s.event, s.node) }},
		{"NodeDrained, too many wait", full(func(r *recorder, s subject) { r.NodeDrained(s.event, s.node, left) })},
		{"NotificationSent", func(r *recorder, _ subject) { r.NotificationSent(3, false) }},
		{"NotificationSent, recovered", func(r *recorder, _ subject) { r.NotificationSent(3, true) }},
		{"NotificationFailed", func(r *recorder, _ subject) { r.NotificationFailed(3, errOutage, true) }},
		{"NotificationFailed, again", func(r *recorder, _ subject) { r.NotificationFailed(3, errOutage, false) }},
	}
}

// waiting are what pods wait for: two budgets and a tier, seven budgets, volumes.
func waiting() (some, many, volumes []drain.WaitCount) {
	some = []drain.WaitCount{
		{Reason: drain.BlockedByBudget, Budget: "shop/api", Pods: 2},
		{Reason: drain.Misconfigured, Budget: "shop/db", Pods: 1},
		{Reason: drain.LaterTier, Pods: 1},
	}
	for i := range 7 {
		many = append(many, drain.WaitCount{Reason: drain.BlockedByBudget, Budget: fmt.Sprintf("shop/%d", i), Pods: 9 - i})
	}
	return some, many, []drain.WaitCount{{Reason: drain.VolumesAttached, Pods: 2}}
}

// drainFacts returns the facts about drains and their pods. The drain started five minutes ago and has an hour left.
func drainFacts() []fact {
	blocked := func(name string, reason drain.WaitReason, budget, why string, budgets ...string) fact {
		return fact{"PodBlocked, " + name, func(r *recorder, s subject) {
			s.pod.Budgets = budgets
			r.PodBlocked(s.target, s.held(reason, budget, why))
		}}
	}
	some, many, volumes := waiting()
	return []fact{
		{"DrainProgressed", func(r *recorder, s subject) { r.DrainProgressed(s.progress(3)) }},
		{"DrainProgressed, blocked", func(r *recorder, s subject) { r.DrainProgressed(s.progress(5, some...)) }},
		{"DrainProgressed, many budgets", func(r *recorder, s subject) { r.DrainProgressed(s.progress(5, many...)) }},
		{"DrainProgressed, volumes", func(r *recorder, s subject) { r.DrainProgressed(s.progress(0, volumes...)) }},
		{"DrainProgressed, uncoordinated", func(r *recorder, s subject) {
			p := s.progress(5)
			p.Responders, p.Grouped, p.Expected = 2, 3, s.target.Deadline.Add(-time.Hour)
			r.DrainProgressed(p)
		}},
		{"PodEvicted, uncoordinated", func(r *recorder, s subject) {
			s.pod.Coordination = drain.Coordination{Responders: true, PodGroup: "web/train"}
			r.PodEvicted(s.target, drain.Removal{Pod: s.pod}, 3*time.Second)
		}},
		{"DrainProgressed, at the end", func(r *recorder, s subject) { r.DrainProgressed(s.progress(0)) }},
		{"DrainEnded", func(r *recorder, s subject) { r.DrainEnded(s.target, drain.ByForce) }},
		{"PodEvicted", func(r *recorder, s subject) { r.PodEvicted(s.target, drain.Removal{Pod: s.pod}, 3*time.Second) }},
		{"PodEvicted, grace period cut", func(r *recorder, s subject) {
			s.pod.Grace = 20 * time.Hour
			r.PodEvicted(s.target, drain.Removal{Pod: s.pod, Grace: time.Hour}, 3*time.Second)
		}},
		blocked("budget", drain.BlockedByBudget, "web/budget", "it allows 0 disruptions now", "web/budget"),
		blocked("budget of the pod", drain.BlockedByBudget, "", "figures", "web/budget"),
		blocked("unknown budget", drain.BlockedByBudget, "", "the budget x needs 2 healthy pods"),
		blocked("misconfigured budget", drain.Misconfigured, "web/budget", "it never allows a disruption", "web/budget"),
		blocked("two budgets", drain.Misconfigured, "web/a and web/b", "2 PodDisruptionBudgets select the pod", "web/a", "web/b"),
		{"PodBlocked, webhook", func(r *recorder, s subject) {
			w := s.held(drain.RefusedByWebhook, "", "denied the request")
			w.Webhook = "guard.example.com"
			r.PodBlocked(s.target, w)
		}},
		blocked("annotation", drain.OptedOut, "", ""),
		blocked("configuration", drain.WaitedFor, "", "a Job's"),
		{"PodForced, deadline", func(r *recorder, s subject) {
			r.PodForced(s.target, drain.Removal{Pod: s.pod, Grace: 30 * time.Second, Reason: drain.AtDeadline, Kind: drain.Deletion})
		}},
		{"PodForced, evicted", func(r *recorder, s subject) {
			r.PodForced(s.target, drain.Removal{Pod: s.pod, Grace: 30 * time.Second, Reason: drain.AtDeadline, Kind: drain.LastEviction})
		}},
		{"PodForced, with the pod's grace period", func(r *recorder, s subject) {
			r.PodForced(s.target, drain.Removal{Pod: s.pod, Kind: drain.Deletion, Reason: drain.Unhealthy})
		}},
		handOver("HandOverPutOff", (*recorder).HandOverPutOff, handover.GroupBehind, "", "redis-2 is not in sync"),
		handOver("HandOverEnded, nothing to hand over", (*recorder).HandOverEnded, handover.NotLeading, "", ""),
		handOver("HandOverEnded, handed over", (*recorder).HandOverEnded, handover.HandedOver, "redis-1", ""),
		handOver("HandOverEnded, refused", (*recorder).HandOverEnded, handover.Refused, "", "wrong password"),
		restart("HandOverPutOff, rolling restart", (*recorder).HandOverPutOff, handover.Restarting, "it has begun"),
		restart("HandOverEnded, replaced", (*recorder).HandOverEnded, handover.Replaced, ""),
		restart("HandOverEnded, unfit", (*recorder).HandOverEnded, handover.Unfit, "its Deployment is paused"),
		{"HandOverEnded, unknown kind", func(r *recorder, s subject) {
			s.pod.HandOver = drain.HandOver{Unknown: "postgres"}
			r.HandOverEnded(s.target, drain.HandOverResult{Pod: s.pod, Outcome: handover.Invalid, Message: "no such kind"})
		}},
		{"EvictionRefused", func(r *recorder, s subject) { r.EvictionRefused(s.target, s.pod, drain.Blocked) }},
		{"VolumesStillAttached", func(r *recorder, s subject) { r.VolumesStillAttached(s.target, []string{"pv-1", "pv-2"}) }},
		{"DrainControlled, paused, with another deadline", func(r *recorder, s subject) {
			r.DrainControlled(s.target, drain.Controls{HoldUntil: s.target.Deadline, Deadline: s.target.Deadline})
		}},
		{"DrainControlled, ended", func(r *recorder, s subject) { r.DrainControlled(s.target, drain.Controls{EndNow: true}) }},
		{"DrainControlled, as before, with a mistake", func(r *recorder, s subject) {
			r.DrainControlled(s.target, drain.Controls{Wrong: `node-drainer.io/hold is "soon"`})
		}},
		{"ConditionFailed", func(r *recorder, s subject) { r.ConditionFailed(s.node.Name, errOutage) }},
	}
}

// restart is a fact about a rolling restart that takes ten seconds.
func restart(
	name string, record func(*recorder, drain.Target, drain.HandOverResult), outcome handover.Outcome, why string,
) fact {
	return fact{name, func(r *recorder, s subject) {
		s.pod.HandOver.Kind = handover.Restart
		record(r, s.target, drain.HandOverResult{Pod: s.pod, Outcome: outcome, Message: why, Took: 10 * time.Second})
	}}
}

// handOver is a fact about a pod whose Service is asked for three seconds.
func handOver(
	name string, record func(*recorder, drain.Target, drain.HandOverResult),
	outcome handover.Outcome, leader, why string,
) fact {
	return fact{name, func(r *recorder, s subject) {
		s.pod.HandOver.Kind = handover.HTTPKind
		record(r, s.target, drain.HandOverResult{
			Pod: s.pod, Outcome: outcome, Leader: leader, Message: why, Took: 3 * time.Second,
		})
	}}
}

// masked replaces texts of other packages, which their own tests check.
func masked(text string) string {
	_, err := event.Parse([]byte(private))
	pairs := []string{err.Error(), "PARSE ERROR"}
	some, many, volumes := waiting()
	for _, w := range append(append(some, many...), volumes...) {
		pairs = append(pairs, w.String(), fmt.Sprintf("%d PODS WAIT FOR %s", w.Pods, cmp.Or(w.Budget, string(w.Reason))))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
