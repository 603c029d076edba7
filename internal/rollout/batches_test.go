package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// unhealthyDefaults is the configuration of a run in mode unhealthy.
func unhealthyDefaults() plan.Config {
	cfg := defaults()
	cfg.Mode, cfg.Surge = refresh.ModeUnhealthy, nil
	return cfg
}

// replaceUnhealthy is the script of a group that launches first: three reads after an instance was marked,
// another one has replaced it.
func replaceUnhealthy(a *fakeAWS) func(int) { return replaceWith(a, "2") }

func replaceWith(a *fakeAWS, version string) func(int) {
	since := map[string]int{}
	return func(reads int) {
		for n, i := range a.group.Instances {
			if i.Healthy {
				continue
			}
			if since[i.ID] == 0 {
				since[i.ID] = reads
			}
			if reads >= since[i.ID]+3 {
				a.group.Instances[n] = instance(i.ID+"-new", version)
			}
		}
	}
}

// TestBatches rolls out by marking instances unhealthy.
func TestBatches(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*plan.Config)
		before func(*fakeAWS, *fakeCluster)
		script func(a *fakeAWS, nodes *fakeCluster, reads int)
		want   report.Outcome
		words  []string
		calls  string
	}{
		"one after the other": {want: report.Done, words: []string{"3 instances replaced"}, calls: "Mark i-1 Mark i-2 Mark i-3"},
		"two at a time": {
			change: func(c *plan.Config) { c.Pace.Batch.N = 2 }, want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"chosen instances, although they are current": {
			change: func(c *plan.Config) { c.Only = []string{"i-2"} }, before: func(a *fakeAWS, _ *fakeCluster) { a.latest = 1 },
			want: report.Done, words: []string{"1 instance replaced"}, calls: "Mark i-2",
		},
		"an empty group whose launch template was deleted": {
			before: func(a *fakeAWS, _ *fakeCluster) {
				a.group.Instances, a.group.Desired, a.group.Source.Template = nil, 0, &refresh.Template{ID: "lt-9"}
			},
			want: report.Nothing,
		},
		"the oldest first, as EC2 knows": {
			before: func(a *fakeAWS, _ *fakeCluster) {
				for n := range a.group.Instances {
					a.group.Instances[n].Launched = time.Now().Add(time.Duration(-n) * time.Hour)
				}
			},
			want: report.Done, calls: "Mark i-3 Mark i-2 Mark i-1",
		},
		"waits for a batch that an earlier trigger has marked": {
			before: func(a *fakeAWS, _ *fakeCluster) { a.group.Instances[1].Healthy = false },
			want:   report.Done, calls: "Mark i-1 Mark i-3",
		},
		"nodes with the label are excluded": {
			change: func(c *plan.Config) { c.Exclude = []string{"pet=yes"} },
			before: func(_ *fakeAWS, v *fakeCluster) {
				v.labels = map[string]map[string]string{"i-1": {"pet": "yes"}, "i-2": {"pet": "no"}}
			},
			want: report.Done, words: []string{"2 instances replaced"}, calls: "Protect i-1 Mark i-2 Mark i-3 Unprotect i-1",
		},
		"an instance that was terminated by another client counts as replaced": {
			before: func(a *fakeAWS, _ *fakeCluster) { a.errs["Mark i-1"] = []error{refresh.ErrGone} },
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				if reads == 4 {
					a.group.Instances[0] = instance("i-1-new", "2")
				}
			},
			want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"a call fails once": {
			before: func(a *fakeAWS, _ *fakeCluster) { a.errs["Mark i-1"] = []error{errors.New("connection refused")} },
			want:   report.Done, calls: "Mark i-1 Mark i-1 Mark i-2 Mark i-3",
		},
		"another activity of the group takes two minutes": {
			before: func(a *fakeAWS, _ *fakeCluster) {
				a.errs["Mark i-1"] = slices.Repeat([]error{refresh.ErrBusy}, 24)
			},
			want: report.Done, calls: strings.Repeat("Mark i-1 ", 25) + "Mark i-2 Mark i-3",
		},
		"another activity of the group does not end": {
			change: func(c *plan.Config) { c.StallTimeout = time.Minute },
			before: func(a *fakeAWS, _ *fakeCluster) {
				a.errs["Mark i-1"] = slices.Repeat([]error{refresh.ErrBusy}, 100)
			},
			want: report.Stalled, words: []string{"another scaling activity"}, calls: strings.TrimSpace(strings.Repeat("Mark i-1 ", 13)),
		},
		"a call hangs once": {
			before: func(a *fakeAWS, _ *fakeCluster) { a.errs["Mark i-1"] = []error{errHangs} },
			want:   report.Done, calls: "Mark i-1 Mark i-1 Mark i-2 Mark i-3",
		},
		"a call hangs until the timeout": {
			change: func(c *plan.Config) { c.Timeout = 30 * time.Second },
			before: func(a *fakeAWS, _ *fakeCluster) { a.errs["Mark i-1"] = []error{errHangs} },
			want:   report.TimedOut, words: []string{"--timeout"}, calls: "Mark i-1",
		},
		"all are replaced once, current or not": {
			change: func(c *plan.Config) { c.All, c.Timeout = true, time.Hour }, before: func(a *fakeAWS, _ *fakeCluster) { a.latest = 1 },
			want: report.Done, words: []string{"3 instances replaced"}, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"a newer version appears, which further instances are launched from": {
			change: func(c *plan.Config) { c.Timeout = time.Hour },
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				if reads == 3 {
					a.latest = 3
				}
				for n, i := range a.group.Instances {
					if a.latest == 3 && strings.HasSuffix(i.ID, "-new") {
						a.group.Instances[n].Template = template("3")
					}
				}
			},
			want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"ReplaceUnhealthy is suspended": {
			change: func(c *plan.Config) { c.StallTimeout = 10 * time.Minute },
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				if reads == 2 {
					a.group.Suspended = []string{"ReplaceUnhealthy"}
				}
				if reads > 2 {
					a.group.Instances[0] = instance("i-1", "1")
					a.group.Instances[0].Healthy = false
				}
			},
			want: report.Stalled, words: []string{"1 old instance to terminate: i-1", "suspended: ReplaceUnhealthy"}, calls: "Mark i-1",
		},
		"a mark is taken back: the instance is marked again": {
			change: func(c *plan.Config) { c.Timeout = time.Hour },
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				if reads == 3 {
					a.group.Instances[0] = instance("i-1", "1")
				}
			},
			want: report.Done, words: []string{"3 instances replaced"}, calls: "Mark i-1 Mark i-1 Mark i-2 Mark i-3",
		},
		"every mark is taken back": {
			change: func(c *plan.Config) { c.Timeout = time.Hour },
			script: func(a *fakeAWS, _ *fakeCluster, _ int) { a.group.Instances[0] = instance("i-1", "1") },
			want:   report.Failed, words: []string{"i-1", "is healthy again after 3 marks"}, calls: "Mark i-1 Mark i-1 Mark i-1",
		},
		"every launch is abandoned": {
			change: func(c *plan.Config) { c.StallTimeout, c.Timeout = 10*time.Minute, 2*time.Hour },
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				if reads < 3 {
					return
				}
				old, abandoned, coming := instance("i-1", "1"), instance(fmt.Sprintf("i-n%d", reads), "2"), instance(fmt.Sprintf("i-n%d", reads+1), "2")
				old.Healthy, abandoned.State, coming.State = false, "Terminating", "Pending:Wait"
				a.group.Instances = append([]refresh.Instance{old}, a.group.Instances[1], a.group.Instances[2], abandoned, coming)
			},
			want: report.Stalled, words: []string{"1 new instance to enter service"}, calls: "Mark i-1",
		},
		"the cluster is not the group's": {
			before: func(_ *fakeAWS, v *fakeCluster) { v.empty = true }, change: func(c *plan.Config) { c.Timeout, c.ReadyTimeout = time.Hour, time.Second },
			want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"the cluster is not the group's, and labels exclude nodes": {
			change: func(c *plan.Config) { c.Exclude = []string{"pet"} },
			before: func(_ *fakeAWS, v *fakeCluster) { v.empty = true },
			want:   report.Refused, words: []string{"--exclude-node-label", "--context"},
		},
		"the group is deleted": {
			before: func(a *fakeAWS, _ *fakeCluster) { a.errs["Group"] = []error{nil, nil, refresh.ErrNoGroup} },
			want:   report.Error, words: []string{"deleted"}, calls: "Mark i-1",
		},
		"a refresh is under way": {
			before: func(a *fakeAWS, _ *fakeCluster) { a.begin("r-9", nil) }, want: report.Conflict, words: []string{"r-9"},
		},
		"a refresh is started after the desired capacity was raised": {
			change: func(c *plan.Config) { c.Pace.Surge.N = 1 },
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				switch reads {
				case 4:
					a.group.Desired, a.group.Tags = 4, map[string]string{"node-drainer.io/surge": "3-4"}
					a.group.Instances = append(a.group.Instances, instance("i-4", "2"))
				case 5:
					a.begin("r-9", nil)
				}
			},
			want: report.Conflict, words: []string{"r-9", "stays raised from 3 to 4"}, calls: "Raise 3-4 Mark i-1",
		},
		"an autoscaler raises the desired capacity before the trigger does": {
			change: func(c *plan.Config) { c.Pace.Surge.N = 1 },
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				switch reads {
				case 3:
					a.group.Desired = 5
					a.group.Instances = append(a.group.Instances, instance("i-4", "2"), instance("i-5", "2"))
				case 4:
					a.begin("r-9", nil)
					a.group.Desired, a.group.Tags = 6, map[string]string{"node-drainer.io/surge": "5-6"}
					a.group.Instances = append(a.group.Instances, instance("i-6", "2"))
				}
			},
			want: report.Conflict, words: []string{"stays raised from 5 to 6"}, calls: "Raise 5-6",
		},
		"a refresh is started by another client": {
			script: func(a *fakeAWS, _ *fakeCluster, reads int) {
				if reads == 3 {
					a.begin("r-9", nil)
				}
			},
			want: report.Conflict, words: []string{"r-9"}, calls: "Mark i-1",
		},
		"nothing is outdated: neither a node nor an instance is waited for, and nothing is suspended": {
			change: func(c *plan.Config) { c.Suspend, c.StallTimeout = []string{"AZRebalance"}, time.Hour },
			before: func(a *fakeAWS, v *fakeCluster) {
				a.replaceAll("2")
				a.group.Instances[1].State = "Pending:Wait"
				v.unready = map[string]bool{"i-11": true}
			},
			want: report.Nothing, words: []string{"no instance is outdated"},
		},
		"nothing is outdated, and an earlier run has raised the desired capacity": {
			before: func(a *fakeAWS, _ *fakeCluster) {
				a.replaceAll("2")
				a.group.Tags = map[string]string{"node-drainer.io/surge": "2-3"}
				a.raised(2, 3)
			},
			script: func(a *fakeAWS, _ *fakeCluster, _ int) {
				if slices.ContainsFunc(a.calls, func(call string) bool { return strings.HasPrefix(call, "Terminate") }) {
					a.group.Desired, a.group.Tags, a.group.Instances = 2, nil, a.group.Instances[:2]
				}
			},
			want: report.Nothing, calls: "WriteSurge 2-3 WriteSurge 2-3 i-33 Terminate i-33 WriteSurge 2-2",
		},
		"the new node never becomes ready": {
			change: func(c *plan.Config) { c.StallTimeout = 10 * time.Minute },
			before: func(_ *fakeAWS, v *fakeCluster) { v.unready = map[string]bool{"i-1-new": true} },
			want:   report.Stalled, calls: "Mark i-1",
			words: []string{"waiting for 1 node to become ready: i-1-new", "no further ones are marked"},
		},
		"the new node does not become ready in time": {
			change: func(c *plan.Config) { c.ReadyTimeout, c.StallTimeout = 10*time.Minute, time.Hour },
			before: func(_ *fakeAWS, v *fakeCluster) { v.unready = map[string]bool{"i-1-new": true} },
			want:   report.Failed, calls: "Mark i-1",
			words: []string{"i-1-new (node node-i-1-new)", "10m0s", "no further ones are marked"},
		},
		"the new node becomes ready in time": {
			change: func(c *plan.Config) { c.ReadyTimeout = 10 * time.Minute }, want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
			before: func(_ *fakeAWS, v *fakeCluster) { v.unready = map[string]bool{"i-1-new": true} },
			script: func(_ *fakeAWS, v *fakeCluster, reads int) { readyAt(v, reads, 100) },
		},
		"the nodes of outdated instances are not ready": {
			change: func(c *plan.Config) { c.ReadyTimeout = 10 * time.Second }, want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
			before: func(_ *fakeAWS, v *fakeCluster) { v.unready = map[string]bool{"i-1": true, "i-2": true, "i-3": true} },
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, nodes, cfg := newFakeAWS(3), &fakeCluster{}, unhealthyDefaults()
			if tt.before != nil {
				tt.before(a, nodes)
			}
			replace := replaceUnhealthy(a)
			a.script = func(reads int) {
				if replace(reads); tt.script != nil {
					tt.script(a, nodes, reads)
				}
			}
			if tt.change != nil {
				tt.change(&cfg)
			}
			expect(t, runGroup(t.Context(), t, cfg, a, nodes), tt.want, tt.words...)
			a.expectCalls(t, tt.calls)
		})
	}
}

