package drain

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typedpolicy "k8s.io/client-go/kubernetes/typed/policy/v1"
)

// watch returns all of a topic that comes after the version.
func (c *cluster) watch(topic, version string) (watch.Interface, error) {
	from, err := strconv.Atoi(version)
	if err != nil {
		return nil, fmt.Errorf("watched from version %q: %w", version, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &stream{out: make(chan watch.Event), news: make(chan struct{}, 1), gone: make(chan struct{}), delay: c.watches}
	s.stop = sync.OnceFunc(func() {
		close(s.gone)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.streams[topic], s)
	})
	for _, e := range c.history[topic] {
		if v, _ := strconv.Atoi(e.Object.(metav1.Object).GetResourceVersion()); v > from {
			s.send(e)
		}
	}
	if c.streams[topic] == nil {
		c.streams[topic] = map[*stream]struct{}{}
	}
	c.streams[topic][s] = struct{}{}
	go s.pump()
	return s, nil
}

// stream is one watch.
type stream struct {
	out   chan watch.Event
	news  chan struct{}
	gone  chan struct{}
	stop  func()
	delay func() time.Duration

	mu    sync.Mutex
	queue []watch.Event
}

func (s *stream) ResultChan() <-chan watch.Event { return s.out }

func (s *stream) Stop() { s.stop() }

func (s *stream) send(e watch.Event) {
	s.mu.Lock()
	s.queue = append(s.queue, e)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// pump delivers what is sent, in order, and all of a moment together.
func (s *stream) pump() {
	defer close(s.out)
	for {
		select {
		case <-s.news:
		case <-s.gone:
			return
		}
		if d := s.delay(); d > 0 {
			select {
			case <-time.After(d):
			case <-s.gone:
				return
			}
		}
		s.mu.Lock()
		events := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, e := range events {
			select {
			case s.out <- e:
			case <-s.gone:
				return
			}
		}
	}
}

// clusterClient is the client of a cluster, as far as this package uses it.
type clusterClient struct {
	kubernetes.Interface
	c *cluster
}

// IsWatchListSemanticsUnSupported has informers list before they watch.
func (clusterClient) IsWatchListSemanticsUnSupported() bool { return true }

func (k clusterClient) CoreV1() typedcore.CoreV1Interface { return core{k.Interface.CoreV1(), k.c} }

func (k clusterClient) PolicyV1() typedpolicy.PolicyV1Interface {
	return policy{k.Interface.PolicyV1(), k.c}
}

type core struct {
	typedcore.CoreV1Interface
	c *cluster
}

func (k core) Pods(namespace string) typedcore.PodInterface {
	return podClient{k.CoreV1Interface.Pods(namespace), k.c, namespace}
}

type podClient struct {
	typedcore.PodInterface
	c         *cluster
	namespace string
}

func nodeIn(o metav1.ListOptions) (string, error) {
	selector, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return "", err
	}
	node, ok := selector.RequiresExactMatch("spec.nodeName")
	if !ok {
		return "", fmt.Errorf("got a request for the pods of all nodes, by %q", o.FieldSelector)
	}
	return node, nil
}

func (k podClient) List(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	node, err := nodeIn(o)
	if err != nil {
		return nil, err
	}
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(k.c.version)}}
	for _, e := range k.c.history[node] {
		p := e.Object.(*corev1.Pod)
		if now := k.c.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]; now == p {
			list.Items = append(list.Items, *p)
		}
	}
	return list, nil
}

func (k podClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	node, err := nodeIn(o)
	if err != nil {
		return nil, err
	}
	return k.c.watch(node, o.ResourceVersion)
}

func (k podClient) EvictV1(ctx context.Context, e *policyv1.Eviction) error {
	return slowly(ctx, k.c.answers, func() error {
		return k.c.remove("evict", types.NamespacedName{Namespace: e.Namespace, Name: e.Name}, *e.DeleteOptions)
	})
}

func (k podClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return slowly(ctx, k.c.answers, func() error {
		return k.c.remove("delete", types.NamespacedName{Namespace: k.namespace, Name: name}, o)
	})
}

// slowly delays a request before it is decided, and its answer.
func slowly(ctx context.Context, delay func() time.Duration, do func() error) error {
	var err error
	for _, then := range []func(){func() { err = do() }, func() {}} {
		if d := delay() / 2; d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		then()
	}
	return err
}

type policy struct {
	typedpolicy.PolicyV1Interface
	c *cluster
}

func (k policy) PodDisruptionBudgets(namespace string) typedpolicy.PodDisruptionBudgetInterface {
	return pdbClient{k.PolicyV1Interface.PodDisruptionBudgets(namespace), k.c}
}

type pdbClient struct {
	typedpolicy.PodDisruptionBudgetInterface
	c *cluster
}

func (k pdbClient) List(context.Context, metav1.ListOptions) (*policyv1.PodDisruptionBudgetList, error) {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	list := &policyv1.PodDisruptionBudgetList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(k.c.version)}}
	for _, a := range k.c.apps {
		list.Items = append(list.Items, *a.pdb)
	}
	return list, nil
}

func (k pdbClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return k.c.watch("", o.ResourceVersion)
}
