package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// events are what happens to instances and budgets.
type events struct{ *world }

// runSteps does the steps of the Spec, each at its time.
func (w events) runSteps(ctx context.Context) {
	for _, s := range w.spec.Steps {
		retry.Sleep(ctx, time.Until(w.began.Add(s.At)))
		if ctx.Err() != nil {
			return
		}
		if err := w.do(ctx, s); err != nil {
			w.log.add("step", s.Do, "on", s.On, "skipped", err)
		}
	}
}

// do does one step. Its error says why the step had no effect, for example because its instance is gone.
func (w events) do(ctx context.Context, s Step) error {
	w.rollouts.disturb(s.On)
	switch s.Do {
	case "mislead-launch", "flood":
		return forger{w}.aboutNoNode(ctx, s)
	case "tag":
		return forger{w}.tag(ctx, s)
	case "suspend":
		return groupEvents{w}.suspend(s) //nolint:contextcheck // What it starts lives until Close.
	case "lose":
		w.lose(s)
		return nil
	case "budgets":
		return w.changeBudgets(s)
	case "interrupt-next": // the next instance that the group launches, before its Node registers
		w.machines.mu.Lock()
		defer w.machines.mu.Unlock()
		w.machines.early[s.On] = append(w.machines.early[s.On], s.For)
		return nil
	case "restart":
		return w.restart(s)
	case "version", "back", "scale":
		return w.rollouts.change(s) //nolint:contextcheck // What it starts lives until Close.
	}
	return w.doToNode(s) //nolint:contextcheck // What it starts lives until Close.
}

// doToNode does a step that happens to a node.
func (w events) doToNode(s Step) error {
	ids := w.members(s.On)
	id := w.choose(s, ids)
	if id == "" {
		return nil
	}
	if s.Same {
		ids = []string{id}
	}
	w.log.add("step", s.Do, "node", id, "n", s.N, "for", s.For)
	switch s.Do {
	case "terminate", "replace":
		return w.terminate(w.some(ids, s.Node, s.N), s.Do == "terminate")
	case "resend":
		w.aws.ResendMessages(id)
		return nil
	case "kill": // The kubelet dies with the machine; EC2 does not know it yet.
		w.facts.announce(id, truth{kind: "killed", from: time.Now()})
		w.machines.find(id).stopKubelet(w.machines)
		w.work.Go(func() { // Auto Scaling finds out by its health checks.
			time.Sleep(3 * time.Minute)
			_ = w.aws.Terminate(id, false) // It may terminate already.
		})
		return nil
	case "forge":
		return w.forge(id, s.N)
	case "shrink", "grow", "refresh", "volumes":
		return groupEvents{w}.change(s, ids)
	case "maintain":
		return w.maintain(w.some(ids, s.Node, s.N), s.For)
	case "cordon", "uncordon", "annotate", "alarm", "rejoin", "hang", "hold", "extend":
		return nodeEvents(w).change(id, s)
	case "mislead", "mislead-maintenance":
		return forger{w}.aboutNode(id, s)
	case "standby":
		return groupEvents{w}.standBy(s.On, id, s.For)
	}
	return w.notice(id, s)
}

// maintain schedules maintenance of instances that have none yet.
func (w events) maintain(ids []string, in time.Duration) error {
	for _, id := range ids {
		if w.machines.change(id) != "" {
			continue
		}
		now := time.Now()
		change, err := w.aws.ScheduleChange("system-reboot", now.Add(in), id)
		if err != nil {
			return err
		}
		w.machines.setChange(id, change)
		w.facts.announce(id, truth{kind: "maintain", from: now, ends: now.Add(in)})
	}
	return nil
}

// interrupt has EC2 take an instance back: of the Spot market, or of a reservation.
func (w events) interrupt(id string, s Step) error {
	reservation := fmt.Sprintf("cr-%017x", w.random.Uint64())
	announced := func(t truth) bool { return t.kind == "interrupt" }
	if slices.ContainsFunc(w.facts.truthsAt(id, time.Now(), 0), announced) {
		return errors.New("EC2 has announced the end of the instance already")
	}
	var err error
	switch s.Do {
	case "interrupt":
		err = w.aws.Interrupt(id, s.For)
	case "reclaim":
		err = errors.Join(w.aws.SetMarket(id, awsim.Interruptible, reservation), w.aws.ReclaimReservation(id, s.For))
	case "expire":
		err = errors.Join(w.aws.SetMarket(id, awsim.CapacityBlock, reservation), w.aws.ExpireBlock(reservation, s.For))
	}
	if err == nil {
		w.facts.announce(id, truth{kind: "interrupt", from: time.Now(), ends: time.Now().Add(s.For)})
	}
	return err
}

// choose returns the instance that a step concerns: one of the members, or that of the step before; empty without one.
func (w events) choose(s Step, members []string) string {
	key := fmt.Sprint(s.On, "/", s.Node)
	if id := w.chosen[key]; s.Same && id != "" {
		return id
	}
	if len(members) == 0 {
		return ""
	}
	w.chosen[key] = members[s.Node%len(members)]
	return w.chosen[key]
}