// TestStaleNodes: no instance is marked while the nodes cannot be watched, and the user learns why. That is no stall if
// it ends.
func TestStaleNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		minutes int // without nodes
		want    report.Outcome
		calls   string
	}{
		"for some minutes": {8, report.Done, "Mark i-1 Mark i-2 Mark i-3"},
		"for good":         {600, report.Stalled, "Mark i-1"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, nodes, cfg := newFakeAWS(3), &fakeCluster{}, unhealthyDefaults()
			cfg.StallTimeout = 10 * time.Minute
			replace, start := replaceUnhealthy(a), time.Now()
			a.script = func(reads int) {
				replace(reads)
				nodes.mu.Lock()
				defer nodes.mu.Unlock()
				nodes.stale = nil
				if reads > 2 && time.Since(start) < time.Duration(tt.minutes)*time.Minute {
					nodes.stale = errors.New("watch nodes: forbidden")
				}
			}
			g := runGroup(t.Context(), t, cfg, a, nodes)
			expect(t, g, tt.want)
			a.expectCalls(t, tt.calls)
			if warned := strings.Count(notes(g), "warn: the nodes are shown as they were: watch nodes: forbidden"); warned != 1 {
				t.Errorf("%d warnings:\n%s", warned, notes(g))
			}
			if tt.want == report.Stalled && !strings.Contains(g.Message, "waiting for the nodes to be readable again") {
				t.Errorf("the message is %s", g.Message)
			}
		})
	}
}

