package trigger

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// kube returns the cluster of all tests of this file: to make one takes a second.
var kube = sync.OnceValue(func() *fake.Clientset { return fake.NewClientset() })

// namespace has the Deployments of autoscalers.
const namespace = "kube-system"

// deployAutoscaler creates the Deployment of an autoscaler that has two replicas.
func (s *scaled) deployAutoscaler() {
	d, err := kube().AppsV1().Deployments(namespace).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: strings.NewReplacer("/", "-", " ", "-").Replace(s.Name())},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.autoscaler = autoscaler.New(kube(), namespace+"/"+d.Name)
}

// pausing is the Deployment as a process changes it.
type pausing struct {
	*autoscaler.Deployment
	p *process
}

func (s pausing) Pause(ctx context.Context, owner string, expires time.Time, dead *autoscaler.Pause) error {
	if err := s.p.call(true); err != nil {
		return err
	}
	return s.Deployment.Pause(ctx, owner, expires, dead)
}

func (s pausing) Renew(ctx context.Context, owner string, expires time.Time) error {
	if err := s.p.call(true); err != nil {
		return err
	}
	return s.Deployment.Renew(ctx, owner, expires)
}

func (s pausing) Resume(ctx context.Context, p autoscaler.Pause) (bool, error) {
	if err := s.p.call(true); err != nil {
		return false, err
	}
	return s.Deployment.Resume(ctx, p)
}

// deployed returns the state of the Deployment.
func (s *scaled) deployed(ctx context.Context) autoscaler.State {
	d, err := s.autoscaler.State(ctx)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// TestPausedAutoscaler: a trigger keeps an autoscaler paused for as long as its rollout takes. Another one does not
// begin meanwhile, and an autoscaler that somebody has scaled is left alone.
func TestPausedAutoscaler(t *testing.T) {
	t.Parallel()
	scaleTo := func(s *scaled, replicas int32) {
		_, name, _ := strings.Cut(s.autoscaler.String(), "/")
		patch := fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, replicas)
		_, err := kube().AppsV1().Deployments(namespace).Patch(s.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			s.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		before, during func(s *scaled)
		want           report.Outcome
		left           int32
	}{
		"paused": {
			during: func(s *scaled) {
				if d := s.deployed(s.Context()); d.Replicas != 0 || d.Pause == nil || time.Now().After(d.Pause.Expires) {
					s.Errorf("it has %d replicas, and is paused by %v", d.Replicas, d.Pause)
				}
			},
			want: report.Done, left: 2,
		},
		"off before":           {before: func(s *scaled) { scaleTo(s, 0) }, want: report.Done, left: 0},
		"scaled up in between": {during: func(s *scaled) { scaleTo(s, 5) }, want: report.Done, left: 5},
		"another one pauses it": {
			before: func(s *scaled) {
				other := s.autoscaler
				expires := func() time.Time { return time.Now().Add(2 * time.Minute) }
				if err := other.Pause(s.Context(), "ci-2/1", expires(), nil); err != nil {
					s.Fatal(err)
				}
				time.AfterFunc(time.Minute, func() { _ = other.Renew(context.Background(), "ci-2/1", expires()) })
			},
			want: report.Conflict, left: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScaled(t, refresh.ModeRefresh, 0)
				s.deployAutoscaler()
				s.setUp()
				if tt.before != nil {
					tt.before(s)
				}
				var run sync.WaitGroup
				run.Go(func() {
					if outcome := s.run("ci-1/1", 0); outcome != tt.want {
						s.Errorf("the trigger ended with %s, want %s", outcome, tt.want)
					}
				})
				time.Sleep(20 * time.Second)
				if tt.during != nil {
					tt.during(s)
				}
				run.Wait()
				if d := s.deployed(t.Context()); d.Replicas != tt.left || (d.Pause != nil) != (tt.want == report.Conflict) {
					t.Errorf("it has %d replicas, and is paused by %v", d.Replicas, d.Pause)
				}
				if err := s.aws.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
