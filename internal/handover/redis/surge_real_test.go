//go:build e2e

package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// statefulSet is a Scaler that starts and stops the spare server of a group.
type statefulSet struct {
	*redisserver.Group
	replicas int32 // without a surge

	mu     sync.Mutex
	surge  *workload.Surge
	scaled bool
}

// scaler is a Scaler that is killed around some of its steps.
type scaler struct {
	*statefulSet
	killer *killer
}

func (s *statefulSet) Surges(context.Context) ([]workload.Surge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.surge == nil {
		return nil, nil
	}
	return []workload.Surge{*s.surge}, nil
}

// Start records the surge, scales, and records that.
func (s scaler) Start(ctx context.Context, pod workload.Pod) (workload.Surge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.surge == nil {
		err := s.killer.around(func() error {
			s.surge = &workload.Surge{
				Namespace: pod.Namespace, StatefulSet: "redis", UID: pod.ControllerUID, Replicas: s.replicas,
				Pod: s.Spare.Name, For: pod.Name,
			}
			return nil
		})
		if err != nil {
			return workload.Surge{}, err
		}
	}
	if s.surge.Scaled || s.surge.For != pod.Name {
		return *s.surge, nil
	}
	err := s.killer.around(func() error {
		if s.scaled {
			return nil
		}
		s.scaled = true
		return s.Spare.Move(ctx, s.NewIP())
	})
	if err != nil {
		return *s.surge, err
	}
	s.surge.Scaled = true
	return *s.surge, nil
}

func (s *statefulSet) Phase(context.Context, workload.Surge) (workload.SurgePhase, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scaled {
		return workload.SurgePresent, nil
	}
	return workload.SurgeAbsent, nil
}

func (s scaler) Shrink(context.Context, workload.Surge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killer.around(func() error {
		s.scaled = false
		return s.Spare.Stop()
	})
}

func (s scaler) Forget(context.Context, workload.Surge, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killer.around(func() error {
		s.surge = nil
		return nil
	})
}

// surging is a fixture whose leaders have no replicas.
type surging struct {
	*fixture
	set *statefulSet
}

func newSurging(t *testing.T, group *redisserver.Group, err error) *surging {
	t.Helper()
	f := &surging{fixture: newFixture(t, group, err)}
	f.set = &statefulSet{Group: group, replicas: int32(len(group.Servers))}
	f.fixture.releaser = f.releaser(&killer{})
	return f
}

func (f *surging) releaser(k *killer) *redis.Releaser {
	return newReleaser(redisserver.Password, k.dial, scaler{f.set, k})
}

// move has the pod of a server move, with its volume or without.
func (f *surging) move(s *redisserver.Server, volume bool) {
	f.t.Helper()
	if volume {
		f.check(s.Move(f.ctx, f.NewIP()))
	} else {
		f.check(s.Replace(f.ctx, f.NewIP()))
	}
}

// end ends the surge for a server as a drain does, and reports whether it could: not if the releaser was killed.
func (f *surging) end(r *redis.Releaser, s *redisserver.Server, k *killer) bool {
	f.t.Helper()
	start, said := time.Now(), ""
	for !k.isDead() {
		surges, err := r.Surges(f.ctx)
		f.check(err)
		if len(surges) == 0 {
			f.t.Logf("ended after %s", time.Since(start).Round(time.Millisecond))
			return true
		}
		request := f.Request(s)
		request.Pod.Stays = true
		answer, err := r.EndSurge(f.ctx, surges[0], append(request.Peers, request.Pod))
		if err != nil && !k.isDead() {
			f.t.Fatal(err)
		}
		if answer.Message != said {
			said = answer.Message
			f.t.Logf("end after %s: %s", time.Since(start).Round(time.Millisecond), said)
		}
		if time.Since(start) > longest {
			f.t.Fatalf("the surge has not ended: %+v", answer)
		}
		time.Sleep(300 * time.Millisecond)
	}
	return false
}

// expectNothingLeft expects the group that was there before the surge.
func (f *surging) expectNothingLeft() {
	f.t.Helper()
	if f.set.surge != nil || f.set.scaled {
		f.t.Errorf("left: %+v, scaled: %t", f.set.surge, f.set.scaled)
	}
	ctx, cancel := context.WithTimeout(f.ctx, longest)
	defer cancel()
	f.check(redisserver.WaitAlone(ctx, f.Group))
}

