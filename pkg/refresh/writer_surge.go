package refresh

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// surgeTag is the tag of a group that says by how much the trigger raised its desired capacity: "FROM-TO".
const surgeTag = "node-drainer.io/surge"

// groupResource is the type of what the tags of Auto Scaling are on. Source: Tag in the API reference.
const groupResource = "auto-scaling-group"

// Surge is by how much the trigger raised a group's desired capacity. It is written into a tag of the group,
// so that whoever comes after an interruption can take it back.
type Surge struct{ From, To int }

// String is the surge as its tag has it.
func (s Surge) String() string { return fmt.Sprintf("%d-%d", s.From, s.To) }

// SurgeOf reads the surge from the group's tags. What cannot be read is none.
func SurgeOf(g Group) (s Surge, ok bool) {
	from, to, _ := strings.Cut(g.Tags[surgeTag], "-")
	least, errFrom := strconv.ParseUint(from, 10, 31)
	most, errTo := strconv.ParseUint(to, 10, 31)
	if errFrom != nil || errTo != nil || least >= most {
		return Surge{}, false
	}
	return Surge{From: int(least), To: int(most)}, true
}

// Raise tags the group and raises its desired capacity from what it was described as. It fails, with nothing
// changed, if that would be more than the group's maximum. A group that bears the tag already is raised to
// what the tag says, so that Raise can be called again when its answer was lost; one whose desired capacity
// somebody has lowered since is raised anew.
func (w *Writer) Raise(ctx context.Context, g Group, by int) (Surge, error) {
	s, begun := SurgeOf(g)
	if begun && g.Desired > s.From {
		return s, nil // It is raised.
	}
	if begun = begun && g.Desired == s.From; !begun {
		s = Surge{g.Desired, g.Desired + by}
	}
	switch {
	case by <= 0:
		return Surge{}, fmt.Errorf("raise the desired capacity of group %s by %d: it must be more", g.Name, by)
	case s.To > g.Max:
		return Surge{}, fmt.Errorf(
			"the desired capacity of group %s cannot be raised from %d to %d: its maximum is %d",
			g.Name, s.From, s.To, g.Max)
	}
	if !begun {
		if err := w.tag(ctx, g.Name, surgeTag, s.String()); err != nil {
			return Surge{}, err
		}
	}
	err := w.setDesired(ctx, g.Name, s.To)
	if codeOf(err) == codeValidation {
		// Nothing was raised. A tag that stays tells of nothing: Lower takes it off.
		_ = w.untag(ctx, g.Name, surgeTag)
	}
	return s, err
}

// Lower gives the group the desired capacity back that it had before Raise, and takes the tag off. It returns
// whether the capacity was set. A part of the surge may be given back already, with instances that were
// terminated; but a desired capacity that is higher than Raise made it, or lower than before, is somebody
// else's, and is left as it is.
func (w *Writer) Lower(ctx context.Context, g Group) (restored bool, err error) {
	if _, tagged := g.Tags[surgeTag]; !tagged {
		return false, nil
	}
	if s, ok := SurgeOf(g); ok && s.From < g.Desired && g.Desired <= s.To {
		if err := w.setDesired(ctx, g.Name, max(s.From, g.Min)); err != nil {
			return false, err
		}
		restored = true
	}
	return restored, w.untag(ctx, g.Name, surgeTag)
}

func (w *Writer) setDesired(ctx context.Context, group string, desired int) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(int32Of(desired)),
		HonorCooldown: aws.Bool(false),
	})
	return verdict(err, "set the desired capacity of group %s to %d", group, desired)
}

func (w *Writer) tag(ctx context.Context, group, key, value string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{{
		ResourceId: aws.String(group), ResourceType: aws.String(groupResource), Key: aws.String(key),
		Value: aws.String(value), PropagateAtLaunch: aws.Bool(false),
	}}})
	return verdict(err, "tag group %s with %s", group, key)
}

func (w *Writer) untag(ctx context.Context, group, key string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: []types.Tag{{
		ResourceId: aws.String(group), ResourceType: aws.String(groupResource), Key: aws.String(key),
	}}})
	return verdict(err, "take the tag %s off group %s", key, group)
}
