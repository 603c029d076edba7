package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/node"
)

// TestMayStay: a pod that comes soon after the cordon may stay if its controller puts it there in spite of taint and
// cordon.
func TestMayStay(t *testing.T) {
	t.Parallel()
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	const hard, soft = corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule
	none := []corev1.Toleration{}
	all := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	cordon := []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	for name, tt := range map[string]struct {
		effect    corev1.TaintEffect
		tolerates []corev1.Toleration
		created   time.Duration
		want      bool
	}{
		"it tolerates all":                                  {hard, all, time.Minute, true},
		"it tolerates nothing":                              {hard, none, time.Minute, false},
		"it tolerates the cordon":                           {hard, cordon, time.Minute, false},
		"it tolerates the cordon, and the taint is soft":    {soft, cordon, time.Minute, true},
		"it tolerates nothing, and the taint is soft":       {soft, none, time.Minute, false},
		"it tolerates the cordon, and comes from before it": {soft, cordon, -time.Minute, false},
		"it tolerates nothing, and comes late":              {hard, none, 3 * time.Minute, true},
	} {
		created := start.Add(tt.created)
		p := &podLife{bound: created, Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				CreationTimestamp: metav1.NewTime(created), OwnerReferences: []metav1.OwnerReference{{Controller: new(true)}},
			},
			Spec: corev1.PodSpec{Tolerations: tt.tolerates},
		}}
		mark := node.Mark{Deadline: start.Add(time.Hour), Added: []string{"taint", "taint=k:" + string(tt.effect), "cordon"}}
		if got := mayStay(p, marking{mark: mark, from: start}); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