// TestInterruptedWhileACallFails: the outcome is interrupted, and the desired capacity is lowered again.
func TestInterruptedWhileACallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(3), unhealthyDefaults()
		cfg.OnInterrupt, cfg.Pace.Surge.N = plan.Cancel, 1
		a.group.Tags = map[string]string{"node-drainer.io/surge": "2-3"}
		a.raised(2, 3)
		a.errs["Mark i-1"] = []error{errHangs}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		expect(t, runGroup(ctx, t, cfg, a, nil), report.Interrupted, "the desired capacity was lowered from 3 to 2")
		a.expectCalls(t, "WriteSurge 2-3 Mark i-1 Lower")
	})
}

// TestPauseBetweenBatches: the pause is kept, does not count as a stall, and does not follow the last batch.
func TestPauseBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(3), unhealthyDefaults()
		cfg.Pace.Between, cfg.StallTimeout = time.Hour, 10*time.Minute
		a.script = replaceUnhealthy(a)
		started := time.Now()
		expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Done)
		if took := time.Since(started).Round(10 * time.Minute); took != 2*time.Hour {
			t.Errorf("three batches of one with an hour between them took %v", took)
		}
	})
}

// TestNodesThatAppearLater: a group of which the cluster knows no instance at first is waited for as soon as it does.
func TestNodesThatAppearLater(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a, cfg, nodes := newFakeAWS(2), unhealthyDefaults(), &fakeCluster{empty: true, unready: map[string]bool{"i-1-new": true}}
		replace := replaceUnhealthy(a)
		a.script = func(reads int) {
			if replace(reads); slices.ContainsFunc(a.group.Instances, func(i refresh.Instance) bool { return i.ID == "i-1-new" }) {
				nodes.mu.Lock()
				nodes.empty = false
				nodes.mu.Unlock()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		expect(t, runGroup(ctx, t, cfg, a, nodes), report.Interrupted)
		a.expectCalls(t, "Mark i-1")
	})
}

