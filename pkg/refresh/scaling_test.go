package refresh

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// scaling simulates Auto Scaling for one group. A tick is a second.
type scaling struct {
	dice        *rand.Rand
	now         time.Time
	group       Group
	before      Group // As the trigger described it last.
	old         map[string]bool
	asked       int            // The desired capacity without the surge.
	joins       map[string]int // When a node is ready.
	changes     []CapacityChange
	ticks       int
	launchFirst bool
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

func newScaling(dice *rand.Rand, size int) *scaling {
	s := &scaling{dice: dice, now: now, old: map[string]bool{}, joins: map[string]int{}, asked: size, launchFirst: dice.IntN(2) == 0}
	s.group = Group{Desired: size, Max: 100}
	for n := range size {
		i := s.launch()
		i.State = "InService"
		i.Launched = now.Add(-time.Duration(dice.IntN(100)) * time.Hour)
		s.joins[i.ID] = 0
		if n == 0 || dice.IntN(4) > 0 {
			s.old[i.ID] = true
		}
	}
	s.remember()
	return s
}

// scaleUp is an autoscaler that asks for more instances than there are.
func (s *scaling) scaleUp(n int) {
	n = min(n, s.group.Max/2-s.asked)
	surge, _ := SurgeOf(s.group)
	if surge.Raising && s.group.Desired == surge.Before && s.group.Desired+n == surge.To {
		return // The trigger was killed in between, and cannot distinguish this change from its own.
	}
	s.asked += n
	s.set(s.group.Desired + n)
}

// set sets the desired capacity.
func (s *scaling) set(desired int) {
	if desired != s.group.Desired {
		s.changes = append(s.changes, CapacityChange{s.now, s.group.Desired, desired, BySetDesired})
	}
	s.group.Desired = desired
}

func (s *scaling) launch() *Instance {
	n := len(s.joins) + 1
	i := Instance{ID: fmt.Sprintf("i-%03d", n), Zone: pick(s.dice, "a", "b", "c"), State: "Pending", Healthy: true}
	s.joins[i.ID] = s.ticks + s.dice.IntN(8)
	s.group.Instances = append(s.group.Instances, i)
	return &s.group.Instances[len(s.group.Instances)-1]
}

func (s *scaling) count(of func(Instance) bool) int {
	n := 0
	for _, i := range s.group.Instances {
		if of(i) {
			n++
		}
	}
	return n
}

func (s *scaling) inService() int { return s.count(Instance.InService) }
func (s *scaling) left() int      { return s.count(func(i Instance) bool { return s.old[i.ID] }) }
func (s *scaling) out() int {
	return s.count(func(i Instance) bool { return s.old[i.ID] && (!i.Healthy || i.Terminating()) })
}

func (s *scaling) notReady() map[string]bool {
	m := map[string]bool{}
	for _, i := range s.group.Instances {
		m[i.ID] = i.InService() && s.joins[i.ID] > s.ticks
	}
	return m
}

func (s *scaling) remember() {
	s.before = s.group
	s.before.Instances, s.before.Tags = slices.Clone(s.group.Instances), maps.Clone(s.group.Tags)
}

func (s *scaling) tick() {
	s.ticks++
	s.now = s.now.Add(time.Second)
	s.group.Instances = slices.DeleteFunc(s.group.Instances, func(i Instance) bool { return i.Terminating() && s.dice.IntN(5) == 0 })
	for n := range s.group.Instances {
		if i := &s.group.Instances[n]; i.Pending() && s.dice.IntN(3) == 0 {
			i.State = "InService"
		}
	}
	for n := range s.group.Instances { // unhealthy ones are terminated at once, or when enough others are in service
		i := &s.group.Instances[n]
		if i.InService() && !i.Healthy && (!s.launchFirst || s.inService() > s.group.Desired) {
			i.State = "Terminating:Wait"
		}
	}
	live := s.count(func(i Instance) bool { return i.InService() || i.Pending() })
	want := s.group.Desired
	if s.launchFirst {
		want += s.count(func(i Instance) bool { return i.InService() && !i.Healthy })
	}
	for ; live < want; live++ {
		s.launch()
	}
	for n := range s.group.Instances {
		if i := &s.group.Instances[n]; live > want && i.InService() && i.Healthy {
			i.State = "Terminating:Wait"
			live--
		}
	}
}
