package autoscaling

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func TestClusters(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		tag := func(key, value string) types.TagDescription {
			return types.TagDescription{Key: aws.String(key), Value: aws.String(value)}
		}
		first := []types.TagDescription{
			{}, tag("team", "x"), tag("kubernetes.io/cluster/green", "owned"), tag("eks:cluster-name", "blue"),
		}
		down := true
		f.tags = func(_ context.Context, page string) (*sdk.DescribeTagsOutput, error) {
			switch {
			case down:
				return nil, errThrottled
			case page == "":
				return &sdk.DescribeTagsOutput{NextToken: aws.String("2"), Tags: first}, nil
			}
			return &sdk.DescribeTagsOutput{Tags: []types.TagDescription{tag("kubernetes.io/cluster/blue", "owned")}}, nil
		}
		if got, err := h.Clusters(t.Context(), groupName); !errors.Is(err, errThrottled) || got != nil {
			t.Errorf("got %q, %v", got, err)
		}
		down = false
		for range 2 {
			got, err := h.Clusters(t.Context(), groupName)
			if err != nil || !slices.Equal(got, []string{"blue", "green"}) {
				t.Errorf("got %q, %v; want each once, in order", got, err)
			}
		}
		if n := len(f.called("tags")); n != 3 {
			t.Errorf("%d calls, want the one that failed and two pages", n)
		}
		if len(f.filter) != 1 || *f.filter[0].Name != "auto-scaling-group" || !slices.Equal(f.filter[0].Values, []string{groupName}) {
			t.Errorf("filtered by %v", f.filter)
		}
		f.tags = nil
		if got, err := h.Clusters(t.Context(), "untagged"); err != nil || len(got) > 0 {
			t.Errorf("a group without tags: %q, %v", got, err)
		}
	})
}
