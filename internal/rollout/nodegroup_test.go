package rollout

import (
	"context"
	"maps"
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

func (n *fakeCluster) Loads(_ context.Context, nodes []string) (map[string]cluster.Load, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	loads := maps.Clone(n.blocked)
	for name := range loads {
		if !strings.Contains(strings.Join(nodes, " "), name) {
			delete(loads, name)
		}
	}
	return loads, nil
}

func (*fakeCluster) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) {
	return nil, nil
}

// isManaged makes the group that of a managed node group at an older release, none of whose instances differs from the
// launch template that EKS has set on it.
func isManaged(a *fakeAWS) {
	a.group.Nodegroup = &refresh.Nodegroup{
		Cluster: "prod", Name: "workers", Status: refresh.NodegroupActive, ClusterVersion: "1.34",
		Has:   refresh.NodeVersion{Kubernetes: "1.34", Release: "1.34.1-20261001"},
		Wants: refresh.NodeVersion{Kubernetes: "1.34", Release: "1.34.2-20261104"},
	}
	a.group.Source.Template = template("1")
}

// updating is what EKS does first, some time after it has accepted an update: new instances get the new version.
func updating(a *fakeAWS, to string) {
	now := *a.group.Nodegroup
	now.Status, now.Updating = refresh.NodegroupUpdating, true
	a.group.Nodegroup = &now
	a.group.Source.Template = template("2")
	for n := range a.refreshes {
		a.refreshes[n].Update = &refresh.NodeVersion{Kubernetes: "1.34", Release: to}
	}
}

// updated is the end of an update that has succeeded.
func updated(a *fakeAWS) {
	now := *a.group.Nodegroup
	now.Status, now.Updating, now.Has = refresh.NodegroupActive, false, now.Wants
	a.group.Nodegroup = &now
	a.group.Source.Template = template("2")
	a.replaceAll("2")
	a.status(refresh.StatusSuccessful, "")
}

// succeeds plays an update that takes until the twentieth read.
func succeeds(a *fakeAWS, reads int) {
	switch {
	case len(a.refreshes) == 0:
	case reads < 20: // For 100 seconds.
		updating(a, "1.34.2-20261104")
	case reads == 20:
		updated(a)
	}
}

// fails plays an update whose pods cannot be evicted.
func fails(a *fakeAWS, _ int) {
	if len(a.refreshes) > 0 {
		updating(a, "1.34.2-20261104")
		a.status(refresh.StatusFailed, "PodEvictionFailure: reached max retries (node-i-1)")
		a.refreshes[0].Evictions, a.refreshes[0].Resources = true, []string{"node-i-1"}
	}
}

