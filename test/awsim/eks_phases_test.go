package awsim_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// rolled is a node group workers that is about to be updated, in virtual time.
type rolled struct {
	*managed
	*nodes
	group string
	start time.Time
	old   []string // Its instances before the update.
	most  int      // How many there were at a time at most.
}

// inUpdates runs a test of the update of a node group of version 1.31.0-20260101, of three nodes unless the
// specification says otherwise.
func inUpdates(t *testing.T, name string, spec awsim.Nodegroup, run func(r *rolled)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := &nodes{byID: map[string]*kubelet{}, began: time.Now()}
			s := awsim.NewUnconnected(awsim.Options{Machines: machinesOf{n}})
			defer func() { must(t, s.Close()) }()
			m := newManaged(t, s, &http.Client{Transport: s})
			must(t, s.Connect("prod", kubernetesOf{n}, awsim.EKSTimes{}))
			spec.Desired = cmp.Or(spec.Desired, 3)
			spec.Min, spec.Max, spec.Release = 1, spec.Desired+1, "1.31.0-20260101"
			m.create("workers", spec)
			r := &rolled{managed: m, nodes: n, group: *m.describe("workers").Resources.AutoScalingGroups[0].Name}
			time.Sleep(2 * time.Minute)
			r.start, r.old = time.Now(), r.live()
			run(r)
		})
	})
}

// live returns the instances of the group that are in service or on their way there.
func (r *rolled) live() (ids []string) {
	for _, inst := range r.Instances(r.group) {
		if inst.State == "InService" || strings.HasPrefix(inst.State, "Pending") {
			ids = append(ids, inst.ID)
		}
	}
	return ids
}

// watch watches the group until an update has ended.
func (r *rolled) watch(u *types.Update) *types.Update {
	r.t.Helper()
	for u.Status == types.UpdateStatusInProgress {
		time.Sleep(time.Second)
		r.most = max(r.most, len(r.live()))
		u = r.describeUpdate("workers", *u.Id)
		if time.Since(r.start) > 10*time.Hour {
			r.t.Fatal("the update does not end")
		}
	}
	return u
}

func (r *rolled) begin(in eks.UpdateNodegroupVersionInput) *types.Update {
	r.t.Helper()
	u, err := r.update("workers", in)
	must(r.t, err)
	return u
}

// wantNew fails unless the group has n live instances, all of which are new.
func (r *rolled) wantNew(n int) {
	r.t.Helper()
	if now := r.live(); len(now) != n || slices.ContainsFunc(now, func(id string) bool { return slices.Contains(r.old, id) }) {
		r.t.Errorf("the group has the instances %q, before it had %q", now, r.old)
	}
}

// wantRaised fails unless updates have left the sizes raised by n.
func (r *rolled) wantRaised(n int) {
	r.t.Helper()
	by, err := r.Raised("prod", "workers")
	must(r.t, err)
	if by != n {
		r.t.Errorf("updates have left the sizes raised by %d, not %d", by, n)
	}
}

// wantDid fails unless EKS did this to the node, with these seconds between its steps.
func (r *rolled) wantDid(node, want string) {
	r.t.Helper()
	var got []string
	last := 0
	for _, line := range r.lines() {
		var at int
		var what, of string
		_, _ = fmt.Sscan(line, &at, &what, &of)
		if of == node {
			got = append(got, what)
			last = at
		}
	}
	if strings.Join(got, " ") != want {
		r.t.Errorf("EKS did %q to the node %s, the last at %d s, not %q: %q", got, node, last, want, r.lines())
	}
}

func TestUpdatePhases(t *testing.T) {
	inUpdates(t, "default", awsim.Nodegroup{}, func(r *rolled) {
		got := r.watch(r.begin(eks.UpdateNodegroupVersionInput{}))
		ng := r.describe("workers")
		if got.Status != types.UpdateStatusSuccessful || r.most != 9 || *ng.ReleaseVersion != "1.31.0-20260102" ||
			*ng.ScalingConfig.MaxSize != 4 || *ng.ScalingConfig.DesiredSize != 3 {
			r.t.Errorf("%+v with %d nodes at most, then %+v", got, r.most, ng.ScalingConfig)
		}
		for _, node := range r.old {
			r.wantDid(node, "cordon exclude evict")
		}
		r.wantNew(3)
		r.wantRaised(0)
		if labels := r.NodeLabels(r.live()[0]); labels["eks.amazonaws.com/nodegroup-image"] != "ami-1.31-02" {
			r.t.Errorf("the labels are %v", labels)
		}
		if drains := r.seconds("evict", r.old); drains[1]-drains[0] < 60 || drains[2]-drains[1] < 60 {
			r.t.Errorf("one node may be unavailable at a time, and evictions were at %d s", drains)
		}
	})
	inUpdates(t, "two at a time", awsim.Nodegroup{MaxUnavailablePercentage: 67}, func(r *rolled) {
		r.watch(r.begin(eks.UpdateNodegroupVersionInput{}))
		if drains := r.seconds("evict", r.old); drains[1] != drains[0] || drains[2]-drains[1] < 60 {
			r.t.Errorf("two nodes may be unavailable at a time, and evictions were at %d s", drains)
		}
	})
	inUpdates(t, "minimal", awsim.Nodegroup{Strategy: awsim.UpdateMinimal}, func(r *rolled) {
		if got := r.watch(r.begin(eks.UpdateNodegroupVersionInput{})); got.Status != types.UpdateStatusSuccessful || r.most != 3 {
			r.t.Errorf("%+v with %d nodes at most", got, r.most)
		}
		for _, node := range r.old {
			r.wantDid(node, "cordon evict")
		}
		r.wantNew(3)
	})
	inUpdates(t, "nothing to do", awsim.Nodegroup{}, func(r *rolled) {
		r.watch(r.begin(eks.UpdateNodegroupVersionInput{ReleaseVersion: new("1.31.0-20260101")}))
		if now := r.live(); !slices.Equal(now, r.old) {
			r.t.Errorf("the group has the instances %q, before it had %q", now, r.old)
		}
	})
}