// TestStandbyWithPodsLeft: an instance whose drain has left pods is not stopped, and the rollout ends with the reason.
// When the pods have left, the same command goes on, whatever the condition of the node says.
func TestStandbyWithPodsLeft(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a, cfg, nodes := newFakeAWS(1), unhealthyDefaults(), &fakeCluster{requested: map[string]cluster.Drain{}}
		cfg.Mode, cfg.Pace.Then = refresh.ModeStandby, refresh.ThenStop
		nodes.blocked = map[string]cluster.Load{"node-i-1": {Pods: 2}}
		a.script = func(int) {
			if a.group.Instances[0].State == "Standby" && len(a.group.Instances) == 1 {
				a.group.Instances = append(a.group.Instances, instance("i-new", "2"))
				nodes.mu.Lock()
				nodes.requested["i-1"] = cluster.Drain{LeftBehind: true, Message: "2 of 5 pods are left"}
				nodes.mu.Unlock()
			}
		}
		expect(t, runGroup(t.Context(), t, cfg, a, nodes), report.Failed, "i-1 (node node-i-1: 2 of 5 pods are left)", "trigger rollback")
		expect(t, runGroup(t.Context(), t, cfg, a, forbiddenPods{nodes}), report.Failed, "is not known: list pods", "trigger rollback")
		nodes.blocked["node-i-1"] = cluster.Load{}
		expect(t, runGroup(t.Context(), t, cfg, a, nodes), report.Done)
	})
}