// TestNodegroup updates a managed node group. A script plays EKS.
func TestNodegroup(t *testing.T) {
	blocked := &fakeCluster{blocked: map[string]cluster.Load{
		"node-i-1": {Blocked: []cluster.BlockedPod{{Pod: "shop/db-0", Budgets: []string{"shop/db"}}}},
		"node-i-2": {Blocked: []cluster.BlockedPod{{Pod: "shop/db-1", Budgets: []string{"shop/db"}}}},
	}}
	begun := func(release string) func(*fakeAWS) {
		return func(a *fakeAWS) {
			isManaged(a)
			a.begin("u-1", nil)
			updating(a, release)
			a.group.Source.Template = template("1")
		}
	}
	for name, s := range map[string]scenario{
		"all are replaced": {script: succeeds, want: report.Done, words: []string{"3 instances replaced"}, calls: "Start"},
		"EKS describes the group as it was for a while": {
			script: func(a *fakeAWS, reads int) {
				succeeds(a, reads)
				if reads >= 20 && reads < 23 {
					now := *a.group.Nodegroup
					now.Has.Release = "1.34.1-20261001"
					a.group.Nodegroup = &now
				} else if reads == 23 {
					updated(a)
				}
			},
			want: report.Done, words: []string{"3 instances replaced"}, calls: "Start",
		},
		"another client has begun an update since the updates were listed": {
			before: isManaged, script: func(a *fakeAWS, reads int) {
				if len(a.refreshes) == 0 && reads == 2 { // between the list and the description
					a.begin("u-1", nil)
				}
				if succeeds(a, reads); reads < 10 { // EKS sets its launch template later.
					a.group.Source.Template = template("1")
				}
			},
			want: report.Done, words: []string{"3 instances replaced"}, calls: "",
		},
		"a group without nodes": {
			before: func(a *fakeAWS) { isManaged(a); a.group.Desired, a.group.Instances = 0, nil },
			script: succeeds, want: report.Done, words: []string{"the node group is updated; it has no nodes"}, calls: "Start",
		},
		"a group whose only nodes are in Standby": {
			before: func(a *fakeAWS) {
				isManaged(a)
				for n := range a.group.Instances {
					a.group.Instances[n].State = "Standby"
				}
			},
			script: func(a *fakeAWS, reads int) {
				if instances := slices.Clone(a.group.Instances); reads < 20 {
					succeeds(a, reads)
				} else if reads == 20 {
					updated(a)
					a.group.Instances = instances
				}
			},
			want: report.Incomplete, words: []string{"3 instances are still outdated"}, calls: "Start",
		},
		"a group without nodes that EKS does not update": {
			before: func(a *fakeAWS) { isManaged(a); a.group.Desired, a.group.Instances = 0, nil },
			script: func(a *fakeAWS, reads int) {
				if before := *a.group.Nodegroup; reads == 20 {
					updated(a)
					a.group.Nodegroup = &before
				}
			},
			want: report.Incomplete, words: []string{"the node group has release 1.34.1-20261001, and is to have"}, calls: "Start",
		},
		"nothing is outdated": {
			before: func(a *fakeAWS) { isManaged(a); a.group.Nodegroup.Has = a.group.Nodegroup.Wants },
			want:   report.Nothing,
		},
		"pods cannot be evicted": {
			script: fails, nodes: blocked, want: report.Failed, calls: "Start",
			words: []string{
				"node group update r-1 is Failed: PodEvictionFailure",
				"pod shop/db-0 on node node-i-1 (disruption budget shop/db)", "--force",
			},
		},
		"the next run after such a failure": {
			before: func(a *fakeAWS) {
				isManaged(a)
				a.group.Source.Template = template("2")
				a.group.Instances[0] = instance("i-11", "2")
			},
			script: succeeds, want: report.Done, words: []string{"2 instances replaced"}, calls: "Start",
		},
		"an update to the same is followed, from before EKS has launched anything": {
			before: begun("1.34.2-20261104"), script: succeeds, want: report.Done, words: []string{"3 instances replaced"},
		},
		"an update to something else": {
			before: begun("1.34.1-20261020"), want: report.Conflict, words: []string{"node group update u-1 is in progress"},
		},
		"an update to something else is waited for": {
			before: begun("1.34.1-20261020"), change: func(c *plan.Config) { c.OnConflict = plan.Wait },
			script: func(a *fakeAWS, reads int) {
				if reads == 3 {
					isManaged(a)
					a.status(refresh.StatusFailed, "NodeCreationFailure")
				}
				if len(a.refreshes) > 1 && a.refreshes[0].Active() {
					updated(a)
				}
			},
			want: report.Done, words: []string{"3 instances replaced"}, calls: "Start",
		},
		"interrupted": {
			script: func(a *fakeAWS, _ int) { succeeds(a, 1) }, stop: time.Minute, want: report.Interrupted, calls: "Start",
			words: []string{"node group update r-1 continues"},
		},
		"not waited for": {
			change: func(c *plan.Config) { c.Wait = false }, want: report.Detached, calls: "Start",
			words: []string{"node group update r-1 continues"},
		},
		"degraded": {
			before: func(a *fakeAWS) {
				isManaged(a)
				a.group.Nodegroup.Status, a.group.Nodegroup.Issues = "DEGRADED", []string{"NodeCreationFailure: 2 did not join"}
			},
			want: report.Refused, words: []string{"nodegroup-health", "NodeCreationFailure: 2 did not join"},
		},
		"outside the windows": {
			change: func(c *plan.Config) { c.Windows = refresh.Windows{closedAtStart(t)} }, want: report.Skipped, words: []string{"not started"},
		},
		"the windows close": {
			change: func(c *plan.Config) { c.Windows = refresh.Windows{closedSoon(t)} },
			script: succeeds, want: report.Done, words: []string{"3 instances replaced"}, calls: "Start",
		},
		"the newest release is unknown": {
			before: func(a *fakeAWS) { isManaged(a); a.group.Nodegroup.Problem = "the newest release is not known" },
			want:   report.Refused, words: []string{"the newest release is not known"},
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			if s.before == nil {
				s.before = isManaged
			}
			cfg := defaults()
			cfg.Mode = refresh.ModeNodegroup
			s.run(t, cfg)
		})
	}
}

