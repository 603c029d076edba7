package rollouts

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	clusterTag = "kubernetes.io/cluster/" + clusterName
	subnet     = "subnet-a"
)

// clusterName is that of the cluster of managed node groups.
const clusterName = "demo"

// world is the simulated AWS and cluster of a Spec, and what the judge knows of them.
type world struct {
	ctx      context.Context
	spec     Spec
	aws      *awsim.Server
	nodes    *nodes
	judge    *judge
	gate     *Gateway
	log      log
	groups   []*group
	began    time.Time
	released time.Time // when that was published
	release  int       // the newest of the AMI of managed node groups
	mutant   mutant
	stop     context.CancelFunc

	scaler kubernetes.Interface // has the Deployment of the Cluster Autoscaler

	facts sync.Mutex // guards what is known of the groups while somebody changes it, or the judge looks at it

	mu      sync.Mutex
	healed  bool // Nothing interferes any more.
	faulted time.Time
}

// group is a group as its owner knows it.
type group struct {
	Group
	asg       string // its name in AWS
	user      map[string]bool
	only      []string
	version   int       // of the launch template, or the number of the release
	versioned time.Time // when that was created

	low, high int // The desired capacity without what triggers have added is between them.
	most      int // the maximum size that others have set last
	maxes     map[int]bool
	lossy     bool      // Somebody has removed the tags of triggers.
	updated   time.Time // when a trigger has begun to update it last
	disturbed time.Time // when somebody else has changed the group last
	launches  []launches
}

// launches is what a group launches since a time.
type launches struct {
	since time.Time
	all   []awsim.Instance
}

func newWorld(ctx context.Context, spec Spec) *world {
	w := &world{ctx: ctx, spec: spec, aws: awsim.NewUnconnected(awsim.Options{Seed: spec.Seed}), nodes: newNodes(), scaler: newScaler()}
	w.nodes.w, w.judge, w.gate = w, newJudge(w), &Gateway{Fails: w.failsGate}
	return w
}

// failsGate reports whether the gate fails now.
func (w *world) failsGate() bool {
	since, fails := time.Since(w.began), w.spec.GateFails
	return since >= fails[0] && since < fails[1] && !w.isHealed()
}

// createAll creates the groups, whose instances are in service then.
func (w *world) createAll() error {
	spec := w.spec
	w.aws.SetDelays(awsim.Delays{
		Visible: spec.Visible, Launch: spec.Launch, Terminate: 5 * time.Second,
		RefreshStart: 5 * time.Second, Standby: 3 * time.Second,
	})
	w.aws.SetAlarm(alarm, awsim.AlarmOK)
	w.aws.PutSubnet(awsim.Subnet{ID: subnet, Zone: "eu-central-1a", Available: 250})
	w.aws.CreateCluster(clusterName, "1.34")
	if err := w.aws.Connect(clusterName, w.nodes, awsim.EKSTimes{Settle: time.Second}); err != nil {
		return err
	}
	w.release = 1
	w.publish(w.release)
	for _, g := range spec.Groups {
		one := &group{
			Group: g, asg: g.Name, user: map[string]bool{}, version: 1, low: g.Size, high: g.Size, most: g.Max,
			maxes: map[int]bool{g.Max: true},
		}
		w.groups = append(w.groups, one)
		if err := w.create(one); err != nil {
			return fmt.Errorf("group %s: %w", g.Name, err)
		}
	}
	time.Sleep(spec.Visible)
	w.began = time.Now()
	w.nodes.begin(w.began)
	return nil
}

// publish publishes a release of the AMI of managed node groups.
func (w *world) publish(n int) {
	w.aws.PublishRelease(awsim.Release{
		KubernetesVersion: "1.34", Version: fmt.Sprintf("1.34.%d-202610%02d", n, n), Image: fmt.Sprintf("ami-eks-%d", n),
	})
}

// create creates a group with its old instances, and then the others.
func (w *world) create(g *group) error {
	if err := w.createGroup(g); err != nil {
		return err
	}
	if err := w.waitInService(g, g.initial()); err != nil {
		return err
	}
	w.newVersion(g)
	if g.initial() < g.Size {
		if err := w.aws.Resize(g.asg, g.Min, g.Max, g.Size); err != nil {
			return err
		}
		if err := w.waitInService(g, g.Size); err != nil {
			return err
		}
	}
	if err := w.addHooks(g); err != nil {
		return err
	}
	return w.addOfUser(g)
}

