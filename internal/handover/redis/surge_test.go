package redis_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/node-drainer/node-drainer/internal/handover/redis"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// scales is a Scaler that says what a test wants, and records what it is asked for.
type scales struct {
	surge workload.Surge
	err   error
	phase workload.SurgePhase
	calls []string
}

func (s *scales) call(name string) error {
	s.calls = append(s.calls, name)
	return s.err
}

func (s *scales) Surges(context.Context) ([]workload.Surge, error) {
	return []workload.Surge{s.surge}, s.err
}

func (s *scales) Start(context.Context, workload.Pod) (workload.Surge, error) {
	return s.surge, s.call("start")
}

func (s *scales) Phase(context.Context, workload.Surge) (workload.SurgePhase, error) {
	return s.phase, nil
}

func (s *scales) Shrink(context.Context, workload.Surge) error { return s.call("shrink") }

func (s *scales) Forget(context.Context, workload.Surge, string) error { return s.call("forget") }

// The nodes of a cluster: a leader, the additional one alone, and some that they know.
const (
	leads   = "aaa 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-16383\n"
	alone   = "ddd 10.0.0.2:6379@17000 myself,master - 0 0 0 connected\n"
	knows   = "ddd 10.0.0.2:6379@17000 master - 0 0 0 connected\n"
	known   = "aaa 10.0.0.1:6379@16379 master - 0 0 1 connected 0-16383\n"
	outside = "eee 10.9.9.9:6379@16379 master - 0 0 2 connected\n"
)

// inCluster answers as a node of a cluster.
func inCluster(nodes, replication string) func(string) string {
	return func(command string) string {
		switch command {
		case "INFO server":
			return "redis_mode:cluster\r\n"
		case "CLUSTER INFO":
			return "cluster_state:ok\r\ncluster_current_epoch:1\r\n"
		case "CLUSTER NODES":
			return nodes
		}
		return plain(text(replication))(command)
	}
}

// shard is redis-0 that leads without a replica, and redis-3, which a surge has added.
type shard struct {
	*fakes
	scales *scales
	pods   []workload.Pod
}

func newShard(leading, added, addedReplication string) *shard {
	f := &shard{fakes: newFakes(), scales: &scales{
		surge: workload.Surge{Namespace: "shop", StatefulSet: "redis", UID: "redis", Pod: "redis-3", For: "redis-0"},
		phase: workload.SurgePresent,
	}}
	f.servers["10.0.0.1:6379"] = f.answering(inCluster(leading, "role:master\n"))
	f.servers["10.0.0.2:6379"] = f.answering(inCluster(added, addedReplication))
	f.pods = []workload.Pod{pod("redis-0", "10.0.0.1"), pod("redis-3", "10.0.0.2")}
	for i := range f.pods {
		f.pods[i].Annotations[workload.SurgeAnnotation] = "true"
	}
	return f
}

// changes returns the commands that change something.
func (f *shard) changes() []string {
	return slices.DeleteFunc(f.sent(), func(c string) bool { return c == "CLUSTER INFO" || c == "CLUSTER NODES" })
}

// releaser returns one that uses the Scaler, if there is one.
func (f *shard) releaser() *redis.Releaser {
	options := redis.Options{Dial: f.dial}
	if f.scales != nil {
		options.Scaler = f.scales
	}
	return redis.New(options)
}

