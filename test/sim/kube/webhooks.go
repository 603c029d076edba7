package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// requestTimeout is how long the API server works on a request at most (--request-timeout).
const requestTimeout = time.Minute

// Webhook is an admission webhook that is called for the evictions of pods, their deletions, or both.
type Webhook struct {
	Name        string
	From, To    time.Time           // a zero To has no end
	Deletions   bool                // it is called for deletions too
	NoEvictions bool                // it is not called for evictions
	Namespace   string              // of the pods; all if it is empty
	Labels      map[string]string   // of the pods; all if it is empty
	Allows      bool                // it refuses nothing
	Message     string              // of the refusal
	Code        int32               // of the refusal; 403 with the reason Forbidden if it is zero
	Reason      metav1.StatusReason // of a refusal with a code; webhooks often leave it out
	Answers     time.Duration       // how long it takes
	Timeout     time.Duration       // timeoutSeconds: it ends a call without Answers, or with longer ones
	Ignores     bool                // failurePolicy Ignore: a request goes on without an answer. Otherwise it fails
}

// Webhooks sets the webhooks.
func (s *Server) Webhooks(hooks ...Webhook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.hooks = nil
	for _, h := range hooks {
		s.faults.hooks = append(s.faults.hooks, &h)
	}
}

// webhooks returns the webhooks that are called for a request.
func (s *faults) webhooks(c *call, pod *corev1.Pod) (out []*Webhook) {
	if pod == nil || !c.IsEviction() && !c.IsDeletion() {
		return nil
	}
	for _, h := range s.hooks {
		if h.selects(c, pod) {
			out = append(out, h)
		}
	}
	return out
}

func (h *Webhook) selects(c *call, pod *corev1.Pod) bool {
	isCalled := c.IsEviction() && !h.NoEvictions || c.IsDeletion() && h.Deletions
	return isCalled && Fault{From: h.From, To: h.To}.active() && (h.Namespace == "" || h.Namespace == pod.Namespace) &&
		labels.SelectorFromSet(h.Labels).Matches(labels.Set(pod.Labels))
}

// isLate reports whether a call of the webhook ends without an answer.
func (h *Webhook) isLate() bool { return h.Timeout > 0 && (h.Answers == 0 || h.Answers >= h.Timeout) }

// review calls the webhooks, one after the other as mutating ones are, until one refuses the request, or the API server
// gives it up. A client that gives up ends the request, whatever the failure policy.
func (c *call) review(ctx context.Context, hooks []*Webhook) error {
	left := requestTimeout
	for _, h := range hooks {
		takes := h.Answers
		if h.isLate() {
			takes = h.Timeout
		}
		if err := sleep(ctx, min(takes, left)); err != nil {
			return err
		}
		if left -= takes; left <= 0 {
			c.denial = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
			return nil
		}
		if c.denial = h.denial(); c.denial != nil {
			c.Webhook = h.Name
			return nil
		}
	}
	return nil
}

// denial returns how the webhook refuses a request, or nil. Source: apiserver/pkg/admission/plugin/webhook/errors of
// the API server: the status is that of the webhook.
func (h *Webhook) denial() error {
	switch {
	case h.isLate() && h.Ignores, h.Allows && !h.isLate():
		return nil
	case h.isLate():
		return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: Post %q: %w",
			h.Name, "https://"+h.Name, errDeadline))
	}
	code, why := h.Code, h.Reason
	if code == 0 {
		code, why = http.StatusForbidden, metav1.StatusReasonForbidden
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: why,
		Message: fmt.Sprintf("admission webhook %q denied the request: %s", h.Name, h.Message),
	}}
}

// errDeadline has the text of context.DeadlineExceeded, and is not taken for it.
var errDeadline = errors.New("context deadline exceeded")
