// Package nodegroup reads and updates EKS managed node groups. EKS types stop here. A Reader only reads, and only a
// Writer changes anything.
package nodegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// callsAtOnce is how many calls of one kind run concurrently.
const callsAtOnce = 8

// ReaderAPI are the calls of a Reader. None of them changes anything.
type ReaderAPI interface {
	sdk.DescribeClusterAPIClient
	sdk.DescribeNodegroupAPIClient
	sdk.ListNodegroupsAPIClient
	sdk.ListUpdatesAPIClient
	DescribeUpdate(context.Context, *sdk.DescribeUpdateInput, ...func(*sdk.Options)) (*sdk.DescribeUpdateOutput, error)
}

// Groups reads the Auto Scaling groups of node groups: see package autoscaling.
type Groups interface {
	Named(ctx context.Context, names []string) ([]refresh.Group, error) // A name without a group is left out.
	Group(ctx context.Context, name string) (refresh.Group, error)
}

// Machines reads what EC2 knows: see package ec2.
type Machines interface {
	Templates(ctx context.Context, groups []refresh.Group, version string) (refresh.Templates, error)
	Subnets(ctx context.Context, ids []string) ([]refresh.Subnet, error)
}

// Request says which node groups, and what their nodes are to have.
type Request struct {
	Cluster string
	Names   []string // Empty is all of the cluster.

	Kubernetes      string // A version, such as 1.31; empty is that of the node group.
	Release         string // Of the AMI; empty is the newest of the Kubernetes version.
	TemplateVersion string // Of the node group's own launch template: a number, $Latest or $Default; empty is $Latest.
	Force           bool   // Nodes are terminated even if their pods cannot be evicted.
}

// Reader reads node groups with their Auto Scaling groups. What their nodes are to have is read by Find, and stays the
// same until it is called again. Make it with NewReader.
type Reader struct {
	api      ReaderAPI
	groups   Groups
	machines Machines
	releases *Releases
	request  Request

	mu    sync.Mutex
	known map[string]refresh.Nodegroup // By the names of the Auto Scaling groups.
	ended map[string]refresh.Refresh   // Updates that have ended, by their ids. They do not change any more.
}

// NewReader returns a Reader. The clients must retry what AWS throttles.
func NewReader(api ReaderAPI, groups Groups, machines Machines, releases *Releases, r Request) *Reader {
	return &Reader{
		api: api, groups: groups, machines: machines, releases: releases, request: r,
		known: map[string]refresh.Nodegroup{}, ended: map[string]refresh.Refresh{},
	}
}

// Find returns the Auto Scaling groups of the requested node groups, sorted by name. If the selection has names of Auto
// Scaling groups, it returns those of them only. A node group whose Auto Scaling group does not exist has a Problem; of
// all node groups of a cluster those are left out that are being deleted.
func (r *Reader) Find(ctx context.Context, s refresh.Selection) ([]refresh.Group, error) {
	found, err := r.describeAll(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]refresh.Nodegroup{}
	for _, d := range found {
		for _, name := range d.scaling {
			known[name] = d.group
		}
	}
	if len(known) == 0 {
		return nil, missing("the node groups of the cluster %s have no Auto Scaling group", r.request.Cluster)
	}
	names := slices.Sorted(maps.Keys(known))
	if len(s.Names) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(s.Names, name) })
	}
	groups, err := r.named(ctx, names, known)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.known = known
	r.mu.Unlock()
	return groups, r.addSubnets(ctx, groups)
}

// named reads the Auto Scaling groups. One that does not exist has neither sizes nor instances, and a Problem.
func (r *Reader) named(
	ctx context.Context, names []string, known map[string]refresh.Nodegroup,
) (groups []refresh.Group, err error) {
	found, err := r.groups.Named(ctx, names)
	if err != nil {
		return nil, err
	}
	byName := map[string]refresh.Group{}
	for _, g := range found {
		byName[g.Name] = g
	}
	for _, name := range names {
		g, exists := byName[name]
		if n := known[name]; !exists {
			n.Problem = fmt.Sprintf("the Auto Scaling group %s of the node group %s does not exist, and the node group is %s: "+
				"delete the node group, or create it again", name, n.Name, n.Status)
			known[name], g.Name = n, name
		}
		addNodegroup(&g, known[name])
		groups = append(groups, g)
	}
	return groups, nil
}

