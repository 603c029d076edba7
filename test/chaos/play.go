package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	// pickTimeout bounds how long a termination waits for an instance that is free.
	pickTimeout = 90 * time.Second
	// spared is how long an instance that lived on is left alone.
	spared = 25 * time.Second
)

// play does to the world what the plan says.
type play struct {
	*world
	fleet *fleet
	start time.Time
	hits  atomic.Int64 // Calls that a fault has hit.
	post  sync.Mutex   // Held while messages are sent that are to be lost, or are not.

	apiServer sync.Mutex // Held while it is stopped, or anything of the control plane is started.

	mu      sync.Mutex
	used    map[string]time.Time // Instances, and until when; zero is for good.
	fates   []fate
	foreign map[string]bool // Instances of another cluster.
	outages []span
	stalls  []span
	done    map[string]int // Acts by kind.
	copies  int            // Messages that were to come twice.
}

func newPlay(w *world, f *fleet) *play {
	return &play{
		world: w, fleet: f, used: map[string]time.Time{}, foreign: map[string]bool{}, done: map[string]int{},
	}
}

// run does all of the plan, each act at its time, and returns when all has been done.
func (p *play) run(ctx context.Context, acts plan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.start = time.Now()
	var all sync.WaitGroup
	for _, a := range acts {
		if !pause(ctx, time.Until(p.start.Add(a.At))) {
			break
		}
		all.Go(func() {
			if err := p.do(ctx, a); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", a.What, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// pause waits, and tells whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *play) do(ctx context.Context, a act) error {
	known := map[string]func(context.Context, act) error{
		scaleIn: p.scaleIn, lost: p.scaleIn, twice: p.scaleIn, spot: p.interrupt, spotAmid: p.interrupt,
		rebalance: p.advise, scheduled: p.schedule, canceled: p.schedule, reservation: p.reclaim,
		console: p.console, forgedSpot: p.forge, forgedHook: p.forge, foreign: p.abroad,
		killAgent: p.kill, termAgent: p.kill, killAll: p.killAll, stopAPI: p.stopAPI,
		fault: p.fault, duplicate: p.trouble, reorder: p.trouble, delay: p.trouble,
	}
	return known[a.What](ctx, a)
}

func (p *play) count(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[what]++
}

// groupsOf are those whose instances can go in a way.
func groupsOf(what string) []string {
	switch what {
	case lost:
		return []string{direct, two}
	case twice:
		return []string{direct, sns, two}
	case spot:
		return []string{bare, spots}
	case spotAmid, rebalance:
		return []string{spots}
	case scheduled:
		return []string{direct, sns, bus, two}
	case canceled, forgedSpot, forgedHook:
		return []string{direct, sns, bus}
	case reservation:
		return []string{reserved}
	case console:
		return []string{direct, bare}
	}
	return []string{direct, sns, bus, two, spots, reserved}
}

// take finds an instance in service of which nothing is known yet, and notes its fate before it begins.
func (p *play) take(ctx context.Context, a act) (awsim.Instance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pickTimeout, errors.New("no instance is free"))
	defer cancel()
	for {
		if i, ok := p.find(a); ok {
			return i, nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return awsim.Instance{}, context.Cause(ctx)
		}
	}
}

func (p *play) find(a act) (awsim.Instance, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var free []awsim.Instance
	for _, group := range groupsOf(a.What) {
		for _, i := range p.serving(group) {
			if until, used := p.used[i.ID]; !used || !until.IsZero() && time.Now().After(until) {
				free = append(free, i)
			}
		}
	}
	if len(free) == 0 {
		return awsim.Instance{}, false
	}
	i := free[a.Pick%uint64(len(free))]
	p.used[i.ID] = time.Time{}
	if a.What == forgedSpot || a.What == forgedHook {
		p.used[i.ID] = time.Now().Add(spared)
		return i, true
	}
	p.fates = append(p.fates, fate{InstanceID: i.ID, Kind: a.What, span: span{From: time.Now()}})
	return i, true
}

// spare ends the fate of an instance that lives on.
func (p *play) spare(instanceID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range slices.Backward(p.fates) {
		if f.InstanceID == instanceID {
			p.fates[i].To = time.Now()
			p.used[instanceID] = time.Now().Add(spared)
			return
		}
	}
}

// going tells whether an instance has a fate that holds.
func (p *play) going(instanceID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.fates, func(f fate) bool { return f.InstanceID == instanceID && f.To.IsZero() })
}

// scaleIn has Auto Scaling terminate an instance and launch another one.
func (p *play) scaleIn(ctx context.Context, a act) error {
	i, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	p.post.Lock()
	if a.What == lost {
		p.aws.Lose(p.queue, 1000)
	}
	err = p.aws.Terminate(i.ID, false) //nolint:contextcheck // What it starts lives until Close.
	p.aws.Lose(p.queue, 0)
	p.post.Unlock()
	p.count(a.What)
	if a.What == twice && err == nil && pause(ctx, a.For) {
		p.aws.ResendMessages(i.ID)
	}
	return err
}

// interrupt has EC2 take a Spot Instance back, perhaps while hooks wait already.
func (p *play) interrupt(ctx context.Context, a act) error {
	i, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	p.count(a.What)
	if a.What == spotAmid {
		//nolint:contextcheck // What it starts lives until Close.
		if err := p.aws.Terminate(i.ID, false); err != nil || !pause(ctx, a.For/10) {
			return err
		}
	}
	p.post.Lock()
	defer p.post.Unlock()
	err = p.aws.Interrupt(i.ID, a.For) //nolint:contextcheck // See above.
	if a.What == spotAmid {
		return nil // It may be gone already.
	}
	return err
}

// advise has EC2 recommend to replace an instance, and replaces it some time later.
func (p *play) advise(ctx context.Context, a act) error {
	i, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	p.count(a.What)
	p.post.Lock()
	err = p.aws.Recommend(i.ID)
	p.post.Unlock()
	if err != nil || !pause(ctx, a.For) {
		return err
	}
	return p.aws.Terminate(i.ID, false) //nolint:contextcheck // What it starts lives until Close.
}

// schedule announces the retirement of an instance. Some time later it is retired, or it is not.
func (p *play) schedule(ctx context.Context, a act) error {
	i, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	p.count(a.What)
	p.post.Lock()
	change, err := p.aws.ScheduleChange("instance-retirement", time.Now().Add(time.Hour), i.ID)
	p.post.Unlock()
	if err != nil || !pause(ctx, a.For) {
		return err
	}
	if a.What == scheduled {
		return p.aws.Terminate(i.ID, false) //nolint:contextcheck // What it starts lives until Close.
	}
	p.post.Lock()
	defer p.post.Unlock()
	defer p.spare(i.ID)
	return p.aws.CancelChange(change)
}

// reclaim has EC2 take an instance of a reservation back.
func (p *play) reclaim(ctx context.Context, a act) error {
	i, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	p.count(a.What)
	p.post.Lock()
	defer p.post.Unlock()
	return errors.Join(
		p.aws.SetMarket(i.ID, awsim.Interruptible, "cr-0123456789abcdef0"),
		p.aws.ReclaimReservation(i.ID, a.For)) //nolint:contextcheck // What it starts lives until Close.
}

// console terminates an instance past its group. EC2 may fail at it, as at any call.
func (p *play) console(ctx context.Context, a act) error {
	i, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	p.count(a.What)
	client := ec2.New(ec2.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient),
		Region:     "eu-central-1", BaseEndpoint: aws.String(p.aws.URL()), RetryMaxAttempts: 10,
		Credentials: credentials.NewStaticCredentialsProvider("admin", "chaos", ""),
	})
	p.post.Lock()
	defer p.post.Unlock()
	_, err = client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{i.ID}})
	return err
}

