package autoscaling

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Clusters returns the names of the Kubernetes clusters that the group's tags name, sorted. There is none if
// the tags name none, or the group does not exist. The answer is kept for five minutes.
func (g *Groups) Clusters(ctx context.Context, group string) ([]string, error) {
	return g.clusters.get(ctx, group)
}

func (g *Groups) readClusters(ctx context.Context, group string) ([]string, error) {
	tags := map[string]string{}
	err := eachTag(ctx, g.api, group, func(key, value string) { tags[key] = value })
	return refresh.ClustersOf(tags), err
}

// eachTag calls visit with each tag of the group.
func eachTag(
	ctx context.Context, api sdk.DescribeTagsAPIClient, group string, visit func(key, value string),
) error {
	pages := sdk.NewDescribeTagsPaginator(api, &sdk.DescribeTagsInput{
		Filters: []types.Filter{{Name: aws.String("auto-scaling-group"), Values: []string{group}}},
	})
	doing := "describe the tags of group " + group
	return cloud.EachPage(ctx, callTimeout, doing, pages, func(out *sdk.DescribeTagsOutput) {
		for _, t := range out.Tags {
			visit(aws.ToString(t.Key), aws.ToString(t.Value))
		}
	})
}

// clusterFilters select the groups of which refresh.ClusterOf returns the cluster. AWS joins the filters of one call
// by AND, so each has a call of its own.
func clusterFilters(cluster string) []types.Filter {
	return []types.Filter{
		{Name: aws.String("tag-key"), Values: []string{
			"kubernetes.io/cluster/" + cluster, "k8s.io/cluster-autoscaler/" + cluster,
		}},
		{Name: aws.String("tag:eks:cluster-name"), Values: []string{cluster}},
		{Name: aws.String("tag:aws:eks:cluster-name"), Values: []string{cluster}},
	}
}
