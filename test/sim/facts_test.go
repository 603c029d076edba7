package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// TestMarkAt: a removal is judged by the deadline that the mark had then, and not by that of a later event.
func TestMarkAt(t *testing.T) {
	t.Parallel()
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	marked := func(deadline string) *corev1.Node {
		mark := `{"since":"2000-01-01T00:00:00Z","deadline":"` + deadline + `"}`
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{node.Annotation: mark}}}
	}
	var all changes
	for i, n := range []*corev1.Node{marked("2000-01-01T00:02:00Z"), marked("2000-01-01T01:00:00Z"), {
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
	}} {
		all.add(kube.Change{Resource: "nodes", At: start.Add(time.Duration(i) * time.Minute), New: n})
	}
	for after, want := range map[time.Duration]time.Duration{0: 2 * time.Minute, time.Minute: time.Hour} {
		m, ok := markAt(markings(&all), "a", start.Add(after))
		if got := m.mark.Deadline.Sub(start); !ok || got != want {
			t.Errorf("after %v the deadline is %v, want %v", after, got, want)
		}
	}
	if m, ok := markAt(markings(&all), "a", start.Add(2*time.Minute)); ok {
		t.Errorf("the mark is still there after its removal: %+v", m)
	}
}

// TestEvictionOfAnEarlierPod: a request for a pod whose name a new one has on another node evicts nothing there.
func TestEvictionOfAnEarlierPod(t *testing.T) {
	t.Parallel()
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for uid, want := range map[string]int{"old": 0, "new": 1} {
		mark := node.Mark{Since: start, Deadline: start.Add(time.Hour)}
		j := &judge{
			world:    &world{began: start, facts: &facts{}, machines: &machines{}},
			configs:  map[string]config.Agent{"agent": {Drain: drain.Config{EvictionDelay: 2 * time.Minute}}},
			markings: map[string][]marking{"c": {{node: "a", mark: mark, from: start}}},
		}
		requestJudge{podJudge{j}}.evictionDelayed(removal{
			Record:  kube.Record{At: start.Add(time.Minute), Client: "agent", Resource: "pods/eviction", UID: uid},
			cluster: &cluster{Cluster: Cluster{Name: "c"}},
			pod: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "new"}, Spec: corev1.PodSpec{NodeName: "a"},
			},
		})
		if len(j.violations) != want {
			t.Errorf("an eviction of the %s pod: %v", uid, j.violations)
		}
	}
}

// TestDrainsRecorded: a drain whose end its Node shows must have a record after a minute, but for what an outage explains.
func TestDrainsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{Cluster: Cluster{Name: "c", Installs: []Install{{Name: "agent"}}}, server: kube.New(1)}
		record := `{"uid":"recorded","began":"2000-01-01T00:00:00Z","ended":"2000-01-01T01:00:00Z"}` + "\n"
		if err := c.server.Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "agent-history"}, Data: map[string]string{"drains": record},
		}); err != nil {
			t.Fatal(err)
		}
		drained := func(uid string) *corev1.Node {
			return &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), Annotations: map[string]string{
					node.Annotation: `{"since":"2000-01-01T00:00:00.5Z"}`,
				}},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: node.ConditionType, Reason: "Drained"}}},
			}
		}
		at := time.Now()
		for _, uid := range []string{"recorded", "lost"} {
			c.add(kube.Change{Resource: "nodes", Actor: "agent", At: at, New: drained(uid)})
		}
		j := &judge{world: &world{began: time.Now(), facts: &facts{}, clusters: []*cluster{c}}}
		if (drainJudge{j}).drainsRecorded(); len(j.violations) > 0 {
			t.Errorf("the violations at once are %v", j.violations)
		}
		time.Sleep(recordWindow)
		drainJudge{j}.drainsRecorded()
		if len(j.violations) != 1 || !strings.Contains(j.violations[0].String(), "node lost") {
			t.Errorf("the violations are %v", j.violations)
		}
		j.violations = nil
		c.agents = []*agent{{Install: c.Installs[0], down: []span{{at.Add(time.Second), at.Add(time.Minute)}}}}
		if (drainJudge{j}).drainsRecorded(); len(j.violations) > 0 {
			t.Errorf("the violations after a crash are %v", j.violations)
		}
	})
}