// seconds returns when EKS did something to any of the nodes.
func (r *rolled) seconds(what string, of []string) (at []int) {
	for _, line := range r.lines() {
		var second int
		var did, node string
		_, _ = fmt.Sscan(line, &second, &did, &node)
		if did == what && slices.Contains(of, node) {
			at = append(at, second)
		}
	}
	return at
}

func TestUpdatesFail(t *testing.T) {
	inUpdates(t, "a pod stays", awsim.Nodegroup{}, func(r *rolled) {
		stuck := r.old[1]
		must(r.t, r.change(stuck, func(k *kubelet) { k.pods["pod-"+stuck] = true }))
		got := r.watch(r.begin(eks.UpdateNodegroupVersionInput{}))
		if got.Status != types.UpdateStatusFailed || got.Errors[0].ErrorCode != types.ErrorCodePodEvictionFailure ||
			!slices.Equal(got.Errors[0].ResourceIds, []string{stuck}) {
			r.t.Errorf("%+v", got)
		}
		r.wantDid(stuck, "cordon exclude")
		ng := r.describe("workers")
		if !slices.Contains(r.live(), stuck) || len(r.live()) != 9 || *ng.ReleaseVersion != "1.31.0-20260101" {
			r.t.Errorf("after the failure there are %q, and %s", r.live(), *ng.ReleaseVersion)
		}
		first := slices.DeleteFunc(r.live(), func(id string) bool { return slices.Contains(r.old, id) })
		begun := time.Now()
		if got := r.watch(r.begin(eks.UpdateNodegroupVersionInput{Force: true})); got.Status != types.UpdateStatusSuccessful {
			r.t.Errorf("%+v", got)
		}
		r.wantDid(stuck, "cordon exclude exclude delete")
		for _, node := range first {
			if len(r.seconds("exclude", []string{node})) > 0 {
				r.t.Errorf("the new node %s of the update that failed counts as an old one", node)
			}
		}
		if took := time.Since(begun); took < 15*time.Minute {
			r.t.Errorf("force deleted the pod after %s", took)
		}
	})
	inUpdates(t, "new nodes are not Ready", awsim.Nodegroup{}, func(r *rolled) {
		r.mu.Lock()
		r.broken = 2
		r.mu.Unlock()
		got := r.watch(r.begin(eks.UpdateNodegroupVersionInput{}))
		if got.Status != types.UpdateStatusFailed || got.Errors[0].ErrorCode != types.ErrorCodeNodeCreationFailure || len(got.Errors[0].ResourceIds) != 6 {
			r.t.Errorf("%+v", got)
		}
		if took := time.Since(r.start); took < 15*time.Minute || took > 16*time.Minute || len(r.lines()) > 0 {
			r.t.Errorf("after %s, EKS did %q", took, r.lines())
		}
	})
}

// TestUpdateAndOthers: others change the group while it is updated.
func TestUpdateAndOthers(t *testing.T) {
	inUpdates(t, "scale up", awsim.Nodegroup{}, func(r *rolled) {
		u := r.begin(eks.UpdateNodegroupVersionInput{})
		time.Sleep(3 * time.Minute)
		groups := newAccount(r.t, r.Server, &http.Client{Transport: r.Server}).groups
		_, err := groups.SetDesiredCapacity(r.t.Context(), &autoscaling.SetDesiredCapacityInput{
			AutoScalingGroupName: &r.group, DesiredCapacity: new(int32(10)),
		})
		must(r.t, err)
		r.watch(u)
		if sizes := r.describe("workers").ScalingConfig; *sizes.DesiredSize != 10 || *sizes.MaxSize != 10 {
			r.t.Errorf("the sizes are %d and %d", *sizes.DesiredSize, *sizes.MaxSize)
		}
		r.wantRaised(6)
	})
	inUpdates(t, "the end", awsim.Nodegroup{}, func(r *rolled) {
		r.begin(eks.UpdateNodegroupVersionInput{})
		time.Sleep(30 * time.Second) // No new node is Ready yet.
		must(r.t, r.EndUpdate("prod", "workers", awsim.UpdateCancelled))
		time.Sleep(time.Hour)
		if now := r.live(); len(now) != 9 || len(r.lines()) > 0 {
			r.t.Errorf("the group has %q, and EKS did %q", now, r.lines())
		}
		r.wantRaised(6)
	})
	inUpdates(t, "a hook", awsim.Nodegroup{}, func(r *rolled) {
		must(r.t, r.PutHook(r.group, awsim.Hook{Name: "drain", HeartbeatTimeout: time.Hour}))
		r.watch(r.begin(eks.UpdateNodegroupVersionInput{}))
		for _, id := range r.old {
			must(r.t, r.WaitState(r.t.Context(), id, "Terminating:Wait"))
		}
		for _, id := range r.old {
			must(r.t, r.WaitState(r.t.Context(), id, "Terminated"))
		}
	})
}
