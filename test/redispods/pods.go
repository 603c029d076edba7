// Package redispods runs a group of real Redis servers as the pods of StatefulSets on a control plane. A server stops
// when its pod is deleted, and starts at another address, with the data that it had, when the pod is there again. It
// does not use package testing: what fails returns an error.
package redispods

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	had     map[*redisserver.Server]bool // those that have had a pod
	stop    context.CancelFunc
	ended   chan error
}

// Start creates the pods, each on a node of its own, and returns when all are ready. The caller must call Close, also
// after an error.
func Start(ctx context.Context, o Options, group *redisserver.Group) (*Pods, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &Pods{
		Group: group, options: o, had: map[*redisserver.Server]bool{}, stop: stop, ended: make(chan error, 1),
	}
	server := cluster.PodServer{
		Workloads: o.Cluster.Workloads, Namespace: o.Namespace, Start: p.startServer, Stop: p.stopServer,
		Selector: fmt.Sprintf("%s in (%s,%s)", cluster.AppLabel, Members, Watchers),
	}
	go func() { p.ended <- server.Run(ctx) }()
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
			Pool: o.Namespace, Start: cluster.Never, Run: cluster.Never, Stop: cluster.Never, Change: p.change(name),
		})
		if err != nil {
			return p, err
		}
	}
	return p, p.WaitReady(ctx)
}

// change gives the members their annotations, and has each pod on a node of its own. Sentinels too: a client that asks
// a sentinel on the drained node takes seconds to ask another one.
func (p *Pods) change(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Affinity = cluster.Apart(Members, Watchers)
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

// server returns the server of a pod.
func (p *Pods) server(pod *corev1.Pod) (*redisserver.Server, error) {
	for _, s := range redisserver.All(p.Group) {
		if s.Name == pod.Name {
			return s, nil
		}
	}
	return nil, errors.New("the group has no such server")
}

// startServer starts the server of a pod, at another address than that of the pod before. At first all servers but the
// spare one run already.
func (p *Pods) startServer(ctx context.Context, pod *corev1.Pod) (ip string, err error) {
	server, err := p.server(pod)
	if err == nil && (p.had[server] || server == p.Spare) {
		err = p.move(ctx, server)
	}
	if err != nil {
		return "", err
	}
	p.had[server] = true
	return server.IP(), nil
}

func (p *Pods) stopServer(_ context.Context, pod *corev1.Pod) error {
	server, err := p.server(pod)
	if err != nil {
		return err
	}
	return server.Stop()
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
	return errors.Join(<-p.ended, p.Group.Close())
}
