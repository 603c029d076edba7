package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	mark    = "SetInstanceHealth"
	markAll = "Mark i-1, Mark i-2, Mark i-3"
)

// health sets the health of an instance, as another user.
func (w *world) health(name, status string) {
	w.operator(mark, "InstanceId="+w.id(name), "HealthStatus="+status)
}

// unmark takes marks of i-1 back, before Auto Scaling sees them: the first ones.
func (w *world) unmark(times int) {
	w.upon(mark, func() { w.suspend("ReplaceUnhealthy") })
	for n := range times {
		w.after(time.Duration(n+1)*5*time.Second, func() {
			if w.health("i-1", "Healthy"); n == times-1 {
				w.operator("ResumeProcesses", "ScalingProcesses.member.1=ReplaceUnhealthy")
			}
		})
	}
}

// raised has an earlier run have raised the desired capacity by so many, whose instances are new.
func (w *world) raised(by int) {
	from := w.desired(w.group)
	surge := refresh.Surge{From: from, To: from + by}
	w.resize(surge.To)
	w.tag(refresh.SurgeTag, surge.String())
	w.inService(surge.To)
}

// inService waits until so many instances are in service.
func (w *world) inService(n int) {
	w.Helper()
	w.must(w.WaitInstances(w.Context(), w.group, func(all []awsim.Instance) bool {
		for _, i := range all {
			if i.State != "InService" {
				return false
			}
		}
		return len(all) == n
	}))
}

