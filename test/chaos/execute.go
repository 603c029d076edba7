package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	// pickTimeout bounds how long a termination waits for an instance that is free.
	pickTimeout = 90 * time.Second
	// releaseDelay is how long an instance that stays in service is not picked again.
	releaseDelay = 25 * time.Second
)

// execution executes a plan.
type execution struct {
	*fixture
	fleet *fleet
	start time.Time
	hits  atomic.Int64 // Calls that hit a fault.
	post  sync.Mutex   // Held while messages are sent, some of which are to be lost.

	apiServer sync.Mutex // Held while a part of the control plane is stopped or started.

	mu               sync.Mutex
	used             map[string]time.Time // Instances that must not be picked, until a time; zero means forever.
	removals         []removal
	foreignInstances map[string]bool // Instances of another cluster.
	outages          []span
	stalls           []span
	failures         []span         // Of Auto Scaling.
	done             map[string]int // Steps by kind.
	copies           int            // Messages that were duplicated.
}

func newExecution(w *fixture, f *fleet) *execution {
	return &execution{
		fixture: w, fleet: f, used: map[string]time.Time{}, foreignInstances: map[string]bool{},
		done: map[string]int{},
	}
}

// run executes each step at its time, and returns when all are done.
func (x *execution) run(ctx context.Context, steps plan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.start = time.Now()
	var all sync.WaitGroup
	for _, a := range steps {
		if !retry.Sleep(ctx, time.Until(x.start.Add(a.At))) {
			break
		}
		all.Go(func() {
			if err := x.do(ctx, a); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", a.What, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// The steps of a plan, and what is reported about them.
type (
	terminations struct{ *execution }
	faults       struct{ *execution }
	report       struct{ *execution }
)

func (x *execution) do(ctx context.Context, a step) error {
	t, f := terminations{x}, faults{x}
	onInstance := map[string]func(context.Context, step, awsim.Instance) error{
		scaleIn: t.scaleIn, lost: t.scaleIn, twice: t.scaleIn, spot: t.interrupt, spotDuringDrain: t.interrupt,
		rebalance: t.recommend, scheduled: t.schedule, canceled: t.schedule, reservation: t.reclaim,
		console: t.console, forgedSpot: t.sendForged, forgedHook: t.sendForged,
	}
	others := map[string]func(context.Context, step) error{
		foreignMessage: t.terminateForeign,
		killAgent:      f.kill, termAgent: f.kill, killAll: f.killAll, stopAPI: f.stopAPI,
		fault: f.fault, duplicate: f.queueFault, reorder: f.queueFault, delay: f.queueFault,
	}
	if do := onInstance[a.What]; do != nil {
		i, err := t.take(ctx, a)
		if err != nil {
			return err
		}
		x.count(a.What)
		return do(ctx, a, i)
	}
	return others[a.What](ctx, a)
}

func (x *execution) count(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done[what]++
}

// groupsOf returns the groups whose instances a kind of step can be applied to.
func groupsOf(what string) []string {
	switch what {
	case lost:
		return []string{direct, two}
	case twice:
		return []string{direct, sns, two}
	case spot:
		return []string{spotBare, spotHooked}
	case spotDuringDrain, rebalance:
		return []string{spotHooked}
	case scheduled:
		return []string{direct, sns, bus, two}
	case canceled, forgedSpot, forgedHook:
		return []string{direct, sns, bus}
	case reservation:
		return []string{reserved}
	case console:
		return []string{direct, spotBare}
	}
	return []string{direct, sns, bus, two, spotHooked, reserved}
}

// take picks an instance in service that no step uses, and records its removal before that starts.
func (x terminations) take(ctx context.Context, a step) (awsim.Instance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pickTimeout, errors.New("no instance is free"))
	defer cancel()
	for {
		if i, ok := x.find(a); ok {
			return i, nil
		}
		if !retry.Sleep(ctx, 200*time.Millisecond) {
			return awsim.Instance{}, context.Cause(ctx)
		}
	}
}

func (x terminations) find(a step) (awsim.Instance, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var free []awsim.Instance
	for _, group := range groupsOf(a.What) {
		for _, i := range x.inServiceInstances(group) {
			if until, used := x.used[i.ID]; !used || !until.IsZero() && time.Now().After(until) {
				free = append(free, i)
			}
		}
	}
	if len(free) == 0 {
		return awsim.Instance{}, false
	}
	i := free[a.Pick%uint64(len(free))]
	x.used[i.ID] = time.Time{}
	if a.What == forgedSpot || a.What == forgedHook {
		x.used[i.ID] = time.Now().Add(releaseDelay)
		return i, true
	}
	x.removals = append(x.removals, removal{InstanceID: i.ID, Kind: a.What, span: span{From: time.Now()}})
	return i, true
}

// release ends the removal of an instance that stays in service.
func (x terminations) release(instanceID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, f := range slices.Backward(x.removals) {
		if f.InstanceID == instanceID {
			x.removals[i].To = time.Now()
			x.used[instanceID] = time.Now().Add(releaseDelay)
			return
		}
	}
}

// terminating reports whether an instance has a removal that has not ended.
func (x *execution) terminating(instanceID string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.removals, func(f removal) bool {
		return f.InstanceID == instanceID && f.To.IsZero()
	})
}

// scaleIn makes Auto Scaling terminate an instance and launch another one.
func (x terminations) scaleIn(ctx context.Context, a step, i awsim.Instance) error {
	x.post.Lock()
	if a.What == lost {
		x.aws.Lose(x.queue, 1000)
	}
	err := x.aws.Terminate(i.ID, false) //nolint:contextcheck // What it starts lives until Close.
	x.aws.Lose(x.queue, 0)
	x.post.Unlock()
	if a.What == twice && err == nil && retry.Sleep(ctx, a.For) {
		x.aws.ResendMessages(i.ID) //nolint:contextcheck // What it starts lives until Close.
	}
	return err
}

// interrupt makes EC2 take a Spot Instance back, perhaps while its hooks are pending.
func (x terminations) interrupt(ctx context.Context, a step, i awsim.Instance) error {
	if a.What == spotDuringDrain {
		//nolint:contextcheck // What it starts lives until Close.
		if err := x.aws.Terminate(i.ID, false); err != nil || !retry.Sleep(ctx, a.For/10) {
			return err
		}
	}
	x.post.Lock()
	defer x.post.Unlock()
	err := x.aws.Interrupt(i.ID, a.For) //nolint:contextcheck // See above.
	if a.What == spotDuringDrain {
		return nil // It may be terminated already.
	}
	return err
}

// recommend makes EC2 recommend to replace an instance, and replaces it some time later.
func (x terminations) recommend(ctx context.Context, a step, i awsim.Instance) error {
	x.post.Lock()
	err := x.aws.Recommend(i.ID) //nolint:contextcheck // What it starts lives until Close.
	x.post.Unlock()
	if err != nil || !retry.Sleep(ctx, a.For) {
		return err
	}
	return x.aws.Terminate(i.ID, false) //nolint:contextcheck // What it starts lives until Close.
}

// schedule announces the retirement of an instance, and later replaces it or cancels the change.
func (x terminations) schedule(ctx context.Context, a step, i awsim.Instance) error {
	x.post.Lock()
	//nolint:contextcheck // What it starts lives until Close.
	change, err := x.aws.ScheduleChange("instance-retirement", time.Now().Add(time.Hour), i.ID)
	x.post.Unlock()
	if err != nil || !retry.Sleep(ctx, a.For) {
		return err
	}
	if a.What == scheduled {
		return x.aws.Terminate(i.ID, false) //nolint:contextcheck // What it starts lives until Close.
	}
	x.post.Lock()
	defer x.post.Unlock()
	defer x.release(i.ID)
	return x.aws.CancelChange(change)
}

// reclaim makes EC2 take an instance of a reservation back.
func (x terminations) reclaim(_ context.Context, a step, i awsim.Instance) error {
	x.post.Lock()
	defer x.post.Unlock()
	return errors.Join(
		x.aws.SetMarket(i.ID, awsim.Interruptible, "cr-0123456789abcdef0"),
		x.aws.ReclaimReservation(i.ID, a.For)) //nolint:contextcheck // What it starts lives until Close.
}

// console terminates an instance in EC2, bypassing its group. A fault may hit the call.
func (x terminations) console(ctx context.Context, _ step, i awsim.Instance) error {
	client := ec2.NewFromConfig(harness.AWSConfig(x.aws.URL(), "admin"), func(o *ec2.Options) {
		o.RetryMaxAttempts = 10
	})
	x.post.Lock()
	defer x.post.Unlock()
	_, err := client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{i.ID}})
	return err
}