// Group reads an Auto Scaling group that Find has returned, and its node group.
func (r *Reader) Group(ctx context.Context, name string) (refresh.Group, error) {
	r.mu.Lock()
	before := r.known[name]
	r.mu.Unlock()
	g, err := r.groups.Group(ctx, name)
	if errors.Is(err, refresh.ErrNoGroup) && before.Problem != "" { // Find has seen that.
		return refresh.Group{Name: name, Nodegroup: &before}, nil
	} else if err != nil {
		return g, err
	}
	now, err := r.describe(ctx, before.Name)
	if err != nil {
		return g, err
	}
	now.group.ClusterVersion, now.group.Wants, now.group.Problem = before.ClusterVersion, before.Wants, before.Problem
	now.group.Subnets = before.Subnets
	addNodegroup(&g, now.group)
	return g, nil
}

// addNodegroup adds the node group to its Auto Scaling group, with those of its tags that the other does not have: EKS
// does not copy them.
func addNodegroup(g *refresh.Group, n refresh.Nodegroup) {
	g.Nodegroup = &n
	if wave, tagged := n.Tags[refresh.WaveTag]; tagged && g.Tags[refresh.WaveTag] == "" {
		g.Tags = maps.Clone(g.Tags) // Concurrent readers of one group share them.
		if g.Tags == nil {
			g.Tags = map[string]string{}
		}
		g.Tags[refresh.WaveTag] = wave
	}
}

// described is a node group with its Auto Scaling groups.
type described struct {
	group   refresh.Nodegroup
	scaling []string
	amiType string
}

// describeAll reads the cluster and the requested node groups, and what their nodes are to have.
func (r *Reader) describeAll(ctx context.Context) ([]described, error) {
	cluster, err := r.api.DescribeCluster(ctx, &sdk.DescribeClusterInput{Name: &r.request.Cluster})
	if err != nil {
		return nil, r.explain("", err)
	}
	names := r.request.Names
	if len(names) == 0 {
		if names, err = r.list(ctx); err != nil {
			return nil, err
		}
	}
	all, err := r.describeNamed(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].group.ClusterVersion = aws.ToString(cluster.Cluster.Version)
		all[i].group.Wants.Kubernetes = cmp.Or(r.request.Kubernetes, all[i].group.Has.Kubernetes)
	}
	releases, err := r.newest(ctx, all)
	if err != nil {
		return nil, err
	}
	return all, concurrently(ctx, len(all), func(ctx context.Context, i int) error {
		r.resolveRelease(&all[i], releases)
		return r.resolveTemplate(ctx, &all[i])
	})
}

// describeNamed reads the node groups. Those that nobody has named are left out while they are being deleted, or are
// gone since they were listed.
func (r *Reader) describeNamed(ctx context.Context, names []string) ([]described, error) {
	all, listed := make([]described, len(names)), len(r.request.Names) == 0
	err := concurrently(ctx, len(names), func(ctx context.Context, i int) (err error) {
		all[i], err = r.describe(ctx, names[i])
		if listed && errors.Is(err, refresh.ErrNoGroup) {
			return nil
		}
		return err
	})
	return slices.DeleteFunc(all, func(d described) bool {
		return listed && (d.group.Name == "" || d.group.Status == string(types.NodegroupStatusDeleting))
	}), err
}

// concurrently calls do for each number below n, a few at a time, and returns the first error.
func concurrently(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for i := range n {
		calls.Go(func() error { return do(ctx, i) })
	}
	return calls.Wait()
}

// list returns the names of all node groups of the cluster.
func (r *Reader) list(ctx context.Context) (names []string, err error) {
	pages := sdk.NewListNodegroupsPaginator(r.api, &sdk.ListNodegroupsInput{ClusterName: &r.request.Cluster})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, r.explain("", err)
		}
		names = append(names, page.Nodegroups...)
	}
	if len(names) == 0 {
		return nil, missing("the cluster %s has no managed node group", r.request.Cluster)
	}
	return names, nil
}

