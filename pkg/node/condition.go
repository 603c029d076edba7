package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
)

// ConditionType is the type of the Node condition that tells how far the drain of a node is.
const ConditionType corev1.NodeConditionType = "node-drainer.io/Drained"

const (
	// conditionPause is the least time between two writes of one Node's condition, save the last.
	conditionPause = 10 * time.Second
	// conditionWorkers is how many conditions are written at the same time.
	conditionWorkers = 2
	// conditionTries, firstRetry and lastRetry bound the attempts to write a condition: half a minute in all.
	conditionTries        = 8
	firstRetry, lastRetry = 250 * time.Millisecond, 30 * time.Second
	// flushTime is how long this process stays to write what is still to be told when it ends.
	flushTime = 2 * time.Second
)

// Condition is how far the drain of a node is, as kubectl describe node shows it.
type Condition struct {
	Drained bool   // no pod is left that has to leave
	Reason  string // one word in PascalCase
	Message string
	Final   bool // nothing more will come of this drain: it is told at once
}

// Observer is told what comes of writing conditions. Its methods must not block.
type Observer interface {
	KubernetesFailed(operation string, err error) // the call is tried again
	ConditionFailed(node string, err error)       // it is not: the Node shows an older condition, or none
}

// conditions writes the conditions of Nodes, in its own time.
type conditions struct {
	client kubernetes.Interface

	mu     sync.Mutex
	queue  workqueue.TypedDelayingInterface[string] // names of Nodes; nil before run
	ending bool                                     // nothing but what is final is written any more
	nodes  map[string]*shown                        // by name: those that exist and have been told of
}

// shown is what a Node shows, and what it is to show.
type shown struct {
	uid      string
	status   corev1.ConditionStatus // the latest told, and since when it has been that
	since    time.Time
	told     Condition // the latest told
	pending  bool      // it has yet to be written
	remove   bool      // no condition is to be shown any more
	next     time.Time // nothing is written before this, save what is final
	failures int       // attempts in a row that failed: then not even that
}

// final tells whether what is to be shown does not have to wait for its turn.
func (s *shown) final() bool { return s.remove || s.told.Final }

// Report has the Node show the condition. The first of a drain and the final one are written at once, others
// every ten seconds at most, the latest of them; and one that is shown already is not written again. It does
// not block. A Node that no longer exists, or that is another by now, is left alone.
func (n *Nodes) Report(name, uid string, c Condition) {
	current, err := n.cached(name)
	if err != nil || string(current.UID) != uid {
		return
	}
	n.conditions.report(current, c, time.Now())
}

// withdraw has the Node show no condition any more.
func (n *Nodes) withdraw(name, uid string) {
	if current, err := n.cached(name); err == nil && string(current.UID) == uid {
		n.conditions.clear(current)
	}
}

// WriteConditions writes what Report is told until ctx ends. What is final is still written then, if the API
// server takes it within two seconds; the rest is dropped, for another process may go on. It may run again.
func (n *Nodes) WriteConditions(ctx context.Context, observer Observer) {
	n.conditions.run(ctx, observer)
}

func (c *conditions) report(current *corev1.Node, told Condition, now time.Time) {
	status := corev1.ConditionFalse
	if told.Drained {
		status = corev1.ConditionTrue
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(current)
	if told == s.told && !s.remove {
		return
	}
	if status != s.status {
		s.status, s.since = status, now
	}
	s.told, s.pending, s.remove = told, true, false
	c.wake(current.Name)
}

// clear has the Node show no condition any more, if it shows one or was about to.
func (c *conditions) clear(current *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, told := c.nodes[current.Name]; conditionOf(current) == nil && (!told || s.uid != string(current.UID)) {
		return
	}
	s := c.of(current)
	s.status, s.told, s.pending, s.remove = "", Condition{}, true, true
	c.wake(current.Name)
}

// of returns what is kept of the Node. One that was told of by another process shows its condition.
func (c *conditions) of(current *corev1.Node) *shown {
	if s, ok := c.nodes[current.Name]; ok && s.uid == string(current.UID) {
		return s
	}
	s := &shown{uid: string(current.UID)}
	if before := conditionOf(current); before != nil {
		s.status, s.since = before.Status, before.LastTransitionTime.Time
	}
	c.nodes[current.Name] = s
	return s
}

// forget drops what is kept of a Node that is gone.
func (c *conditions) forget(name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.nodes[name]; ok && s.uid == uid {
		delete(c.nodes, name)
	}
}

// forgetAll drops what is kept: another process may tell of the Nodes from now on.
func (c *conditions) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.ending, c.nodes = nil, false, map[string]*shown{}
}