// TestNodegroupNamesBlockingPods: while EKS waits, a note says for which pods, once.
func TestNodegroupNamesBlockingPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(1), defaults()
		isManaged(a)
		cfg.Mode = refresh.ModeNodegroup
		a.script = func(reads int) {
			switch {
			case len(a.refreshes) == 0:
			case reads < 100:
				updating(a, "1.34.2-20261104")
			case reads == 100:
				updated(a)
			}
		}
		g := runGroup(t.Context(), t, cfg, a, &fakeCluster{blocked: map[string]cluster.Load{
			"node-i-1": {Blocked: []cluster.BlockedPod{{Pod: "shop/db-0", Budgets: []string{"shop/db"}}}},
		}})
		expect(t, g, report.Done)
		var notes []string
		for _, n := range g.Notes {
			notes = append(notes, n.Text)
		}
		const want = "EKS waits for pods that cannot be evicted: pod shop/db-0 on node node-i-1 (disruption budget shop/db)"
		if got := strings.Join(notes, "\n"); strings.Count(got, want) != 1 {
			t.Errorf("notes\n%s\nwant once %q", got, want)
		}
	})
}

// TestNodegroupSizes: a note says that EKS has left the group larger, whether the update succeeds or fails.
func TestNodegroupSizes(t *testing.T) {
	for name, s := range map[string]struct {
		script func(a *fakeAWS, reads int)
		left   int
		want   report.Outcome
	}{
		"left": {succeeds, 2, report.Done}, "taken back": {succeeds, 0, report.Done}, "failed": {fails, 2, report.Failed},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			isManaged(a)
			cfg.Mode = refresh.ModeNodegroup
			most := a.group.Max
			a.script = func(reads int) {
				s.script(a, reads)
				if len(a.refreshes) > 0 {
					a.group.Max = most + s.left
				}
			}
			g := runGroup(t.Context(), t, cfg, a, &fakeCluster{})
			expect(t, g, s.want)
			isNoted := slices.ContainsFunc(g.Notes, func(n report.Note) bool {
				return strings.Contains(n.Text, "EKS leaves what it has added")
			})
			if isNoted != (s.left > 0) {
				t.Errorf("notes: %v", g.Notes)
			}
		})
	}
}

// closedAtStart is a window that is closed when virtual time begins, at midnight of 2000-01-01, a Saturday.
func closedAtStart(t *testing.T) refresh.Window { return window(t, "Sun 10:00-11:00") }

// closedSoon is a window that closes a minute after that.
func closedSoon(t *testing.T) refresh.Window { return window(t, "Fri 23:00-00:01") }

func window(t *testing.T, text string) refresh.Window {
	t.Helper()
	w, err := refresh.ParseWindow(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
