package trigger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// expectReturned checks that the group is as it was, with all old instances but the user's in service.
func (s *scaled) expectReturned(user string) {
	s.Helper()
	states := s.machines()
	for _, i := range s.aws.Instances(group) {
		_, requested := s.nodes.requested[i.ID]
		switch {
		case i.ID == user:
			if i.State != "Standby" {
				s.Errorf("the user's instance is %s", i.State)
			}
		case i.State != "InService" || i.Version != 1 || requested || states[i.ID] != "running":
			s.Errorf("%s is %s, of version %d, %s, its drain is requested: %t", i.ID, i.State, i.Version, states[i.ID], requested)
		}
	}
	g := s.describe(s.Context())
	left := slices.DeleteFunc(g.Tags, func(t types.TagDescription) bool { // a lease of one that was killed last expires
		return *t.Key == refresh.LeaseTag
	})
	if int(*g.DesiredCapacity) != s.asked || len(left) != 1 || s.count("InService") != s.asked {
		s.Errorf("the desired capacity is %d, %d are in service, left are %v", *g.DesiredCapacity, s.count("InService"), left)
	}
}

// TestStandbyRollback: trigger rollback starts what was stopped, has it in service again, and gives as many new instances
// back, also if it is killed after each of its changes in turn.
func TestStandbyRollback(t *testing.T) {
	t.Parallel()
	for _, then := range []refresh.Then{refresh.ThenStop, refresh.ThenKeep} {
		for _, n := range sample(26) {
			inStandbyMode(t, fmt.Sprintf("%s, killed after %d", then, n), func(s *scaled) {
				kept(then)(s)
				user := s.userStandby()
				s.run("ci-1/1", 0)
				s.expectKept(4, user)
				stop := s.watchCapacity()
				if n > 0 {
					s.rollBack("ci-2/1", n)
				}
				if outcome := s.rollBack("ci-1/2", 0); outcome != report.Done && n == 0 {
					s.Errorf("the rollback ended with %s", outcome)
				}
				if fewest := stop(); fewest < 5 {
					s.Errorf("only %d nodes were left", fewest)
				}
				elapse(5 * time.Minute)
				s.expectReturned(user)
			})
		}
	}
	inStandbyMode(t, "in the middle of a rollout", func(s *scaled) {
		kept(refresh.ThenStop)(s)
		user := s.userStandby()
		s.run("ci-1/1", 9)
		if outcome := s.rollBack("ci-1/2", 0); outcome != report.Done {
			s.Errorf("the rollback ended with %s", outcome)
		}
		elapse(5 * time.Minute)
		if s.count("Standby") != 1 || int(*s.describe(s.Context()).DesiredCapacity) != s.asked || s.count("InService") != 4 {
			s.Errorf("the group has %v, the user's is %s", s.aws.Instances(group), user)
		}
	})
}

// TestStandbyRollbackAtTheMaximum: where the desired capacity is the maximum, trigger rollback needs --raise-max, and
// restores it, also if it is killed after each of its changes in turn.
func TestStandbyRollbackAtTheMaximum(t *testing.T) {
	t.Parallel()
	for _, n := range sample(26) {
		inStandbyMode(t, fmt.Sprintf("killed after %d", n), func(s *scaled) {
			kept(refresh.ThenKeep)(s)
			s.run("ci-1/1", 0)
			s.resize(10)
			if outcome := s.rollBack("ci-2/1", 0); outcome != report.Refused {
				s.Errorf("the rollback ended with %s", outcome)
			}
			s.raiseMax = true
			if n > 0 {
				s.rollBack("ci-2/1", n)
			}
			if outcome := s.rollBack("ci-1/2", 0); outcome != report.Done && n == 0 {
				s.Errorf("the rollback ended with %s", outcome)
			}
			s.resume()
			elapse(10 * time.Minute)
			s.expectNothingLeft()
			if s.count("Standby") != 0 || s.count("InService") != 10 {
				s.Errorf("the group has %v", s.aws.Instances(group))
			}
		})
	}
}

// resize has another client ask for so many instances, and waits until they are in service.
func (s *scaled) resize(n int) {
	client := autoscaling.NewFromConfig((&process{scaled: s, name: "test"}).config())
	s.asked = n
	if _, err := client.SetDesiredCapacity(s.Context(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(int32(n)),
	}); err != nil {
		s.Fatal(err)
	}
	elapse(2 * time.Minute)
}

// TestStandbyRollbackBesideAnAutoscaler: what an autoscaler asks for meanwhile stays.
func TestStandbyRollbackBesideAnAutoscaler(t *testing.T) {
	t.Parallel()
	for _, n := range sample(30) {
		besideAutoscalerWith(t, refresh.ModeStandby, uint64(2*n), func(s *scaled) {
			kept(refresh.ThenKeep)(s)
			s.run("ci-1/1", 0)
			if outcome := s.rollBack("ci-1/2", 0); outcome != report.Done {
				s.Errorf("the rollback ended with %s", outcome)
			}
		}, func(s *scaled) {
			g := s.describe(s.Context())
			if desired := int(*g.DesiredCapacity); desired < s.asked || desired > s.asked+s.removed || len(g.Tags) != 1 {
				s.Errorf("the desired capacity is %d, the autoscaler has asked for %d, and removed %d; left are %v",
					desired, s.asked, s.removed, g.Tags)
			}
		})
	}
}
