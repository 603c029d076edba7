package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/singleflight"
)

// Auto Scaling's bounds on a hook (aws.autoscaling LifecycleHook): a heartbeat timeout is from 30 s to 2 h,
// one hour unless set; all heartbeats together hold an instance for 100 times that, and never for more than
// 48 h.
const (
	longestHold     = 48 * time.Hour
	holdPerTimeout  = 100
	shortestTimeout = 30 * time.Second
)

// Timing is how long a hook waits.
type Timing struct {
	Heartbeat time.Duration // until the action times out, counted anew from each heartbeat
	Global    time.Duration // until it times out whatever the heartbeats
}

// shortest is the timing to assume while the hook's own is unknown.
//
//nolint:gochecknoglobals // a constant
var shortest = Timing{shortestTimeout, holdPerTimeout * shortestTimeout}

// hook is what is known of a lifecycle hook.
type hook struct {
	timing   Timing
	siblings int // other hooks of the group for the same transition
}

// Timing returns how long the action's hook waits, as Auto Scaling describes it. The answer is kept for some
// minutes. The error is ErrGone if the group has no such hook.
func (h *Hooks) Timing(ctx context.Context, a Action) (Timing, error) {
	k, err := h.hook(ctx, a)
	return k.timing, err
}

// Deadline returns the instant by which an action that began at the given one must be completed: the hook's
// global timeout less the configured margin. If Auto Scaling refuses to describe the hook, which it may do
// for ever, that is the deadline of the shortest hook there can be; an action that waits for longer has
// another hook, and counts as one that begins now.
func (h *Hooks) Deadline(ctx context.Context, a Action, began time.Time) (time.Time, error) {
	t, err := h.Timing(ctx, a)
	switch {
	case err == nil:
		return h.deadline(began, t), nil
	case !isRefused(err):
		return time.Time{}, err
	}
	h.observer.AutoScalingFailed("read the timeouts of "+a.String(), err)
	if now := time.Now(); !h.deadline(began, shortest).After(now) {
		began = now
	}
	return h.deadline(began, shortest), nil
}

func (h *Hooks) deadline(began time.Time, t Timing) time.Time {
	return began.Add(t.Global - min(h.cfg.Margin, t.Global/10))
}

// shared tells whether other hooks than the action's own may hold the instance too.
func (h *Hooks) shared(ctx context.Context, a Action) bool {
	k, err := h.hook(ctx, a)
	return err == nil && k.siblings > 0
}

// hook finds the action's hook among those of its group, and counts those of the same transition beside it. A
// hook that is not among those that were read before may be new.
func (h *Hooks) hook(ctx context.Context, a Action) (hook, error) {
	for range 2 {
		all, err := h.listed.get(ctx, a.Group)
		if err != nil {
			return hook{}, err
		}
		if found, ok := among(all, a.Hook); ok {
			return found, nil
		}
		h.listed.forget(a.Group)
	}
	return hook{}, fmt.Errorf("group %s has no lifecycle hook %s: %w", a.Group, a.Hook, ErrGone)
}

func among(all []types.LifecycleHook, name string) (hook, bool) {
	i := slices.IndexFunc(all, func(l types.LifecycleHook) bool { return deref(l.LifecycleHookName) == name })
	if i < 0 {
		return hook{}, false
	}
	found := hook{timing: timing(all[i]), siblings: -1}
	for _, l := range all {
		if deref(l.LifecycleTransition) == deref(all[i].LifecycleTransition) {
			found.siblings++
		}
	}
	return found, true
}

func (h *Hooks) readHooks(ctx context.Context, group string) ([]types.LifecycleHook, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := h.api.DescribeLifecycleHooks(ctx,
		&sdk.DescribeLifecycleHooksInput{AutoScalingGroupName: aws.String(group)})
	if err != nil {
		return nil, fmt.Errorf("describe the lifecycle hooks of group %s: %w", group, err)
	}
	return out.LifecycleHooks, nil
}

func timing(l types.LifecycleHook) Timing {
	t := Timing{
		Heartbeat: time.Duration(aws.ToInt32(l.HeartbeatTimeout)) * time.Second,
		Global:    time.Duration(aws.ToInt32(l.GlobalTimeout)) * time.Second,
	}
	if t.Heartbeat <= 0 {
		t.Heartbeat = time.Hour
	}
	if t.Global <= 0 {
		t.Global = min(holdPerTimeout*t.Heartbeat, longestHold)
	}
	return t
}

// Clusters returns the names of the Kubernetes clusters that the group's tags name; none if they name none,
// or the group is unknown. The answer is kept for some minutes.
func (h *Hooks) Clusters(ctx context.Context, group string) ([]string, error) {
	return h.clusters.get(ctx, group)
}

func (h *Hooks) readClusters(ctx context.Context, group string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	names := []string{}
	pages := sdk.NewDescribeTagsPaginator(h.api, &sdk.DescribeTagsInput{
		Filters: []types.Filter{{Name: aws.String("auto-scaling-group"), Values: []string{group}}},
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the tags of group %s: %w", group, err)
		}
		for _, t := range out.Tags {
			if name := clusterOf(deref(t.Key), deref(t.Value)); name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// clusterOf returns the cluster that a tag of an Auto Scaling group names, by the conventions of Amazon EKS,
// the cloud provider and the cluster autoscaler. The last looks at no value; its other tags, which tell of
// the group's nodes, have a path where the name would be.
func clusterOf(key, value string) string {
	if key == "eks:cluster-name" || key == "aws:eks:cluster-name" {
		return value
	}
	name, ok := strings.CutPrefix(key, "kubernetes.io/cluster/")
	if ok && (value == "owned" || value == "shared") {
		return name
	}
	name, ok = strings.CutPrefix(key, "k8s.io/cluster-autoscaler/")
	if !ok || name == "enabled" || strings.Contains(name, "/") {
		return ""
	}
	return name
}

// keep is how long an answer about a group or a hook is used again.
const keep = 5 * time.Minute

// cache keeps what read returned about a group for some minutes, and lets those who ask at the same time
// share one call. Errors are not kept. Who asks leaves when its context ends, and the call goes on. Its zero
// value, with read set, is ready for use.
type cache[V any] struct {
	read func(ctx context.Context, group string) (V, error)
	keep time.Duration // some minutes if zero

	calls singleflight.Group
	mu    sync.Mutex
	kept  map[string]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

func (c *cache[V]) get(ctx context.Context, group string) (V, error) {
	c.mu.Lock()
	e, ok := c.kept[group]
	c.mu.Unlock()
	if ok && time.Now().Before(e.until) {
		return e.value, nil
	}
	answer := c.calls.DoChan(group, func() (any, error) {
		v, err := c.read(context.WithoutCancel(ctx), group)
		if err == nil {
			c.put(group, v)
		}
		return v, err
	})
	select {
	case a := <-answer:
		return a.Val.(V), a.Err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

func (c *cache[V]) forget(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kept, group)
}

func (c *cache[V]) put(group string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[string]entry[V]{}
	}
	for k, e := range c.kept {
		if time.Now().After(e.until) {
			delete(c.kept, k)
		}
	}
	c.kept[group] = entry[V]{v, time.Now().Add(cmp.Or(c.keep, keep))}
}
