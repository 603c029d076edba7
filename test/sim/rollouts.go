package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/rollouts"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// rolloutFacts are what the judge knows of groups and of what triggers do with them. In a world without triggers they
// do nothing.
type rolloutFacts struct {
	*world
	mutant mutant
	gate   *rollouts.Gateway
	stop   context.CancelFunc // ends all processes

	mu         sync.Mutex
	healed     bool // nothing interferes any more
	running    int  // processes that run, or are to start
	groups     map[string]*rolledGroup
	violations []Violation
	outcomes   map[string]report.Outcome // of the groups, by the last trigger at the end
	asked      map[string]bool           // the nodes whose drains triggers have asked for
}

// rolledGroup is a group as its owner knows it.
type rolledGroup struct {
	Group
	cluster  *cluster
	versions []templateVersion // in order of time

	low, high int // the desired capacity without what triggers have added is between them
	user      map[string]bool
	entered   map[string]bool // what triggers have moved into Standby
	named     []string        // what the triggers are to replace, if they name it
	disturbed time.Time       // when somebody else has changed the group last
	excused   bool            // it has not had its capacity since
	target    string          // the image that triggers replace instances for, and since when
	since     time.Time
}

// templateVersion is one of a launch template, or a release of the AMI of managed node groups. Each has another image.
type templateVersion struct {
	image string
	since time.Time
}

// current is what new instances are to have, and since when.
func (g *rolledGroup) current() templateVersion { return g.versions[len(g.versions)-1] }

func newRolloutFacts(w *world) *rolloutFacts {
	f := &rolloutFacts{
		world: w, groups: map[string]*rolledGroup{}, outcomes: map[string]report.Outcome{}, asked: map[string]bool{},
	}
	f.gate = &rollouts.Gateway{Fails: f.failsGate}
	return f
}

// failsGate reports whether the gate fails now.
func (f *rolloutFacts) failsGate() bool {
	since, fails := f.since(time.Now()), f.spec.GateFails
	return since >= fails[0] && since < fails[1] && !f.isHealed()
}

// most is the maximum size of the group.
func (g Group) most() int {
	if g.Max > 0 {
		return g.Max
	}
	return 2*g.Nodes + 1
}

// mostLaunches is how many instances a group launches at most.
func (w *world) mostLaunches() int {
	if w.isJoint() {
		return 4 * mostLaunches
	}
	return mostLaunches
}

// start runs the processes of the Spec, each at its time. The returned context ends when the world is cut short.
func (f *rolloutFacts) start(ctx context.Context) context.Context {
	ctx, f.stop = context.WithCancel(ctx)
	if !f.isJoint() {
		return ctx
	}
	for _, c := range f.clusters {
		for _, g := range c.Groups {
			f.groups[g.Name] = &rolledGroup{
				Group: g, cluster: c, versions: []templateVersion{{firstImage, time.Time{}}}, low: g.Nodes, high: g.Nodes,
				user: map[string]bool{}, entered: map[string]bool{},
			}
		}
	}
	f.age()
	for n, t := range f.spec.Triggers {
		if len(f.named(t.Cluster)) == 0 {
			continue
		}
		f.running++
		f.work.Go(func() {
			retry.Sleep(ctx, time.Until(f.began.Add(t.At)))
			f.run(ctx, f.newProcess(fmt.Sprintf("ci-%d", n+1), t))
			f.mu.Lock()
			f.running--
			f.mu.Unlock()
		})
	}
	for _, c := range f.clusters {
		if c.Autoscaler {
			f.work.Go(func() { newClusterAutoscaler(f, c).run(ctx) })
		}
	}
	f.work.Go(func() {
		for retry.Sleep(ctx, 20*time.Second) {
			f.sample()
		}
	})
	return ctx
}

// longAgo is how long ago the instances that triggers replace for their age were launched.
const longAgo = 1000 * time.Hour

// age has instances be old.
func (f *rolloutFacts) age() {
	for name, g := range f.groups {
		all := f.aws.Instances(name)
		for _, i := range all[:min(g.Aged, len(all))] {
			if err := f.aws.SetLaunchTime(i.ID, time.Now().Add(-longAgo)); err != nil {
				f.violate("the simulation", "%v", err)
			}
		}
	}
}

// nameInstances returns the instances that the triggers of a cluster name, as far as they are still there: the first
// ones that each group had when the first trigger began.
func (f *rolloutFacts) nameInstances(c *cluster, n int) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range c.Groups {
		g := f.groups[one.Name]
		instances := f.aws.Instances(one.Name)
		if g.named == nil {
			for _, i := range instances[:min(n, len(instances))] {
				g.named = append(g.named, i.ID)
			}
		}
		for _, i := range instances {
			if slices.Contains(g.named, i.ID) {
				all = append(all, i.ID)
			}
		}
	}
	return all
}