func (r *Reader) describe(ctx context.Context, name string) (described, error) {
	out, err := r.api.DescribeNodegroup(ctx, &sdk.DescribeNodegroupInput{
		ClusterName: &r.request.Cluster, NodegroupName: &name,
	})
	if err != nil {
		return described{}, r.explain(name, err)
	}
	d := toDescribed(out.Nodegroup)
	d.group.Force = r.request.Force
	if d.group.Status == refresh.NodegroupUpdating {
		updates, err := r.updates(ctx, "", name)
		if err != nil {
			return described{}, err
		}
		d.group.Updating = slices.ContainsFunc(updates, refresh.Refresh.Active)
	}
	return d, nil
}

// missingError says what of EKS does not exist. It is refresh.ErrNoGroup, without its words: those are about Auto
// Scaling groups.
type missingError string

func missing(format string, names ...any) error { return missingError(fmt.Sprintf(format, names...)) }

func (e missingError) Error() string { return string(e) }

// Is reports whether the target is refresh.ErrNoGroup.
func (missingError) Is(target error) bool { return target == refresh.ErrNoGroup }

// explain says what does not exist, if that is the error.
func (r *Reader) explain(nodegroup string, err error) error {
	if cloud.ErrorCode(err) != (&types.ResourceNotFoundException{}).ErrorCode() {
		return err
	}
	if nodegroup == "" {
		return missing("there is no EKS cluster %s; is this the right account and Region?", r.request.Cluster)
	}
	return missing("the cluster %s has no managed node group %s", r.request.Cluster, nodegroup)
}

// addSubnets adds how many addresses are free, with one call.
func (r *Reader) addSubnets(ctx context.Context, groups []refresh.Group) error {
	var ids []string
	for _, g := range groups {
		for _, s := range g.Nodegroup.Subnets {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	subnets, err := r.machines.Subnets(ctx, slices.Compact(slices.Sorted(slices.Values(ids))))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range groups {
		has := g.Nodegroup.Subnets
		g.Nodegroup.Subnets = slices.DeleteFunc(slices.Clone(subnets), func(s refresh.Subnet) bool {
			return !slices.ContainsFunc(has, func(other refresh.Subnet) bool { return other.ID == s.ID })
		})
		r.known[g.Name] = *g.Nodegroup
	}
	return nil
}

// Refreshes returns the updates of the group's node group to other versions, the newest first.
func (r *Reader) Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error) {
	return r.updates(ctx, group, r.nodegroupOf(group))
}

// updates returns the updates of a node group to other versions, the newest first. Those that have ended are read once.
func (r *Reader) updates(ctx context.Context, group, nodegroup string) ([]refresh.Refresh, error) {
	var ids []string
	pages := sdk.NewListUpdatesPaginator(r.api, &sdk.ListUpdatesInput{Name: &r.request.Cluster, NodegroupName: &nodegroup})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, r.explain(nodegroup, err)
		}
		ids = append(ids, page.UpdateIds...)
	}
	all := make([]refresh.Refresh, len(ids))
	err := concurrently(ctx, len(ids), func(ctx context.Context, i int) (err error) {
		all[i], err = r.update(ctx, group, nodegroup, ids[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f refresh.Refresh) bool { return f.Update == nil })
	slices.SortFunc(all, func(a, b refresh.Refresh) int { return b.Started.Compare(a.Started) })
	return all, nil
}

// Refresh returns one update of the group's node group.
func (r *Reader) Refresh(ctx context.Context, group, id string) (refresh.Refresh, error) {
	return r.update(ctx, group, r.nodegroupOf(group), id)
}

func (r *Reader) update(ctx context.Context, group, nodegroup, id string) (refresh.Refresh, error) {
	r.mu.Lock()
	f, known := r.ended[id]
	r.mu.Unlock()
	if known {
		f.Group = group
		return f, nil
	}
	out, err := r.api.DescribeUpdate(ctx, &sdk.DescribeUpdateInput{
		Name: &r.request.Cluster, NodegroupName: &nodegroup, UpdateId: &id,
	})
	if err != nil {
		return refresh.Refresh{}, r.explain(nodegroup, err)
	}
	f = toRefresh(group, out.Update)
	if !f.Active() {
		r.mu.Lock()
		r.ended[id] = f
		r.mu.Unlock()
	}
	return f, nil
}

func (r *Reader) nodegroupOf(group string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[group].Name
}
