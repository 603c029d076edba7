package drain

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is an Observer that records what it is notified of.
type recorder struct {
	start time.Time

	mu      sync.Mutex
	log     []string
	blocked []string            // NODE/POD REASON BUDGET
	last    map[string]Progress // by node
}

var _ Observer = (*recorder)(nil)

func newRecorder() *recorder { return &recorder{start: time.Now(), last: map[string]Progress{}} }

func (r *recorder) record(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// countRecords returns how many records contain the text.
func (r *recorder) countRecords(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.log {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// expect reports the texts that no record contains.
func (r *recorder) expect(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if r.countRecords(text) == 0 {
			t.Errorf("%q is missing in the records %q", text, r.log)
		}
	}
}

// blockedPods returns the pods that were reported as blocked, sorted.
func (r *recorder) blockedPods() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.blocked))
}

// progress returns the last progress of the node.
func (r *recorder) progress(node string) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[node]
}

func (r *recorder) DrainProgressed(p Progress) {
	r.record("%d of %d left %v", p.Left, p.Total, p.Waiting)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[p.Name] = p
}

func (r *recorder) DrainEnded(t Target, result Result) { r.record("ended %s: %s", t.Name, result) }

func (r *recorder) PodEvicted(_ Target, m Removal, waited time.Duration) {
	r.record("evicted %s after %v", m.Pod.Name, waited.Round(time.Second))
	if m.CutsGrace() {
		r.record("cut %s from %v to %v", m.Pod.Name, m.Pod.Grace, m.Grace)
	}
}

func (r *recorder) PodBlocked(t Target, w Waiting) {
	r.record("blocked %s since %v: %s %s, %s", w.Pod.Name, w.Since.Sub(r.start), w.Reason, w.Budget, w.Message)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocked = append(r.blocked, strings.TrimSpace(t.Name+"/"+w.Pod.Name+" "+string(w.Reason)+" "+w.Budget))
}

func (r *recorder) PodForced(_ Target, m Removal) {
	r.record("forced %s in %v: %s", m.Pod.Name, m.Grace, m.Reason)
}

func (r *recorder) HandOverPutOff(_ Target, h HandOverResult) {
	r.record("put off %s: %s %s", h.Pod.Name, h.Outcome, h.Message)
}

func (r *recorder) HandOverEnded(_ Target, h HandOverResult) {
	r.record("hand-over of %s: %s %s %s", h.Pod.Name, h.Outcome, h.Leader, h.Message)
}

func (r *recorder) EvictionRefused(_ Target, p Pod, o Outcome) { r.record("refused %s: %s", p.Name, o) }

func (r *recorder) VolumesStillAttached(_ Target, volumes []string) {
	r.record("volumes left: %v", volumes)
}

func (r *recorder) DrainControlled(t Target, c Controls) {
	r.record("controlled: %v, deadline in %v, %v, %s", !c.HoldUntil.IsZero(), time.Until(t.Deadline), c.EndNow, c.Wrong)
}

func (r *recorder) KubernetesFailed(operation string, err error) {
	r.record("failed %s: %v", operation, err)
}