// initial is how many instances the group has at first.
func (g *group) initial() int {
	if g.Nodegroup {
		return g.Size
	}
	return g.Old
}

func (w *world) createGroup(g *group) (err error) {
	if g.Nodegroup {
		g.asg, err = w.aws.CreateNodegroup(awsim.Nodegroup{
			Cluster: clusterName, Name: g.Name, Min: g.Min, Max: g.Max, Desired: g.Size, Subnets: []string{subnet},
			MaxUnavailable: g.MaxUnavailable,
		})
		return err
	}
	image := g.imageOf(1)
	if g.Parameter {
		w.aws.SetParameter("/ami/"+g.Name, image)
		image = "resolve:ssm:/ami/" + g.Name
	}
	if _, err := w.aws.CreateLaunchTemplate(g.Name, image); err != nil {
		return err
	}
	spec := awsim.Group{
		Name: g.asg, Min: min(g.Min, g.Old), Max: g.Max, Desired: g.Old, LaunchTemplate: g.Name,
		LaunchTemplateVersion: g.versionOf(1), Tags: map[string]string{clusterTag: "owned", "team": "a"},
		MinHealthy: g.Policy[0], MaxHealthy: g.Policy[1], LaunchesFirst: w.spec.Quirk == LaunchesFirst,
		Zones: []string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}[:g.Zones],
	}
	if g.Spot {
		spec.Market = awsim.Spot
	}
	if g.Wave != "" {
		spec.Tags["node-drainer.io/wave"] = g.Wave
	}
	for _, t := range g.Types {
		spec.Overrides = append(spec.Overrides, awsim.Override{InstanceType: t})
	}
	return w.aws.CreateGroup(spec)
}

func (g *group) imageOf(version int) string { return fmt.Sprintf("ami-%s-%d", g.Name, version) }

// versionOf is how the group names a version of its launch template.
func (g *group) versionOf(n int) string {
	if g.Version == "number" {
		return strconv.Itoa(n)
	}
	return g.Version
}

// waitInService waits until the group has so many instances, all of them in service. It has a warm pool later.
func (w *world) waitInService(g *group, size int) error {
	return w.aws.WaitInstances(w.ctx, g.asg, func(all []awsim.Instance) bool {
		return len(all) == size && !slices.ContainsFunc(all, func(i awsim.Instance) bool { return i.State != "InService" })
	})
}

// newVersion has the group launch from another image from now on.
func (w *world) newVersion(g *group) {
	if g.Nodegroup { // A release is for all node groups of a Kubernetes version.
		w.release++
		w.publish(w.release)
		w.released = time.Now()
		for _, one := range w.groups {
			if one.Nodegroup {
				one.version = w.release
				w.seeLaunches(one)
			}
		}
		return
	}
	g.version, g.versioned = g.version+1, time.Now()
	image := g.imageOf(g.version)
	switch {
	case g.Parameter:
		w.aws.SetParameter("/ami/"+g.Name, image)
	default:
		n, err := w.aws.AddTemplateVersion(g.Name, image)
		w.note("operator", "%s: version %d, %v", g.Name, n, err)
		w.useVersion(g, n)
	}
	w.seeLaunches(g)
}

// useVersion has the group launch from a version of its launch template.
func (w *world) useVersion(g *group, n int) {
	var err error
	switch text := strconv.Itoa(n); {
	case g.Version == "$Default":
		_, err = ec2.NewFromConfig(w.config("operator")).ModifyLaunchTemplate(w.ctx,
			&ec2.ModifyLaunchTemplateInput{LaunchTemplateName: &g.Name, DefaultVersion: &text})
	case g.Version == "number" && len(g.Types) == 0 && !w.spec.Options.Newest:
		_, err = w.client("operator").UpdateAutoScalingGroup(w.ctx, &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: &g.asg,
			LaunchTemplate:       &types.LaunchTemplateSpecification{LaunchTemplateName: &g.Name, Version: &text},
		})
	}
	if err != nil {
		w.note("operator", "%s: %v", g.Name, err)
	}
}

func (w *world) addHooks(g *group) error {
	for _, h := range g.Hooks {
		if err := w.addHook(g, h); err != nil {
			return err
		}
	}
	if g.WarmPool == 0 {
		return nil
	}
	_, err := w.client("operator").PutWarmPool(w.ctx, &autoscaling.PutWarmPoolInput{
		AutoScalingGroupName: &g.asg, MinSize: aws.Int32(int32(g.WarmPool)),
		MaxGroupPreparedCapacity: aws.Int32(int32(g.Size + g.WarmPool)),
	})
	return err
}

