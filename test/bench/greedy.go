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
)

const (
	// again is how soon a refused eviction is sent again.
	again = 50 * time.Millisecond
	// underWay bounds the evictions that wait for an answer. With 1,500 at once the API server's flow control
	// refuses hundreds, and the drain is slower by a third.
	underWay = 100
)

// greedy empties nodes as fast as the API server lets it, with no thought for what that costs: it marks all
// nodes at once, then sends all evictions as fast as they are answered, and each that is refused again after
// 50 ms, whatever the API server asks for.
type greedy struct {
	client kubernetes.Interface
	job    job

	mu      sync.Mutex
	begun   bool
	pods    map[types.UID]*corev1.Pod // On the nodes.
	asked   map[types.UID]bool
	slots   chan struct{}
	emptied chan struct{} // Holds a value once no pod is left.
	failed  chan error
}

// greedyMain runs the evictor; it returns the exit code.
func greedyMain(ctx context.Context, text string) int {
	g := &greedy{
		pods: map[types.UID]*corev1.Pod{}, asked: map[types.UID]bool{},
		slots: make(chan struct{}, underWay), emptied: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	err := json.Unmarshal([]byte(text), &g.job)
	if err == nil {
		err = g.run(ctx)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "the greedy evictor:", err)
		return exitFailed
	}
	return 0
}

// run serves whoever started it, by words; it ends with the standard input.
func (g *greedy) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", g.job.Kubeconfig)
	if err != nil {
		return err
	}
	if g.client, err = quickClient(config); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := source{rest: g.client.CoreV1().RESTClient(), resource: "pods", namespace: g.job.Namespace}
	err = follow(ctx, s, &corev1.Pod{}, shrinkPod, func(p *corev1.Pod, gone bool) { g.changed(ctx, p, gone) })
	if err != nil {
		return err
	}
	_, _ = fmt.Println(sayReady)
	words := bufio.NewReader(os.Stdin)
	if word, err := words.ReadString('\n'); err != nil || word != hearGo {
		return fmt.Errorf("heard %q instead of go: %w", word, err)
	}
	if err := g.drain(ctx); err != nil {
		return err
	}
	_, _ = fmt.Println(sayDone)
	_, err = io.Copy(io.Discard, words)
	return err
}

func (g *greedy) drain(ctx context.Context) error {
	if err := g.mark(ctx); err != nil {
		return fmt.Errorf("mark the nodes: %w", err)
	}
	g.mu.Lock()
	g.begun = true
	for _, p := range g.pods {
		g.ask(ctx, p)
	}
	g.mu.Unlock()
	select {
	case <-g.emptied:
		return nil
	case err := <-g.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mark makes all nodes unschedulable at once.
func (g *greedy) mark(ctx context.Context) error {
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

// changed hears of each pod of the namespace.
func (g *greedy) changed(ctx context.Context, p *corev1.Pod, gone bool) {
	here := false
	for _, name := range g.job.Nodes {
		here = here || name == p.Spec.NodeName
	}
	if !here {
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
	case !g.begun:
	case !gone:
		g.ask(ctx, p)
	case len(g.pods) == 0:
		select {
		case g.emptied <- struct{}{}:
		default:
		}
	}
}

// ask has the pod evicted, once. It needs mu.
func (g *greedy) ask(ctx context.Context, p *corev1.Pod) {
	if g.asked[p.UID] {
		return
	}
	g.asked[p.UID] = true
	go func() {
		if err := g.evict(ctx, p); err != nil && ctx.Err() == nil {
			select {
			case g.failed <- fmt.Errorf("evict %s: %w", p.Name, err):
			default:
			}
		}
	}()
}

// evict sends the eviction until it is accepted, or the pod is gone.
func (g *greedy) evict(ctx context.Context, p *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))},
	}
	timer := time.NewTimer(again)
	defer timer.Stop()
	for {
		err := g.send(ctx, eviction)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil
		case !isRefused(err):
			return err
		}
		timer.Reset(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends an eviction once, without the client's own retries, which wait as the API server asks.
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

// isRefused tells whether the API server may say otherwise the next time.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Code == http.StatusTooManyRequests ||
		status.Status().Code >= http.StatusInternalServerError)
}
