package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const mark = "node-drainer.io/termination"

func TestDrainBeforeTermination(t *testing.T) {
	forms := map[string]func(*world) (target string){
		"direct": func(w *world) string { return w.aws.QueueARN(w.queue) },
	}
	for name := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, awsim.Hook{HeartbeatTimeout: time.Minute})
			old, instance := w.node()
			w.node()
			w.deploy("api", old, 6, cluster.Pods{Stop: time.Second})
			w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "5"))
			agent := w.startAgent()
			w.terminate(instance)
			agent.waitLog("node taken out of service", "node", old)
			n := w.getNode(old)
			if !n.Spec.Unschedulable || n.Annotations[mark] == "" || n.Labels[corev1.LabelNodeExcludeBalancers] == "" {
				t.Errorf("the node is not marked: %+v", n.ObjectMeta)
			}
			a := w.waitCompleted(instance)
			w.waitQueueEmpty()
			agent.waitLog("termination ended", "outcome", "drained")
			t.Logf("%+v", a)
		})
	}
}
