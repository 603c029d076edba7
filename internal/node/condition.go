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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// ConditionType is the type of the Node condition that shows the progress of a drain.
const ConditionType corev1.NodeConditionType = "node-drainer.io/Drained"

// ReasonLeftBehind is the reason of the condition of a Node whose drain has ended with pods left.
const ReasonLeftBehind = "PodsLeftBehind"

const (
	// conditionInterval is the least time between two writes of one Node's condition, except the last.
	conditionInterval = 10 * time.Second
	// conditionWorkers is how many conditions are written at the same time.
	conditionWorkers = 2
	// firstRetry and lastRetry bound the pause after a write that failed.
	firstRetry, lastRetry = 250 * time.Millisecond, 30 * time.Second
	// flushTime is how long the end of the process may be delayed by what is still to be written.
	flushTime = 2 * time.Second
)

// Condition is the progress of a drain, as kubectl describe node shows it.
type Condition struct {
	Drained bool   // no pod is left that must leave
	Reason  string // one word in PascalCase
	Message string
	Final   bool // the drain has ended: the condition is written at once
}

// Observer is notified of conditions that could not be written. Its methods must not block.
type Observer interface {
	KubernetesFailed(operation string, err error) // the call is retried
	ConditionFailed(node string, err error)       // it is not: the Node shows an older condition, or none
}

// Conditions writes the drain conditions of Nodes in the background.
type Conditions struct {
	client   kubernetes.Interface
	existing cache.Store // the Nodes that the watch shows

	mu       sync.Mutex
	queue    workqueue.TypedDelayingInterface[string] // names of Nodes; nil while Run does not run
	stopping bool                                     // only final conditions are still written
	states   map[string]*conditionState               // by name of the Node
}

// conditionState is the condition that a Node has, and the one to write.
type conditionState struct {
	uid        string
	status     corev1.ConditionStatus // of the latest report
	transition time.Time              // when status changed last
	reported   Condition              // the latest report
	pending    bool                   // reported, or its removal, has to be written
	remove     bool                   // the condition is to be removed
	notBefore  time.Time              // the next write; a final one need not wait unless the last write failed
	pause      time.Duration          // after the last write if it failed, else zero
}

// urgent reports whether the state is written without waiting for notBefore.
func (s *conditionState) urgent() bool { return s.remove || s.reported.Final }

func newConditions(client kubernetes.Interface, existing cache.Store) *Conditions {
	return &Conditions{client: client, existing: existing, states: map[string]*conditionState{}}
}

// Report sets the condition of the Node. The first condition of a drain and the final one are written at
// once, others every ten seconds at most, and a repeated one not at all. Report does not block. It ignores a
// Node that has another UID, and writes nothing to one that no longer exists.
func (c *Conditions) Report(name, uid string, reported Condition) {
	current := c.shown(name, uid)
	if current == nil {
		return
	}
	status := corev1.ConditionFalse
	if reported.Drained {
		status = corev1.ConditionTrue
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state(current)
	if reported == s.reported && !s.remove {
		return
	}
	if status != s.status {
		s.status, s.transition = status, time.Now()
	}
	s.reported, s.pending, s.remove = reported, true, false
	c.enqueue(name)
}

// RemoveCondition removes the drain condition of the Node in the background.
func (n *Nodes) RemoveCondition(node Node) { n.Conditions.remove(node.Name, node.UID) }

// remove removes the condition of the Node, if it has one or was about to get one.
func (c *Conditions) remove(name, uid string) {
	current := c.shown(name, uid)
	if current == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, known := c.states[name]; conditionOf(current, ConditionType) == nil && (!known || s.uid != uid) {
		return
	}
	s := c.state(current)
	s.status, s.reported, s.pending, s.remove = "", Condition{}, true, true
	c.enqueue(name)
}

// shown returns the Node as the watch shows it, or nil if another Node has the name. If the watch shows none, it may be
// behind: the Node is returned without a condition, and the API server refuses the write if it does not exist.
func (c *Conditions) shown(name, uid string) *corev1.Node {
	switch current := cached(c.existing, name); {
	case current == nil:
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	case string(current.UID) == uid:
		return current
	}
	return nil
}

// state returns the state of the Node. A new one starts from the condition that an earlier process has
// written.
func (c *Conditions) state(current *corev1.Node) *conditionState {
	if s, ok := c.states[current.Name]; ok && s.uid == string(current.UID) {
		return s
	}
	s := &conditionState{uid: string(current.UID)}
	if before := conditionOf(current, ConditionType); before != nil {
		s.status, s.transition = before.Status, before.LastTransitionTime.Time
	}
	c.states[current.Name] = s
	return s
}

// forget drops the state of a Node that has been deleted.
func (c *Conditions) forget(name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.states[name]; ok && s.uid == uid {
		delete(c.states, name)
	}
}

func (c *Conditions) enqueue(name string) {
	if c.queue != nil {
		c.queue.Add(name)
	}
}

// Run writes conditions until ctx ends. Then it still writes the final ones, for up to two seconds, and drops
// the others: another process may continue the drains. Run may be called again.
func (c *Conditions) Run(ctx context.Context, observer Observer) {
	c.start()
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for range conditionWorkers {
		workers.Go(func() {
			for c.writeNext(writing, observer) {
			}
		})
	}
	<-ctx.Done()
	timer := time.AfterFunc(flushTime, cancel)
	defer timer.Stop()
	c.stop()
	workers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.stopping, c.states = nil, false, map[string]*conditionState{}
}

// start enqueues what has been reported so far.
func (c *Conditions) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = workqueue.NewTypedDelayingQueue[string]()
	for name := range c.states {
		c.queue.Add(name)
	}
}

