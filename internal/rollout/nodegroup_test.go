package rollout_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	eksCluster, eksPath = "prod", "/clusters/prod/node-groups/workers"
	firstRelease        = "1.34.1-20261001"
	middleRelease       = "1.34.1-20261020"
	newestRelease       = "1.34.2-20261104"
)

// eksNodes are the nodes as EKS drains them: that of an instance has a pod, if that is blocked.
type eksNodes struct{ *nodes }

func (n eksNodes) Node(_ context.Context, id string) (awsim.ManagedNode, error) {
	node, _ := n.nodes.Node(id)
	return awsim.ManagedNode{Name: node.Name, Ready: node.Ready, Labels: n.w.NodeLabels(id)}, nil
}

func (n eksNodes) Pods(ctx context.Context, node string) (pods []awsim.ManagedPod, err error) {
	loads, err := n.Loads(ctx, []string{node})
	for _, pod := range loads[node].Blocked {
		pods = append(pods, awsim.ManagedPod{Namespace: "shop", Name: pod.Pod, UID: pod.Pod})
	}
	return pods, err
}

func (eksNodes) Label(context.Context, string, map[string]string) error { return nil }
func (eksNodes) Cordon(context.Context, string) error                   { return nil }
func (eksNodes) Evict(context.Context, awsim.ManagedPod) error          { return awsim.ErrEvictionBlocked }
func (eksNodes) Delete(context.Context, awsim.ManagedPod) error         { return nil }

// block has a pod on the node of an instance be protected by a budget.
func (n *nodes) block(name string) {
	n.loads = map[string]cluster.Load{name: {Blocked: []cluster.BlockedPod{{Pod: "shop/db-0", Budgets: []string{"shop/db"}}}}}
}

// newNodegroup makes the world one of a managed node group with three nodes, at an older release.
func newNodegroup(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.cfg.Mode = refresh.ModeNodegroup
	w.PutSubnet(awsim.Subnet{ID: "subnet-a", Zone: "eu-central-1a", Available: 250})
	w.CreateCluster(eksCluster, "1.34")
	w.must(w.Connect(eksCluster, eksNodes{w.nodes}, awsim.EKSTimes{Eviction: 4 * time.Minute, Settle: 10 * time.Second}))
	w.publish(firstRelease)
	var err error
	w.group, err = w.CreateNodegroup(awsim.Nodegroup{Cluster: eksCluster, Name: "workers", Max: 6, Desired: 3, Subnets: []string{"subnet-a"}})
	w.must(err)
	w.cfg.Selection.Names = []string{w.group}
	w.inService(3)
	w.id("i-1")
	return w
}

func (w *world) publish(release string) {
	w.PublishRelease(awsim.Release{KubernetesVersion: "1.34", Version: release, Image: "ami-" + release})
}

// update has another client update the node group.
func (w *world) update(release string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.URL()+eksPath+"/update-version",
		strings.NewReader(`{"clientRequestToken":"other","releaseVersion":"`+release+`"}`))
	w.must(err)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=operator/sim")
	answer, err := w.Server.RoundTrip(r)
	if w.must(err); answer.StatusCode != http.StatusOK {
		w.Fatalf("the update is answered with %s", answer.Status)
	}
}

// late has EKS describe an updated group as it was, so often.
func (w *world) late(times int) {
	w.edit = func(action, body string) string {
		if !strings.HasSuffix(action, eksPath) || !strings.Contains(body, newestRelease) || times == 0 {
			return body
		}
		times--
		return strings.ReplaceAll(body, newestRelease, firstRelease)
	}
}

