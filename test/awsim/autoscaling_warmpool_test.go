package awsim_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestWarmPoolAsTheSDKSeesIt(t *testing.T) {
	s, c := templated(t, 1, "1")
	url := s.CreateQueue("events", nil)
	must(t, s.PutHook(groupName, awsim.Hook{
		Name: "ready", Transition: awsim.Launching, NotificationTargetARN: s.QueueARN(url),
	}))
	inbox(t, s, url) // The test notification.
	do(t, c.PutWarmPool, &autoscaling.PutWarmPoolInput{
		AutoScalingGroupName: new(groupName), MinSize: new(int32(60)), MaxGroupPreparedCapacity: new(int32(2)),
		PoolState: types.WarmPoolStateHibernated, InstanceReusePolicy: &types.InstanceReusePolicy{ReuseOnScaleIn: new(true)},
	})
	var ids []string
	for _, i := range s.Instances(groupName)[1:] {
		must(t, s.WaitState(within(t), i.ID, "Warmed:Pending:Wait"))
		must(t, complete(t, c, "ready", i.ID, "CONTINUE"))
		must(t, s.WaitState(within(t), i.ID, "Warmed:Hibernated"))
		ids = append(ids, i.ID)
	}
	for _, m := range inbox(t, s, url) {
		if m["Origin"] != "EC2" || m["Destination"] != "WarmPool" {
			t.Errorf("got %v", m)
		}
	}
	pool, warm := poolOf(t, c)
	if *pool.MinSize != 60 || *pool.MaxGroupPreparedCapacity != 2 || pool.PoolState != types.WarmPoolStateHibernated ||
		!*pool.InstanceReusePolicy.ReuseOnScaleIn || pool.Status != "" {
		t.Errorf("got %+v", pool)
	}
	slices.Sort(ids)
	if !slices.Equal(warm, ids) || len(warm) != 60 {
		t.Errorf("%d instances in the pool: %v", len(warm), warm)
	}
	groups := do(t, c.DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{})
	if g := groups.AutoScalingGroups[0]; len(g.Instances) != 1 || *g.WarmPoolSize != 60 || g.WarmPoolConfiguration == nil {
		t.Errorf("the group has %d instances, and %v", len(g.Instances), g.WarmPoolConfiguration)
	}
	one := do(t, c.DescribeAutoScalingInstances,
		&autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: ids[:1]})
	if len(one.AutoScalingInstances) != 1 || *one.AutoScalingInstances[0].LifecycleState != "Warmed:Hibernated" {
		t.Errorf("got %v", one.AutoScalingInstances)
	}
}

// poolOf is the group's warm pool and the ids of its instances, over all pages.
func poolOf(t testing.TB, c *autoscaling.Client) (pool *types.WarmPoolConfiguration, ids []string) {
	t.Helper()
	p := autoscaling.NewDescribeWarmPoolPaginator(c,
		&autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: new(groupName)})
	for p.HasMorePages() {
		page, err := p.NextPage(t.Context())
		must(t, err)
		pool = page.WarmPoolConfiguration
		for _, i := range page.Instances {
			ids = append(ids, *i.InstanceId)
		}
	}
	return pool, ids
}

func TestWarmPoolThatIsDeletedSlowly(t *testing.T) {
	s, c := templated(t, 1, "1")
	in := &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: new(groupName)}
	if _, err := c.DeleteWarmPool(t.Context(), in); code(err) != "ValidationError" {
		t.Errorf("without one: %v", err)
	}
	if pool, ids := poolOf(t, c); pool != nil || len(ids) > 0 {
		t.Errorf("without one: %v and %v", pool, ids)
	}
	do(t, c.PutWarmPool, &autoscaling.PutWarmPoolInput{
		AutoScalingGroupName: new(groupName), MinSize: new(int32(1)),
	})
	id := s.Instances(groupName)[1].ID
	must(t, s.WaitState(within(t), id, "Warmed:Stopped"))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain"}))
	_, err := c.DeleteWarmPool(t.Context(), in)
	must(t, err)
	if pool, ids := poolOf(t, c); pool.Status != types.WarmPoolStatusPendingDelete || len(ids) != 1 {
		t.Errorf("while its instance waits: %+v and %v", pool, ids)
	}
	if act := only(t, s); act.Origin != "WarmPool" || act.Destination != "EC2" {
		t.Errorf("got %+v", act)
	}
	must(t, complete(t, c, "drain", id, "CONTINUE"))
	must(t, s.WaitState(within(t), id, "Warmed:Terminated"))
	if pool, _ := poolOf(t, c); pool != nil {
		t.Errorf("in the end: %+v", pool)
	}
}
