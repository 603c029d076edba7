package drain

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastList bounds the pause between two lists of a node's pods, which doubles as long as the watch is wrong
// or the API server does not answer.
const lastList = 10 * time.Second

// proofs are what lists have shown of a node that the watch has not: it may be behind, or cut off while the
// API server answers all else.
type proofs struct {
	late  map[string]*record  // pods that the watch does not show yet, by UID
	gone  map[string]struct{} // pods that it still shows, though they have gone, by UID
	next  time.Time           // no list before this
	pause time.Duration
}

// watched returns the node's pods as the watch shows them, as far as a list has not proven otherwise since.
func (r *run) watched() []*record {
	shown := r.shown()
	records := make([]*record, 0, len(shown)+len(r.late))
	for uid, kept := range shown {
		delete(r.late, uid)
		if _, gone := r.gone[uid]; !gone {
			records = append(records, kept)
		}
	}
	for _, kept := range r.late {
		records = append(records, kept)
	}
	forget(r.gone, shown)
	return records
}

// shown returns what the watch shows, by UID.
func (r *run) shown() map[string]*record {
	objs := r.pods.GetStore().List()
	shown := make(map[string]*record, len(objs))
	for _, obj := range objs {
		if kept, ok := obj.(*record); ok {
			shown[kept.pod.UID] = kept
		}
	}
	return shown
}

// doubtful tells whether the API server itself must be asked for the pods of the node now: all that was to do
// is done, or the watch has been found wrong.
func (r *run) doubtful(step Step) bool {
	r.mu.Lock()
	doubt := step.Done || r.doubt || len(r.late) > 0
	r.mu.Unlock()
	if doubt && time.Now().Before(r.next) {
		r.lookBy(r.next)
		return false
	}
	return doubt
}

// prove decides anew from what the API server itself says, past every cache, and notes where the watch is
// wrong. It returns false if there was no answer.
func (r *run) prove(ctx context.Context) (Step, bool) {
	before := r.shown()
	records, err := r.list(ctx)
	r.pause = min(max(2*r.pause, firstRetry), lastList)
	if err == nil && r.correct(before, records) {
		r.pause = firstRetry
	}
	r.next = time.Now().Add(r.pause)
	if err != nil {
		if ctx.Err() == nil {
			r.observer.KubernetesFailed("prove that node "+r.Name+" is empty", err)
		}
		return Step{}, false
	}
	return r.decide(ctx, records), true
}

// correct notes where the watch is wrong, and tells whether it is right. What it has shown before the list
// began, and the list does not show, has gone; what has come to it since is none of the list's business.
func (r *run) correct(before map[string]*record, records []*record) (right bool) {
	r.mu.Lock()
	r.doubt = false
	r.mu.Unlock()
	shown := r.shown()
	clear(r.late)
	for _, kept := range records {
		delete(before, kept.pod.UID)
		if _, ok := shown[kept.pod.UID]; !ok {
			r.late[kept.pod.UID] = kept
		}
	}
	for uid := range before {
		r.gone[uid] = struct{}{}
	}
	return len(r.late)+len(before) == 0
}

// list reads the pods of the node from the API server.
func (r *run) list(ctx context.Context) ([]*record, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: onNode(r.Name)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", r.Name, err)
	}
	records := make([]*record, 0, len(out.Items))
	for i := range out.Items {
		records = append(records, r.rules.record(&out.Items[i]))
	}
	return records, nil
}
