package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	// retryDelay is the time until a refused eviction is sent again.
	retryDelay = 50 * time.Millisecond
	// maxInFlight bounds the evictions that wait for a response. With 1,500 at once the API server's flow
	// control refuses hundreds, and the drain is slower by a third.
	maxInFlight = 100
)

// greedy empties nodes as fast as the API server allows, at any cost: it cordons all nodes at once, then
// sends all evictions as fast as they are answered, and each refused one again after 50 ms, whatever
// Retry-After says.
type greedy struct {
	client kubernetes.Interface
	job    job

	mu       sync.Mutex
	draining bool
	pods     map[types.UID]*corev1.Pod // On the nodes.
	started  map[types.UID]bool
	slots    chan struct{}
	ended    chan error // Has a value once no pod is left, or an eviction has failed.
}

// greedyMain runs the evictor; it returns the exit code.
func greedyMain(ctx context.Context, text string) int {
	g := &greedy{
		pods: map[types.UID]*corev1.Pod{}, started: map[types.UID]bool{},
		slots: make(chan struct{}, maxInFlight), ended: make(chan error, 1),
	}
	err := json.Unmarshal([]byte(text), &g.job)
	if err == nil {
		err = g.run(ctx)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "the greedy evictor:", err)
		return harness.ExitFailed
	}
	return 0
}

// run drains when it reads startLine, and ends with the standard input.
func (g *greedy) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", g.job.Kubeconfig)
	if err != nil {
		return err
	}
	if g.client, err = fastClient(config); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := harness.Source{Client: g.client.CoreV1().RESTClient(), Resource: "pods", Namespace: g.job.Namespace}
	if err := harness.Follow(ctx, s, func(p *corev1.Pod, gone bool) { g.changed(ctx, p, gone) }); err != nil {
		return err
	}
	_, _ = fmt.Println(readyLine)
	input := bufio.NewReader(os.Stdin)
	if line, err := input.ReadString('\n'); err != nil || line != startLine {
		return fmt.Errorf("read %q instead of %q: %w", line, startLine, err)
	}
	if err := g.drain(ctx); err != nil {
		return err
	}
	_, _ = fmt.Println(doneLine)
	_, err = io.Copy(io.Discard, input)
	return err
}

func (g *greedy) drain(ctx context.Context) error {
	if err := g.cordon(ctx); err != nil {
		return fmt.Errorf("cordon the nodes: %w", err)
	}
	g.mu.Lock()
	g.draining = true
	for _, p := range g.pods {
		g.startEviction(ctx, p)
	}
	g.mu.Unlock()
	select {
	case err := <-g.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cordon makes all nodes unschedulable at once.
func (g *greedy) cordon(ctx context.Context) error {
	patch := []byte(`{"spec":{"unschedulable":true,"taints":[{"key":"bench/drain","effect":"NoSchedule"}]}}`)
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range g.job.Nodes {
		group.Go(func() error {
			_, err := g.client.CoreV1().Nodes().
				Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	return group.Wait()
}

// changed handles a change of a pod of the namespace.
func (g *greedy) changed(ctx context.Context, p *corev1.Pod, gone bool) {
	shrinkPod(p)
	if !slices.Contains(g.job.Nodes, p.Spec.NodeName) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if gone {
		delete(g.pods, p.UID)
	} else {
		g.pods[p.UID] = p
	}
	switch {
	case !g.draining:
	case !gone:
		g.startEviction(ctx, p)
	case len(g.pods) == 0:
		g.end(nil)
	}
}

// end ends the drain, if it has not ended.
func (g *greedy) end(err error) {
	select {
	case g.ended <- err:
	default:
	}
}

// startEviction starts the eviction of a pod, once. It needs mu.
func (g *greedy) startEviction(ctx context.Context, p *corev1.Pod) {
	if g.started[p.UID] {
		return
	}
	g.started[p.UID] = true
	go func() {
		if err := g.evict(ctx, p); err != nil && ctx.Err() == nil {
			g.end(fmt.Errorf("evict %s: %w", p.Name, err))
		}
	}()
}

// evict sends the eviction until it is accepted, or the pod is gone.
func (g *greedy) evict(ctx context.Context, p *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))},
	}
	for {
		err := g.send(ctx, eviction)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil
		case !isRefused(err):
			return err
		}
		if !retry.Sleep(ctx, retryDelay) {
			return ctx.Err()
		}
	}
}

// send sends an eviction once, without the client's own retries, which obey Retry-After.
func (g *greedy) send(ctx context.Context, e *policyv1.Eviction) error {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.slots }()
	return g.client.CoreV1().RESTClient().Post().Namespace(e.Namespace).Resource("pods").Name(e.Name).
		SubResource("eviction").Body(e).MaxRetries(0).Do(ctx).Error()
}

// isRefused reports whether the API server may accept the request later.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Code == http.StatusTooManyRequests ||
		status.Status().Code >= http.StatusInternalServerError)
}
