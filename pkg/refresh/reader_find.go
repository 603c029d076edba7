package refresh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// Tag keys that name the cluster at their end.
const (
	ownerPrefix      = "kubernetes.io/cluster/"
	autoscalerPrefix = "k8s.io/cluster-autoscaler/"
)

// tagKey is the name of the filter by a tag's key alone. Source: Filter in the API reference.
const tagKey = "tag-key"

// Selection says which groups: those of the names, of the cluster and with all of the tags together.
type Selection struct {
	Names []string
	// Cluster is by the tags kubernetes.io/cluster/NAME, k8s.io/cluster-autoscaler/NAME and eks:cluster-name.
	Cluster string
	Tags    map[string]string // Key and value; an empty value stands for any.
}

// empty tells whether the selection says nothing: it would be every group of the account.
func (s Selection) empty() bool { return len(s.Names) == 0 && s.Cluster == "" && len(s.Tags) == 0 }

// picks tells whether the group has the tags, and belongs to the cluster.
func (s Selection) picks(g Group) bool {
	for key, value := range s.Tags {
		if got, ok := g.Tags[key]; !ok || value != "" && got != value {
			return false
		}
	}
	return s.Cluster == "" || g.belongs(s.Cluster)
}

// belongs tells whether the group's tags name the cluster.
func (g Group) belongs(cluster string) bool {
	_, owned := g.Tags[ownerPrefix+cluster]
	_, scaled := g.Tags[autoscalerPrefix+cluster]
	return owned || scaled || g.Tags[tagCluster] == cluster
}

// filters narrow what AWS sends; picks has the last word. Filters of one call are joined by AND, the values
// of one by OR. The key of EKS stands with the other two for one call instead of two: it finds groups of
// other clusters too. No call has two filters by key, since how AWS would join them is not documented.
func (s Selection) filters() []types.Filter {
	var filters []types.Filter
	if s.Cluster != "" {
		filters = append(filters, types.Filter{Name: aws.String(tagKey), Values: []string{
			ownerPrefix + s.Cluster, autoscalerPrefix + s.Cluster, tagCluster,
		}})
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		switch value := s.Tags[key]; {
		case value != "":
			filters = append(filters, types.Filter{Name: aws.String("tag:" + key), Values: []string{value}})
		case !slices.ContainsFunc(filters, func(f types.Filter) bool { return aws.ToString(f.Name) == tagKey }):
			filters = append(filters, types.Filter{Name: aws.String(tagKey), Values: []string{key}})
		}
	}
	return filters
}

// String says the selection in words.
func (s Selection) String() string {
	var parts []string
	if len(s.Names) > 0 {
		parts = append(parts, "of the names "+strings.Join(s.Names, ", "))
	}
	if s.Cluster != "" {
		parts = append(parts, "of the cluster "+s.Cluster)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		tag := key
		if s.Tags[key] != "" {
			tag += "=" + s.Tags[key]
		}
		parts = append(parts, "with the tag "+tag)
	}
	return strings.Join(parts, " and ")
}

// Find returns the groups of the selection, by name. A name for which there is no group is an error, and so
// is a selection that no group fits. It costs one call for each hundred groups.
func (r *Reader) Find(ctx context.Context, s Selection) ([]Group, error) {
	if s.empty() {
		return nil, errors.New("no group is selected: give names, a cluster or tags")
	}
	found, err := r.selected(ctx, s)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(g Group) bool { return !s.picks(g) })
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: none is %s; is this the right account and Region?", ErrNoGroup, s)
	}
	slices.SortFunc(found, func(x, y Group) int { return cmp.Compare(x.Name, y.Name) })
	return found, nil
}

// selected asks for the groups by their names if there are some, else by their tags.
func (r *Reader) selected(ctx context.Context, s Selection) ([]Group, error) {
	if len(s.Names) == 0 {
		return r.describe(ctx, &autoscaling.DescribeAutoScalingGroupsInput{Filters: s.filters()})
	}
	names := slices.Compact(slices.Sorted(slices.Values(s.Names)))
	found, err := r.named(ctx, names)
	if err != nil || len(found) == len(names) {
		return found, err
	}
	missing := slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(found, func(g Group) bool { return g.Name == name })
	})
	return nil, r.noGroups(ctx, missing)
}

// noGroups is the error that names the groups that are missing, and others that may have been meant.
func (r *Reader) noGroups(ctx context.Context, missing []string) error {
	hint := "is this the right account and Region?"
	all, err := r.describe(ctx, &autoscaling.DescribeAutoScalingGroupsInput{IncludeInstances: aws.Bool(false)})
	if near := similar(missing, namesOf(all)); err == nil && len(near) > 0 {
		hint = "there is " + strings.Join(near, ", ")
	}
	return fmt.Errorf("%w: %s; %s", ErrNoGroup, strings.Join(missing, ", "), hint)
}

func namesOf(groups []Group) []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Name
	}
	return names
}

// mostSimilar is how many names are offered instead of those that do not exist.
const mostSimilar = 5

// similar returns those of all names that may have been meant by the wrong ones: they share words with them.
func similar(wrong, all []string) []string {
	score := map[string]int{}
	for _, name := range all {
		for _, w := range wrong {
			score[name] = max(score[name], shared(words(w), words(name)))
		}
	}
	near := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return score[name] == 0 })
	slices.SortFunc(near, func(x, y string) int {
		return cmp.Or(cmp.Compare(score[y], score[x]), cmp.Compare(x, y))
	})
	return near[:min(len(near), mostSimilar)]
}

func words(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(c rune) bool {
		return strings.ContainsRune("-_./: ", c)
	})
}

// shared counts the words of one name that begin one of the other's, or are begun by it.
func shared(x, y []string) int {
	n := 0
	for _, a := range x {
		if slices.ContainsFunc(y, func(b string) bool {
			return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
		}) {
			n++
		}
	}
	return n
}

// named describes the groups of the names, as far as there are such.
func (r *Reader) named(ctx context.Context, names []string) ([]Group, error) {
	var found []Group
	for some := range slices.Chunk(names, groupsPage) {
		groups, err := r.describe(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: some})
		if err != nil {
			return nil, err
		}
		found = append(found, groups...)
	}
	return found, nil
}

// describe reads all pages.
func (r *Reader) describe(
	ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput,
) ([]Group, error) {
	in.MaxRecords = aws.Int32(groupsPage)
	var found []Group
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(r.groups, in)
	for pages.HasMorePages() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		out, err := pages.NextPage(ctx)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("describe Auto Scaling groups: %w", err)
		}
		for _, g := range out.AutoScalingGroups {
			found = append(found, toGroup(g))
		}
	}
	return found, nil
}