// TestBatches rolls out by marking instances unhealthy.
func TestBatches(t *testing.T) {
	all := map[string]scenario{
		"one after the other": {want: report.Done, words: "3 instances replaced", calls: markAll},
		"chosen instances, although they are current": {
			before: func(w *world) { w.cfg.Only, w.cfg.Version = []string{w.id("i-2")}, "1" },
			want:   report.Done, words: "1 instance replaced", calls: "Mark i-2",
		},
		"an empty group whose launch template was deleted": {
			before: func(w *world) {
				w.must(w.Resize(w.group, 0, 0, 0))
				w.inService(0)
				w.deleteTemplate()
			},
			want: report.Nothing,
		},
		"the oldest first, as EC2 knows": {
			before: func(w *world) { w.must(w.SetLaunchTime(w.id("i-3"), time.Now().Add(-1000*time.Hour))) },
			want:   report.Done, calls: "Mark i-3, Mark i-1, Mark i-2",
		},
		"waits for a batch that an earlier trigger has marked": {
			before: func(w *world) { w.health("i-2", "Unhealthy") }, want: report.Done, calls: "Mark i-1, Mark i-3",
		},
		"nodes with the label are excluded": {
			before: func(w *world) {
				w.cfg.Exclude = []string{"pet=yes"}
				w.nodes.labels = map[string]map[string]string{"i-1": {"pet": "yes"}, "i-2": {"pet": "no"}}
			},
			want: report.Done, words: "2 instances replaced", calls: "Protect i-1, Mark i-2, Mark i-3, Unprotect i-1",
		},
		"an instance that was terminated by another client counts as replaced": {
			before: func(w *world) {
				w.upon(mark, func() {
					w.operator("TerminateInstanceInAutoScalingGroup", "InstanceId="+w.id("i-1"), "ShouldDecrementDesiredCapacity=false")
				})
			},
			want: report.Done, calls: markAll,
		},
		"a call fails once": {
			before: func(w *world) { w.fails(mark, "InternalFailure", 1) }, want: report.Done, calls: "Mark i-1, " + markAll,
		},
		"another activity of the group takes two minutes": {
			before: func(w *world) { w.fails(mark, "ScalingActivityInProgress", 24) },
			want:   report.Done, calls: strings.Repeat("Mark i-1, ", 24) + markAll,
		},
		"another activity of the group does not end": {
			before: func(w *world) { w.cfg.StallTimeout = time.Minute; w.fails(mark, "ScalingActivityInProgress", 0) },
			want:   report.Stalled, words: "another scaling activity", calls: strings.Repeat("Mark i-1, ", 12) + "Mark i-1",
		},
		"a call hangs once": {
			before: func(w *world) { w.Inject(awsim.Fault{Action: mark, Latency: time.Hour, Times: 1}) },
			want:   report.Done, calls: "Mark i-1, " + markAll,
		},
		"a call hangs until the timeout": {
			before: func(w *world) {
				w.cfg.Timeout = 30 * time.Second
				w.Inject(awsim.Fault{Action: mark, Latency: time.Hour})
			},
			want: report.TimedOut, words: "--timeout", calls: "Mark i-1",
		},
		"interrupted while a call hangs": {
			before: func(w *world) {
				w.cfg.OnInterrupt, w.cfg.Pace.Surge.N = plan.Cancel, 1
				w.raised(1)
				w.Inject(awsim.Fault{Action: mark, Latency: time.Hour})
			},
			stop: 30 * time.Second, want: report.Interrupted, words: "the desired capacity was lowered from 4 to 3",
			calls: "Mark i-1, Resize 3",
		},
		"all are replaced once, current or not": {
			before: func(w *world) { w.cfg.All, w.cfg.Version = true, "1" }, group: awsim.Group{LaunchTemplateVersion: "1"},
			want: report.Done, words: "3 instances replaced", calls: markAll,
		},
		"a newer version appears, which further instances are launched from": {
			before: func(w *world) { w.after(15*time.Second, w.newVersion) },
			want:   report.Done, calls: markAll + ", Mark i-4",
		},
		"ReplaceUnhealthy is suspended": {
			before: func(w *world) {
				w.cfg.StallTimeout = 2 * time.Minute
				w.upon(mark, func() { w.suspend("ReplaceUnhealthy") })
			},
			want: report.Stalled, words: "1 old instance to terminate: i-1 | suspended: ReplaceUnhealthy", calls: "Mark i-1",
		},
		"a mark is taken back: the instance is marked again": {
			before: func(w *world) { w.unmark(1) },
			want:   report.Done, words: "3 instances replaced", calls: "Mark i-1, " + markAll,
		},
		"every mark is taken back": {
			before: func(w *world) { w.unmark(100) },
			want:   report.Failed, words: "i-1 | is healthy again after 3 marks", calls: "Mark i-1, Mark i-1, Mark i-1",
		},
		"every launch is abandoned": {
			before: func(w *world) {
				w.cfg.StallTimeout = 3 * time.Minute
				w.must(w.PutHook(w.group, awsim.Hook{Name: "ready", Transition: awsim.Launching, HeartbeatTimeout: 32 * time.Second}))
			},
			want: report.Stalled, words: "1 new instance to enter service", calls: "Mark i-1",
		},
		"the cluster is not the group's": {
			before: func(w *world) { w.nodes.empty, w.cfg.ReadyTimeout = true, time.Second }, want: report.Done, calls: markAll,
		},
		"the cluster is not the group's, and labels exclude nodes": {
			before: func(w *world) { w.nodes.empty, w.cfg.Exclude = true, []string{"pet"} },
			want:   report.Refused, words: "--exclude-node-label | --context",
		},
		"the group is deleted": {
			before: func(w *world) {
				w.after(5*time.Second, func() { w.operator("DeleteAutoScalingGroup", "ForceDelete=true") })
			},
			want: report.Error, words: "deleted", calls: "Mark i-1",
		},
		"a refresh is under way": {
			before: func(w *world) { w.otherRefresh("2") }, want: report.Conflict, words: "refresh r",
		},
		"a refresh is started after the desired capacity was raised": {
			before: func(w *world) {
				w.cfg.Pace.Surge.N = 1
				w.hook("drain", time.Minute)
				w.upon(mark, func() { w.after(30*time.Second, func() { w.otherRefresh("2") }) })
			},
			want: report.Conflict, words: "refresh r | stays raised from 3 to 4", calls: "Resize 4, Mark i-1",
		},
		"an autoscaler raises the desired capacity before the trigger does": {
			before: func(w *world) {
				w.cfg.Pace.Surge.N = 1
				w.after(time.Second, func() { w.resize(5) })
			},
			stop: 20 * time.Second, want: report.Interrupted, words: "stays raised from 5 to 6", calls: "Resize 6",
		},
		"nothing is outdated: neither a node nor an instance is waited for, and nothing is suspended": {
			before: func(w *world) {
				w.cfg.Version, w.cfg.Suspend, w.cfg.StallTimeout = "1", []string{"AZRebalance"}, time.Hour
				w.nodes.unready["i-1"] = true
			},
			want: report.Nothing, words: "no instance is outdated",
		},
		"nothing is outdated, and an earlier run has raised the desired capacity": {
			group:  awsim.Group{LaunchTemplateVersion: "1"},
			before: func(w *world) { w.raised(1) }, want: report.Nothing, calls: "Terminate i-4",
		},
		"the new node never becomes ready": {
			before: func(w *world) { w.cfg.StallTimeout, w.nodes.unready["i-4"] = 2*time.Minute, true },
			want:   report.Stalled, words: "waiting for 1 node to become ready: i-4 | no further ones are marked", calls: "Mark i-1",
		},
		"the new node does not become ready in time": {
			before: func(w *world) {
				w.cfg.ReadyTimeout, w.cfg.StallTimeout, w.nodes.unready["i-4"] = time.Minute, time.Hour, true
			},
			want: report.Failed, words: "i-4 (node node-i-4) | 1m0s | no further ones are marked", calls: "Mark i-1",
		},
		"the new node becomes ready in time": {
			before: func(w *world) {
				w.cfg.ReadyTimeout, w.nodes.unready["i-4"] = 2*time.Minute, true
				w.after(time.Minute, func() { w.nodes.set(func() { w.nodes.unready = nil }) })
			},
			want: report.Done, calls: markAll,
		},
		"the nodes of outdated instances are not ready": {
			before: func(w *world) {
				w.cfg.ReadyTimeout, w.nodes.unready = 10*time.Second, map[string]bool{"i-1": true, "i-2": true, "i-3": true}
			},
			want: report.Done, calls: markAll,
		},
		"the nodes are not known at first, and the new one is not ready": {
			before: func(w *world) {
				w.nodes.empty, w.nodes.unready["i-4"] = true, true
				w.after(11*time.Second, func() { w.nodes.set(func() { w.nodes.empty = false }) })
			},
			stop: 2 * time.Minute, want: report.Interrupted, calls: "Mark i-1",
		},
		"the nodes cannot be watched for some minutes": stale(8*time.Minute, report.Done, "", markAll),
		"the nodes cannot be watched any more": stale(10*time.Hour, report.Stalled,
			"waiting for the nodes to be readable again", "Mark i-1"),
	}
	for name, s := range all {
		s.mode = refresh.ModeUnhealthy
		all[name] = s
	}
	runAll(t, all)
}

