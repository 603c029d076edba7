package autoscaler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func deployment(replicas int32, pause string) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "autoscaler", Annotations: map[string]string{"theirs": "stays"}},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
	if pause != "" {
		d.Annotations[autoscaler.Annotation] = pause
	}
	return d
}

// TestPause: a Deployment is scaled to 0 and back, and what others have done to it stays.
func TestPause(t *testing.T) {
	t.Parallel()
	const ours, theirs = "2 ci-1/42 2026-11-23T12:00:00Z", "3 ci-2/7 2026-11-23T12:00:00Z"
	later := noon.Add(time.Minute)
	const renewed = "2 ci-1/42 2026-11-23T12:01:00Z"
	pause := func(dead *autoscaler.Pause) func(context.Context, *autoscaler.Deployment) error {
		return func(ctx context.Context, d *autoscaler.Deployment) error { return d.Pause(ctx, "ci-1/42", later, dead) }
	}
	renew := func(ctx context.Context, d *autoscaler.Deployment) error { return d.Renew(ctx, "ci-1/42", later) }
	resume := func(ctx context.Context, d *autoscaler.Deployment) error {
		_, err := d.Resume(ctx, autoscaler.Pause{Owner: "ci-1/42", Expires: later})
		return err
	}
	expired := func(ctx context.Context, d *autoscaler.Deployment) error {
		_, err := d.ResumeExpired(ctx)
		return err
	}
	now := autoscaler.Pause{Replicas: 3, Owner: "ci-2/7", Expires: time.Now().Add(-4 * time.Minute)}.String()
	for name, tt := range map[string]struct {
		replicas int32
		before   string // the annotation
		do       func(context.Context, *autoscaler.Deployment) error
		after    string
		left     int32
		failed   error
	}{
		"pause":                             {2, "", pause(nil), renewed, 0, nil},
		"pause: off":                        {0, "", pause(nil), "", 0, autoscaler.ErrOff},
		"pause: again":                      {0, ours, pause(nil), renewed, 0, nil},
		"pause: again, and scaled up":       {5, ours, pause(nil), "5 ci-1/42 2026-11-23T12:01:00Z", 0, nil},
		"pause: another one has":            {0, theirs, pause(nil), theirs, 0, autoscaler.ErrHeld},
		"pause: another one had":            {0, theirs, pause(&autoscaler.Pause{Replicas: 3, Owner: "ci-2/7", Expires: noon}), "3 ci-1/42 2026-11-23T12:01:00Z", 0, nil},
		"pause: another one has renewed":    {0, theirs, pause(&autoscaler.Pause{Replicas: 3, Owner: "ci-2/7", Expires: noon.Add(-1)}), theirs, 0, autoscaler.ErrHeld},
		"pause: an unreadable annotation":   {2, "x", pause(nil), renewed, 0, nil},
		"renew":                             {0, ours, renew, renewed, 0, nil},
		"renew: scaled up":                  {2, ours, renew, "", 2, autoscaler.ErrLost},
		"renew: the annotation is gone":     {0, "", renew, "", 0, autoscaler.ErrLost},
		"renew: another one has it":         {0, theirs, renew, theirs, 0, autoscaler.ErrLost},
		"resume":                            {0, ours, resume, "", 2, nil},
		"resume: scaled up":                 {4, ours, resume, "", 4, nil},
		"resume: another one has it":        {0, theirs, resume, theirs, 0, nil},
		"resume: nothing is paused":         {0, "", resume, "", 0, nil},
		"resume expired":                    {0, "3 ci-2/7 2025-11-23T12:00:00Z", expired, "", 3, nil},
		"resume expired: not by all clocks": {0, now, expired, now, 0, nil},
		"resume expired: nothing is paused": {2, "", expired, "", 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(deployment(tt.replicas, tt.before))
			if err := tt.do(t.Context(), autoscaler.New(client, "kube-system/autoscaler")); !errors.Is(err, tt.failed) {
				t.Errorf("got %v, want %v", err, tt.failed)
			}
			d, err := client.AppsV1().Deployments("kube-system").Get(t.Context(), "autoscaler", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Annotations[autoscaler.Annotation]; got != tt.after || *d.Spec.Replicas != tt.left || d.Annotations["theirs"] == "" {
				t.Errorf("%d replicas, annotations %v", *d.Spec.Replicas, d.Annotations)
			}
		})
	}
}

// TestPauseBesideOthers: a patch is for the version that was read, and is decided again when that has changed.
func TestPauseBesideOthers(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(deployment(2, ""))
	attempts := 0
	client.PrependReactor("patch", "deployments", func(a ktesting.Action) (bool, runtime.Object, error) {
		if attempts++; attempts > 1 {
			return false, nil, nil
		}
		changed := deployment(0, "")
		if err := client.Tracker().Update(a.GetResource(), changed, "kube-system"); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "autoscaler", errors.New("changed"))
	})
	err := autoscaler.New(client, "kube-system/autoscaler").Pause(t.Context(), "ci-1/42", noon, nil)
	if !errors.Is(err, autoscaler.ErrOff) || attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}

// TestState: the state has the tool that would scale the Deployment up again.
func TestState(t *testing.T) {
	t.Parallel()
	for want, metadata := range map[string]metav1.ObjectMeta{
		"":        {Labels: map[string]string{"app.kubernetes.io/instance": "autoscaler"}},
		"Argo CD": {Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "apps:apps/Deployment"}},
		"Flux":    {Labels: map[string]string{"helm.toolkit.fluxcd.io/name": "autoscaler"}},
	} {
		d := deployment(1, "")
		d.Labels, d.Annotations = metadata.Labels, metadata.Annotations
		d.Spec.Replicas = nil
		s, err := autoscaler.New(fake.NewClientset(d), "kube-system/autoscaler").State(t.Context())
		if err != nil || s.Manager != want || s.Replicas != 1 {
			t.Errorf("%+v, %v, want %q", s, err, want)
		}
	}
	if _, err := autoscaler.New(fake.NewClientset(), "kube-system/autoscaler").State(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("no Deployment: %v", err)
	}
}
