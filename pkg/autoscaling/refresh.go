package autoscaling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

const (
	// keepRefresh is how long an answer about a group's refreshes is used again: the nodes of a refresh come one
	// by one, and each asks.
	keepRefresh = 30 * time.Second
	// newestRefreshes is how many refreshes are looked at. A group has one active at most, and the newest come
	// first.
	newestRefreshes = 10
)

// RefreshActive tells whether an instance refresh of the group is under way, also while it is cancelled or
// rolled back. The answer is kept for half a minute.
func (h *Hooks) RefreshActive(ctx context.Context, group string) (bool, error) {
	return h.refreshes.get(ctx, group)
}

func (h *Hooks) readRefresh(ctx context.Context, group string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := h.api.DescribeInstanceRefreshes(ctx, &sdk.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: aws.String(group), MaxRecords: aws.Int32(newestRefreshes),
	})
	if err != nil {
		return false, fmt.Errorf("describe the instance refreshes of group %s: %w", group, err)
	}
	return slices.ContainsFunc(out.InstanceRefreshes, isActive), nil
}

// isActive tells whether a refresh may still launch instances, or wait for them.
func isActive(r types.InstanceRefresh) bool {
	switch r.Status {
	case types.InstanceRefreshStatusPending, types.InstanceRefreshStatusInProgress,
		types.InstanceRefreshStatusBaking, types.InstanceRefreshStatusCancelling,
		types.InstanceRefreshStatusRollbackInProgress:
		return true
	default:
		return false
	}
}
