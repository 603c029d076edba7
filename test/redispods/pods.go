// Package redispods runs a group of real Redis servers as the pods of StatefulSets on a control plane. A server stops
// when its pod is deleted, and starts at another address, with the data that it had, when the pod is there again. It
// does not use package testing: what fails returns an error.
package redispods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientretry "k8s.io/client-go/util/retry"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// The names of the StatefulSets, of the Secret of the user that has them hand over, and of the Service to ask.
const (
	Members  = "redis"
	Watchers = "sentinel"
	Secret   = "redis"
	Service  = "node-drainer-handover"
)

// Options are where the pods are.
type Options struct {
	Cluster   *cluster.Cluster
	Namespace string        // of the pods, and the pool of their nodes
	HandOver  bool          // The pods ask for a hand-over.
	Move      time.Duration // What a pod needs to start on another node. Meanwhile no other pod starts or stops.
	NoVolumes bool          // The members lose their data when their pods are deleted.
}

// Pods are the servers of a group and their pods.
type Pods struct {
	*redisserver.Group
	options Options
	stop    context.CancelFunc
	done    chan struct{}

	mu       sync.Mutex
	uids     map[string]types.UID // of the pod whose server runs, by name
	problems []error
}

// Start creates the pods, each on a node of its own, and returns when all are ready. The caller must call Close, also
// after an error.
func Start(ctx context.Context, o Options, group *redisserver.Group) (*Pods, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &Pods{Group: group, options: o, stop: stop, done: make(chan struct{}), uids: map[string]types.UID{}}
	go p.serve(ctx)
	_, err := o.Cluster.Client().CoreV1().Secrets(o.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: Secret},
		StringData: map[string]string{"username": redisserver.Username, "password": redisserver.Password},
	}, metav1.CreateOptions{})
	if err != nil {
		return p, err
	}
	for name, servers := range map[string][]*redisserver.Server{Members: p.Servers, Watchers: p.Sentinels} {
		if len(servers) == 0 {
			continue
		}
		err := o.Cluster.StatefulSet(ctx, o.Namespace, name, int32(len(servers)), cluster.Pods{
			Pool: o.Namespace, Start: never, Run: never, Stop: never, Change: p.change(name),
		})
		if err != nil {
			return p, err
		}
	}
	return p, p.WaitReady(ctx)
}

// never is how long kwok, which knows nothing of the servers, takes to call a pod ready, completed or gone.
const never = time.Hour

// change gives the members their annotations, and has each pod on a node of its own. Sentinels too: a client that asks
// a sentinel on the drained node takes seconds to ask another one.
func (p *Pods) change(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: cluster.AppLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{Members, Watchers},
				}}},
			}},
		}}
		if name != Members || !p.options.HandOver {
			return
		}
		t.Annotations[handover.KindAnnotation] = handover.HTTPKind
		t.Annotations[handover.ServiceAnnotation] = Service
		t.Annotations[workload.SecretAnnotation] = Secret
		if p.Spare != nil {
			t.Annotations[workload.SurgeAnnotation] = "true"
		}
		if len(p.Sentinels) > 0 {
			t.Annotations[workload.SentinelsAnnotation] = cluster.Selector(Watchers)
		}
	}
}

// serve starts and stops the servers as their pods appear and go, until ctx ends.
func (p *Pods) serve(ctx context.Context) {
	defer close(p.done)
	err := p.options.Cluster.WaitPods(ctx, p.options.Namespace, "", func(pods []*corev1.Pod) bool {
		for _, pod := range pods {
			err := p.sync(ctx, pod)
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				p.fail(fmt.Errorf("pod %s: %w", pod.Name, err))
			}
		}
		return false
	})
	if ctx.Err() == nil {
		p.fail(err)
	}
}

func (p *Pods) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, err)
}

// sync starts and stops the server of a pod, and reports its state.
func (p *Pods) sync(ctx context.Context, pod *corev1.Pod) error {
	all := redisserver.All(p.Group)
	at := slices.IndexFunc(all, func(s *redisserver.Server) bool { return s.Name == pod.Name })
	if at < 0 || pod.Spec.NodeName == "" {
		return nil
	}
	server, before := all[at], p.uids[pod.Name]
	switch {
	case pod.DeletionTimestamp != nil:
		if before == pod.UID {
			if err := server.Stop(); err != nil {
				return err
			}
		}
		return p.options.Cluster.Client().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
	case before == pod.UID:
		return nil
	case before != "" || server == p.Spare:
		if err := p.move(ctx, server); err != nil {
			return err
		}
	}
	p.uids[pod.Name] = pod.UID
	return p.report(ctx, pod.Name, server.IP())
}

// move has a server run where its new pod is.
func (p *Pods) move(ctx context.Context, server *redisserver.Server) error {
	if !retry.Sleep(ctx, p.options.Move) {
		return ctx.Err()
	}
	if p.options.NoVolumes && !server.Sentinel {
		return server.Replace(ctx, p.NewIP())
	}
	return server.Move(ctx, p.NewIP())
}

// report writes that a pod is ready.
func (p *Pods) report(ctx context.Context, name, ip string) error {
	pods := p.options.Cluster.Client().CoreV1().Pods(p.options.Namespace)
	return clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			}},
		}
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// WaitReady waits until all pods are ready.
func (p *Pods) WaitReady(ctx context.Context) error {
	return errors.Join(
		p.options.Cluster.WaitReady(ctx, p.options.Namespace, cluster.Selector(Members), len(p.Servers)),
		p.options.Cluster.WaitReady(ctx, p.options.Namespace, cluster.Selector(Watchers), len(p.Sentinels)))
}

// NodeOf returns the name of the node that the pod of a server is on.
func (p *Pods) NodeOf(ctx context.Context, s *redisserver.Server) (string, error) {
	pods := p.options.Cluster.Client().CoreV1().Pods(p.options.Namespace)
	pod, err := pods.Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return pod.Spec.NodeName, nil
}

// Close stops the servers, and returns what has failed since Start. The pods stay.
func (p *Pods) Close() error {
	p.stop()
	<-p.done
	return errors.Join(append(p.problems, p.Group.Close())...)
}