// TestSurgeStarts expects an answer and changes for each state of a leader without a replica.
func TestSurgeStarts(t *testing.T) {
	t.Parallel()
	const master, following = "role:master\n", "role:master\nslave0:ip=10.0.0.7,port=6379,state=online,offset=1,lag=0\n"
	for _, tt := range []struct {
		name           string
		leading, added string
		replication    string // of the additional pod
		change         func(*shard, *workload.Request)
		outcome        handover.Outcome
		message        string
		changes        []string // commands
	}{
		{name: "no annotation", change: func(_ *shard, r *workload.Request) {
			delete(r.Pod.Annotations, workload.SurgeAnnotation)
			r.Peers = nil
		}, outcome: handover.NoReplica, message: "no replica"},
		{name: "not configured", change: func(f *shard, r *workload.Request) {
			f.scales = nil
			r.Peers = nil
		}, outcome: handover.NoReplica, message: "SURGES is false"},
		{name: "a last call", change: func(_ *shard, r *workload.Request) {
			r.Last = true
		}, outcome: handover.NoReplica, message: "in time"},
		{name: "not possible", change: func(f *shard, r *workload.Request) {
			f.scales.err = workload.NoSurge("grant it")
			r.Peers = nil
		}, outcome: handover.NoReplica, message: "grant it"},
		{name: "no answer", change: func(f *shard, r *workload.Request) {
			f.scales.err = errors.New("a conflict")
			r.Peers = nil
		}, outcome: handover.GroupBehind, message: "a conflict"},
		{name: "for another pod", change: func(f *shard, r *workload.Request) {
			f.scales.surge.For = "redis-1"
			r.Peers = nil
		}, outcome: handover.GroupBehind, message: "for redis-1 has not ended"},
		{name: "not created yet", change: func(_ *shard, r *workload.Request) {
			r.Peers = nil
		}, outcome: handover.GroupBehind, message: "redis-3, which is to take over, does not run"},
		{name: "the pod of another StatefulSet", change: func(_ *shard, r *workload.Request) {
			r.Peers[0].ControllerUID = "other"
		}, outcome: handover.GroupBehind, message: "does not run"},
		{name: "the surge of another StatefulSet", added: alone + outside, change: func(f *shard, _ *workload.Request) {
			f.scales.surge.UID = "other"
		}, outcome: handover.GroupBehind, message: "redis-3 is not in the cluster yet"},
		{name: "on a node that leaves", change: func(_ *shard, r *workload.Request) {
			r.Peers[0].Stays = false
		}, outcome: handover.GroupBehind, message: "does not run"},
		{
			name: "a cluster beyond the namespace", leading: leads + outside,
			outcome: handover.NoReplica, message: "10.9.9.9 is no pod",
		},
		{
			name: "it leads", added: strings.Replace(alone, "connected", "connected 5", 1),
			outcome: handover.GroupBehind, message: "redis-3 leads",
		},
		{name: "it has replicas", replication: following, outcome: handover.GroupBehind, message: "redis-3 leads"},
		{
			name: "it leads another cluster", added: strings.Replace(alone, "connected", "connected 5", 1) + outside,
			outcome: handover.GroupBehind, message: "redis-3 leads",
		},
		{
			name: "it is alone", outcome: handover.GroupBehind, message: "redis-3 does not replicate from redis-0",
			changes: []string{"CLUSTER MEET 10.0.0.1 6379 16379"},
		},
		{
			name: "its volume is of another time", added: alone + outside, outcome: handover.GroupBehind,
			message: "redis-3 is in another cluster", changes: []string{"CLUSTER RESET HARD"},
		},
		{
			name: "it has met the leader", leading: leads + knows, added: alone + known, outcome: handover.GroupBehind,
			message: "redis-3 does not replicate from redis-0", changes: []string{"CLUSTER REPLICATE aaa"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newShard(cmp.Or(tt.leading, leads), cmp.Or(tt.added, alone), cmp.Or(tt.replication, master))
				r := workload.Request{Pod: f.pods[0], Peers: f.pods[1:]}
				if tt.change != nil {
					tt.change(f, &r)
				}
				answer, err := f.releaser().Release(t.Context(), r)
				f.all.Wait()
				if err != nil || answer.Outcome != tt.outcome || !strings.Contains(answer.Message, tt.message) {
					t.Errorf("got %+v, %v", answer, err)
				}
				if answer.Go != (tt.outcome == handover.NoReplica) {
					t.Errorf("got %+v", answer)
				}
				if changes := f.changes(); !slices.Equal(changes, tt.changes) {
					t.Errorf("sent %q, want %q", changes, tt.changes)
				}
			})
		})
	}
}

