package drain

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// startRestarting returns a cluster whose pod a, of a ReplicaSet, is blocked by its budget, and is replaced as answer says.
func startRestarting(
	t *testing.T, change func(*corev1.Pod), configure func(*Config),
	answer func(*cluster, handover.Request) (handover.Answer, error),
) (*cluster, *asker) {
	t.Helper()
	c := newCluster(t)
	a := &asker{answer: func(_ context.Context, r handover.Request) (handover.Answer, error) { return answer(c, r) }}
	c.restarter = a
	c.addBudget("web", 1, 0)
	c.addPod("n", "a", "web", func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: &yes}}
		p.Annotations = map[string]string{}
		change(p)
	})
	c.start(withConfig(func(cfg *Config) {
		cfg.HandOverTimeout = time.Minute
		configure(cfg)
	}))
	return c, a
}

// rolls is a rollout that ends the pod after ten seconds.
func rolls(c *cluster, r handover.Request) (handover.Answer, error) {
	go func() {
		<-time.After(10 * time.Second)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.terminate(c.pods[types.NamespacedName{Namespace: r.Pod.Namespace, Name: r.Pod.Name}], nil)
	}()
	return handover.Answer{Outcome: handover.Restarting, Again: time.Minute}, nil
}

func TestRollingRestart(t *testing.T) {
	annotation := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[DrainAnnotation] = value }
	}
	same := func(*corev1.Pod) {}
	defaults := func(*Config) {}
	single := func(cfg *Config) { cfg.SingleReplicas = handover.Restart }
	unfit := func(why string) func(*cluster, handover.Request) (handover.Answer, error) {
		return func(*cluster, handover.Request) (handover.Answer, error) {
			return handover.Answer{Go: true, Outcome: handover.Unfit, Message: why}, nil
		}
	}
	for _, tt := range []struct {
		name   string
		pod    func(*corev1.Pod)
		config func(*Config)
		answer func(*cluster, handover.Request) (handover.Answer, error)
		calls  int
		record string // what becomes of the restart; empty if there is none
		forced int
	}{
		{"the annotation", annotation(handover.Restart), defaults, rolls, 1, "hand-over of a: replaced", 0},
		{"single replicas", same, single, rolls, 1, "hand-over of a: replaced", 0},
		{"neither", same, defaults, rolls, 0, "", 1},
		{"single replicas, and the annotation says evict", annotation(Evict), single, rolls, 0, "", 1},
		{"the annotation, and unfit", annotation(handover.Restart), defaults, unfit("it is paused"), 1, "hand-over of a: unfit  it is paused", 1},
		{"no single replica", same, single, unfit(""), 1, "", 1},
		{
			"no permission", annotation(handover.Restart), defaults,
			func(*cluster, handover.Request) (handover.Answer, error) {
				return handover.Answer{}, errors.New("forbidden")
			},
			-1, "hand-over of a: no-answer  forbidden", 1,
		},
		{
			"a rollout that never ends", annotation(handover.Restart), defaults,
			func(*cluster, handover.Request) (handover.Answer, error) {
				return handover.Answer{Outcome: handover.Restarting, Again: time.Minute, Message: "it fails"}, nil
			},
			-1, "hand-over of a: restarting  it fails", 1,
		},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c, a := startRestarting(t, tt.pod, tt.config, tt.answer)
			report, err := c.drain("n", 10*time.Minute)()
			if err != nil || len(report.Left) > 0 || report.Forced != tt.forced {
				t.Errorf("report %+v, error %v, want %d pods forced", report, err, tt.forced)
			}
			if n := a.count(); n != tt.calls && (tt.calls >= 0 || n < 5) {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
			if n := c.countRecords("hand-over of a"); tt.record == "" && n > 0 || tt.record != "" && c.countRecords(tt.record) != 1 {
				t.Errorf("want one record %q, got %q", tt.record, c.log)
			}
		})
	}
}