func (f *rolloutFacts) newProcess(name string, t Trigger) *triggerProcess {
	return &triggerProcess{Trigger: t, rolloutFacts: f, name: name, cluster: f.named(t.Cluster)[0]}
}

// run runs a process, which must end.
func (f *rolloutFacts) run(ctx context.Context, p *triggerProcess) []report.Group {
	limited, cancel := context.WithTimeout(ctx, longestRollout+p.Interrupt)
	defer cancel()
	ended := p.execute(limited)
	if limited.Err() != nil && ctx.Err() == nil {
		f.violate("rollouts end", "%s has not ended in %v", p.name, longestRollout)
	}
	return ended
}

// areRunning reports whether a process runs, or is to start.
func (f *rolloutFacts) areRunning() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running > 0
}

// violate adds a violation.
func (f *rolloutFacts) violate(invariant, text string, args ...any) {
	v := Violation{invariant, f.since(time.Now()), fmt.Sprintf(text, args...)}
	f.log.add("judge", v.Invariant+": "+v.Text)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.violations = append(f.violations, v); len(f.violations) == mostViolations {
		f.stop()
	}
}

// mostViolations is after how many a world is cut short.
const mostViolations = 10

// isCutShort reports whether triggers have violated so much that the world need not go on.
func (f *rolloutFacts) isCutShort() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.violations) >= mostViolations
}

// observe sees the annotations by which triggers ask for drains.
func (f *rolloutFacts) observe(change kube.Change) {
	if change.Resource != "nodes" || !isTrigger(change.Actor) || change.New == nil || change.Old == nil {
		return
	}
	_, before := change.Old.GetAnnotations()[node.DrainRequestAnnotation]
	_, after := change.New.GetAnnotations()[node.DrainRequestAnnotation]
	switch id := change.New.GetName(); {
	case after && !before:
		f.mu.Lock()
		f.asked[id] = true
		f.mu.Unlock()
		f.facts.announce(id, truth{kind: "annotated", from: change.At})
	case before && !after:
		f.facts.cancel(id, "annotated")
	}
}

// isTrigger reports whether a client is a process of the trigger.
func isTrigger(client string) bool {
	return strings.HasPrefix(client, "ci-") || strings.HasPrefix(client, "final-") || strings.HasPrefix(client, "resume-")
}

// disturb records that somebody else changes a group.
func (f *rolloutFacts) disturb(group string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.groups[group]; g != nil {
		g.disturbed, g.excused = time.Now(), true
	}
}

// describe describes a group as AWS does, which may be late.
func (f *rolloutFacts) describe(group string) (types.AutoScalingGroup, error) {
	out, err := f.client().DescribeAutoScalingGroups(context.Background(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{group}})
	if err != nil || len(out.AutoScalingGroups) != 1 {
		return types.AutoScalingGroup{}, fmt.Errorf("describe %s: %w", group, err)
	}
	return out.AutoScalingGroups[0], nil
}

// ask records by how much somebody has changed the desired capacity. What is taken from it may be a part of a surge.
func (f *rolloutFacts) ask(group string, before, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.groups[group]
	if g == nil {
		return
	}
	raised := before - g.high
	if g.low += by; by >= 0 || raised <= 0 {
		g.high += by
	}
	g.low = max(g.low, 0)
	g.disturbed, g.excused = time.Now(), true
}

// leave records that an operator has moved an instance into Standby, and lowered the desired capacity. One that a
// trigger has recorded, which was killed before it moved it, is the trigger's to everybody from then on.
func (f *rolloutFacts) leave(group, id string, desired int) {
	f.ask(group, desired, -1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.groups[group]; g != nil && !f.isRecorded(group, id) {
		g.user[id] = true
	}
}

// isRecorded reports whether the tags of a group list an instance as one that a trigger moves into Standby.
func (f *rolloutFacts) isRecorded(group, id string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.aws.Tags(group))), func(value string) bool {
		return strings.Contains(value, id)
	})
}