// lose has the queue of an install lose its next messages.
func (w events) lose(s Step) {
	if len(w.agentsOf(s.On)) > 0 { // The install may have been left out.
		w.log.add("step", s.Do, "queue", s.On, "n", s.N)
		w.aws.Lose(queueURL(s.On), s.N)
		w.facts.lost(s.On)
	}
}

// restart deletes the pods of a workload as somebody does who restarts it without regard to its budgets.
func (w events) restart(s Step) (err error) {
	for _, c := range w.named(s.On) {
		if len(c.Workloads) == 0 {
			continue
		}
		load := c.Workloads[s.Node%len(c.Workloads)]
		w.log.add("step", s.Do, "workload", load.Name)
		for _, p := range kube.List[*corev1.Pod](c.server) {
			if p.Labels["app"] == load.Name && load.Kind != "bare" {
				err = errors.Join(err, c.server.DeletePod(p.Namespace, p.Name))
			}
		}
	}
	return err
}

func (w events) terminate(ids []string, decrement bool) error {
	for _, id := range ids {
		w.facts.announce(id, truth{kind: "terminate", from: time.Now()})
		group := w.machines.find(id).group.Name
		_, _, desired := w.aws.Sizes(group)
		if err := w.aws.Terminate(id, decrement); err != nil {
			return err
		}
		if decrement {
			w.rollouts.ask(group, desired, -1)
		}
	}
	return nil
}

// members returns the instances of a group that are in service and registered.
func (w events) members(group string) (ids []string) {
	for _, i := range w.aws.Instances(group) {
		if w.machines.isNode(i.ID) && strings.HasPrefix(i.State, "InService") {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// some returns n of the instances, from one of them on.
func (w events) some(ids []string, first, n int) (out []string) {
	for i := range min(n, len(ids)) {
		out = append(out, ids[(first+i)%len(ids)])
	}
	return out
}

// notice announces, or cancels, something that EC2 does with an instance.
func (w events) notice(id string, s Step) error {
	now := time.Now()
	switch s.Do {
	case "interrupt", "reclaim", "expire":
		return w.interrupt(id, s)
	case "bypass", "stop":
		w.facts.announce(id, truth{kind: "bypass", from: now})
		if s.Do == "stop" {
			return w.aws.StopMachine(id)
		}
		return w.aws.TerminateMachine(id)
	case "recommend":
		w.facts.announce(id, truth{kind: "recommend", from: now})
		return w.aws.Recommend(id)
	case "cancel":
		change := w.machines.change(id)
		if change == "" {
			return nil
		}
		w.machines.setChange(id, "")
		w.facts.cancel(id, "maintain")
		return w.aws.CancelChange(change)
	}
	return nil
}

// forge sends a message that is not true to each queue of the cluster, or one for an instance that does not exist.
func (w events) forge(id string, kind int) error {
	m := w.machines.find(id)
	e := w.aws.Envelope()
	var body string
	switch kind {
	case 0:
		id = strayNode
		body = awsim.StateChange(e, id, "terminated")
	case 1:
		body = awsim.StateChange(e, id, "stopping")
	case 2:
		body = awsim.SpotInterruption(e, id, "eu-central-1a", "terminate")
	case 3:
		body = awsim.DirectMessage(e, awsim.Notification{
			Token: "00000000-0000-0000-0000-000000000000", Group: m.group.Name, Hook: "drain", InstanceID: id,
			Transition: awsim.Terminating,
		})
	default:
		body = "{}"
	}
	// Until a warning is contradicted for 30 s, pods are evicted as their budgets allow.
	w.facts.announce(id, truth{kind: "forged", from: time.Now(), until: time.Now().Add(30 * time.Second)})
	w.log.add("step", "forge", "node", id, "kind", kind)
	for _, i := range m.cluster.Installs {
		w.aws.Send(queueURL(i.Name), body)
	}
	return nil
}

// changeBudgets sets the budgets of a workload to allow nothing, and later what they allowed before.
func (w events) changeBudgets(s Step) error {
	for _, c := range w.named(s.On) {
		if len(c.Workloads) == 0 {
			continue
		}
		load := c.Workloads[s.Node%len(c.Workloads)]
		for i, b := range load.Budgets {
			original := newBudget(load, i, b).Spec
			set := func(spec policyv1.PodDisruptionBudgetSpec) {
				kube.Update(c.server, budgetName(load, i), func(b *policyv1.PodDisruptionBudget) {
					b.Spec, b.Generation = spec, b.Generation+1
				})
			}
			none := intstr.FromInt32(0)
			closed := original
			closed.MinAvailable, closed.MaxUnavailable = nil, &none
			set(closed)
			w.work.Go(func() {
				time.Sleep(time.Duration(1+rand.New(rand.NewPCG(w.spec.Seed, 7)).IntN(20)) * time.Minute)
				set(original)
			})
		}
	}
	return nil
}

// change returns the scheduled change of an instance, empty without one.
func (m *machines) change(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances[id].change
}

func (m *machines) setChange(id, change string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances[id].change = change
}