func (w *world) addHook(g *group, h Hook) error {
	hook := awsim.Hook{Name: h.Name, CompletedAfter: h.Takes, DefaultResult: "CONTINUE"}
	if h.Launch {
		hook.Transition = awsim.Launching
	}
	if h.Abandons {
		hook.CompletedAfter, hook.HeartbeatTimeout, hook.DefaultResult = 0, h.Takes, "ABANDON"
	}
	return w.aws.PutHook(g.asg, hook)
}

// addOfUser does what a user has done to single instances.
func (w *world) addOfUser(g *group) error {
	all := w.aws.Instances(g.asg)
	take := func(n int) (ids []string) {
		for range min(n, len(all)) {
			ids, all = append(ids, all[0].ID), all[1:]
		}
		for _, id := range ids {
			g.user[id] = true
		}
		return ids
	}
	for _, id := range take(g.Protected) {
		if err := w.aws.SetProtection(id, true); err != nil {
			return err
		}
	}
	for _, id := range take(g.Excluded) {
		w.nodes.keep[id] = true
	}
	if ids := take(g.Standby); len(ids) > 0 {
		_, err := w.client("operator").EnterStandby(w.ctx, &autoscaling.EnterStandbyInput{
			AutoScalingGroupName: &g.asg, InstanceIds: ids, ShouldDecrementDesiredCapacity: aws.Bool(true),
		})
		if err != nil {
			return err
		}
		g.low, g.high = g.low-len(ids), g.high-len(ids)
		time.Sleep(10 * time.Second)
	}
	for n := range min(g.Aged, len(all)) {
		if err := w.aws.SetLaunchTime(all[n].ID, time.Now().Add(-1000*time.Hour)); err != nil {
			return err
		}
	}
	for n := range w.spec.Options.Only {
		if n < len(all) {
			g.only = append(g.only, all[n].ID)
		}
	}
	if g.Suspended != "" {
		_, err := w.client("operator").SuspendProcesses(w.ctx, &autoscaling.SuspendProcessesInput{
			AutoScalingGroupName: &g.asg, ScalingProcesses: []string{g.Suspended},
		})
		return err
	}
	return nil
}

// config returns what clients of somebody need, whose calls are not judged.
func (w *world) config(name string) aws.Config { return configOf(w.aws.URL(), named{w.aws, name}) }

func (w *world) client(name string) *autoscaling.Client {
	return autoscaling.NewFromConfig(w.config(name))
}

func configOf(url string, transport http.RoundTripper) aws.Config {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: &url, Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: transport},
	}
}

// named sends the calls of somebody.
type named struct {
	aws  *awsim.Server
	name string
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+n.name+"/sim")
	return n.aws.RoundTrip(r)
}

// describe describes the group as AWS does, which may be late.
func (w *world) describe(g *group) (types.AutoScalingGroup, error) {
	out, err := w.client("judge").DescribeAutoScalingGroups(w.ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{g.asg}})
	if err != nil || len(out.AutoScalingGroups) != 1 {
		return types.AutoScalingGroup{}, fmt.Errorf("describe %s: %w", g.asg, err)
	}
	return out.AutoScalingGroups[0], nil
}

// seeLaunches keeps what the group launches now.
func (w *world) seeLaunches(g *group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.aws.Launches(g.asg)
	if n := len(g.launches); n == 0 || !slices.Equal(g.launches[n-1].all, now) {
		g.launches = append(g.launches, launches{time.Now(), now})
	}
}

// find finds an instance of a group.
func (w *world) find(id string) (*group, awsim.Instance) {
	name, i, ok := w.aws.Member(id)
	if !ok {
		return nil, awsim.Instance{}
	}
	return w.named(name), i
}

// namesInstances reports whether the triggers replace only the instances that they name.
func (w *world) namesInstances() bool {
	return slices.ContainsFunc(w.groups, func(g *group) bool { return len(g.only) > 0 })
}

// named returns the group of a name in AWS.
func (w *world) named(asg string) *group {
	for _, g := range w.groups {
		if g.asg == asg || g.Name == asg {
			return g
		}
	}
	return nil
}