// returned records that an operator has moved an instance out of Standby again.
func (f *rolloutFacts) returned(group, id string) {
	f.ask(group, 0, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.groups[group]; g != nil {
		delete(g.user, id)
	}
}

// change does what an operator does with a group: it launches from a new version of its launch template, or from the
// first one again, or has another size.
func (f *rolloutFacts) change(s Step) error {
	f.mu.Lock()
	g := f.groups[s.On]
	f.mu.Unlock()
	if g == nil {
		return nil
	}
	f.log.add("step", s.Do, "group", s.On, "n", s.N)
	next := len(g.versions) + 1
	switch {
	case s.Do == "version" && g.Managed:
		managed{g.cluster}.release(next)
		return nil
	case s.Do == "version":
		number, err := f.aws.AddTemplateVersion(s.On, imageOf(next))
		return errors.Join(err, f.useVersion(g, number, imageOf(next)))
	case s.Do == "back" && g.Managed: // EKS does not go back.
		return nil
	case s.Do == "back":
		return f.useVersion(g, 1, firstImage)
	}
	_, most, before := f.aws.Sizes(s.On)
	to := min(max(before+s.N, 0), most)
	_, err := f.client().SetDesiredCapacity(context.Background(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &s.On, DesiredCapacity: new(int32(to)),
	})
	if err == nil {
		f.ask(s.On, before, to-before)
	}
	return err
}

// useVersion has a group launch from a version of its launch template.
func (f *rolloutFacts) useVersion(g *rolledGroup, number int, image string) error {
	client := ec2.NewFromConfig(aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(f.aws.URL()), HTTPClient: &http.Client{Transport: f.aws},
		Credentials: credentials.NewStaticCredentialsProvider("other", "secret", ""),
	})
	_, err := client.ModifyLaunchTemplate(context.Background(), &ec2.ModifyLaunchTemplateInput{
		LaunchTemplateName: &g.Name, DefaultVersion: aws.String(strconv.Itoa(number)),
	})
	if now := f.aws.Launches(g.Name); len(now) > 0 && now[0].Image != image {
		return err
	}
	f.mu.Lock() // Whatever the answer was: it may have been lost.
	defer f.mu.Unlock()
	g.versions = append(g.versions, templateVersion{image, time.Now()})
	return err
}

// isHealed reports whether nothing interferes any more.
func (f *rolloutFacts) isHealed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.healed
}

// finals is how often the trigger is run at the end until nothing is left to do, and finalsInWindows the same for one
// that begins in windows: in each of them for a few instances.
const (
	finals          = 3
	finalsInWindows = 24
)

// end has an operator replace the instances whose nodes are not ready, and runs the trigger of each cluster until
// nothing is left to do. Where it does not succeed, trigger resume gives back what triggers hold.
func (f *rolloutFacts) end(ctx context.Context) {
	f.log.add("operator", "nothing interferes any more")
	f.mu.Lock()
	f.healed = true
	f.mu.Unlock()
	f.replaceUnready() //nolint:contextcheck // What it starts lives until Close.
	retry.Sleep(ctx, grace)
	for n, t := range f.lastTriggers() {
		t = Trigger{Cluster: t.Cluster, Options: t.Options}
		most := finals
		if t.Options.Windows {
			most = finalsInWindows
		}
		for i := range most {
			for !t.Options.InWindow(time.Now()) && retry.Sleep(ctx, time.Minute) {
			}
			p := f.newProcess(fmt.Sprintf("final-%d-%d", n+1, i+1), t)
			p.final = true
			ended := f.run(ctx, p)
			for _, g := range ended {
				f.outcomes[g.Name] = g.Outcome
			}
			if report.Worst(ended).ExitCode() == 0 && len(ended) > 0 {
				break
			}
			retry.Sleep(ctx, f.spec.Visible) // Until then AWS shows its lease, and trigger resume has to be run again.
			resume := t
			resume.Command = rollouts.Resume
			f.run(ctx, f.newProcess(fmt.Sprintf("resume-%d-%d", n+1, i+1), resume))
			f.replaceUnready() //nolint:contextcheck // What it starts lives until Close.
			retry.Sleep(ctx, grace)
		}
	}
}

// lastTriggers returns the last trigger of each cluster.
func (f *rolloutFacts) lastTriggers() (all []Trigger) {
	for _, c := range f.clusters {
		for _, t := range slices.Backward(f.spec.Triggers) {
			if t.Cluster == c.Name {
				all = append(all, t)
				break
			}
		}
	}
	return all
}

// replaceUnready terminates the instances in service whose nodes are not ready.
func (f *rolloutFacts) replaceUnready() {
	for name, g := range f.groups {
		for _, i := range f.aws.Instances(name) {
			n, ok := kube.Get[*corev1.Node](g.cluster.server, nodeName(i.ID))
			ready := ok && isNodeReady(n) && !f.facts.isReplaced(i.ID, time.Now())
			if i.State == "InService" && !ready && time.Since(i.Launched) > 10*time.Minute {
				f.disturb(name)
				f.log.add("operator", "node is not ready", "node", i.ID)
				f.facts.announce(i.ID, truth{kind: "terminate", from: time.Now()})
				_ = f.aws.Terminate(i.ID, false) // It may terminate already.
			}
		}
	}
}
