package trigger

import (
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestTagsRemovedByOthers: when infrastructure as code removes the tags that record a rollout, they are written again, so
// that another run could give back what is held. The rollout itself gives it back in the end.
func TestTagsRemovedByOthers(t *testing.T) {
	t.Parallel()
	for _, mode := range []refresh.Mode{refresh.ModeUnhealthy, refresh.ModeRefresh} {
		inWorld(t, string(mode), 3, untagged(group), func(w *world) {
			w.newVersion(2)
			w.must(w.PutHook(group, awsim.Hook{Name: "slow", CompletedAfter: 2 * refresh.ShownWithin}))
			cfg := flags(mode)
			cfg.Suspend = []string{"AZRebalance"}
			ended := make(chan map[string]report.Outcome, 1)
			go func() { ended <- w.run(cfg) }()
			elapse(10 * time.Second)
			records := w.records()
			var remove []types.Tag
			for key := range records {
				remove = append(remove, types.Tag{
					ResourceId: aws.String(group), ResourceType: aws.String("auto-scaling-group"), Key: &key,
				})
			}
			_, err := w.autoScaling().DeleteTags(w.Context(), &autoscaling.DeleteTagsInput{Tags: remove})
			w.must(err)
			elapse(refresh.ShownWithin)       // Until then AWS may describe the group as it was before.
			delete(records, refresh.LeaseTag) // Its value changes.
			now := w.records()
			if delete(now, refresh.LeaseTag); len(records) == 0 || !maps.Equal(records, now) {
				w.Errorf("the records are %v, and were %v", now, records)
			}
			if outcome := (<-ended)[group]; outcome != report.Done {
				w.Errorf("the trigger ended with %s", outcome)
			}
			w.expectAsBefore(0)
		})
	}
}

// records are the tags of the group that record what a trigger has changed.
func (w *world) records() map[string]string {
	all := w.Tags(group)
	maps.DeleteFunc(all, func(key, _ string) bool { return !refresh.IsRecord(key) })
	return all
}
