package rollouts

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// runSteps does what the Steps say, each at its time.
func (w *world) runSteps() {
	for _, s := range w.spec.Steps {
		time.Sleep(time.Until(w.began.Add(s.At)))
		g := w.groups[s.Group%len(w.groups)]
		w.step(g, s)
	}
}

func (w *world) step(g *group, s Step) {
	w.facts.Lock()
	defer w.facts.Unlock()
	w.seeLaunches(g)
	err := steps()[s.Do](w, g, s)
	w.seeLaunches(g)
	w.note("operator", "%s: %s %d: %v", g.Name, s.Do, s.N, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	g.disturbed = time.Now()
}

type does func(w *world, g *group, s Step) error

// steps are what can be done to a group.
func steps() map[string]does {
	return map[string]does{
		"version":   (*world).stepVersion,
		"back":      (*world).stepBack,
		"scale":     (*world).stepScale,
		"max":       (*world).stepMax,
		"min":       (*world).stepMin,
		"remove":    (*world).stepRemove,
		"tags":      (*world).stepTags,
		"hook":      (*world).stepHook,
		"unhook":    (*world).stepUnhook,
		"unhealthy": (*world).stepUnhealthy,
		"fail":      (*world).stepFail,
		"interrupt": (*world).stepInterrupt,
		"standby":   (*world).stepStandby,
		"protect":   (*world).stepProtect,
		"broken":    (*world).stepBroken,
		"unpause":   (*world).stepUnpause,
		"alarm":     (*world).stepAlarm,
	}
}

func (w *world) stepVersion(g *group, _ Step) error {
	w.newVersion(g)
	return nil
}

// stepBack has a group that names a version launch the first one again.
func (w *world) stepBack(g *group, _ Step) error {
	if !g.Nodegroup && !g.Parameter {
		w.useVersion(g, 1)
	}
	return nil
}

// stepScale adds to the desired capacity, as an autoscaler does, or takes from it.
func (w *world) stepScale(g *group, s Step) error {
	least, most, desired := w.aws.Sizes(g.asg)
	to := min(max(desired+s.N, least), most)
	if err := w.aws.Resize(g.asg, least, most, to); err != nil {
		return err
	}
	w.ask(g, desired, to-desired)
	return nil
}

// ask keeps by how much somebody has changed the desired capacity. What is taken from it may be a part of a surge.
func (w *world) ask(g *group, before, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raised := before - g.high
	if g.low += by; by >= 0 || raised <= 0 {
		g.high += by
	}
	g.low = max(g.low, 0)
}

// stepMax sets the maximum to what the desired capacity is now, and as much more.
func (w *world) stepMax(g *group, s Step) error {
	least, _, desired := w.aws.Sizes(g.asg)
	to := max(desired+s.N, least)
	if err := w.aws.Resize(g.asg, least, to, min(desired, to)); err != nil {
		return err
	}
	w.mu.Lock()
	g.most, g.maxes[to] = to, true
	w.mu.Unlock()
	w.ask(g, desired, min(desired, to)-desired)
	return nil
}

// stepMin raises the minimum to the desired capacity, with a surge if there is one.
func (w *world) stepMin(g *group, _ Step) error {
	_, most, desired := w.aws.Sizes(g.asg)
	if err := w.aws.Resize(g.asg, desired, most, desired); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	g.high = max(g.high, desired)
	return nil
}

// stepRemove terminates an instance without a replacement, as the Cluster Autoscaler does.
func (w *world) stepRemove(g *group, s Step) error {
	i, ok := w.pick(g, s.N)
	if !ok {
		return nil
	}
	_, _, desired := w.aws.Sizes(g.asg)
	if err := w.aws.Terminate(i.ID, true); err != nil {
		return err
	}
	w.ask(g, desired, -1)
	return nil
}

// pick picks an instance in service that is not a user's.
func (w *world) pick(g *group, n int) (awsim.Instance, bool) {
	all := slices.DeleteFunc(w.aws.Instances(g.asg), func(i awsim.Instance) bool {
		return i.State != "InService" || g.user[i.ID] || w.nodes.keep[i.ID]
	})
	if len(all) == 0 {
		return awsim.Instance{}, false
	}
	return all[n%len(all)], true
}

// stepTags removes the tags of triggers, as Terraform does.
func (w *world) stepTags(g *group, _ Step) error {
	for key := range w.aws.Tags(g.asg) {
		if !strings.HasPrefix(key, "node-drainer.io/") || key == refresh.WaveTag {
			continue
		}
		g.lossy = true
		_, err := w.client("operator").DeleteTags(w.ctx, &autoscaling.DeleteTagsInput{Tags: []types.Tag{{
			ResourceId: &g.asg, ResourceType: aws.String("auto-scaling-group"), Key: &key,
		}}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) stepHook(g *group, s Step) error {
	return w.addHook(g, Hook{Name: "later", Launch: s.N%2 == 1, Takes: time.Duration(10+s.N) * time.Second})
}

func (w *world) stepUnhook(g *group, s Step) error {
	if g.Nodegroup || len(g.Hooks) == 0 {
		return nil
	}
	_, err := w.client("operator").DeleteLifecycleHook(w.ctx, &autoscaling.DeleteLifecycleHookInput{
		AutoScalingGroupName: &g.asg, LifecycleHookName: &g.Hooks[s.N%len(g.Hooks)].Name,
	})
	return err
}

func (w *world) stepUnhealthy(g *group, s Step) error {
	i, ok := w.pick(g, s.N)
	if !ok {
		return nil
	}
	_, err := w.client("operator").SetInstanceHealth(w.ctx, &autoscaling.SetInstanceHealthInput{
		InstanceId: &i.ID, HealthStatus: aws.String("Unhealthy"), ShouldRespectGracePeriod: aws.Bool(false),
	})
	return err
}

func (w *world) stepFail(g *group, s Step) error {
	if i, ok := w.pick(g, s.N); ok {
		return w.aws.TerminateMachine(i.ID)
	}
	return nil
}

func (w *world) stepInterrupt(g *group, s Step) error {
	if i, ok := w.pick(g, s.N); ok && g.Spot {
		return w.aws.Interrupt(i.ID, 2*time.Minute)
	}
	return nil
}

// stepStandby moves an instance into Standby, which is replaced.
func (w *world) stepStandby(g *group, s Step) error {
	i, ok := w.pick(g, s.N)
	if !ok || g.Nodegroup {
		return nil
	}
	_, err := w.client("operator").EnterStandby(w.ctx, &autoscaling.EnterStandbyInput{
		AutoScalingGroupName: &g.asg, InstanceIds: []string{i.ID}, ShouldDecrementDesiredCapacity: aws.Bool(false),
	})
	if err == nil {
		g.user[i.ID] = true
	}
	return err
}

func (w *world) stepProtect(g *group, s Step) error {
	i, ok := w.pick(g, s.N)
	if !ok || g.Nodegroup {
		return nil
	}
	g.user[i.ID] = true
	return w.aws.SetProtection(i.ID, true)
}

// stepBroken has no node become Ready for a time.
func (w *world) stepBroken(_ *group, s Step) error {
	w.nodes.mu.Lock()
	defer w.nodes.mu.Unlock()
	w.nodes.broken = time.Now().Add(time.Duration(s.N) * time.Minute)
	return nil
}

// stepAlarm turns the alarm on for a time.
func (w *world) stepAlarm(_ *group, s Step) error {
	w.aws.SetAlarm(alarm, awsim.AlarmFires)
	time.AfterFunc(time.Duration(s.N)*time.Minute, func() { w.aws.SetAlarm(alarm, awsim.AlarmOK) })
	return nil
}

// healGroup resumes what trigger pause has suspended.
func (w *world) healGroup(g *group) {
	if !slices.ContainsFunc(w.spec.Runs, func(r Run) bool { return r.Command == Pause }) {
		return
	}
	_, err := w.client("operator").ResumeProcesses(w.ctx, &autoscaling.ResumeProcessesInput{
		AutoScalingGroupName: &g.asg, ScalingProcesses: []string{refresh.ProcessInstanceRefresh},
	})
	w.note("operator", "%s resumes InstanceRefresh: %v", g.Name, err)
}

// injectFaults has AWS fail as the Spec says.
func (w *world) injectFaults() {
	for n, f := range w.spec.Faults {
		time.Sleep(time.Until(w.began.Add(f.At)))
		fault := awsim.Fault{Client: "ci-", For: f.For, Share: f.Share, Rand: rand.New(rand.NewPCG(w.spec.Seed, uint64(n)))}
		switch f.Kind {
		case "throttle":
			fault.Throttle = true
		case "unavailable":
			fault.Unavailable = true
		case "lost":
			fault.Drop, fault.AfterApply = true, true
		case "slow":
			fault.Latency = 7 * time.Second
		}
		remove := w.aws.Inject(fault)
		w.note("aws", "fault %s for %v", f.Kind, f.For)
		for end := time.Now().Add(f.For); time.Now().Before(end); time.Sleep(min(time.Minute, time.Until(end))) {
			w.mu.Lock()
			w.faulted = time.Now()
			w.mu.Unlock()
		}
		remove()
		w.mu.Lock()
		w.faulted = time.Now()
		w.mu.Unlock()
	}
}