// stop enqueues what waits for its time, and closes the queue: the workers end when it is empty.
func (c *Conditions) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for name := range c.states {
		c.queue.Add(name)
	}
	c.queue.ShutDown()
}

// writeNext writes the condition of one Node. It returns false when the queue is closed and empty.
func (c *Conditions) writeNext(ctx context.Context, observer Observer) bool {
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
	case c.retry(name, s, err):
		observer.KubernetesFailed("write the condition of node "+name, err)
	default:
		observer.ConditionFailed(name, err)
	}
	return true
}

// due returns the state of the Node if it is to be written now. One that has to wait is enqueued for later.
func (c *Conditions) due(name string) (conditionState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.states[name]
	if !ok || !s.pending {
		return conditionState{}, false
	}
	if c.stopping {
		return *s, s.urgent()
	}
	if pause := time.Until(s.notBefore); pause > 0 && (!s.urgent() || s.pause > 0) {
		c.queue.AddAfter(name, pause)
		return conditionState{}, false
	}
	return *s, true
}

// written records a successful write. What was reported during the write is in the queue already.
func (c *Conditions) written(name string, wrote conditionState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.states[name]
	if !ok || s.uid != wrote.uid {
		return
	}
	s.notBefore, s.pause = time.Now().Add(conditionInterval), 0
	if s.reported != wrote.reported || s.remove != wrote.remove {
		return
	}
	if s.pending = false; s.remove {
		delete(c.states, name)
	}
}

// retry enqueues a failed write again. It returns false if the write is given up, because it would fail again, or
// because the process stops. Nothing may be reported for as long as the drain waits, so that there is no other limit.
func (c *Conditions) retry(name string, wrote conditionState, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.states[name]
	if !ok || s.uid != wrote.uid {
		return false
	}
	s.pause = min(max(2*s.pause, firstRetry), lastRetry)
	pause, givenUp := s.pause, c.stopping || isRefusal(err)
	if givenUp {
		s.pause, pause = 0, conditionInterval
		if s.reported == wrote.reported && s.remove == wrote.remove {
			s.pending, s.reported = false, Condition{} // the same report again is not a repeated one
		}
	}
	s.notBefore = time.Now().Add(pause)
	c.queue.AddAfter(name, pause)
	return !givenUp
}

// write patches the status of the Node. The strategic merge patch merges conditions by their type, so the
// others are kept. The UID makes the API server refuse the patch of another Node with the same name.
func (c *Conditions) write(ctx context.Context, name string, s conditionState) error {
	var condition any = corev1.NodeCondition{
		Type: ConditionType, Status: s.status, Reason: s.reported.Reason, Message: s.reported.Message,
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.NewTime(s.transition),
	}
	if s.remove {
		condition = map[string]any{"$patch": "delete", "type": ConditionType}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.uid}, "status": map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	_, err = c.client.CoreV1().Nodes().Patch(
		ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// isGone reports whether the Node does not exist (404), or has another UID, which no patch can change (422).
func isGone(err error) bool {
	details := detailsOf(err)
	return isMissing(err) || details != nil && slices.ContainsFunc(details.Causes,
		func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// isMissing reports whether the Node does not exist. An admission webhook may deny a change with the same code, but the
// details are then not those of the Node.
func isMissing(err error) bool {
	details := detailsOf(err)
	return apierrors.IsNotFound(err) && details != nil && details.Kind == "nodes"
}

func detailsOf(err error) *metav1.StatusDetails {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	return status.Status().Details
}

// isRefusal reports whether a retry would get the same answer.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
