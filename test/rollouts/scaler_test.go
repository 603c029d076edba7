package rollouts

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
)

// scalerName is the Deployment of the Cluster Autoscaler.
const scalerName = "cluster-autoscaler"

// newScaler returns a Kubernetes with that Deployment.
func newScaler() kubernetes.Interface {
	return fake.NewClientset(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: scalerName},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
	})
}

// scaler is how a process pauses it.
type scaler struct {
	*autoscaler.Deployment
	p *process
}

func (p *process) newScaler() scaler {
	return scaler{autoscaler.New(p.scaler, "kube-system/"+scalerName), p}
}

func (s scaler) State(ctx context.Context) (state autoscaler.State, err error) {
	err = s.p.call(false, func() error {
		state, err = s.Deployment.State(ctx)
		return err
	})
	return state, err
}

func (s scaler) Pause(ctx context.Context, owner string, expires time.Time, dead *autoscaler.Pause) error {
	return s.p.call(true, func() error { return s.Deployment.Pause(ctx, owner, expires, dead) })
}

func (s scaler) Renew(ctx context.Context, owner string, expires time.Time) error {
	return s.p.call(false, func() error { return s.Deployment.Renew(ctx, owner, expires) })
}

func (s scaler) Resume(ctx context.Context, pause autoscaler.Pause) (resumed bool, err error) {
	err = s.p.call(true, func() error {
		resumed, err = s.Deployment.Resume(ctx, pause)
		return err
	})
	return resumed, err
}

// stepUnpause scales the autoscaler up, as Argo CD and Flux do with what they manage.
func (w *world) stepUnpause(*group, Step) error {
	_, err := w.scaler.AppsV1().Deployments("kube-system").Patch(w.ctx, scalerName, types.MergePatchType,
		[]byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	return err
}

// scalerRestored checks that the autoscaler runs as before, and that nothing says that it is paused.
func (j *judge) scalerRestored() {
	d, err := j.w.scaler.AppsV1().Deployments("kube-system").Get(j.w.ctx, scalerName, metav1.GetOptions{})
	if err != nil {
		j.violate("nothing left", "%v", err)
		return
	}
	if paused := d.Annotations[autoscaler.Annotation]; *d.Spec.Replicas != 2 || paused != "" {
		j.violate("nothing left", "the Cluster Autoscaler has %d replicas, and the annotation %q", *d.Spec.Replicas, paused)
	}
}