// forge sends what an attacker, or a mistake, could send about an instance that goes on to serve.
func (p *play) forge(ctx context.Context, a act) error {
	i, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	p.count(a.What)
	p.post.Lock()
	defer p.post.Unlock()
	if a.What == forgedSpot {
		p.aws.Publish(awsim.SpotInterruption(p.aws.Envelope(), i.ID, i.Zone, "terminate"))
		return nil
	}
	p.aws.Send(p.queue, awsim.DirectMessage(p.aws.Envelope(), awsim.Notification{
		Token: "11111111-2222-3333-4444-555555555555", Group: p.groupOf(i.ID), Hook: ourHook, InstanceID: i.ID,
		Transition: awsim.Terminating, Origin: "AutoScalingGroup", Destination: "EC2",
	}))
	return nil
}

func (p *play) groupOf(instanceID string) string {
	for group := range sizes() {
		for _, i := range p.aws.Instances(group) {
			if i.ID == instanceID {
				return group
			}
		}
	}
	return ""
}

// abroad terminates an instance of another cluster, whose hook sends to our queue.
func (p *play) abroad(_ context.Context, a act) error {
	p.count(a.What)
	id := fmt.Sprintf("i-0f%015x", a.Pick%(1<<60))
	p.mu.Lock()
	p.foreign[id] = true
	p.mu.Unlock()
	p.post.Lock()
	defer p.post.Unlock()
	//nolint:contextcheck // What it starts lives until Close.
	return errors.Join(p.aws.AddInstance(abroad, id, ""), p.aws.Terminate(id, true))
}

// otherTeam completes the actions of its own hook, each some seconds after it has begun.
func (p *play) otherTeam(ctx context.Context) {
	client := autoscaling.New(autoscaling.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient),
		Region:     "eu-central-1", BaseEndpoint: aws.String(p.aws.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("other-team", "chaos", ""),
	})
	for pause(ctx, 500*time.Millisecond) {
		for _, act := range p.aws.Ledger() {
			after := 2*time.Second + time.Duration(act.Token[0]%8)*time.Second
			if act.Hook != otherHook || !act.ClosedAt.IsZero() || time.Since(act.StartedAt) < after {
				continue
			}
			_, _ = client.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
				AutoScalingGroupName: &act.Group, LifecycleHookName: &act.Hook, InstanceId: &act.InstanceID,
				LifecycleActionResult: aws.String("CONTINUE"),
			}) // Tried again half a second later if it failed.
		}
	}
}
