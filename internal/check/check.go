// Package check finds out what an installation lacks: in AWS, in Kubernetes and in the configuration of the agent, and
// which command adds it. It changes nothing.
//
// Read reads all facts, in one order. Judge decides what they mean; it is pure.
package check

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/access"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/eventbridge"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Status is how a check ended.
type Status string

// The statuses.
const (
	OK         Status = "ok"
	Warning    Status = "warning"     // drains work, but not as they could
	Failed     Status = "failed"      // the agent misses terminations, or cannot drain
	NotChecked Status = "not checked" // for want of a permission that the agent itself does not need
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{OK, Warning, Failed, NotChecked} }

// Result is the outcome of one check.
type Result struct {
	Check  string `json:"check"`  // what was checked, in one or two words
	Status Status `json:"status"` //
	Found  string `json:"found"`  // what was seen, in one sentence
	Fix    string `json:"fix,omitempty"`
}

// AWS reads what the checks need of AWS. An error for which cloud.IsDenied reports true is a missing permission.
type AWS interface {
	Identity(ctx context.Context) (cloud.Identity, error)
	Queue(ctx context.Context) (queue.Attributes, error)
	Rules(ctx context.Context, targetARN string) ([]eventbridge.Rule, error)
	Groups(ctx context.Context, cluster string) ([]autoscaling.InspectedGroup, error)
	Others(ctx context.Context, instances []string) ([]autoscaling.InspectedGroup, error)
	Hooks(ctx context.Context, group string) ([]autoscaling.InspectedHook, error)
	Known(ctx context.Context, instances []string) (map[string]bool, error)
	Settings(ctx context.Context) ([]autoscaling.AccountSetting, error)
	// Try makes a call that needs the permission for an action, and that changes nothing.
	Try(ctx context.Context, action, group, hook string) error
}

// Kubernetes reads what the checks need of the cluster.
type Kubernetes interface {
	Nodes(ctx context.Context) (node.Survey, error)
	Allowed(ctx context.Context, r access.Right) (bool, error)
	User(ctx context.Context) (string, error)
}

// Installation is what is checked.
type Installation struct {
	Config config.Agent
	Region string // of the AWS clients
	AWS    AWS
	Kubernetes

	// Trials also makes calls that write, which AWS must refuse for another reason than a missing permission. Each is an
	// error in CloudTrail.
	Trials bool
}

// Facts is what was read of an installation.
type Facts struct {
	Config config.Agent
	Region string

	Identity    cloud.Identity
	IdentityErr error
	Queue       queue.Attributes
	QueueErr    error
	Rules       []eventbridge.Rule // whose target is the queue
	RulesErr    error
	Nodes       node.Survey
	NodesErr    error
	Known       map[string]bool // instances of Nodes that EC2 knows
	KnownErr    error
	Groups      []Group // whose tags name the cluster
	GroupsErr   error
	Others      []autoscaling.InspectedGroup // of Nodes, whose tags do not name the cluster
	OthersErr   error
	Settings    []autoscaling.AccountSetting
	SettingsErr error
	Now         time.Time
	Trials      []Trial
	User        string // of the API server
	Reviews     []Review
}

// Group is a group with its hooks.
type Group struct {
	autoscaling.InspectedGroup
	Hooks    []autoscaling.InspectedHook
	HooksErr error
}

// Trial is a call that was made because it needs a permission.
type Trial struct {
	Action string
	Group  string // for actions on a group
	Err    error
}

// Review is what the API server says of a right.
type Review struct {
	access.Right
	Allowed bool
	Err     error
}

// Run reads the facts, and judges them.
func Run(ctx context.Context, i Installation) []Result { return Judge(Read(ctx, i)) }

