package drain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typedpolicy "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/rest"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// clusterClient is the client of a cluster. What this package does not use is left to the embedded client.
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
	ofNamespace := k.namespace != ""
	named, _ := fields.ParseSelectorOrDie(o.FieldSelector).RequiresExactMatch("metadata.name")
	node, err := nodeIn(o)
	if err != nil && !ofNamespace {
		return nil, err
	}
	k.c.mu.Lock()
	k.c.reads++
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(k.c.version)}}
	for key, p := range k.c.pods {
		if ofNamespace && key.Namespace == k.namespace && (named == "" || named == key.Name) || !ofNamespace && p.Spec.NodeName == node {
			list.Items = append(list.Items, *p)
		}
	}
	k.c.mu.Unlock()
	return list, k.c.onList()
}

func (k podClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	node, err := nodeIn(o)
	if err != nil {
		return nil, err
	}
	if k.c.stale != nil {
		return k.c.stale, nil
	}
	return k.c.watch(node, o.ResourceVersion)
}

// RESTClient is a real client, whose requests the cluster serves.
func (k core) RESTClient() rest.Interface { return k.c.rest }

// RoundTrip serves an eviction or a deletion. It delays the request before it is decided, and its answer.
func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	var o metav1.DeleteOptions
	verb, body := "delete", any(&o)
	if r.Method == http.MethodPost {
		verb, body = "evict", &policyv1.Eviction{DeleteOptions: &o}
	}
	path := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NAMESPACE/pods/NAME, and /eviction
	if err := json.NewDecoder(r.Body).Decode(body); err != nil || path[5] != "pods" {
		return nil, fmt.Errorf("got %s %s: %w", r.Method, r.URL, err)
	}
	delay := func() time.Duration { return c.answers() / 2 }
	if !pass(r.Context(), delay) || !pass(r.Context(), func() time.Duration { return c.webhooks(verb) }) {
		return nil, r.Context().Err()
	}
	err := c.remove(verb, types.NamespacedName{Namespace: path[4], Name: path[6]}, o)
	if !pass(r.Context(), delay) {
		return nil, r.Context().Err()
	}
	return respond(err)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func realClient(t *testing.T, server http.RoundTripper) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://cluster", Transport: server, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// respond returns what the API server answers, or the error if that is none of its answers.
func respond(err error) (*http.Response, error) {
	status := metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}
	var refusal apierrors.APIStatus
	switch {
	case errors.As(err, &refusal):
		status = refusal.Status()
	case err != nil:
		return nil, err
	}
	status.Kind, status.APIVersion = "Status", "v1"
	answer, err := json.Marshal(status)
	return &http.Response{
		StatusCode: int(status.Code), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(answer)),
	}, err
}

// pass returns true after the delay, or false as soon as ctx ends.
func pass(ctx context.Context, delay func() time.Duration) bool {
	d := delay()
	return d <= 0 || retry.Sleep(ctx, d)
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

func (k pdbClient) List(ctx context.Context, _ metav1.ListOptions) (*policyv1.PodDisruptionBudgetList, error) {
	if !pass(ctx, k.c.budgetLists) {
		return nil, ctx.Err()
	}
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

// watch returns all of a topic that comes after the version.
func (c *cluster) watch(topic, version string) (watch.Interface, error) {
	from, err := strconv.Atoi(version)
	if err != nil {
		return nil, fmt.Errorf("watched from version %q: %w", version, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	out := make(chan watch.Event)
	s := &stream{ProxyWatcher: watch.NewProxyWatcher(out), queue: make(chan delayed, 2_000), delay: c.watches}
	for _, e := range c.history[topic] {
		if v, _ := strconv.Atoi(e.Object.(metav1.Object).GetResourceVersion()); v > from {
			s.send(e)
		}
	}
	c.streams[topic] = append(c.streams[topic], s)
	go s.pump(out)
	return s, nil
}

// stream is one watch, which delivers all of a moment together.
type stream struct {
	*watch.ProxyWatcher
	queue chan delayed
	delay func() time.Duration
}

// delayed is an event that is delivered when it is due, and after those that were sent before.
type delayed struct {
	watch.Event
	due time.Time
}

func (s *stream) send(e watch.Event) { s.queue <- delayed{e, time.Now().Add(s.delay())} }

func (s *stream) pump(out chan<- watch.Event) {
	defer close(out)
	for {
		var next delayed
		select {
		case next = <-s.queue:
		case <-s.StopChan():
			return
		}
		select {
		case <-time.After(time.Until(next.due)):
		case <-s.StopChan():
			return
		}
		select {
		case out <- next.Event:
		case <-s.StopChan():
			return
		}
	}
}

// pagingClient serves lists of pods in pages.
type pagingClient struct {
	*fake.Clientset
	pages []corev1.PodList
	asked []metav1.ListOptions
}

func (p *pagingClient) CoreV1() typedcore.CoreV1Interface { return pagingCore{p.Clientset.CoreV1(), p} }

type pagingCore struct {
	typedcore.CoreV1Interface
	p *pagingClient
}

func (c pagingCore) Pods(namespace string) typedcore.PodInterface {
	return pagingPods{c.CoreV1Interface.Pods(namespace), c.p}
}

type pagingPods struct {
	typedcore.PodInterface
	p *pagingClient
}

func (l pagingPods) List(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	l.p.asked = append(l.p.asked, o)
	return &l.p.pages[len(l.p.asked)-1], nil
}