// stale has the nodes not watched for a while. No instance is marked then, and the user learns why. It is no stall if
// it ends.
func stale(lasts time.Duration, want report.Outcome, words, calls string) scenario {
	return scenario{
		before: func(w *world) {
			w.cfg.PollInterval, w.cfg.StallTimeout = 15*time.Second, 10*time.Minute
			set := func(err error) func() { return func() { w.nodes.set(func() { w.nodes.stale = err }) } }
			w.after(5*time.Second, set(errors.New("watch nodes: forbidden")))
			w.after(lasts, set(nil))
		},
		want: want, words: words, calls: calls,
		then: func(w *world, end report.Group) {
			const warning = "warn: the nodes are shown as they were: watch nodes: forbidden"
			if n := strings.Count(w.notes(end), warning); n != 1 {
				w.Errorf("%d warnings:\n%s", n, w.notes(end))
			}
		},
	}
}

// TestPauseBetweenBatches: the pause is kept, does not count as a stall, and does not follow the last batch.
func TestPauseBetweenBatches(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.setMode(refresh.ModeUnhealthy)
		w.cfg.Pace.Between, w.cfg.StallTimeout, w.cfg.PollInterval = time.Hour, 10*time.Minute, time.Minute
		started := time.Now()
		w.play(scenario{want: report.Done, calls: markAll})
		if took := time.Since(started).Round(20 * time.Minute); took != 2*time.Hour {
			t.Errorf("three batches of one with an hour between them took %v", took)
		}
	})
}

// TestStandbyWithPodsLeft: an instance whose drain has left pods is not stopped, and the rollout ends with the reason.
// When the pods have left, the same command goes on, whatever the condition of the node says.
func TestStandbyWithPodsLeft(t *testing.T) {
	inWorld(t, "", awsim.Group{Desired: 1}, func(w *world) {
		w.setMode(refresh.ModeStandby)
		w.cfg.Pace.Then = refresh.ThenStop
		w.nodes.requested["i-1"] = cluster.Drain{LeftBehind: true, Message: "2 of 5 pods are left"}
		w.nodes.loads = map[string]cluster.Load{"i-1": {Pods: 2}}
		fails := scenario{want: report.Failed, words: "i-1 (node node-i-1: 2 of 5 pods are left) | trigger rollback", calls: "EnterStandby i-1"}
		w.play(fails)
		w.nodes.loadsFail = errors.New("list pods: pods is forbidden")
		fails.words = "is not known: list pods | trigger rollback"
		w.play(fails)
		w.nodes.loadsFail, w.nodes.loads = nil, map[string]cluster.Load{"i-1": {}}
		w.play(scenario{want: report.Done, calls: "EnterStandby i-1, StopInstances i-1"})
	})
}