// Read reads all facts. For G groups, R rules and N nodes it makes 8 calls, G + R more, and about N/50 + N/200 more, of
// which five a second describe hooks.
func Read(ctx context.Context, i Installation) Facts {
	f := Facts{Config: i.Config, Region: i.Region, Now: time.Now()}
	if f.Identity, f.IdentityErr = i.AWS.Identity(ctx); f.noCredentials() {
		i.readCluster(ctx, &f)
		return f
	}
	if f.Queue, f.QueueErr = i.AWS.Queue(ctx); f.QueueErr == nil {
		f.Rules, f.RulesErr = i.AWS.Rules(ctx, f.Queue.ARN)
	}
	i.readCluster(ctx, &f)
	f.Known, f.KnownErr = i.AWS.Known(ctx, f.Nodes.Instances)
	i.readGroups(ctx, &f)
	f.Settings, f.SettingsErr = i.AWS.Settings(ctx)
	for _, t := range neededTrials(f, i.Trials) {
		t.Err = i.AWS.Try(ctx, t.Action, t.Group, hookToTry(f, t.Group))
		f.Trials = append(f.Trials, t)
	}
	return f
}

// readCluster reads the Nodes and the rights.
func (i Installation) readCluster(ctx context.Context, f *Facts) {
	f.Nodes, f.NodesErr = i.Nodes(ctx)
	f.User, _ = i.User(ctx)
	for _, r := range Rights(i.Config) {
		review := Review{Right: r}
		review.Allowed, review.Err = i.Allowed(ctx, r)
		f.Reviews = append(f.Reviews, review)
		if review.Err != nil {
			return // the API server does not answer: the others would fail too
		}
	}
}

// readGroups reads the groups of the cluster with their hooks, and the other groups of its Nodes.
func (i Installation) readGroups(ctx context.Context, f *Facts) {
	groups, err := i.AWS.Groups(ctx, i.Config.ClusterName)
	f.GroupsErr = err
	outside := slices.Clone(f.Nodes.Instances)
	for _, g := range groups {
		one := Group{InspectedGroup: g}
		one.Hooks, one.HooksErr = i.AWS.Hooks(ctx, g.Name)
		f.Groups = append(f.Groups, one)
		outside = slices.DeleteFunc(outside, func(id string) bool { return slices.Contains(g.Instances, id) })
	}
	if err == nil && len(outside) > 0 {
		f.Others, f.OthersErr = i.AWS.Others(ctx, outside)
		f.Others = slices.DeleteFunc(f.Others, func(g autoscaling.InspectedGroup) bool {
			return slices.Contains(g.Clusters, i.Config.ClusterName) // an instance in its warm pool
		})
	}
}

// Judge decides what the facts mean: at least one result for each check.
func Judge(f Facts) []Result {
	results := judgeCredentials(f)
	if !f.noCredentials() {
		results = slices.Concat(results, judgeQueue(f), judgePolicy(f), judgeEncryption(f), judgeGroups(f), judgeHooks(f),
			judgeSettings(f), judgeRules(f), judgePermissions(f))
	}
	return slices.Concat(results, judgeNodes(f), judgeRights(f))
}

// Count returns how many results have the status.
func Count(results []Result, s Status) (n int) {
	for _, r := range results {
		if r.Status == s {
			n++
		}
	}
	return n
}

func one(check string, s Status, found, fix string) []Result {
	return []Result{{Check: check, Status: s, Found: found, Fix: fix}}
}

// hookToTry names a hook of the group for a trial. One that does not exist is refused as well.
func hookToTry(f Facts, group string) string {
	for _, g := range f.Groups {
		for _, h := range ownHooks(f, g, autoscaling.Terminating) {
			if g.Name == group {
				return h.Name
			}
		}
	}
	return hookNameOf(f)
}

// hookNameOf returns the name of a hook to create.
func hookNameOf(f Facts) string {
	names := append(slices.Clone(f.Config.Hook.Names), "node-drainer-terminating")
	i := slices.IndexFunc(names, func(n string) bool { return !isLaunchName(n) })
	return cmp.Or(names[max(i, 0)])
}