// TestNodegroup updates a managed node group.
func TestNodegroup(t *testing.T) {
	t.Parallel()
	empty := func(w *world) { w.must(w.Resize(w.group, 0, 6, 0)); w.inService(0) }
	unready := func(w *world) {
		for _, name := range []string{"i-4", "i-5", "i-6"} {
			w.nodes.unready[name] = true
		}
	}
	const larger, replaced = "EKS leaves what it has added", "3 instances replaced"
	const blocked = "pod shop/db-0 on node node-i-1 (disruption budget shop/db)"
	// notes expects how often texts are noted.
	notes := func(text string, times int) func(w *world, end report.Group) {
		return func(w *world, end report.Group) {
			if n := strings.Count(w.notes(end), text); n != times {
				w.Errorf("%q is noted %d times, want %d:\n%s", text, n, times, w.notes(end))
			}
		}
	}
	for name, s := range map[string]scenario{
		"all are replaced": {want: report.Done, words: replaced, calls: "Update", then: notes(larger, 0)},
		"EKS describes the group as it was for a while": {
			before: func(w *world) { w.late(3) }, want: report.Done, words: replaced, calls: "Update",
		},
		"somebody makes the group larger meanwhile": {
			before: func(w *world) { w.after(30*time.Second, func() { w.must(w.Resize(w.group, 0, 20, 7)) }) },
			want:   report.Done, words: replaced, calls: "Update", then: notes(larger, 1),
		},
		"another client has begun an update since the updates were listed": {
			before: func(w *world) {
				w.upon("Describe /clusters/prod/updates", func() {
					w.upon("DescribeAutoScalingGroups", func() { w.update(newestRelease) })
				})
			},
			want: report.Done, words: replaced,
		},
		"a group without nodes": {
			before: empty, want: report.Done, words: "the node group is updated; it has no nodes", calls: "Update",
		},
		"a group whose only nodes are in Standby": {
			before: func(w *world) {
				for _, i := range w.Instances(w.group) {
					w.operator("EnterStandby", "InstanceIds.member.1="+i.ID, "ShouldDecrementDesiredCapacity=true")
					w.must(w.WaitState(w.Context(), i.ID, "Standby"))
				}
			},
			want: report.Incomplete, words: "3 instances are still outdated", calls: "Update",
		},
		"a group without nodes that EKS does not update": {
			before: func(w *world) { empty(w); w.late(1000) }, want: report.Incomplete,
			words: "the node group has release " + firstRelease + ", and is to have", calls: "Update",
		},
		"pods cannot be evicted, and then they can": {
			before: func(w *world) { w.nodes.block("i-1") }, want: report.Failed, calls: "Update",
			words: "node group update r is Failed: PodEvictionFailure | " + blocked + " | --force",
			then: func(w *world, end report.Group) {
				notes(larger, 1)(w, end)
				w.nodes.loads = nil
				w.play(scenario{want: report.Done, words: "replaced", calls: "Update, Update"})
			},
		},
		"pods cannot be evicted for a while, and are noted once": {
			before: func(w *world) {
				w.nodes.block("i-1")
				w.after(200*time.Second, func() { w.nodes.set(func() { w.nodes.loads = nil }) })
			},
			want: report.Done, words: replaced, calls: "Update",
			then: notes("EKS waits for pods that cannot be evicted: "+blocked, 1),
		},
		"an update to the same is followed, from before EKS has launched anything": {
			before: func(w *world) { w.update(newestRelease) }, want: report.Done, words: replaced,
		},
		"an update to something else": {
			before: func(w *world) { w.update(middleRelease) }, want: report.Conflict, words: "node group update r is in progress",
		},
		"an update to something else is waited for": {
			before: func(w *world) {
				w.cfg.OnConflict = plan.Wait
				unready(w)
				w.update(middleRelease)
				w.after(20*time.Second, func() {
					w.nodes.set(func() { w.nodes.unready = nil })
					w.must(w.EndUpdate(eksCluster, "workers", awsim.UpdateFailed, awsim.UpdateError{Code: "NodeCreationFailure"}))
				})
			},
			want: report.Done, words: "instances replaced", calls: "Update",
		},
		"interrupted": {
			before: unready, stop: time.Minute, want: report.Interrupted, calls: "Update", words: "node group update r continues",
		},
		"not waited for": {
			before: func(w *world) { w.cfg.Wait = false }, want: report.Detached, calls: "Update", words: "node group update r continues",
		},
		"degraded": {
			before: func(w *world) {
				w.must(w.SetHealth(eksCluster, "workers", awsim.HealthIssue{Code: "NodeCreationFailure", Message: "2 did not join"}))
			},
			want: report.Refused, words: "nodegroup-health | NodeCreationFailure: 2 did not join",
		},
		"outside the windows": {
			before: func(w *world) { w.window("Sun 10:00-11:00") }, want: report.Skipped, words: "not started",
		},
		"the windows close": {
			before: func(w *world) { w.window("Fri 23:00-00:01") }, want: report.Done, words: replaced, calls: "Update",
		},
		"the newest release is unknown": {
			before: func(w *world) { w.fails("GetParameter", "AccessDeniedException", 0) }, want: report.Refused, words: "release",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newNodegroup(t)
				w.publish(middleRelease)
				w.publish(newestRelease)
				w.play(s)
				w.end()
			})
		})
	}
	t.Run("nothing is outdated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newNodegroup(t)
			w.play(scenario{want: report.Nothing})
			w.end()
		})
	})
}

// window adds a window. Virtual time begins at midnight of 2000-01-01, a Saturday.
func (w *world) window(text string) {
	w.Helper()
	window, err := refresh.ParseWindow(text)
	w.must(err)
	w.cfg.Windows = append(w.cfg.Windows, window)
}
