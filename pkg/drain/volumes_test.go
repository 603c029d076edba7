package drain

import (
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
	p.Spec.Volumes = []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		},
	}}
	return p
}

func newClaim(claim, volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: claim},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume},
	}
}

var volumeConfig = withConfig(func(c *Config) { c.VolumeTimeout = 2 * time.Minute })

func TestVolumeWait(t *testing.T) {
	for _, tt := range []struct {
		name     string
		cfg      Config
		objects  []runtime.Object
		detach   time.Duration // of pv-a, after the beginning
		timeout  time.Duration
		want     time.Duration // duration of the drain; the pod ends after 10s
		left     bool
		requests int // for claims
	}{
		{
			name: "a volume that is detached later", cfg: volumeConfig, detach: 30 * time.Second, timeout: time.Hour, want: 30 * time.Second,
			objects: []runtime.Object{newAttachment("a", "n", "pv-a")},
		},
		{
			name: "a volume of another node", cfg: volumeConfig, timeout: time.Hour, want: 10 * time.Second,
			objects: []runtime.Object{newAttachment("a", "other", "pv-a")},
		},
		{
			name: "an attachment without a PersistentVolume", cfg: volumeConfig, timeout: time.Hour, want: 10 * time.Second,
			objects: []runtime.Object{newAttachment("a", "n", "")},
		},
		{
			name: "a volume that is never detached, until VolumeTimeout", cfg: volumeConfig, timeout: time.Hour, want: 130 * time.Second, left: true,
			objects: []runtime.Object{newAttachment("a", "n", "pv-a")},
		},
		{
			name: "a volume that is never detached, until the deadline", cfg: volumeConfig, timeout: time.Minute, want: time.Minute, left: true,
			objects: []runtime.Object{newAttachment("a", "n", "pv-a")},
		},
		{name: "VolumeTimeout 0", cfg: defaults, timeout: time.Hour, want: 10 * time.Second, objects: []runtime.Object{newAttachment("a", "n", "pv-a")}},
		{
			name: "a volume of a pod that stays", cfg: volumeConfig, timeout: time.Hour, want: 10 * time.Second, requests: 1,
			objects: []runtime.Object{newAttachment("d", "n", "pv-d"), newDaemonPod("data"), newClaim("data", "pv-d")},
		},
		{
			name: "a volume of a pod that stays and one of a pod that leaves", cfg: volumeConfig, detach: 30 * time.Second, timeout: time.Hour, want: 30 * time.Second,
			objects:  []runtime.Object{newAttachment("d", "n", "pv-d"), newAttachment("a", "n", "pv-a"), newDaemonPod("data"), newClaim("data", "pv-d")},
			requests: 1,
		},
		{
			name: "a volume of a pod that stays whose claim cannot be read", cfg: volumeConfig, timeout: time.Hour, want: 130 * time.Second, left: true,
			objects: []runtime.Object{newAttachment("d", "n", "pv-d"), newDaemonPod("lost")}, requests: 1,
		},
		{
			name: "no claim is read without attached volumes", cfg: volumeConfig, timeout: time.Hour, want: 10 * time.Second,
			objects: []runtime.Object{newDaemonPod("data"), newClaim("data", "pv-d")},
		},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c := startCluster(t, tt.cfg, append(tt.objects, runningPod("a"))...)
			wait := c.drain("n", tt.timeout)
			if tt.detach > 0 {
				elapse(tt.detach)
				if err := c.fake.StorageV1().VolumeAttachments().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			report, err := wait()
			if err != nil || report.Took.Round(100*time.Millisecond) != tt.want || len(report.Left) > 0 {
				t.Errorf("got %+v, %v, want %v", report, err, tt.want)
			}
			if left := c.countRecords("volumes left") > 0; left != tt.left {
				t.Errorf("volumes were left: %v, want %v", left, tt.left)
			}
			claims := slices.DeleteFunc(c.fake.Actions(), func(a clienttesting.Action) bool {
				return !a.Matches("get", "persistentvolumeclaims")
			})
			if len(claims) != tt.requests {
				t.Errorf("claims were read %d times, want %d", len(claims), tt.requests)
			}
		})
	}
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
	for _, tt := range []struct {
		name string
		cfg  Config
		want bool
	}{{"volumes are waited for", volumeConfig, false}, {"they are not", defaults, true}} {
		virtual(t, tt.name, func(t *testing.T) {
			c := newCluster(t)
			c.fake.PrependReactor("list", "volumeattachments", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errForbidden
			})
			c.launch(tt.cfg)
			elapse(time.Second)
			if got := c.drainer.Synced(); got != tt.want {
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
