//go:build e2e

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestVolumes: the instance is held until the volumes of the pods that left are detached, for as long as is
// configured.
func TestVolumes(t *testing.T) {
	t.Parallel()
	for name, detached := range map[string]bool{"until they are detached": true, "for no longer than configured": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			f.pod("db", old, cluster.Pods{})
			detach, err := f.cluster.Attach(f.ctx, "pv-"+f.namespace, old)
			f.must(err)
			remove := func() {
				ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
				defer cancel()
				_ = detach(ctx)
			}
			t.Cleanup(remove)
			timeout := map[bool]string{true: "30m", false: "3s"}[detached]
			agent := f.startAgent("DRAIN_VOLUME_TIMEOUT=" + timeout)
			f.terminate(instance)
			if detached {
				agent.waitLog("draining", "left", "0", "waiting", "1 volumes are still attached")
				if n := agent.Count("node drained"); n > 0 {
					t.Errorf("the drain ended while a volume was attached")
				}
				remove()
			}
			f.waitCompleted(instance)
			if logged := agent.Count("volumes are still attached") > 0; logged == detached {
				t.Errorf("volumes that are left attached were logged: %v", logged)
			}
		})
	}
}

// TestVolumeOfAPodThatStays: the drain does not wait for the volume of a DaemonSet's pod to be detached, which it finds by
// the pod's claim.
func TestVolumeOfAPodThatStays(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.node()
	volume, err := f.cluster.Volume(f.ctx, f.namespace, "data", "/data")
	f.must(err)
	_, err = f.cluster.Attach(f.ctx, volume, old)
	f.must(err)
	f.must(f.cluster.DaemonSet(f.ctx, f.namespace, "logs", cluster.Pods{
		Pool: f.namespace, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Change: func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		},
	}))
	f.must(f.cluster.WaitReady(f.ctx, f.namespace, cluster.Selector("logs"), 2))
	f.deploy("api", old, 2, cluster.Pods{})
	agent := f.startAgent()
	f.terminate(instance)
	f.waitCompleted(instance)
	if agent.Count("volumes are still attached") > 0 || len(f.requests("get", "persistentvolumeclaims")) == 0 {
		t.Error("the drain did not read the claim of the volume's pod")
	}
}
