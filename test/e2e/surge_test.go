//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/redispods"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

var surgeKills = flag.Int("surge-kills", 2, "how often each program is killed during a surge, for each group")

// surgeFixture is a group of Redis servers whose leaders have no replicas.
type surgeFixture struct {
	*redisFixture
	replicas int32
}

func newSurgeFixture(t *testing.T, noVolumes bool, start func(f *fixture) (*redisserver.Group, error)) *surgeFixture {
	t.Helper()
	f := &surgeFixture{redisFixture: &redisFixture{
		fixture: newFixtureWithHook(t), instances: map[string]string{}, moments: newKillMoments(),
	}}
	group, err := start(f.fixture)
	f.must(err)
	f.replicas = int32(len(group.Servers))
	f.addNodes(2 + len(group.Servers) + len(group.Sentinels))
	f.Pods, err = redispods.Start(f.ctx, redispods.Options{
		Cluster: f.cluster, Namespace: f.namespace, HandOver: true, NoVolumes: noVolumes,
	}, group)
	t.Cleanup(func() { f.must(f.Close()) })
	f.must(err)
	f.handover = f.startHandover("SURGES=true", "SURGE_RECORDS="+surgeRecords)
	f.restartAgent()
	return f
}

// surgeRecords is the name of the ConfigMap that the chart makes.
const surgeRecords = handoverAccount + "-surges"

// surge drains the node of a leader, and expects that no write is lost and that nothing is left of the surge. meanwhile
// may be nil.
func (f *surgeFixture) surge(s *redisserver.Server, most time.Duration, meanwhile func()) {
	f.t.Helper()
	writers := redisserver.WriteAll(f.ctx, f.Group)
	f.must(writers.WaitAcknowledged(waits(f.t)))
	instance := f.drain(s)
	f.agent.waitLog("node cordoned", "instance", instance)
	cordoned := time.Now()
	if meanwhile != nil {
		meanwhile()
	}
	f.waitHandled(instance)
	f.addNodes(1)
	eventually(f.t, 2*time.Minute, f.left)
	if meanwhile == nil {
		f.moments.took(time.Since(cordoned))
	}
	f.must(f.WaitReady(waits(f.t)))
	f.must(redisserver.WaitAlone(waits(f.t), f.Group))
	report, err := writers.Stop(waits(f.t))
	f.must(err)
	f.t.Log(report)
	if err := report.Check(most); err != nil {
		f.t.Error(err)
	}
}

// left returns what Kubernetes has that is left of a surge, or "".
func (f *surgeFixture) left() string {
	set, err := f.cluster.Client().AppsV1().StatefulSets(f.namespace).Get(f.ctx, redispods.Members, metav1.GetOptions{})
	if err != nil || *set.Spec.Replicas != f.replicas || set.Status.Replicas != f.replicas {
		return fmt.Sprintf("the StatefulSet has %d replicas, and %d pods, want %d: %v", *set.Spec.Replicas,
			set.Status.Replicas, f.replicas, err)
	}
	records, err := f.cluster.Client().CoreV1().ConfigMaps(f.namespace).Get(f.ctx, surgeRecords, metav1.GetOptions{})
	if err != nil || len(records.Data) > 0 {
		return fmt.Sprintf("records: %q, %v", records.Data, err)
	}
	return ""
}

// kill kills a program at some moment of a surge: the next one ends it.
func (f *surgeFixture) kill(restart func(), s *redisserver.Server) {
	f.t.Helper()
	f.surge(s, redisserver.MaxGapAfterKill, func() {
		time.Sleep(f.moments.next(f.t))
		restart()
	})
}

// TestSurge drains the nodes of leaders without a replica.
func TestSurge(t *testing.T) {
	cluster := func(f *fixture) (*redisserver.Group, error) { return redisserver.NewShards(f.ctx, 3) }
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		f := newSurgeFixture(t, false, cluster)
		f.surge(f.Servers[0], redisserver.MaxGap, nil)
		f.handover.logs(1, "surge started")
		f.handover.logs(1, "surge ended")
		f.agent.logs(1, "hand-over ended", "outcome", "handed-over")
		for i := range *surgeKills {
			f.kill(f.restartAgent, f.Servers[(i+1)%len(f.Servers)])
			f.kill(f.handover.restart, f.Servers[(i+2)%len(f.Servers)])
		}
	})
	t.Run("cluster without volumes", func(t *testing.T) {
		t.Parallel()
		f := newSurgeFixture(t, true, cluster)
		f.surge(f.Servers[1], redisserver.MaxGap, nil)
		for i := range *surgeKills {
			f.kill(f.handover.restart, f.Servers[(i+2)%len(f.Servers)])
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		f := newSurgeFixture(t, false, func(f *fixture) (*redisserver.Group, error) {
			return redisserver.NewLoneLeader(f.ctx, 3)
		})
		f.surge(f.Servers[0], redisserver.MaxGap, nil)
		for range *surgeKills {
			f.kill(f.handover.restart, f.Servers[0])
		}
	})
}