// TestSurgeUnderSentinel has an additional pod that is alone replicate, and no other.
func TestSurgeUnderSentinel(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replication string // of the additional pod
		changes     []string
	}{
		"alone":             {"role:master\n", []string{"REPLICAOF 10.0.0.1 6379"}},
		"with replicas":     {"role:master\nslave0:ip=10.0.0.7,port=6379,state=online,offset=1,lag=0\n", nil},
		"follows a foreign": {"role:slave\nmaster_host:10.9.9.9\nmaster_port:6379\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newShard("", "", "")
			f.servers["10.0.0.1:6379"] = f.answering(plain(text("role:master\n")))
			f.servers["10.0.0.2:6379"] = f.answering(plain(text(tt.replication)))
			f.servers["10.0.0.9:26379"] = f.answering(func(command string) string {
				if strings.HasPrefix(command, "SENTINEL REPLICAS") {
					return "*0\r\n"
				}
				return watching(command)
			})
			for _, p := range f.pods {
				p.Annotations[workload.SentinelsAnnotation] = "app=sentinel"
			}
			sentinel := pod("sentinel-0", "10.0.0.9")
			sentinel.Labels = map[string]string{"app": "sentinel"}
			answer, err := f.releaser().Release(t.Context(), workload.Request{
				Pod: f.pods[0], Peers: []workload.Pod{f.pods[1], sentinel},
			})
			f.all.Wait()
			if err != nil || answer.Outcome != handover.GroupBehind {
				t.Errorf("got %+v, %v", answer, err)
			}
			changes := slices.DeleteFunc(f.changes(), func(c string) bool { return strings.HasPrefix(c, "SENTINEL") })
			if !slices.Equal(changes, tt.changes) {
				t.Errorf("sent %q, want %q", changes, tt.changes)
			}
		})
	}
}

// TestNoSurgeOfPlainReplication says so.
func TestNoSurgeOfPlainReplication(t *testing.T) {
	t.Parallel()
	f := newShard("", "", "")
	f.servers["10.0.0.1:6379"] = f.answering(plain(text("role:master\n")))
	answer, err := f.releaser().Release(t.Context(), workload.Request{Pod: f.pods[0]})
	f.all.Wait()
	if err != nil || answer.Outcome != handover.NoReplica || !strings.Contains(answer.Message, "plain replication") {
		t.Errorf("got %+v, %v", answer, err)
	}
	if len(f.scales.calls) > 0 {
		t.Errorf("got calls %q", f.scales.calls)
	}
}