func (c *conditions) wake(name string) {
	if c.queue != nil {
		c.queue.Add(name)
	}
}

func (c *conditions) run(ctx context.Context, observer Observer) {
	c.begin()
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers sync.WaitGroup
	for range conditionWorkers {
		workers.Go(func() {
			for c.next(writing, observer) {
			}
		})
	}
	<-ctx.Done()
	timer := time.AfterFunc(flushTime, stop)
	defer timer.Stop()
	c.end()
	workers.Wait()
	c.forgetAll()
}

// begin takes up what has been told so far.
func (c *conditions) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = workqueue.NewTypedDelayingQueue[string]()
	for name := range c.nodes {
		c.queue.Add(name)
	}
}

// end brings forward what waits for its time, and closes the queue: the workers end when it is empty.
func (c *conditions) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	for name := range c.nodes {
		c.queue.Add(name)
	}
	c.queue.ShutDown()
}

// next writes the condition of one Node. It is false when the queue is closed and empty.
func (c *conditions) next(ctx context.Context, observer Observer) bool {
	name, closed := c.queue.Get()
	if closed {
		return false
	}
	defer c.queue.Done(name)
	s, due := c.due(name)
	if !due {
		return true
	}
	switch err := c.write(ctx, name, s); {
	case err == nil:
		c.written(name, s)
	case isGone(err):
		c.forget(name, s.uid)
	default:
		c.failed(name, s, err, observer)
	}
	return true
}

// due returns what the Node is to show, if that is to be written now. What has to wait comes back in time.
func (c *conditions) due(name string) (shown, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.nodes[name]
	if !ok || !s.pending {
		return shown{}, false
	}
	if c.ending {
		return *s, s.final()
	}
	if pause := time.Until(s.next); pause > 0 && (!s.final() || s.failures > 0) {
		c.queue.AddAfter(name, pause)
		return shown{}, false
	}
	return *s, true
}

// written notes what the Node shows now. What was told meanwhile is in the queue again.
func (c *conditions) written(name string, wrote shown) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.nodes[name]
	if !ok || s.uid != wrote.uid {
		return
	}
	s.next, s.failures = time.Now().Add(conditionPause), 0
	if s.told != wrote.told || s.remove != wrote.remove {
		return
	}
	if s.pending = false; s.remove {
		delete(c.nodes, name)
	}
}

// failed has the write tried again, unless that has been done often enough or would not help.
func (c *conditions) failed(name string, wrote shown, err error, observer Observer) {
	if c.again(name, wrote, err) {
		observer.KubernetesFailed("write the condition of node "+name, err)
	} else {
		observer.ConditionFailed(name, err)
	}
}

func (c *conditions) again(name string, wrote shown, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.nodes[name]
	if !ok || s.uid != wrote.uid {
		return false
	}
	pause := min(firstRetry<<s.failures, lastRetry)
	s.failures++
	lost := c.ending || isRefusal(err) || s.failures == conditionTries
	if lost {
		s.failures, pause = 0, conditionPause
		if s.told == wrote.told && s.remove == wrote.remove {
			s.pending, s.told = false, Condition{} // it may be told once more
		}
	}
	s.next = time.Now().Add(pause)
	c.queue.AddAfter(name, pause)
	return !lost
}

// write patches the status of the Node. Conditions are merged by their type: others are not touched. The UID
// has the API server refuse the patch of another Node of the name.
func (c *conditions) write(ctx context.Context, name string, s shown) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.uid},
		"status":   map[string]any{"conditions": []any{s.patch(time.Now())}},
	})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err = c.client.CoreV1().Nodes().Patch(
		ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// patch is the strategic merge patch of the condition.
func (s shown) patch(now time.Time) any {
	if s.remove {
		return map[string]any{"$patch": "delete", "type": ConditionType}
	}
	return corev1.NodeCondition{
		Type: ConditionType, Status: s.status, Reason: s.told.Reason, Message: s.told.Message,
		LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(s.since),
	}
}

// isGone: 404, there is no Node of the name; 422 because of its UID, which no patch can change, there is
// another.
func isGone(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return apierrors.IsNotFound(err) || details != nil && slices.ContainsFunc(details.Causes,
		func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// isRefusal: what asking again will not change.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func conditionOf(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == ConditionType {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
