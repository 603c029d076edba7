package drain

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/google/go-cmp/cmp"
)

func newAttachment(name, node, volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", Annotations: map[string]string{"long": "text"}},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "ebs.csi.aws.com", NodeName: node},
	}
	if volume != "" {
		a.Spec.Source.PersistentVolumeName = &volume
	}
	return a
}

// newDaemonPod is a pod of a DaemonSet that stays on the node, with a volume of its own.
func newDaemonPod(claim string) *corev1.Pod {
	p := runningPod("daemon")
	p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	p.Spec.Volumes = []corev1.Volume{newVolume(corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	})}
	return p
}

func newClaim(claim, volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: claim},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume},
	}
}

var volumeConfig = withConfig(func(c *Config) { c.VolumeTimeout = 2 * time.Minute })

// TestVolumeWait drains a node whose only pod ends after 10 s.
func TestVolumeWait(t *testing.T) {
	// check gives for each number of the result: the drain's seconds, and how often claims are read.
	check := func(
		name string, cfg Config, timeout time.Duration, detach, took, claims int, left bool, objects ...runtime.Object,
	) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			c := startCluster(t, cfg, append(objects, runningPod("a"))...)
			wait := c.drain("n", timeout)
			if detach > 0 {
				elapse(time.Duration(detach) * time.Second)
				if err := c.fake.StorageV1().VolumeAttachments().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			report, err := wait()
			report.Took = report.Took.Round(100 * time.Millisecond)
			if err != nil || report.Took != time.Duration(took)*time.Second || len(report.Left) > 0 {
				t.Errorf("got %+v, %v, want %d s", report, err, took)
			}
			if got := c.countRecords("volumes left") > 0; got != left {
				t.Errorf("volumes were left: %v, want %v", got, left)
			}
			reads := slices.DeleteFunc(c.fake.Actions(), func(a clienttesting.Action) bool {
				return !a.Matches("get", "persistentvolumeclaims")
			})
			if len(reads) != claims {
				t.Errorf("claims were read %d times, want %d", len(reads), claims)
			}
		})
	}
	ours, daemons := newAttachment("a", "n", "pv-a"), newAttachment("d", "n", "pv-d")
	daemon, claim := newDaemonPod("data"), newClaim("data", "pv-d")
	check("a volume that is detached later", volumeConfig, time.Hour, 30, 30, 0, false, ours)
	check("a volume of another node", volumeConfig, time.Hour, 0, 10, 0, false, newAttachment("a", "other", "pv-a"))
	check("an attachment without a volume", volumeConfig, time.Hour, 0, 10, 0, false, newAttachment("a", "n", ""))
	check("a volume that is never detached, until VolumeTimeout", volumeConfig, time.Hour, 0, 130, 0, true, ours)
	check("a volume that is never detached, until the deadline", volumeConfig, time.Minute, 0, 60, 0, true, ours)
	check("VolumeTimeout 0", defaults, time.Hour, 0, 10, 0, false, ours)
	check("a volume of a pod that stays", volumeConfig, time.Hour, 0, 10, 1, false, daemons, daemon, claim)
	check("a volume of a pod that stays and one of a pod that leaves", volumeConfig, time.Hour, 30, 30, 1, false,
		daemons, ours, daemon, claim)
	check("a volume of a pod that stays whose claim cannot be read", volumeConfig, time.Hour, 0, 130, 1, true,
		daemons, newDaemonPod("lost"))
	check("no claim is read without attached volumes", volumeConfig, time.Hour, 0, 10, 0, false, daemon, claim)
}

func TestVolumeWaitRestartsWithALatePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, volumeConfig, runningPod("a"), newAttachment("a", "n", "pv-a"))
		wait := c.drain("n", time.Hour)
		elapse(time.Minute)
		c.add(runningPod("late"))
		report, err := wait()
		if err != nil || report.Total != 2 || report.Took.Round(time.Second) != 190*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
		c.expect(t, "0 of 1 left [1 volumes are still attached]")
	})
}

func TestLoadBalancerAndVolumeWaitsRunAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := volumeConfig
		cfg.LoadBalancerWait = 2 * time.Minute
		c := startCluster(t, cfg, runningPod("a"), newAttachment("a", "n", "pv-a"))
		report, err := c.drain("n", time.Hour)()
		if err != nil || report.Took.Round(time.Second) != 130*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
		c.expect(t, "[waiting for load balancers to deregister the node 1 volumes are still attached]")
	})
}

func TestSyncedNeedsVolumesOnlyIfDrainsWaitForThem(t *testing.T) {
	for want, cfg := range map[bool]Config{false: volumeConfig, true: defaults} {
		virtual(t, fmt.Sprint(want), func(t *testing.T) {
			c := newCluster(t)
			c.fake.PrependReactor("list", "volumeattachments", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errForbidden
			})
			c.launch(cfg)
			elapse(time.Second)
			if got := c.drainer.Synced(); got != want {
				t.Errorf("synced: got %v", got)
			}
		})
	}
}

func TestTrimAttachment(t *testing.T) {
	got, err := trimAttachment(newAttachment("a", "n", "pv-a"))
	if err != nil {
		t.Fatal(err)
	}
	want := newAttachment("a", "n", "pv-a")
	want.Annotations, want.Spec.Attacher = nil, ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if other, err := trimAttachment("no attachment"); err != nil || other != "no attachment" {
		t.Errorf("got %v, %v", other, err)
	}
}

// TestTheNodePluginStaysForTheVolumes: the pod without which no volume can be unmounted is evicted when the volumes of the
// others are detached, or when the time for that is over.
func TestTheNodePluginStaysForTheVolumes(t *testing.T) {
	for detach, want := range map[time.Duration]time.Duration{
		40 * time.Second: 40 * time.Second,
		time.Hour:        10*time.Second + 2*time.Minute, // from when the pod with the volume has ended
	} {
		synctest.Test(t, func(t *testing.T) {
			plugin := newDaemonPod("none")
			plugin.Name, plugin.UID, plugin.Spec.Tolerations = "plugin", "uid-plugin", nil
			plugin.Spec.Volumes = []corev1.Volume{newVolume(corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins_registry"},
			})}
			c := startCluster(t, volumeConfig, newAttachment("a", "n", "pv-1"), runningPod("db"), plugin)
			wait := c.drain("n", time.Hour)
			time.AfterFunc(detach, func() {
				_ = c.fake.StorageV1().VolumeAttachments().Delete(c.ctx, "a", metav1.DeleteOptions{})
			})
			report, err := wait()
			at := requestTimes(c, "evict")
			if err != nil || len(report.Left) > 0 || len(at) != 2 || at[1] != want {
				t.Errorf("got %+v, %v, and evictions at %v, want the last at %v", report, err, at, want)
			}
		})
	}
}
