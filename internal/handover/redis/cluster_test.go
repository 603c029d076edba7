package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// TestLostReplicaOfCluster expects that a leader waits for its only replica, whose pod was evicted a moment before.
func TestLostReplicaOfCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		age  time.Duration
		want handover.Outcome
	}{
		"lost a moment ago": {time.Second, handover.GroupBehind}, "not expected back ever": {time.Hour, handover.NoReplica},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes()
			f.servers[leaderAt] = f.answering(inCluster("a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-16383\n"+
				fmt.Sprintf("c 10.0.0.9:6379@16379 slave a 0 %d 1 disconnected\n", time.Now().Add(-tt.age).UnixMilli()),
				"role:master\n"))
			r := request()
			r.Peers = nil
			if answer := f.release(t, r); answer.Outcome != tt.want {
				t.Errorf("got %+v, want %s", answer, tt.want)
			}
		})
	}
}

// TestNewcomerOfCluster expects that a leader waits for a pod of its StatefulSet that has just started: it may be its
// replica, and neither of them knows that yet.
func TestNewcomerOfCluster(t *testing.T) {
	f := newFakes()
	reply := inCluster("a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-16383\n"+
		"b 10.0.0.9:6379@16379 slave,fail a 0 0 1 disconnected\n", "role:master\n")
	f.servers[leaderAt], f.servers[replicaAt] = f.answering(reply), f.answering(reply)
	answer := f.release(t, request())
	if answer.Outcome != handover.GroupBehind || answer.Message != "redis-1 is not in the cluster yet" {
		t.Errorf("got %+v", answer)
	}
}

// TestLostNodeOfCluster expects that a replica waits for another node whose pod was deleted and not created again yet:
// the cluster considers a node failed only after its node timeout, and knows at once that its connection is closed.
func TestLostNodeOfCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		lost string
		age  time.Duration
		want handover.Outcome
	}{
		"closed a moment ago":    {"slave a 0 %d 1 disconnected", time.Second, handover.GroupBehind},
		"failed a moment ago":    {"slave,fail a 0 %d 1 disconnected", 10 * time.Second, handover.GroupBehind},
		"connected":              {"slave a 0 %d 1 connected", time.Second, handover.NotLeading},
		"not expected back ever": {"slave,fail a 0 %d 1 disconnected", time.Hour, handover.NotLeading},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes()
			f.servers[leaderAt] = f.answering(inCluster("b 10.0.0.1:6379@16379 myself,slave a 0 0 1 connected\n"+
				"c 10.0.0.9:6379@16379 "+fmt.Sprintf(tt.lost, time.Now().Add(-tt.age).UnixMilli())+"\n",
				"role:slave\nmaster_link_status:up\n"))
			r := request()
			r.Peers = nil
			if answer := f.release(t, r); answer.Outcome != tt.want {
				t.Errorf("got %+v, want %s", answer, tt.want)
			}
		})
	}
}