// killOnce kills a surge for a server around a step, and expects that it ends nevertheless. It returns false if there
// are fewer steps.
func (f *surging) killOnce(s *redisserver.Server, k *killer, volume bool) bool {
	f.t.Helper()
	f.t.Logf("step %d, before it: %t, only those of the StatefulSet: %t", k.step, k.before, k.scales)
	r := f.releaser(k)
	for released := false; !k.isDead() && !released; time.Sleep(100 * time.Millisecond) {
		answer, _ := r.Release(f.ctx, f.Request(s))
		released = answer.Go
	}
	if k.isDead() {
		f.release(s)
	}
	f.move(s, volume)
	if !f.end(r, s, k) {
		f.end(f.fixture.releaser, s, &killer{})
	}
	f.expectNothingLeft()
	return k.isDead()
}

// TestClusterSurgesAfterKill kills after each command and each change of the StatefulSet: what is left is the same as
// before the next one.
func TestClusterSurgesAfterKill(t *testing.T) {
	t.Parallel()
	const groups = 3
	for first := range groups {
		t.Run(fmt.Sprintf("each step %d of %d", first+1, groups), func(t *testing.T) {
			t.Parallel()
			killSurges(t, first+1, groups)
		})
	}
}

// killSurges kills surges at some of the steps.
func killSurges(t *testing.T, first, stride int) {
	group, err := redisserver.NewShards(t.Context(), 3)
	f := newSurging(t, group, err)
	var writers []*redisserver.Writer
	for _, tag := range []string{"{a}", "{b}", "{c}"} {
		writers = append(writers, redisserver.Write(f.ctx, redisserver.StickyClient(f.Serving(tag)), tag))
	}
	// Leaders do not vote for a replica of the same one again within twice the node timeout.
	voted := map[*redisserver.Server]time.Time{}
	for i := 0; ; i++ {
		s, k := f.Servers[i%3], &killer{step: first + i*stride}
		time.Sleep(time.Until(voted[s].Add(2*redisserver.DownAfter + time.Second)))
		voted[s] = time.Now()
		if !f.killOnce(s, k, k.step%2 == 1) {
			break
		}
	}
	for _, w := range writers {
		f.stop("shard", w, redisserver.MaxGapAfterKill)
	}
}

// TestSentinelSurgesAfterKill kills around each change of the StatefulSet. The start script of the additional pod does
// not have it follow the leader.
func TestSentinelSurgesAfterKill(t *testing.T) {
	t.Parallel()
	for first, before := range []bool{true, false} { // every other step each
		t.Run(fmt.Sprintf("before: %t", before), func(t *testing.T) {
			t.Parallel()
			group, err := redisserver.NewLoneLeader(t.Context(), 3)
			f := newSurging(t, group, err)
			redisserver.StartAlone(f.Spare)
			w := redisserver.Write(f.ctx, redisserver.StickyClient(f.Named), "sticky:")
			for step := 1 + first; ; step += 2 {
				if !f.killOnce(f.Servers[0], &killer{step: step, before: before, scales: true}, true) {
					break
				}
			}
			f.stop("sticky", w, redisserver.MaxGapAfterKill)
		})
	}
}

// TestClusterSurges drains each node of a cluster without replicas, of which the second has no volume.
func TestClusterSurges(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewShards(t.Context(), 3)
	f := newSurging(t, group, err)
	var writers []*redisserver.Writer
	for _, tag := range []string{"{a}", "{b}", "{c}"} {
		writers = append(writers, redisserver.Write(f.ctx, f.ClusterClient, tag),
			redisserver.Write(f.ctx, redisserver.StickyClient(f.Serving(tag)), tag+"sticky:"))
	}
	for i, s := range f.Servers {
		if answer := f.release(s); answer.Outcome != handover.HandedOver || answer.Leader != f.Spare.Name {
			t.Fatalf("got %+v", answer)
		}
		f.move(s, i != 1)
		f.end(f.fixture.releaser, s, &killer{})
		f.expectNothingLeft()
	}
	for _, w := range writers {
		f.stop("shard", w, redisserver.MaxGap)
	}
}

// TestSentinelSurges drains the node of a leader without a replica.
func TestSentinelSurges(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewLoneLeader(t.Context(), 3)
	f := newSurging(t, group, err)
	following := redisserver.Write(f.ctx, f.FollowingClient, "following:")
	sticky := redisserver.Write(f.ctx, redisserver.StickyClient(f.Named), "sticky:")
	f.check(sticky.WaitAcknowledged(f.ctx))
	leader := f.Servers[0]
	if answer := f.release(leader); answer.Outcome != handover.HandedOver || answer.Leader != f.Spare.Name {
		t.Fatalf("got %+v", answer)
	}
	f.move(leader, true)
	f.end(f.fixture.releaser, leader, &killer{})
	f.expectNothingLeft()
	f.stop("following", following, redisserver.MaxGap)
	f.stop("sticky", sticky, redisserver.MaxGap)
}