// TestSurgeEnds expects the next step for each state of a surge.
func TestSurgeEnds(t *testing.T) {
	t.Parallel()
	const (
		replica   = "ddd 10.0.0.2:6379@17000 slave aaa 0 0 0 connected\n"
		isReplica = "ddd 10.0.0.2:6379@17000 myself,slave aaa 0 0 0 connected\n"
		failed    = "fff 10.0.0.3:6379@17000 slave,fail - 0 0 0 disconnected\n"
		leaving   = "fff 10.0.0.3:6379@17000 slave aaa 0 0 0 connected\n"
		serving   = "fff 10.0.0.3:6379@17000 master,fail - 0 0 0 disconnected 5\n"
		follows   = "role:slave\nmaster_host:10.0.0.1\nmaster_port:6379\nmaster_link_status:up\nmaster_sync_in_progress:0\n"
	)
	forgotten := []string{"CLUSTER FORGET ddd", "CLUSTER RESET HARD"}
	for _, tt := range []struct {
		name           string
		leading, added string
		change         func(*shard)
		message        string
		commands       []string
		calls          []string // of the Scaler
		ended          bool
	}{
		{
			name: "the user has changed the replicas", change: func(f *shard) { f.scales.phase = workload.SurgeOver },
			calls: []string{"forget"}, ended: true,
		},
		{name: "the pod has not moved", change: func(f *shard) { f.pods[0].Stays = false }, message: "redis-0 has not moved yet"},
		{
			name: "the pod is one of another StatefulSet", change: func(f *shard) { f.pods[0].ControllerUID = "other" },
			message: "redis-0 has not moved yet",
		},
		{name: "the pod is missing", change: func(f *shard) { f.pods = f.pods[1:] }, message: "redis-0 has not moved yet"},
		{
			name: "the pod is not Ready", change: func(f *shard) { f.pods[0].Ready = false }, commands: forgotten,
			message: "redis-0 is not Ready",
		},
		{name: "the additional pod follows", commands: forgotten, calls: []string{"shrink"}, message: "redis-3 is to stop"},
		{name: "it is forgotten already", leading: leads, added: alone, calls: []string{"shrink"}, message: "redis-3 is to stop"},
		{
			name: "it does not run", leading: leads, change: func(f *shard) { f.pods[1].IP = "" },
			calls: []string{"shrink"}, message: "redis-3 is to stop",
		},
		{
			name: "it cannot be reached", change: func(f *shard) { delete(f.servers, "10.0.0.2:6379") },
			message: "the node at 10.0.0.2 has no pod, and has not failed yet",
		},
		{name: "it is stopping", leading: leads, change: func(f *shard) {
			f.scales.phase, f.pods[1].Deleting = workload.SurgeAbsent, true
		}, message: "redis-3 has not stopped yet"},
		{name: "it has gone", leading: leads, change: func(f *shard) {
			f.scales.phase, f.pods = workload.SurgeAbsent, f.pods[:1]
		}, calls: []string{"forget"}, ended: true},
		{name: "a node without a pod has failed", leading: leads + failed, change: func(f *shard) {
			f.scales.phase, f.pods = workload.SurgeAbsent, f.pods[:1]
		}, commands: []string{"CLUSTER FORGET fff"}, calls: []string{"forget"}, ended: true},
		{name: "a node without a pod has not failed yet", leading: leads + leaving, change: func(f *shard) {
			f.scales.phase, f.pods = workload.SurgeAbsent, f.pods[:1]
		}, message: "10.0.0.3 has no pod, and has not failed yet"},
		{name: "a node without a pod serves slots", leading: leads + serving, message: "10.0.0.3 serves slots"},
		{
			name: "a conflict", leading: leads, added: alone, change: func(f *shard) { f.scales.err = errors.New("a conflict") },
			calls: []string{"shrink"}, message: "a conflict",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newShard(cmp.Or(tt.leading, leads+replica), cmp.Or(tt.added, isReplica+known), follows)
			if tt.change != nil {
				tt.change(f)
			}
			answer, err := f.releaser().EndSurge(t.Context(), f.scales.surge, f.pods)
			f.all.Wait()
			if err != nil || answer.Go != tt.ended || !strings.Contains(answer.Message, tt.message) {
				t.Errorf("got %+v, %v", answer, err)
			}
			if commands := f.changes(); !slices.Equal(commands, tt.commands) {
				t.Errorf("sent %q, want %q", commands, tt.commands)
			}
			if !slices.Equal(f.scales.calls, tt.calls) {
				t.Errorf("got calls %q, want %q", f.scales.calls, tt.calls)
			}
		})
	}
}

// TestNobodyForgetsAlone: while a member does not answer, no other one forgets a node.
func TestNobodyForgetsAlone(t *testing.T) {
	t.Parallel()
	f := newShard(leads+"ddd 10.0.0.2:6379@17000 slave aaa 0 0 0 connected\nggg 10.0.0.4:6379@16379 master - 0 0 1 connected 5\n",
		"ddd 10.0.0.2:6379@17000 myself,slave aaa 0 0 0 connected\n"+known, "role:slave\n")
	f.pods = append(f.pods, pod("redis-1", "10.0.0.4"))
	answer, err := f.releaser().EndSurge(t.Context(), f.scales.surge, f.pods)
	f.all.Wait()
	if err != nil || answer.Go || answer.Outcome != handover.GroupBehind || len(f.changes()) > 0 {
		t.Errorf("got %+v, %v, sent %q", answer, err, f.changes())
	}
}
