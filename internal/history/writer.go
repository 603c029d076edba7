package history

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// interval is the least time between two writes, each of which has all records until then.
	interval = 5 * time.Second
	// longestPause is the longest pause after writes that failed.
	longestPause = 5 * time.Minute
	// callTimeout bounds each write.
	callTimeout = 10 * time.Second
	// stopTime is how long the end of the process may be delayed by what is still to be written.
	stopTime = 2 * time.Second
)

// key is that of the ConfigMap under which the records are, one on each line.
const key = "drains"

// Label is the label of each ConfigMap with records, whatever its name is.
const Label = "node-drainer.io/history"

// Observer is notified of records that could not be written. Its methods must not block.
type Observer interface {
	// HistoryFailed records that so many records could not be written; retried, that it is tried again.
	HistoryFailed(records int, retried bool, err error)
}

// Writer writes records in the background. Create it with New.
type Writer struct {
	client kubernetes.Interface
	at     types.NamespacedName
	added  chan struct{} // has an element if records are queued

	mu     sync.Mutex
	queued []Drain
}

// NewWriter returns a Writer for a ConfigMap, which must exist: the Writer gets and updates it.
func NewWriter(client kubernetes.Interface, namespace, name string) *Writer {
	return &Writer{
		client: client, at: types.NamespacedName{Namespace: namespace, Name: name}, added: make(chan struct{}, 1),
	}
}

// Add queues a record. If there is one of the same drain, it continues that. It does not block.
func (w *Writer) Add(d Drain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued = merge(w.queued, d)
	w.wakeUp()
}

// wakeUp must be called with mu.
func (w *Writer) wakeUp() {
	select {
	case w.added <- struct{}{}:
	default:
	}
}

// Run writes records until ctx ends: all that were added since the last write, five seconds after the first of them.
// When ctx ends, it writes what is queued, for at most two seconds. Run may be called again.
func (w *Writer) Run(ctx context.Context, o Observer) {
	writing, stop := retry.Grace(ctx, stopTime)
	defer stop()
	pauses := retry.Backoff(interval, longestPause)
	pause := interval
	for ctx.Err() == nil {
		select {
		case <-w.added:
			retry.Sleep(ctx, pause)
		case <-ctx.Done():
		}
		pause = interval
		if !w.write(writing, o, ctx.Err() == nil) {
			pause = pauses.Step()
		} else {
			pauses = retry.Backoff(interval, longestPause)
		}
	}
	w.write(writing, o, false) // what was added during the last write
}

// write writes what is queued, and reports whether nothing is left. What fails is queued again if it is retried.
func (w *Writer) write(ctx context.Context, o Observer, retried bool) (ok bool) {
	w.mu.Lock()
	added := w.queued
	w.queued = nil
	w.mu.Unlock()
	if len(added) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := retry.OnConflict(func() error { return w.store(ctx, added) })
	if err == nil {
		return true
	}
	o.HistoryFailed(len(added), retried, err)
	if retried {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queued = merge(added, w.queued...)
		w.wakeUp()
	}
	return false
}

// store adds the records to those of the ConfigMap. It fails with a conflict if that has changed since it was read: two
// agents may write for a moment when the leader changes.
func (w *Writer) store(ctx context.Context, added []Drain) error {
	kept, err := w.client.CoreV1().ConfigMaps(w.at.Namespace).Get(ctx, w.at.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get ConfigMap %s: %w", w.at, err)
	}
	lines, err := encode(merge(parse(kept.Data[key]), added...), mostBytes)
	if err != nil {
		return fmt.Errorf("encode the records of drains: %w", err)
	}
	return w.update(ctx, kept, lines)
}

func (w *Writer) update(ctx context.Context, kept *corev1.ConfigMap, lines string) error {
	if kept.Data == nil {
		kept.Data = map[string]string{}
	}
	kept.Data[key] = lines
	options := metav1.UpdateOptions{FieldManager: "node-drainer"}
	_, err := w.client.CoreV1().ConfigMaps(w.at.Namespace).Update(ctx, kept, options)
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", w.at, err)
	}
	return nil
}