// sendForged sends a message that an attacker or a mistake could send about an instance in service.
func (x terminations) sendForged(_ context.Context, a step, i awsim.Instance) error {
	x.post.Lock()
	defer x.post.Unlock()
	if a.What == forgedSpot {
		x.aws.Publish(awsim.SpotInterruption(x.aws.Envelope(), i.ID, i.Zone, "terminate"))
		return nil
	}
	x.aws.Send(x.queue, awsim.DirectMessage(x.aws.Envelope(), awsim.Notification{
		Token: "11111111-2222-3333-4444-555555555555", Group: x.groupOf(i.ID), Hook: ourHook, InstanceID: i.ID,
		Transition: awsim.Terminating, Origin: "AutoScalingGroup", Destination: "EC2",
	}))
	return nil
}

func (x terminations) groupOf(instanceID string) string {
	for group := range sizes() {
		for _, i := range x.aws.Instances(group) {
			if i.ID == instanceID {
				return group
			}
		}
	}
	return ""
}

// terminateForeign terminates an instance of another cluster, whose hook sends to our queue.
func (x terminations) terminateForeign(_ context.Context, a step) error {
	x.count(a.What)
	id := fmt.Sprintf("i-0f%015x", a.Pick%(1<<60))
	x.mu.Lock()
	x.foreignInstances[id] = true
	x.mu.Unlock()
	x.post.Lock()
	defer x.post.Unlock()
	//nolint:contextcheck // What it starts lives until Close.
	return errors.Join(x.aws.AddInstance(otherCluster, id, ""), x.aws.Terminate(id, true))
}

// completeForOtherTeam completes the actions of the other team's hook, each some seconds after its start.
func (x *execution) completeForOtherTeam(ctx context.Context) {
	client := autoscaling.NewFromConfig(harness.AWSConfig(x.aws.URL(), "other-team"))
	for retry.Sleep(ctx, 500*time.Millisecond) {
		for _, step := range x.aws.Ledger() {
			after := 2*time.Second + time.Duration(step.Token[0]%8)*time.Second
			if step.Hook != otherHook || !step.ClosedAt.IsZero() || time.Since(step.StartedAt) < after {
				continue
			}
			_, _ = client.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
				AutoScalingGroupName: &step.Group, LifecycleHookName: &step.Hook, InstanceId: &step.InstanceID,
				LifecycleActionResult: aws.String("CONTINUE"),
			}) // An error is retried half a second later.
		}
	}
}
