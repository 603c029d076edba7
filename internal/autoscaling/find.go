package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// tagKey is the name of the filter by a tag's key alone. Source: Filter in the API reference.
const tagKey = "tag-key"

// filters narrow what AWS returns; Selection.Contains decides. AWS joins the filters of one call by AND, and
// the values of one filter by OR. All keys that may name the cluster are one filter, which also matches other
// clusters of EKS: that is one call instead of two. No call has two filters by key, since the API reference
// does not say how AWS joins those.
func filters(s refresh.Selection) []types.Filter {
	var filters []types.Filter
	if s.Cluster != "" {
		filters = append(filters, types.Filter{Name: aws.String(tagKey), Values: refresh.ClusterTags(s.Cluster)})
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

// Find returns the groups of the selection, sorted by name. It is an error if a name has no group, if the
// selection contains no group, or if it is empty. It costs one call for each hundred groups.
func (r *Reader) Find(ctx context.Context, s refresh.Selection) ([]refresh.Group, error) {
	if s.Empty() {
		return nil, errors.New("no group is selected: give names, a cluster or tags")
	}
	found, err := r.selected(ctx, s)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(g refresh.Group) bool { return !s.Contains(g) })
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: none is %s; %s", refresh.ErrNoGroup, s, r.selectionHint(ctx, s))
	}
	slices.SortFunc(found, func(x, y refresh.Group) int { return cmp.Compare(x.Name, y.Name) })
	return found, nil
}

// selected describes the groups by their names if the selection has some, else by their tags.
func (r *Reader) selected(ctx context.Context, s refresh.Selection) ([]refresh.Group, error) {
	if len(s.Names) == 0 {
		return r.describe(ctx, &sdk.DescribeAutoScalingGroupsInput{Filters: filters(s)})
	}
	names := unique(s.Names)
	found, err := r.Named(ctx, names)
	if err != nil || len(found) == len(names) {
		return found, err
	}
	return nil, r.missingError(ctx, without(names, namesOf(found)))
}

// missingError names the groups that do not exist, and others that may have been meant.
func (r *Reader) missingError(ctx context.Context, missing []string) error {
	hint := hintOf(similar(missing, namesOf(r.all(ctx))))
	return fmt.Errorf("%w: %s; %s", refresh.ErrNoGroup, strings.Join(missing, ", "), hint)
}

// selectionHint names clusters, and values of the tags, that may have been meant.
func (r *Reader) selectionHint(ctx context.Context, s refresh.Selection) string {
	var clusters, tags []string
	for _, g := range r.all(ctx) {
		clusters = append(clusters, refresh.ClustersOf(g.Tags)...)
		for key, value := range s.Tags {
			if got, ok := g.Tags[key]; ok && value != "" && got != value {
				tags = append(tags, key+"="+got)
			}
		}
	}
	near := unique(tags)
	near = near[:min(len(near), mostSimilar)]
	if s.Cluster != "" && !slices.Contains(clusters, s.Cluster) {
		near = slices.Concat(similar([]string{s.Cluster}, unique(clusters)), near)
	}
	return hintOf(near)
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// hintOf says what may have been meant.
func hintOf(near []string) string {
	if len(near) == 0 {
		return "is this the right account and Region?"
	}
	return "there is " + strings.Join(near, ", ")
}

// all describes all groups without their instances, for a hint; none after an error.
func (r *Reader) all(ctx context.Context) []refresh.Group {
	found, err := r.describe(ctx, &sdk.DescribeAutoScalingGroupsInput{IncludeInstances: aws.Bool(false)})
	if err != nil {
		return nil
	}
	return found
}

func namesOf(groups []refresh.Group) []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Name
	}
	return names
}

// mostSimilar is how many names are suggested instead of those that do not exist.
const mostSimilar = 5

// similar returns those of all names that share words with the missing ones, or are nearly the same, the most similar
// first.
func similar(missing, all []string) []string {
	score := func(name string) (most int) {
		for _, m := range missing {
			most = max(most, sharedWords(wordsOf(m), wordsOf(name)))
			if text.Distance(m, name) <= 2 {
				most++
			}
		}
		return most
	}
	near := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return score(name) == 0 })
	slices.SortFunc(near, func(x, y string) int { return cmp.Or(score(y)-score(x), cmp.Compare(x, y)) })
	return near[:min(len(near), mostSimilar)]
}

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(c rune) bool {
		return strings.ContainsRune("-_./: *", c)
	})
}

// sharedWords counts the words of x that begin a word of y, or that a word of y begins.
func sharedWords(x, y []string) int {
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
